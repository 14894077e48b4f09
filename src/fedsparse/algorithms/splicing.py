"""FedSplice: few rounds, each worth much.

    g, h ← gradient and diagonal of the Hessian at x           (one round: `Slopes`)
    U    ← support of x, and the features of largest g_j² / h_j
    H    ← Hessian on U                                        (one round: `Curvature`)
    x    ← the best τ-sparse point of the quadratic model on U
    until that gains nothing

The server adds up exact derivatives, so sites may differ as much as they like. For the squared loss
the model is exact. For others x may come out higher: then further steps are made on the new support
as long as they promise to pay, a round each; if they do not, half as many features are exchanged,
and so on down to none.

Exchanging features by what they are worth is the idea of splicing (Zhu, Wen, Zhu, Zhang & Wang, A
polynomial algorithm for best-subset selection, PNAS 2020); screening by g_j² / (2 h_j) is theirs.
Working out all exchanges from one curvature answer, by backward elimination, is our own heuristic.
The damping is Levenberg's and Marquardt's. FedNL (Safaryan, Islamov, Qian & Richtárik, ICML 2022)
sends Hessians in a federation, too.
"""

from dataclasses import dataclass

import numpy as np

from fedsparse.algorithms.algorithm import Algorithm, State
from fedsparse.algorithms.subset import Quadratic, after_exchanges, best_subset, ranked_exchanges
from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.checks import check_count, check_not_negative
from fedsparse.compute.curvature import from_triangle
from fedsparse.errors import OptionError
from fedsparse.problem.losses import Loss
from fedsparse.problem.sparsity import TopK
from fedsparse.requests import Answers, Curvature, Request, Slopes
from fedsparse.threads import one_thread

FEWEST_CANDIDATES = 50
"""A Hessian on so many more features costs little, whatever τ."""

MOST_MENDINGS = 3
"""Rounds spent on a new support at most before it is given up."""

MOST_REFUSALS = 4
"""Supports tried in place of another and refused, before it counts as the best."""

_FIRST_DAMPING = 1e-3
_LARGEST_DAMPING = 1e12


