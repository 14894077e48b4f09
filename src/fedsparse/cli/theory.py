"""``fedsparse theory``: what the paper's theorems say of its experiments, and what runs do.

Whatever takes long to import is imported inside functions, so that the spinner comes first.
"""

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from fedsparse.research.theory import Bound, Study

SUPREMUM_NOTE = (
    "Assumption 2 asks for one 𝓑 at every x and on every set of entries. Where ∇f vanishes on a "
    "set and the clients' gradients do not, as on the support of x*, there is none; the bias g "
    "is worked out from the clients' gradients at x* instead."
)


def theory(
    dataset: Annotated[str, typer.Argument()],
    sparsity: Annotated[
        int | None, typer.Option(min=2, help="τ; the experiment's own by default.")
    ] = None,
    true_sparsity: Annotated[
        int | None, typer.Option(min=1, help="τ*, the non-zeros of x*; half of τ by default.")
    ] = None,
    local_steps: Annotated[int, typer.Option(min=1, help="K, local steps of a round.")] = 10,
    precision: Annotated[
        float, typer.Option(help="ε as a fraction of the squared distance from x_0 to x*.")
    ] = 1e-3,
    seed: Annotated[int, typer.Option(min=0, help="Seed of data and sampled supports.")] = 0,
) -> None:
    """Set the paper's theorems beside measured convergence.

    DATASET is simulation-1, simulation-2, e2006, rcv1 or mnist.
    """
    screen = Console(stderr=True)
    with screen.status("loading the data") as status:  # shown on a terminal only
        from fedsparse.research.experiments import load_experiment
        from fedsparse.research.theory import study

        problem = load_experiment(dataset).problem(seed)
        found = study(
            problem.data,
            problem.loss,
            problem.sparsity if sparsity is None else sparsity,
            true_sparsity=true_sparsity,
            local_steps=local_steps,
            precision=precision,
            seed=seed,
            tell=status.update,
        )
    print_study(problem.title, found)


def print_study(title: str, found: "Study") -> None:
    """Print what was found, within 80 columns."""
    from fedsparse.research.theory import FED_HT_NOTES, FED_ITER_HT_NOTES, RATE_NOTES

    out = Console(highlight=False)
    out.print(f"[bold]{title}[/]: τ = {found.sparsity}, τ* = {found.true_sparsity}, "
              f"K = {found.local_steps}")  # fmt: skip
    reference = found.reference
    out.print(f"x*: {reference.method}; f(x*) = {_number(reference.objective)}")
    out.print(_constants_table(found))
    _print_notes(out, dict.fromkeys(found.whole.notes + found.restricted.notes))
    out.print(_disagreement_table(found))
    _print_notes(out, [SUPREMUM_NOTE])
    out.print(_bounds_table(found))
    _print_notes(out, _void_notes(found))
    _print_notes(out, FED_HT_NOTES + FED_ITER_HT_NOTES)
    out.print(_rates_table(found))
    _print_notes(out, RATE_NOTES)
    out.print(_measured_table(found))
    _print_notes(
        out,
        [
            "Measured: geometric mean of ‖x_{t+1} − x*‖²/‖x_t − x*‖² over the rounds given, until "
            "the run stalls. θ bounds it only where the theorem is not void, and up to the bias."
        ],
    )


def _constants_table(found: "Study") -> Table:
    table = _table("Assumption 1", "whole space", "restricted")
    both = (found.whole, found.restricted)
    at_least = ["≥ " if one.is_sampled else "" for one in both]
    # ρ_d bounds ρ_s from below: where they agree, the sampled value is exact.
    at_most = ["≤ " if one.convexity > found.whole.convexity else "" for one in both]
    table.add_row("sparsity level s", *(str(one.sparsity) for one in both))
    table.add_row("smoothness l", *_prefixed(at_least, [one.smoothness for one in both]))
    table.add_row("strong convexity ρ", *_prefixed(at_most, [one.convexity for one in both]))
    table.add_row(
        "condition number κ", *_prefixed(at_least, [one.condition_number for one in both])
    )
    return table


