"""The report of a training run, made from the files that the run left."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fedsparse.engines.flower.outcome import HISTORY, MODEL, OUTCOME
from fedsparse.engines.flower.training import Training

if TYPE_CHECKING:
    import polars as pl

    from fedsparse.report.page import Section

REPORT = "report.html"

_SETTINGS = (
    "method", "sparsity", "loss", "l2", "rounds", "local_steps", "step_size", "batch_size",
    "weights", "server_step", "seed", "min_sites", "if_absent", "round_seconds", "minimum_rows",
)  # fmt: skip


def write_report(folder: Path, training: Training) -> Path:
    """Draw how the objective fell, and tell how the sites did; where the page is."""
    import polars as pl

    from fedsparse.report.page import Page

    history = pl.read_parquet(folder / HISTORY)
    model = json.loads((folder / MODEL).read_text(encoding="utf-8"))
    sites = json.loads((folder / OUTCOME).read_text(encoding="utf-8"))["sites"]
    page = Page(
        f"A model of {len(model['coefficients'])} features from {len(sites)} sites",
        _introduction(history, sites, training),
        _sections(history, model, sites, training),
    )
    page.save(folder / REPORT)
    return folder / REPORT


def _introduction(history: "pl.DataFrame", sites: list[dict[str, Any]], training: Training) -> str:
    last = history.row(-1, named=True)
    rows = sum(site["rows"] for site in sites)
    absent = f" {last['absent']} answers did not come." if last["absent"] else ""
    return (
        f"{training.method} learned from {rows} rows that stayed at their {len(sites)} sites. "
        f"After {last['round']} rounds the objective is {last['objective']:.6g}.{absent}"
    )


def _sections(
    history: "pl.DataFrame",
    model: dict[str, Any],
    sites: list[dict[str, Any]],
    training: Training,
) -> "list[Section]":
    import polars as pl

    from fedsparse.report.charts import ROUNDS
    from fedsparse.report.page import Section
    from fedsparse.report.parts import Paragraph, Settings, Table, comparison
    from fedsparse.report.style import looks

    named = history.with_columns(
        method=pl.lit(training.method),
        megabytes=(pl.col("bytes_down") + pl.col("bytes_up")) / 1e6,
    )
    settings = {name.replace("_", "-"): str(getattr(training, name)) for name in _SETTINGS}
    note = (
        "Bytes are those of the messages' content. Flower's envelopes, signatures and polling come "
        "on top; see the guide to federations for what was measured on the wire."
    )
    return [
        Section("", comparison(named, (ROUNDS,), looks([training.method]))),
        Section("The model", [Table(_coefficients(model))]),
        Section("The sites", [Table(_sites(sites)), Paragraph(note, is_hint=True)]),
        Section("Settings", [Settings(settings)]),
    ]


def _coefficients(model: dict[str, Any]) -> "pl.DataFrame":
    import polars as pl

    labels = ["coefficient"]
    first = next(iter(model["coefficients"].values()), 0.0)
    if isinstance(first, list):
        labels = [str(label) for label in model["classes"]]
    rows = [
        [name, *(f"{own:.6g}" for own in (value if isinstance(value, list) else [value]))]
        for name, value in model["coefficients"].items()
    ]
    return pl.DataFrame(rows, schema=["feature", *labels], orient="row")


def _sites(sites: list[dict[str, Any]]) -> "pl.DataFrame":
    import polars as pl

    rows = [
        [
            site["name"],
            str(site["rows"]),
            f"{site['bytes_down']:,}",
            f"{site['bytes_up']:,}",
            site["excluded"] or ("absent at the end" if site["absent"] else "to the end"),
        ]
        for site in sites
    ]
    names = ["site", "rows", "bytes to it", "bytes from it", "took part"]
    return pl.DataFrame(rows, schema=names, orient="row")