@dataclass(frozen=True)
class FedSplice(Algorithm):
    """Find the best τ features by splicing; there is nothing to tune.

    Parameters
    ----------
    sparsity
        τ, or `TopK` with features that are always kept.
    candidates
        How many features outside the support are considered at a time; by default τ, and at
        least 50.
    tolerance
        Stop when a splice lowers f by less than this share.
    start_at
        Where to begin; 0 by default. At most τ non-zeros.
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

    sparsity: int | TopK
    candidates: int | None = None
    tolerance: float = 1e-9
    start_at: FloatArray | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.sparsity, TopK):
            check_count("sparsity", self.sparsity)
        if self.candidates is not None:
            check_count("candidates", self.candidates)
        check_not_negative("tolerance", self.tolerance)
        if self.clients_per_round is not None:
            raise OptionError("FedSplice asks every client; leave clients_per_round out")

    def start(self, shape: tuple[int, ...], seed: int, loss: Loss) -> State:
        """The state before the first round."""
        if len(shape) > 1:
            raise OptionError(
                "FedSplice works with the squared and the logistic loss; for softmax use "
                'FedIterHT(…, server_step="adaptive")'
            )
        state = super().start(shape, seed, loss)
        # Projecting refuses features to keep that do not exist.
        begin = self._constraint.project(self._begin(state.x))
        return State(x=begin, seed=seed).remember(
            l2=np.array([loss.l2]), best=begin, best_objective=np.array([np.inf])
        )

    def _begin(self, zero: FloatArray) -> FloatArray:
        if self.start_at is None:
            return zero
        begin = np.asarray(self.start_at, dtype=np.float64)
        if begin.shape != zero.shape or not np.isfinite(begin).all():
            raise OptionError(
                f"start_at must be {zero.size} finite numbers, one per feature; "
                f"it has shape {begin.shape}"
            )
        return begin

    def request(self, state: State) -> Request:
        """Ask for slopes at a new x, then for curvature on the features they point to."""
        if "mended" in state.memory:
            return Curvature(state.x, np.flatnonzero(state.x))
        if "union" in state.memory:
            return Curvature(state.x, state.memory["union"].astype(np.int64))
        return Slopes(state.x)

    def update(self, state: State, answers: Answers) -> State:
        """Choose candidates, or splice; where f has risen, mend or take back."""
        with one_thread():
            if "mended" in state.memory:
                return self._mend(state, answers)
            if "union" in state.memory:
                return self._splice(state, answers)
            objective = answers.average("objective")
            if objective <= float(state.memory["best_objective"][0]):
                return self._choose_candidates(state, answers, objective)
            if state.memory["trial"][0] > 0:
                return state.remember(mended=np.zeros(1)).step(state.x, 0)
            return self._fall_back(state)

    def is_done(self, state: State) -> bool:
        """Whether the last splice gained nothing."""
        return "done" in state.memory

    def divergence_advice(self) -> str:
        """What a user can do when a run diverges."""
        return "Rescale the features or add an ℓ2 term, such as loss=Logistic(l2=0.01)."

    def _choose_candidates(self, state: State, answers: Answers, objective: float) -> State:
        """x is the best so far: take the features outside its support that promise most."""
        l2 = float(state.memory["l2"][0])
        gradient = answers.mean("gradient") + l2 * state.x
        diagonal = answers.mean("diagonal") + l2
        with np.errstate(divide="ignore", invalid="ignore"):
            promise = np.where(diagonal > 0, gradient**2 / diagonal, 0.0)
        support = np.union1d(np.flatnonzero(state.x), self._kept(state.x.size))
        promise[support] = 0.0
        if not np.array_equal(state.x.nonzero(), state.memory["best"].nonzero()):
            state = _forget(state, "refused")  # it was refused in place of another support
        order = np.argsort(-promise, kind="stable")[: self._room(support.size)]
        union = np.union1d(support, order[promise[order] > 0])
        state = state.remember(
            best=state.x, best_objective=np.array([objective]), union=union.astype(np.float64)
        )
        return state.step(state.x, 0)

    def _splice(self, state: State, answers: Answers) -> State:
        """Move to the best τ-sparse point of the model."""
        union = state.memory["union"].astype(np.int64)
        model = self._model_there(state, answers, union)
        state = _forget(state, "union").remember(**model)
        chosen = self._best_support(state)
        return self._try_next(state) if _is_refused(state, chosen) else self._try(state, chosen)

    def _try(self, state: State, chosen: Int64Array, damping: float = 0.0) -> State:
        """Go to the model's lowest point on a support; stop if f would hardly fall."""
        moved, gain = _lowest_point(state, chosen, damping)
        if gain <= self.tolerance * abs(float(state.memory["best_objective"][0])):
            return state.remember(done=np.ones(1)).step(moved if gain > 0 else state.x, 0)
        exchanged = np.setdiff1d(moved.nonzero(), state.x.nonzero()).size
        return state.remember(trial=np.array([exchanged, damping])).step(moved, 0)

    def _mend(self, state: State, answers: Answers) -> State:
        """The model misjudged a new support: make Newton steps there while they promise to pay."""
        objective = answers.average("objective")
        best_objective = float(state.memory["best_objective"][0])
        mended = int(state.memory["mended"][0])
        if objective <= best_objective:
            return _forget(state, "mended").step(state.x, 0)  # its slopes are asked for next
        support = np.flatnonzero(state.x)
        model = self._model_there(state, answers, support)
        moved, gain = _lowest_point(state.remember(**model), np.arange(support.size), 0.0)
        if mended == MOST_MENDINGS or objective - 2.0 * gain > best_objective:
            return self._fall_back(_forget(state, "mended"))
        return state.remember(mended=np.array([mended + 1.0])).step(moved, 0)

    def _model_there(
        self, state: State, answers: Answers, features: Int64Array
    ) -> dict[str, FloatArray]:
        """The quadratic model that curvature answers at x give, for a state's memory."""
        l2 = float(state.memory["l2"][0])
        hessian = from_triangle(answers.mean("hessian"), features.size)
        return {
            "hessian": hessian + l2 * np.eye(features.size),
            "gradient": answers.mean("gradient") + l2 * state.x[features],
            "features": features.astype(np.float64),
        }

    def _fall_back(self, state: State) -> State:
        """Return to the best x and try less: half the exchanges, none, then shorter steps."""
        exchanged, damping = state.memory["trial"]
        best = State(state.memory["best"], state.round, state.iterations, state.seed, state.memory)
        features = best.memory["features"].astype(np.int64)
        support = np.flatnonzero(best.x[features])
        if exchanged:
            best = _with_refused(best, state.x)
            fewer = self._with_fewer_changes(best, support, int(exchanged) // 2)
            is_new = exchanged > 1 and not _is_refused(best, fewer)
            return self._try(best, fewer) if is_new else self._try_next(best)
        damping = max(_FIRST_DAMPING, 10.0 * damping)
        if damping > _LARGEST_DAMPING:
            return best.remember(done=np.ones(1)).step(best.x, 0)
        return self._try(best, support, damping)

    def _try_next(self, state: State) -> State:
        """Try the best exchange that has not been refused, or else none."""
        features = state.memory["features"].astype(np.int64)
        support = np.flatnonzero(state.x[features])
        if state.memory["refused"].shape[0] < MOST_REFUSALS:
            for chosen in self._small_changes(state, support):
                if not _is_refused(state, chosen):
                    return self._try(state, chosen)
        return self._try(state, support)

    def _with_fewer_changes(self, state: State, support: Int64Array, count: int) -> Int64Array:
        """The best support with so many features added, or exchanged if there is no room."""
        model, keep = _model(state, 0.0), self._kept_places(state)
        room = self._constraint.sparsity - support.size
        if room > 0:
            size = support.size + min(room, max(count, 1))
            return best_subset(model, size, keep=np.union1d(keep, support))
        return after_exchanges(model, support, count, keep=keep)

    def _small_changes(self, state: State, support: Int64Array) -> list[Int64Array]:
        """Supports one change away that promise most."""
        adding = []
        if support.size < self._constraint.sparsity:
            adding.append(self._with_fewer_changes(state, support, 1))
        if support.size == 0:
            return adding
        model, keep = _model(state, 0.0), self._kept_places(state)
        return adding + ranked_exchanges(model, support, MOST_REFUSALS, keep=keep)

    def _best_support(self, state: State) -> Int64Array:
        """The best τ features of the model, as places among its features."""
        features = state.memory["features"].astype(np.int64)
        return best_subset(
            _model(state, 0.0),
            self._constraint.sparsity,
            keep=self._kept_places(state),
            start=np.flatnonzero(state.x[features]),
        )

    def _kept_places(self, state: State) -> Int64Array:
        """Places of the features that stay, among those of the model."""
        features = state.memory["features"].astype(np.int64)
        return np.searchsorted(features, self._kept(state.x.size))

    @property
    def _constraint(self) -> TopK:
        return self.sparsity if isinstance(self.sparsity, TopK) else TopK(self.sparsity)

    def _kept(self, width: int) -> Int64Array:
        threshold = self._constraint.column_threshold((width,))
        assert threshold is not None
        return threshold.always

    def _room(self, support: int) -> int:
        """How many candidates to take: enough to fill the support, and the ones beside."""
        sparsity = self._constraint.sparsity
        beside = max(sparsity, FEWEST_CANDIDATES) if self.candidates is None else self.candidates
        return max(sparsity - support, 0) + beside


def _model(state: State, damping: float) -> Quadratic:
    """The quadratic model around x."""
    hessian = state.memory["hessian"]
    hessian = hessian + damping * np.diag(np.diag(hessian))
    features = state.memory["features"].astype(np.int64)
    return Quadratic(hessian, hessian @ state.x[features] - state.memory["gradient"])


def _lowest_point(state: State, chosen: Int64Array, damping: float) -> tuple[FloatArray, float]:
    """The lowest point of the model on a support, and how much lower f is there by the model."""
    memory, x = state.memory, state.x
    features = memory["features"].astype(np.int64)
    model = _model(state, damping)
    moved = np.zeros(x.size)
    moved[features[chosen]] = x[features[chosen]]  # without curvature a feature stays as it is
    curved = chosen[model.scale[chosen] > 0]
    moved[features[curved]] = model.minimizer(curved)
    step = moved[features] - x[features]
    gain = -(memory["gradient"] @ step + 0.5 * step @ memory["hessian"] @ step)
    return moved, float(gain)


def _is_refused(state: State, chosen: Int64Array) -> bool:
    """Whether a support was tried in place of this one and did not help."""
    features = state.memory["features"][chosen]
    return any(
        np.array_equal(features, row[~np.isnan(row)]) for row in state.memory.get("refused", ())
    )


def _with_refused(state: State, x: FloatArray) -> State:
    """Remember that the support of x did not help; rows are filled up with NaN."""
    support = np.flatnonzero(x).astype(np.float64)
    known = state.memory.get("refused", np.empty((0, support.size)))
    width = max(known.shape[1], support.size)
    rows = np.full((known.shape[0] + 1, width), np.nan)
    rows[:-1, : known.shape[1]] = known
    rows[-1, : support.size] = support
    return state.remember(refused=rows)


def _forget(state: State, *names: str) -> State:
    memory = {name: value for name, value in state.memory.items() if name not in names}
    return State(state.x, state.round, state.iterations, state.seed, memory)
