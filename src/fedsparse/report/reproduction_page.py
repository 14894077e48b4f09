"""The page of the reproduction, made from its tables alone."""

from collections.abc import Mapping

from fedsparse.report.closing_table import closing_note
from fedsparse.report.convergence_charts import ITERATIONS, MEGABYTES, ROUNDS, interactive_chart
from fedsparse.report.figures import figures
from fedsparse.report.final_runs import final_history, finished, method_looks, reference_of
from fedsparse.report.network import Network
from fedsparse.report.page import Page, Section
from fedsparse.report.parts import (
    Charts,
    Legend,
    NetworkForm,
    Paragraph,
    Part,
    Picture,
    SettingsList,
    Subheading,
    Table,
    comparison,
)
from fedsparse.report.pictures import Chart, svg_of
from fedsparse.report.reproduction_tables import (
    claims_table,
    outcomes_table,
    samples_table,
    times_table,
)
from fedsparse.research.experiments.experiment_tables import Tables

TITLE = "Federated hard thresholding: the paper's experiments, run again"
INTRODUCTION = (
    "Many clients look for one model with at most τ non-zero coefficients, and no row leaves its "
    "client. Distributed-IHT takes one gradient step a round; Fed-HT takes K local steps and keeps "
    "the τ largest coefficients at the server; FedIter-HT keeps τ of them after every local step, "
    "too. What is not the paper's: the adaptive variants take a longer server step where clients "
    "disagree, and choose their step size themselves; FedSplice works with second derivatives. "
    "Both return the best x they have seen, and it is its objective that is shown."
)
STAND_INS = (
    "Experiments marked as a stand-in ran on other data than the paper's; their sections say which."
)


def reproduction_page(
    tables: Tables, network: Network | None = None, settings: Mapping[str, str] | None = None
) -> Page:
    """Lay out all that the tables say: claims first, then each experiment, then the details.

    Parameters
    ----------
    tables
        What was measured; what they have no rows for is left out.
    network
        What the reader first sees of the estimated times; delay and bandwidth can be changed on
        the page.
    settings
        What was run, by name, for the end of the page.

    Examples
    --------
    >>> import polars as pl
    >>> results = pl.DataFrame({
    ...     "experiment": "simulation-1", "seed": 0, "stage": "final", "algorithm": "Fed-HT",
    ...     "server": "plain", "local_steps": 5, "step_size": 0.1, "diverged": False,
    ...     "round": [0, 1], "iterations": [0, 5], "objective": [8.0, 2.0], "nonzeros": [0, 20],
    ...     "bytes_down": [0, 900], "bytes_up": [0, 1600], "seconds": [0.0, 0.1]})
    >>> experiments = pl.DataFrame({
    ...     "experiment": ["simulation-1"], "title": ["Simulation I"], "stand_in": [""],
    ...     "loss": ["squared"], "sparsity": [20], "rounds": [1], "samples": [1000],
    ...     "width": [100], "clients": [10], "samples_mean": [100.0], "samples_sd": [0.0],
    ...     "paper_mean": [None], "paper_sd": [None]})
    >>> page = reproduction_page(Tables(results, experiments), settings={"Seeds": "0"})
    >>> [section.heading for section in page.sections][:2]
    ['Simulation I', 'Time on a network']
    """
    network = network or Network()
    pictures = figures(tables, network)
    has_stand_ins = any(tables.about(name)["stand_in"] for name in tables.names())
    sections = [
        *_claims(tables),
        *(_experiment(tables, name, pictures) for name in tables.names()),
        *_network(tables, network),
        Section("Table 2: samples on each client", [Table(samples_table(tables))]),
        *_pictures("Clusters of the text data", pictures, ("figure-1-", "figure-2-")),
        *_pictures("Theory: how errors scale", pictures, ("figure-7-",)),
        *([Section("Settings", [SettingsList(settings)])] if settings else []),
    ]
    introduction = f"{INTRODUCTION} {STAND_INS}" if has_stand_ins else INTRODUCTION
    return Page(TITLE, introduction, sections)


def _claims(tables: Tables) -> list[Section]:
    return (
        []
        if tables.claims.is_empty()
        else [Section("What became of the claims", [claims_table(tables)])]
    )


def _experiment(tables: Tables, name: str, pictures: Mapping[str, Chart]) -> Section:
    parts: list[Part] = [Paragraph(_about(tables, name))]
    if name in finished(tables):
        parts += _outcome(tables, name)
    grid = pictures.get(f"figure-3-{name}")
    if grid is not None:
        parts += [Subheading("The search for settings"), _picture(grid)]
    return Section(tables.title(name), parts)


def _about(tables: Tables, name: str) -> str:
    about = tables.about(name)
    text = (
        f"{about['clients']:,} clients hold {about['samples']:,} rows of {about['width']:,} "
        f"features; loss: {about['loss']}; at most τ = {about['sparsity']} non-zero coefficients; "
        f"{about['rounds']} rounds."
    )
    return f"{text} Stand-in: {about['stand_in']}." if about["stand_in"] else text


def _outcome(tables: Tables, name: str) -> list[Part]:
    history, looks = final_history(tables, name), method_looks(tables)
    return [
        *comparison(history, (ROUNDS, ITERATIONS, MEGABYTES), looks),
        Subheading("Settings chosen, and where each method ended"),
        Table(outcomes_table(tables, name)),
        Paragraph(
            f"Medians over seeds. {closing_note(reference_of(history))} "
            "K and γ: those of the grid that ended lowest on the first seed. "
            "auto: γ = 1 / max lᵢ, where lᵢ is the smoothness of client i.",
            is_hint=True,
        ),
    ]


def _network(tables: Tables, network: Network) -> list[Section]:
    names = finished(tables)
    if not names:
        return []
    looks = method_looks(tables)
    charts = [
        interactive_chart(
            final_history(tables, name), network.adjustable_axis(tables.clients(name)), looks
        ).properties(title=tables.title(name))
        for name in names
    ]
    explanation = Paragraph(
        "Estimated time = rounds × delay + data of a client ÷ bandwidth + measured computing. "
        "Clients send side by side; computing is that of all clients on one machine, so each would "
        "need less. Change the numbers to see another network."
    )
    hint = Paragraph(
        "The table: time until a method is where Distributed-IHT ended, and how many times faster "
        "that is; – if it never gets there.",
        is_hint=True,
    )
    form, times = NetworkForm(network), times_table(tables, network)
    parts: list[Part] = [explanation, form, times, hint, Legend(looks), Charts(charts)]
    return [Section("Time on a network", parts)]


def _pictures(
    heading: str, pictures: Mapping[str, Chart], beginnings: tuple[str, ...]
) -> list[Section]:
    shown = [_picture(chart) for name, chart in pictures.items() if name.startswith(beginnings)]
    return [Section(heading, shown)] if shown else []


def _picture(chart: Chart) -> Picture:
    return Picture(svg_of(chart), description=str(chart.title.text))
