"""What a report shows of a training run over a network."""

from datetime import datetime

from fedsparse.engines.flower.server.engine import FlowerEngine, Member
from fedsparse.engines.flower.server.training import Training
from fedsparse.fitting import FitOptions, Fitted
from fedsparse.models import FitSummary
from fedsparse.models.building import build_model, history_of, per_class
from fedsparse.models.summary import SiteCount
from fedsparse.tables.sentences import counted

DIVERGED = (
    "Training diverged, and the model is that of the last round before it did. Leave the step size "
    "out, so that one is chosen that suits all sites."
)


NOT_MEASURED = (
    "How well the model predicts was not measured. Have sites try it on rows that it has not seen, "
    "with “fedsparse evaluate”."
)


def summarize(
    engine: FlowerEngine, options: FitOptions, training: Training, fitted: Fitted
) -> FitSummary:
    """The model, how it came about, and how the sites did."""
    settings = _settings(engine, options, training, fitted)
    model = build_model(engine.encoding, fitted, settings, fingerprint=engine.fingerprint())
    is_classes = engine.encoding.classes is not None
    sites = tuple(_site(member, is_classes=is_classes) for member in engine.members)
    return FitSummary(
        title=training.title or f"What predicts {model.target}",
        created=datetime.now().astimezone().isoformat(timespec="seconds"),
        model=model,
        source=f"tables of {len(sites)} sites, which stayed there",
        is_networked=True,
        sites=sites,
        columns=engine.encoding.column_counts,
        candidates=len(engine.encoding.feature_names),
        history=history_of(fitted.result.records),
        settings=settings,
        notes=(*engine.notes, *([DIVERGED] if fitted.result.diverged else []), NOT_MEASURED),
    )


def _site(member: Member, *, is_classes: bool) -> SiteCount:
    target = member.description.target if is_classes else None
    return SiteCount(
        name=member.name,
        rows=member.description.rows,
        classes=None if target is None else target.labels,
        bytes_down=member.bytes_down,
        bytes_up=member.bytes_up,
        socket_down=member.socket_down,
        socket_up=member.socket_up,
        took_part=_part_of(member),
        # A resumed run may have had nothing left to ask.
        has_counted=member.answers > 0 or (member.missed == 0 and member.excluded is None),
    )


def _part_of(member: Member) -> str:
    """To which end a site took part."""
    if member.excluded is not None:
        return f"excluded: {member.excluded}"
    ended = "absent at the end" if member.is_absent else "to the end"
    return ended if member.missed == 0 else f"{ended}, {counted(member.missed, 'answer')} missing"


def _settings(
    engine: FlowerEngine, options: FitOptions, training: Training, fitted: Fitted
) -> dict[str, str]:
    default = "FedSplice" if options.splices else "FedIter-HT, adaptive server step"
    told = {
        "method": default if training.method == "auto" else training.method,
        "number of features": f"{training.sparsity}{per_class(engine.encoding.classes)}, given",
        "loss": options.loss.name,
        "ℓ2 weight": f"{options.loss.l2:.6g}",
        "standardized": "yes" if options.standardize else "no",
        "intercept": "yes" if options.intercept else "no",
        "rounds": f"{fitted.result.records[-1].round} of at most {options.rounds}",
        "seed": str(options.seed),
        "columns left out on request": ", ".join(training.drop),
        "columns taken as categories": ", ".join(training.category),
        "columns that must stay": ", ".join(training.keep),
        "missing values": "filled with the mean of all sites" if training.impute == "mean" else "",
        "fewest sites": str(training.conduct().fewest),
        "if a site is absent": training.if_absent,
        "seconds to answer in": f"{training.round_seconds:g}",
        **_first_order(training),
    }
    return {name: text for name, text in told.items() if text}


def _first_order(training: Training) -> dict[str, str]:
    """Options that only some methods have."""
    if training.method in ("auto", "FedSplice"):
        return {}
    has_local_steps = training.method != "DistributedIHT"
    return {
        **({"local steps": str(training.local_steps)} if has_local_steps else {}),
        "step size": f"{training.step_size:g}" if training.step_size else "one that suits all",
        "mini-batches": f"{training.batch_size} rows" if training.batch_size else "all rows",
        "weights": "rows count the same" if training.weights == "samples" else "sites do",
        "server step": training.server_step,
    }