def _prefixed(prefixes: Iterable[str], values: Iterable[float]) -> list[str]:
    return [
        prefix * math.isfinite(value) + _number(value)
        for prefix, value in zip(prefixes, values, strict=True)
    ]


def _disagreement_table(found: "Study") -> Table:
    table = _table("Clients' gradients", "all entries", "on supp(x*)")
    for one in found.dissimilarities:
        values = (one.everywhere, one.on_support)
        table.add_row(f"dissimilarity 𝓑 at {one.point}", *map(_number, values))
    table.add_row("‖∇f(x*)‖²", _number(found.squared_gradient), "")
    table.add_row("Σ pᵢ‖∇fᵢ(x*)‖²", _number(found.squared_local_gradients), "")
    table.add_row("variance of row gradients Σ pᵢσᵢ² at x*", _number(found.variance), "")
    return table


def _bounds_table(found: "Study") -> Table:
    bounds = found.fed_ht + found.fed_iter_ht
    names = ["Fed-HT"] * len(found.fed_ht) + ["FedIter-HT"] * len(found.fed_iter_ht)
    headings = (f"{name}\n{bound.version}" for name, bound in zip(names, bounds, strict=True))
    table = _table("Theorems", *headings)
    for label, field in (
        ("step size γ", "step_size"),
        ("α", "alpha"),
        ("rate θ", "rate"),
        ("ψ", "kept"),
        ("ξ", "noise"),
        ("δ", "slack"),
        ("first batch Γ", "first_batch"),
        ("τ needed", "required_sparsity"),
        ("Δ", "initial_gap"),
    ):
        table.add_row(label, *(_number(getattr(bound, field)) for bound in bounds))
    for label, field in (
        ("bias g₁, g₃", "bias"),
        ("of f: g₂, g₄", "objective_bias"),
        ("rounds T", "rounds"),
    ):
        table.add_row(label, *(_unless_void(bound, field) for bound in bounds))
    return table


def _unless_void(bound: "Bound", field: str) -> str:
    return "void" if bound.is_void else _number(getattr(bound, field))


def _void_notes(found: "Study") -> list[str]:
    """Why bounds are void, each reason once."""
    concerned: dict[str, list[str]] = {}
    for name, bounds in (("Fed-HT", found.fed_ht), ("FedIter-HT", found.fed_iter_ht)):
        for bound in bounds:
            for reason in bound.notes:
                concerned.setdefault(reason, []).append(f"{name} {bound.version}")
    return [f"{', '.join(names)}: {reason}." for reason, names in concerned.items()]


def _rates_table(found: "Study") -> Table:
    table = _table("When is θ₂ < θ₁?", *(one.version for one in found.rates))
    for label, field in (
        ("θ₁ of Fed-HT", "fed_ht"),
        ("θ₂ of FedIter-HT", "fed_iter_ht"),
        ("2α", "twice_alpha"),
        ("θ₂ < θ₁ if 2α is below", "limit"),
    ):
        table.add_row(label, *(_number(getattr(one, field)) for one in found.rates))
    table.add_row(
        "and τ above",
        *("never" if one.limit <= 0 else _number(one.required_sparsity) for one in found.rates),
    )
    return table


def _measured_table(found: "Study") -> Table:
    table = _table("Measured", "step", "contraction", "over rounds", "θ")
    for one in found.measurements:
        contraction = one.contraction
        table.add_row(
            one.algorithm,
            one.step,
            f"{contraction.factor:.5f}",
            str(contraction.rounds),
            _number(one.proven_rate) if one.step != "auto" else "–",
        )
    return table


def _table(first: str, *others: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    table.add_column(first)
    for heading in others:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _print_notes(out: Console, notes: Iterable[str]) -> None:
    grid = Table.grid(padding=(0, 1))
    for note in notes:
        grid.add_row(" ·", Text(note))
    out.print(grid, style="dim")


def _number(value: float) -> str:
    """Four digits, and words for what is no number."""
    return "∞" if math.isinf(value) else f"{value:.4g}"
