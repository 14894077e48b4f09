"""A run from roll call to files: the model, its report, and how the sites did."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from flwr.serverapp import Grid

from fedsparse.algorithms.long_work import told_of
from fedsparse.engines.conversation import Conversation, converse
from fedsparse.engines.engine import Engine
from fedsparse.errors import (
    CheckpointError,
    DataError,
    FederationError,
    OptionError,
)
from fedsparse.federation.server.flower_engine import FlowerEngine
from fedsparse.federation.server.lock import LOCK, locked
from fedsparse.federation.server.member import Member
from fedsparse.federation.server.plausibility import Promises, notes_on_rows, watched
from fedsparse.federation.server.training import Training
from fedsparse.federation.server.transcript import (
    TRANSCRIPT,
    TranscribedEngine,
    Transcript,
    differences,
)
from fedsparse.files import ready_folder, write_atomically
from fedsparse.modelling.analysis import Analysis, analysing
from fedsparse.modelling.building import Provenance, summarize
from fedsparse.modelling.specification import FitSpecification
from fedsparse.modelling.summary import FitSummary, SiteCount
from fedsparse.tables import Encoding, NumberedEncoding, SiteDescription
from fedsparse.tables.counting import Counts
from fedsparse.tables.schemas import ALL_SITES
from fedsparse.tables.sentences import counted, joined
from fedsparse.text import visible

log = logging.getLogger("fedsparse.federation")

OUTCOME = "outcome.json"

KNOWN_ERRORS = (CheckpointError, DataError, FederationError, OptionError)

_TOLD_SHARE = 20
"""Progress is told about so many times."""


def train(grid: Grid, training: Training) -> Analysis:
    """Learn from the sites that a grid reaches, and write what came of it."""
    folder = training.folder()
    with recorded(folder):
        return _train(grid, training, folder)


@contextmanager
def recorded(folder: Path | None) -> Iterator[None]:
    """Be the only run that writes to a folder, if there is one.

    An error that a person can mend is written to ``outcome.json`` before it is raised.
    """
    if folder is None:
        yield
        return
    ready_folder(folder)
    with locked(folder / LOCK) as is_alone:
        if not is_alone:
            raise FederationError(f"another run is still writing to {folder}")
        (folder / OUTCOME).unlink(missing_ok=True)
        try:
            yield
        except KNOWN_ERRORS as error:
            write_outcome(folder, {"error": type(error).__name__, "message": str(error)})
            # Flower prints it among the lines of our log, which names in it must not forge.
            error.args = (visible(str(error)),)
            raise


def _train(grid: Grid, training: Training, folder: Path | None) -> Analysis:
    if training.resume and folder is not None:
        _check_options(folder, training)
    roster = training.known_sites()
    with closing(FlowerEngine(grid, training.terms(), training.conduct(), roster)) as engine:
        log.info("learning from %d sites: %s", len(engine.names), ", ".join(engine.names))
        if engine.can_single_out:
            log.info("sums are open: the server sees what each site answers")
        for note in engine.encoding.notes:
            log.info("note: %s", note)
        for note in _notes_on_claims(engine.members):
            log.warning("%s", note)
        promises = Promises()
        found = _analysed(engine, training, folder, promises)
        for note in promises.notes():
            log.warning("%s", note)
        summary = _summary(engine, training, found, promises)
        engine.finish(summary.model.model_dump_json().encode())
    if folder is not None:
        with told_of("writing the model and the report"):
            from fedsparse.report.fit import save_fit

            save_fit(summary, folder)
        write_outcome(folder, {"diverged": found.fitted.result.diverged})
    result = found.fitted.result
    count = len(summary.model.features)
    log.info(
        "done after %d exchanges: f = %.6g with %s",
        found.exchanges, result.objective, counted(count, "feature"),
    )  # fmt: skip
    if summary.failure is not None:
        log.error("%s", summary.failure)
    return found


def _analysed(
    engine: FlowerEngine, training: Training, folder: Path | None, promises: Promises
) -> Analysis:
    """Hold the conversation; with a folder, from where its transcript ends."""
    if folder is None:
        conversation = conversation_of(engine, engine.encoding, training)
        return converse(engine, watched(conversation, promises))
    path, about = folder / TRANSCRIPT, _about(engine, training)
    with _resumed(path, about) if training.resume else Transcript.begin(path, about) as transcript:
        carrier = TranscribedEngine(engine, transcript)
        conversation = conversation_of(carrier, engine.encoding, training)
        return converse(carrier, watched(conversation, promises))


def conversation_of(
    engine: Engine, encoding: Encoding | NumberedEncoding, specification: FitSpecification
) -> Conversation[Analysis]:
    """The analysis that a specification asks for."""
    return analysing(
        engine,
        specification,
        encoding.feature_names,
        labels=encoding.classes,
        keep=encoding.kept,
        on_progress=_told(),
    )


def _about(engine: FlowerEngine, training: Training) -> dict[str, Any]:
    """What a run is about, for the head of its transcript."""
    return {
        "sites": list(engine.names),
        "options": training.what_is_learnt(),
        "encoding": engine.encoding.model_dump(mode="json"),
        "tables": engine.fingerprint(),
        "has_holes": engine.has_holes,
        "can_single_out": engine.can_single_out,
    }


def _check_options(folder: Path, training: Training) -> None:
    """Refuse to go on towards another model, before sites are asked for anything."""
    with Transcript.open(folder / TRANSCRIPT) as transcript:
        options = transcript.about["options"]
    asked = training.what_is_learnt()
    for name in sorted(options.keys() | asked.keys()):
        before, now = (_given(name, each) for each in (options, asked))
        if before != now:
            raise CheckpointError(
                f"the run began {before} and cannot go on {now}; say the same as then, or begin "
                "anew with --overwrite"
            )


def _given(name: str, options: Mapping[str, Any]) -> str:
    return f"with --{name} {options[name]}" if name in options else f"without --{name}"


def _resumed(path: Path, about: dict[str, Any]) -> Transcript:
    """The transcript of a run that goes on with the same sites and tables."""
    transcript = Transcript.open(path)
    differing = differences(transcript, about)
    if not differing:
        return transcript
    transcript.__exit__()
    if "sites" in differing:
        before, now = transcript.about["sites"], about["sites"]
        raise CheckpointError(
            f"the run began with {joined(before)}, and now there are {joined(now)}; start those "
            "that are missing, or begin anew with --overwrite"
        )
    raise CheckpointError(
        "the sites' tables are not those that the run began with; restore them, or begin anew "
        "with --overwrite"
    )


def _told() -> Callable[[str, int, int], None]:
    last = 0

    def tell(what: str, done: int, total: int) -> None:
        nonlocal last
        share = _TOLD_SHARE * done // total
        if share > last:
            log.info("%d of about %d models are fitted", done, total)
            last = share

    return tell


def _summary(
    engine: FlowerEngine, training: Training, found: Analysis, promises: Promises
) -> FitSummary:
    is_classes = engine.encoding.classes is not None
    sites = tuple(_site(member, is_classes=is_classes) for member in engine.members)
    conduct = training.conduct()
    return summarize(
        found,
        engine.encoding,
        Provenance(
            source=f"tables of {len(sites)} sites, which stayed there",
            sites=sites,
            together=_together(engine.counts, is_classes=is_classes),
            is_networked=True,
            fingerprint=engine.fingerprint(),
            settings={
                "sums": "open: the server saw what each site answered"
                if engine.can_single_out
                else "secure: the server saw what sites' answers add up to",
                "fewest sites": str(conduct.fewest),
                "if a site is absent": conduct.if_absent,
                "seconds to answer in": f"{conduct.round_seconds:g}",
            },
            notes=(
                *engine.encoding.notes,
                *_notes_on_scales(engine.members),
                *_notes_on_claims(engine.members),
                *promises.notes(),
            ),
            descriptions=tuple(
                member.description
                for member in engine.members
                if isinstance(member.description, SiteDescription)
            ),
            counts=engine.counts,
        ),
        training,
    )


def _notes_on_scales(members: Sequence[Member]) -> list[str]:
    """Whose rows did not count when features were scaled, all of them or those of some model."""
    missing = [member.name for member in members if member.unscaled]
    return [f"Features were scaled without {joined(missing)}."] if missing else []


def _notes_on_claims(members: Sequence[Member]) -> list[str]:
    told = {member.name: member.rows for member in members}
    return notes_on_rows({name: rows for name, rows in told.items() if rows is not None})


def _site(member: Member, *, is_classes: bool) -> SiteCount:
    own = member.description
    labels = None
    if is_classes and isinstance(own, SiteDescription) and own.target is not None:
        labels = own.target.labels
    return SiteCount(
        name=member.name,
        rows=member.rows,
        classes=None if labels is None else {key: count or None for key, count in labels.items()},
        bytes_down=member.bytes_down,
        bytes_up=member.bytes_up,
        socket_down=member.socket_down,
        socket_up=member.socket_up,
        took_part=_part_of(member),
        has_counted=member.answers > 0,
    )


def _together(counts: Counts | None, *, is_classes: bool) -> SiteCount | None:
    """Rows of all sites, where only sums over them are known."""
    if counts is None:
        return None
    classes: dict[str, int | None] | None = {**counts.labels} if is_classes else None
    return SiteCount(name=ALL_SITES, rows=counts.rows, classes=classes)


def _part_of(member: Member) -> str:
    """To which end a site took part."""
    if member.excluded is not None:
        return f"excluded: {member.excluded}"
    ended = "absent at the end" if member.is_absent else "to the end"
    return ended if member.missed == 0 else f"{ended}, {counted(member.missed, 'answer')} missing"


def write_outcome(folder: Path, outcome: dict[str, Any]) -> None:
    """Say in a folder how a run ended; without it, it did not."""
    written = json.dumps(outcome, indent=2, ensure_ascii=False)
    write_atomically(folder / OUTCOME, written.encode())
