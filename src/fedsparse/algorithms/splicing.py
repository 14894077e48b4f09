"""FedSplice: few rounds, each worth much.

    g, h, H_S ← gradient, diagonal of the Hessian, and Hessian on the support of x   (`Slopes`)
    x    ← Newton's step on the support
    U    ← the support, and the features of largest g_j² / h_j
    g, H ← gradient and Hessian on U at the new x                                    (`Curvature`)
    x    ← the best τ-sparse point of the quadratic model on U
    until that gains nothing

The server adds up exact derivatives, so sites may differ as much as they like. For the squared loss
the model is exact, and Newton's step is not needed. For others f is the judge: where x comes out
higher, steps on its own support are made as long as they promise to pay, a round each; if they do
not, it is taken back, and the model is bent more, H ← αH, which makes for shorter steps and fewer
exchanges. With several classes H is no Hessian but a matrix that separates the classes; α ≥ 1 and
D ⪯ diag(p) there make sure that some α is large enough.

Exchanging features by what they are worth is the idea of splicing (Zhu, Wen, Zhu, Zhang & Wang, A
polynomial algorithm for best-subset selection, PNAS 2020); screening by g_j² / (2 h_j) is theirs.
Working out all exchanges from one curvature answer, by backward elimination, is our own heuristic.
The damping is Levenberg's and Marquardt's. FedNL (Safaryan, Islamov, Qian & Richtárik, ICML 2022)
sends Hessians in a federation, too.
"""

import zlib
from dataclasses import dataclass

import numpy as np

from fedsparse.algorithms.algorithm import Algorithm, State
from fedsparse.algorithms.splicing_models import Known, Models, models_of, newton_point
from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.checks import check_count, check_not_negative
from fedsparse.compute.curvature import from_triangle
from fedsparse.compute.stacks import flatten
from fedsparse.errors import OptionError
from fedsparse.problem.losses import Loss
from fedsparse.problem.sparsity import Sparsity, as_sparsity
from fedsparse.requests import Answers, Request, Slopes
from fedsparse.threads import one_thread

FEWEST_CANDIDATES = 50
"""A Hessian on so many more features costs little, whatever τ."""

MOST_MENDINGS = 3
"""Rounds spent on a new support at most before it is given up."""

MOST_REFUSALS = 4
"""Points tried in place of another and refused, before it counts as the best."""

MOST_UNKNOWNS = 1000
"""Newton's step on more entries than these would take more bytes than it is worth."""

_LONGER, _SHORTER, _MUCH_SHORTER = 0.7, 2.5, 10.0
"""What α is multiplied by after a success, and after failures with and without new features."""

_NOTHING = 1e-9
"""A share of f that is rounding."""

_MOST_BEND = 1e12

_LEAST_BEND = 0.5
"""With several classes: their matrices mostly bend too much."""


