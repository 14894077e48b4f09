"""A run from roll call to files: the model, its report, and how the sites did."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from flwr.serverapp import Grid

from fedsparse.engines.conversation import Conversation, converse
from fedsparse.engines.engine import Engine
from fedsparse.errors import (
    CheckpointError,
    DataError,
    FederationError,
    OptionError,
)
from fedsparse.federation.server.flower_engine import FlowerEngine, Member
from fedsparse.federation.server.lock import LOCK, locked
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
from fedsparse.tables import Encoding, NumberedEncoding
from fedsparse.tables.sentences import counted, joined

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
            raise


def _train(grid: Grid, training: Training, folder: Path | None) -> Analysis:
    if training.resume and folder is not None:
        _check_options(folder, training)
    with closing(FlowerEngine(grid, training.terms(), training.conduct())) as engine:
        log.info("learning from %d sites: %s", len(engine.names), ", ".join(engine.names))
        for note in engine.encoding.notes:
            log.info("note: %s", note)
        found = _analysed(engine, training, folder)
        summary = _summary(engine, training, found)
    if folder is not None:
        from fedsparse.report.fit import save_fit

        save_fit(summary, folder)
        write_outcome(folder, {"diverged": found.fitted.result.diverged})
    result = found.fitted.result
    count = len(summary.model.features)
    log.info(
        "done after %d exchanges: f = %.6g with %s",
        found.exchanges, result.objective, counted(count, "feature"),
    )  # fmt: skip
    return found


def _analysed(engine: FlowerEngine, training: Training, folder: Path | None) -> Analysis:
    """Hold the conversation; with a folder, from where its transcript ends."""
    if folder is None:
        return converse(engine, conversation_of(engine, engine.encoding, training))
    path, about = folder / TRANSCRIPT, _about(engine, training)
    with _resumed(path, about) if training.resume else Transcript.begin(path, about) as transcript:
        carrier = TranscribedEngine(engine, transcript)
        return converse(carrier, conversation_of(carrier, engine.encoding, training))


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


def _summary(engine: FlowerEngine, training: Training, found: Analysis) -> FitSummary:
    is_classes = engine.encoding.classes is not None
    sites = tuple(_site(member, is_classes=is_classes) for member in engine.members)
    conduct = training.conduct()
    return summarize(
        found,
        engine.encoding,
        Provenance(
            source=f"tables of {len(sites)} sites, which stayed there",
            sites=sites,
            is_networked=True,
            fingerprint=engine.fingerprint(),
            settings={
                "fewest sites": str(conduct.fewest),
                "if a site is absent": conduct.if_absent,
                "seconds to answer in": f"{conduct.round_seconds:g}",
            },
            notes=(*engine.encoding.notes, *_notes_on_scales(engine.members)),
        ),
        training,
    )


def _notes_on_scales(members: Sequence[Member]) -> list[str]:
    """Whose rows did not count when features were scaled, all of them or those of some model."""
    missing = [member.name for member in members if member.unscaled]
    return [f"Features were scaled without {joined(missing)}."] if missing else []


def _site(member: Member, *, is_classes: bool) -> SiteCount:
    target = member.description.target if is_classes else None
    labels = None if target is None else target.labels
    return SiteCount(
        name=member.name,
        rows=member.description.rows,
        classes=None if labels is None else {own: count or None for own, count in labels.items()},
        bytes_down=member.bytes_down,
        bytes_up=member.bytes_up,
        socket_down=member.socket_down,
        socket_up=member.socket_up,
        took_part=_part_of(member),
        has_counted=member.answers > 0,
    )


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