@dataclass(frozen=True)
class FedSplice(Algorithm):
    """Find the best τ features by splicing; there is nothing to tune.

    Parameters
    ----------
    sparsity
        τ, per class for softmax; or `TopK`, `TopKPerClass` or `TopKRows`, which can name features
        that are always kept.
    candidates
        How many features outside the support are considered at a time; by default τ, and at
        least 50.
    tolerance
        Stop when a splice lowers f by less than this share. As long as there is room for further
        features they are taken, however little they lower it.
    start_at
        Where to begin; 0 by default. It is projected onto the constraint.
    weights
        See `Algorithm`. All clients take part in every round.

    Examples
    --------
    >>> import fedsparse as fs
    >>> data = fs.datasets.simulation_1(clients=5, samples=40, width=30, relevant=3)
    >>> result = fs.run(fs.FedSplice(sparsity=3), data)
    >>> result.support.size, result.records[-1].round <= 8
    (3, True)
    """

    sparsity: int | Sparsity
    candidates: int | None = None
    tolerance: float = 1e-9
    start_at: FloatArray | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.sparsity, Sparsity):
            check_count("sparsity", self.sparsity)
        if self.candidates is not None:
            check_count("candidates", self.candidates)
        check_not_negative("tolerance", self.tolerance)
        if self.clients_per_round is not None:
            raise OptionError("FedSplice asks every client; leave clients_per_round out")

    def start(self, shape: tuple[int, ...], seed: int, loss: Loss) -> State:
        """The state before the first round."""
        models_of(self.sparsity, shape)  # refuses constraints and features that do not fit
        state = super().start(shape, seed, loss)
        begin = as_sparsity(self.sparsity, shape).project(self._begin(state.x))
        return State(x=begin, seed=seed).remember(
            l2=np.array([loss.l2]),
            quadratic=np.array([loss.is_quadratic]),
            best=begin,
            best_objective=np.array([np.inf]),
            bend=np.ones(1),
        )

    def _begin(self, zero: FloatArray) -> FloatArray:
        if self.start_at is None:
            return zero
        begin = np.asarray(self.start_at, dtype=np.float64)
        if begin.shape != zero.shape or not np.isfinite(begin).all():
            raise OptionError(
                f"start_at must be finite numbers of shape {zero.shape}, a row per feature; "
                f"it has shape {begin.shape}"
            )
        return begin

    def request(self, state: State) -> Request:
        """Ask for slopes at a new x, then for curvature on the features they point to."""
        if "union" in state.memory:
            return models_of(self.sparsity, state.x.shape).request(state.x, _union(state))
        return Slopes(state.x, self._stepped_on(state))

    def update(self, state: State, answers: Answers) -> State:
        """Choose candidates, or splice; where f has risen, mend or take back."""
        with one_thread():
            models = models_of(self.sparsity, state.x.shape)
            if "last" in state.memory:
                return state.remember(done=np.ones(1)).step(self._newton(state, answers)[0], 0)
            if "union" in state.memory:
                return self._splice(state, answers, models)
            if answers.average("objective") <= _best_objective(state):
                return self._choose_candidates(state, answers, models)
            return self._mend(state, answers, models)

    def is_done(self, state: State) -> bool:
        """Whether the last splice gained nothing."""
        return "done" in state.memory

    def divergence_advice(self) -> str:
        """What a user can do when a run diverges."""
        return "Rescale the features or add an ℓ2 term, such as loss=Logistic(l2=0.01)."

    def _choose_candidates(self, state: State, answers: Answers, models: Models) -> State:
        """x is the best so far: step on its support, and take features that promise most."""
        l2 = float(state.memory["l2"][0])
        gradient = answers.mean("gradient") + l2 * state.x
        diagonal = answers.mean("diagonal") + l2
        union = models.union(state.x, gradient, diagonal, self._beside(models))
        moved, _ = self._newton(state, answers)
        bend = 1.0  # the Hessian of a single class is exact
        if models.classes > 1 and "trial" in state.memory:
            bend = max(_LEAST_BEND, _LONGER * float(state.memory["bend"][0]))
        if not np.array_equal(state.x != 0, state.memory["best"] != 0):
            state = state.forget("refused")  # they were refused in place of another support
        state = state.forget("trial", "mended").remember(
            best=state.x,
            best_objective=np.array([answers.average("objective")]),
            bend=np.array([bend]),
            union=union.astype(np.float64),
        )
        return state.step(moved, 0)

    def _splice(self, state: State, answers: Answers, models: Models) -> State:
        """Move to the best τ-sparse point of the model."""
        objective, best = answers.average("objective"), state.memory["best"]
        if objective > _best_objective(state) and not np.array_equal(state.x, best):
            # Newton's step went too far: ask again where it began.
            return state.remember(bend=_SHORTER * state.memory["bend"]).step(best, 0)
        penalty = float(state.memory["l2"][0]) * models.on_union(state.x, _union(state))
        state = state.forget("union").remember(
            best=state.x,
            best_objective=np.array([objective]),
            best_gradient=answers.mean("gradient") + penalty,
            features=state.memory["union"],
            triangles=answers.mean("hessian"),
        )
        return self._try(state, models)

    def _try(self, state: State, models: Models) -> State:
        """Go from the best x to the models' lowest point, or to another that may be lower."""
        refused = state.memory.get("refused", np.empty(0)).size
        if refused < MOST_REFUSALS:
            moved, gain = models.lowest(_known(state))
            if self._is_worth(state, gain, moved) and not _is_refused(state, moved):
                return state.remember(trial=np.array([np.inf])).step(moved, 0)
        if 0 < refused < MOST_REFUSALS:
            # The model cannot be trusted with all exchanges at once.
            found = [
                (gain, moved)
                for moved, gain in models.exchanges(_known(state, 1.0), MOST_REFUSALS)
                if self._is_worth(state, gain, moved) and not _is_refused(state, moved)
            ]
            if found:
                _, moved = max(found, key=lambda entry: entry[0])
                return state.remember(trial=np.array([np.inf])).step(moved, 0)
        return self._settle(state, models)

    def _settle(self, state: State, models: Models) -> State:
        """Exchange nothing: go to the models' lowest point on the support, or stop."""
        moved, gain = models.lowest_on_support(_known(state))
        if self._is_worth(state, gain, moved):
            return state.remember(trial=np.array([np.inf])).step(moved, 0)
        best = state.memory["best"]
        if models.classes > 1:  # what bounds the Hessian does not lead to the last digits
            return state.remember(last=np.ones(1)).step(best, 0)
        return state.remember(done=np.ones(1)).step(moved if gain > 0 else best, 0)

    def _is_worth(self, state: State, gain: float, moved: FloatArray) -> bool:
        """Whether a gain is more than nothing; that of further features is, however small."""
        is_larger = np.count_nonzero(moved) > np.count_nonzero(state.memory["best"])
        share = min(self.tolerance, _NOTHING) if is_larger else self.tolerance
        return gain > share * abs(_best_objective(state))

    def _mend(self, state: State, answers: Answers, models: Models) -> State:
        """The model misjudged x: make Newton's steps on its support while they promise to pay."""
        if np.array_equal(state.x != 0, state.memory["best"] != 0):
            bend = _MUCH_SHORTER * state.memory["bend"]
            if bend[0] > _MOST_BEND:
                return state.remember(done=np.ones(1)).step(state.memory["best"], 0)
            return self._settle(state.remember(bend=bend), models)
        objective, mended = answers.average("objective"), _count(state, "mended")
        moved, gain = self._newton(state, answers)
        promises = objective - 2.0 * gain < _best_objective(state)
        if promises and objective < state.memory["trial"][0] and mended < MOST_MENDINGS:
            return state.remember(
                trial=np.array([objective]), mended=np.array([mended + 1.0])
            ).step(moved, 0)
        refused = np.append(state.memory.get("refused", np.empty(0)), _digest(state.x))
        bend = _SHORTER * state.memory["bend"]
        return self._try(state.forget("mended").remember(refused=refused, bend=bend), models)

    def _newton(self, state: State, answers: Answers) -> tuple[FloatArray, float]:
        """Newton's step on the support, as far as second derivatives there have been told."""
        support = self._stepped_on(state)
        if support.size == 0:
            return state.x, 0.0
        l2 = float(state.memory["l2"][0])
        gradient = flatten(answers.mean("gradient") + l2 * state.x)[support]
        hessian = from_triangle(answers.mean("hessian"), support.size)
        return newton_point(state.x, support, gradient, hessian + l2 * np.eye(support.size))

    def _stepped_on(self, state: State) -> Int64Array:
        """Entries of x for which `Slopes` asks for the Hessian."""
        support = np.flatnonzero(flatten(state.x))
        is_too_much = bool(state.memory["quadratic"][0]) or support.size > MOST_UNKNOWNS
        return support[:0] if is_too_much else support

    def _beside(self, models: Models) -> int:
        """How many candidates to take beside those that fill the support."""
        return (
            max(models.sparsity, FEWEST_CANDIDATES) if self.candidates is None else self.candidates
        )


def _best_objective(state: State) -> float:
    return float(state.memory["best_objective"][0])


def _count(state: State, name: str) -> int:
    return int(state.memory[name][0]) if name in state.memory else 0


def _known(state: State, bend: float | None = None) -> Known:
    """What sites told around the best x."""
    memory = state.memory
    bend = float(memory["bend"][0]) if bend is None else bend
    return Known(
        memory["best"],
        memory["features"].astype(np.int64),
        memory["best_gradient"],
        memory["triangles"],
        bend,
        float(memory["l2"][0]),
    )


def _is_refused(state: State, moved: FloatArray) -> bool:
    """Whether its support was tried in place of the best one and did not help."""
    return _digest(moved) in state.memory.get("refused", ())


def _digest(x: FloatArray) -> float:
    """A number that stands for a support."""
    places = np.flatnonzero(flatten(x))
    return float(zlib.crc32(places.tobytes()))


def _union(state: State) -> Int64Array:
    return state.memory["union"].astype(np.int64)
