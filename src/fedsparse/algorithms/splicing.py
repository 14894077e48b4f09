"""FedSplice: few rounds, each worth much.

    g, h, H_S ← gradient, diagonal of the Hessian, and Hessian on the support of x   (`Slopes`)
    x    ← Newton's step on the support
    U    ← the support, and the features of largest g_j² / h_j
    g, H ← gradient and Hessian on U at the new x                                    (`Curvature`)
    x    ← the best τ-sparse point of the quadratic model on U
    until that gains nothing; then once more with a wider U

The server adds up derivatives of all rows, so sites may differ as much as they like. f is the
judge: where x comes out higher, steps on its own support are made as long as they promise to pay, a
round each; if they do not, it is taken back, and the model is bent more, H ← αH, which makes for
shorter steps and fewer exchanges. With several classes H is no Hessian but a matrix that separates
the classes; α ≥ 1 and D ⪯ diag(p) there make sure that some α is large enough.

Messages are short: slopes in float32, Hessians in eight bits an entry or, on few features, sixteen
(`compute.rounded_matrix`). That is precise enough to choose by; f and slopes at every new x make up
for the rest. The Hessian of the squared loss is the same everywhere: no entry of it is asked for
twice, and U is all that is known. That of another loss is hardly another one after a splice that
gained little: entries then go on being asked for where the others come from, which is all that
keeps them together, until nothing is gained by them any more (lazy Hessians: Doikov, Chayti &
Jaggi, ICML 2023).

Exchanging features by what they are worth is the idea of splicing (Zhu, Wen, Zhu, Zhang & Wang, A
polynomial algorithm for best-subset selection, PNAS 2020); screening by g_j² / (2 h_j) is theirs.
Working out all exchanges from one curvature answer, by backward elimination, is our own heuristic.
The damping is Levenberg's and Marquardt's. FedNL (Safaryan, Islamov, Qian & Richtárik, ICML 2022)
sends Hessians in a federation, too.
"""

import warnings
import zlib
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace

import numpy as np

from fedsparse.algorithms.algorithm import Algorithm, State
from fedsparse.algorithms.long_work import told_of
from fedsparse.algorithms.splicing_models import (
    Known,
    Models,
    above_rounding,
    matrix_told,
    models_of,
    newton_point,
    part_of_triangle,
    powers_of_two,
    rounding_told,
)
from fedsparse.arrays import FloatArray, Int64Array
from fedsparse.checks import check_count, check_not_negative
from fedsparse.compute.stacks import flatten, unflatten
from fedsparse.compute.triangles import from_triangle, triangle_size
from fedsparse.errors import DivergenceWarning, OptionError
from fedsparse.problem.losses import Loss
from fedsparse.problem.sparsity import Sparsity, as_sparsity
from fedsparse.requests import Answers, Curvature, Slopes
from fedsparse.threads import one_thread

FEWEST_CANDIDATES = 50
"""A Hessian on so many more features costs little, whatever τ."""

FIRST_FEATURES = 250
"""A Hessian on so many features is short beside other messages: 31 kB in eight bits."""

MOST_FEATURES = 520
"""Of a union in one process: what so many do not improve, more hardly do."""

MANY_SITES = 5
"""Answers of more sites than these share the bytes of as many."""

MOST_KNOWN = 4000
"""Features on which a Hessian is remembered, if no message is too long."""

MOST_MENDINGS = 3
"""Rounds spent on a new support at most before it is given up."""

MOST_REFUSALS = 4
"""Points tried in place of another and refused, before it counts as the best."""

MOST_UNKNOWNS = 1000
"""Newton's step on more entries than these would take more bytes than it is worth."""

NEAR = 0.05
"""A share of f: where a splice gains no more, second derivatives are nearly what they were."""

_LONG_WORK = 200
"""So many features may take seconds to choose."""

PATIENCE = 2
"""Splices that may gain little, together, before it is over."""

WORTHWHILE = 1.5
"""A union that is not so many times as wide as the last one is not worth a round."""

DROPPED = 0.3
"""Of a support, before a restart."""

MOST_GENERATIONS = 5
"""So often restarts follow restarts at most."""

_USUAL_TOLERANCE = 1e-3

_LAST_DIGITS = 1e-10
"""A share of f that is not worth another round, at the usual tolerance."""

_SLOW = 0.1
"""Of a step's gain: the next one gains less, if second derivatives are right."""

_NEXT_TO_NOTHING = 1e-3
"""Of f at the start: below that a share of f itself is none that matters."""

_LAST_OF_ROUGH = 1e-4
"""The same as a share of a larger tolerance."""

_LAST_STEP = 1e-6
"""A share of f: a Newton step that gains no more leads to all digits that matter."""

_ROUNDING = 1e-12
"""Share of f by which sums in another order may differ."""

_RESTARTS = 20
"""Of the search in a wide union, from supports of which a part is dropped."""

_LONGER, _SHORTER, _MUCH_SHORTER = 0.7, 2.5, 10.0
"""What α is multiplied by after a success, and after failures with and without new features."""

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
        How many features outside the support are considered at a time. By default at least 50, so
        many at first that a Hessian is short, and as many as ``message_bytes`` allows where these
        gain nothing.
    message_bytes
        How long an answer of a site may be, if 50 candidates do not take more already; answers of
        more than five sites share five times as much. Slopes are float32 then, and Hessians have
        sixteen bits an entry, or eight if that is too long. None: neither are numbers rounded, nor
        do bytes matter, as in one process.
    tolerance
        Stop exchanging features when the last two splices have lowered f by less than this share.
    start_at
        Where to begin; 0 by default. It is projected onto the constraint.
    restarts
        How often to drop a part of the support at the end and to go on from there, all at once. As
        long as one of them comes out lower it is done again.
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
    message_bytes: int | None = 2**20
    tolerance: float = _USUAL_TOLERANCE
    start_at: FloatArray | None = None
    restarts: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.sparsity, Sparsity):
            check_count("sparsity", self.sparsity)
        if self.candidates is not None:
            check_count("candidates", self.candidates)
        if self.message_bytes is not None:
            check_count("message_bytes", self.message_bytes)
        if self.restarts != 0:
            check_count("restarts", self.restarts)
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
            quadratic=np.array([loss.is_quadratic and len(shape) == 1]),
            best=begin,
            best_objective=np.array([np.inf]),
            bend=np.ones(1),
            features=np.empty(0),
            triangles=np.empty(0),
            rounding=np.empty(0),
            accepted=np.empty(0),
            diagonal=np.zeros(shape, order="F"),
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

    def request(self, state: State) -> Slopes | Curvature:
        """Ask for slopes at a new x, then for curvature on the features they point to."""
        is_short, diagonal = self.message_bytes is not None, state.memory["diagonal"]
        if "ending" in state.memory:
            fine = "fine" in state.memory
            support = np.flatnonzero(flatten(state.x))
            units = _only(powers_of_two(diagonal), support) if is_short else None
            is_known = _places(state, "features").size > 0
            known = support if is_known else support[:0]
            bits = 16 if fine else self._bits(state, support)
            return Curvature(state.x, support, known, units, bits)
        if "union" in state.memory:
            models = models_of(self.sparsity, state.x.shape)
            union = _places(state, "union")
            units = _only(models.units(diagonal), union) if is_short else None
            known, bits = self._kept(state, union), self._bits(state, union)
            request = models.request(state.x, union, known, units, bits)
            anchor = state.memory.get("anchor", state.x)
            if np.array_equal(anchor, state.x):
                return request
            return replace(request, x=anchor, only_second=True)
        support = self._stepped_on(state)
        units = _only(powers_of_two(diagonal), support) if is_short else None
        is_new = not (_is_kept(state) and diagonal.any())
        bits = self._bits(state, support)
        return Slopes(state.x, support, units, bits, with_diagonal=is_new)

    def update(self, state: State, answers: Answers) -> State:
        """Choose candidates, or splice; where f has risen, mend or take back."""
        models = models_of(self.sparsity, state.x.shape)
        is_long = models.sparsity >= _LONG_WORK
        what = f"choosing {models.sparsity:,} features"
        with one_thread(), told_of(what) if is_long else nullcontext():
            return self._updated(state, answers, models)

    def _updated(self, state: State, answers: Answers, models: Models) -> State:
        asked = self.request(state)
        if "ending" in state.memory:
            assert isinstance(asked, Curvature)
            return self._finish(state, asked, answers)
        if isinstance(asked, Curvature):
            return self._splice(state, asked, answers, models)
        moved, gain = self._newton(state, asked, answers, models)
        state = state.remember(sites=np.array([float(answers.count)]))
        if answers.average("objective") <= _best_objective(state):
            if "diagonal" in answers.sums:
                state = state.remember(diagonal=answers.total("diagonal"))
            return self._choose_candidates(state, answers, models, moved, gain)
        return self._mend(state, answers, models, moved, gain)

    def is_done(self, state: State) -> bool:
        """Whether the last splice gained nothing."""
        return "done" in state.memory

    def restarted(self, x: FloatArray, seed: int, generation: int) -> Sequence[Algorithm]:
        """The same from supports of which a part is dropped."""
        if generation == MOST_GENERATIONS:
            return ()
        models, random = (
            models_of(self.sparsity, x.shape),
            np.random.default_rng((seed, generation)),
        )
        starts = [models.with_less(x, random, DROPPED) for _ in range(self.restarts)]
        return [replace(self, start_at=start, restarts=0) for start in starts if start.any()]

    def divergence_advice(self) -> str:
        """What a user can do when a run diverges."""
        return "Rescale the features or add an ℓ2 term, such as loss=Logistic(l2=0.01)."

    def _choose_candidates(
        self, state: State, answers: Answers, models: Models, moved: FloatArray, gain: float
    ) -> State:
        """x is the best so far: step on its support, and take features that promise most."""
        objective = answers.average("objective")
        l2 = float(state.memory["l2"][0])
        gradient = answers.mean("gradient") + l2 * state.x
        if not (state.memory["accepted"].size or state.memory["diagonal"].any()):
            _warn_if_straight(answers.mean("gradient"))
        diagonal = state.memory["diagonal"] / answers.weight + l2
        bend = 1.0  # the Hessian of a single class is exact
        if models.classes > 1 and "trial" in state.memory:
            bend = max(_LEAST_BEND, _LONGER * float(state.memory["bend"][0]))
        if not np.array_equal(state.x != 0, state.memory["best"] != 0):
            # They were refused in place of another support, and candidates are others now.
            state = state.forget("refused", "wide")
        narrow, wide = (
            models.union(state.x, gradient, diagonal, beside)
            for beside in self._beside(state, models)
        )
        state = state.forget("trial", "mended").remember(
            best=state.x,
            best_objective=np.array([objective]),
            accepted=np.append(state.memory["accepted"], objective),
            bend=np.array([bend]),
            narrow=narrow.astype(np.float64),
            ranked=wide.astype(np.float64),
        )
        if self._is_slow(state, models):
            return self._once_more(state, moved) or self._end(state, moved, gain)
        if narrow.size == 0:
            return state.remember(done=np.ones(1)).step(state.x, 0)
        if state.memory["accepted"].size == 2 and self._bits(state, wide) == 16:
            narrow, state = wide, state.remember(wide=np.ones(1))  # as well now as in the end
        if _is_kept(state):
            known = _places(state, "features")
            state = state.remember(gradient=gradient)
            if known.size and np.isin(narrow, known, assume_unique=True).all():
                # All second derivatives are known: no need to ask for them.
                return self._try(state.remember(best_gradient=gradient[known]), models)
        return self._ask(state, narrow).step(state.x if "anchor" in state.memory else moved, 0)

    def _ask(self, state: State, union: Int64Array) -> State:
        """Ask for curvature on a union, and on all that is known as long as that is not too much.

        Of the squared loss: then all of it is part of the model.
        """
        if _is_kept(state):
            both = np.union1d(union, _places(state, "features"))
            if both.size <= self._most_known(union):
                union = both
        return state.remember(union=union.astype(np.float64))

    def _splice(self, state: State, request: Curvature, answers: Answers, models: Models) -> State:
        """Move to the best τ-sparse point of the model."""
        known, rounding = None, rounding_told(request, answers)
        if request.known.size:
            features = _places(state, "features")
            known = part_of_triangle(state.memory["triangles"], features, request.known)
            places = np.searchsorted(request.support, request.known)
            before = state.memory["rounding"][np.searchsorted(features, request.known)]
            rounding[places] = np.maximum(rounding[places], before)
        state = state.remember(
            features=state.memory["union"],
            triangles=matrix_told(request, answers.mean("hessian"), known),
            rounding=rounding,
        ).forget("union")
        if request.only_second:
            gradient = state.memory["gradient"][request.support]
            return self._try(state.remember(best_gradient=gradient), models)
        state = state.remember(anchored=request.x)
        objective, best = answers.average("objective"), state.memory["best"]
        slack = _ROUNDING * abs(objective)
        if objective > _best_objective(state) + slack and not np.array_equal(state.x, best):
            # Newton's step went too far: ask again where it began.
            state = state.remember(bend=_SHORTER * state.memory["bend"])
            return self._ask(state, request.support).step(best, 0)
        penalty = float(state.memory["l2"][0]) * models.on_union(state.x, request.support)
        state = state.remember(
            best=state.x,
            best_objective=np.array([objective]),
            best_gradient=answers.mean("gradient") + penalty,
        )
        return self._try(state, models)

    def _try(self, state: State, models: Models) -> State:
        """Go from the best x to the models' lowest point, or to another that may be lower."""
        refused, searches = state.memory.get("refused", np.empty(0)).size, "wide" in state.memory
        if refused >= MOST_REFUSALS:
            return self._settle(state, models)
        moved, gain = models.lowest(_known(state), _RESTARTS if searches else 0)
        if self._is_promising(state, moved, gain):
            return self._tried(state, moved, gain)
        if refused or (searches and not _flag(state, "quadratic")):
            # The model cannot be trusted with all exchanges at once.
            found = [
                (gain, moved)
                for moved, gain in models.exchanges(_known(state, 1.0), MOST_REFUSALS)
                if self._is_promising(state, moved, gain)
            ]
            if found:
                gain, moved = max(found, key=lambda entry: entry[0])
                return self._tried(state, moved, gain)
        return self._settle(state, models)

    def _is_promising(self, state: State, moved: FloatArray, gain: float) -> bool:
        """Whether a point may be lower that has other features, or is much lower."""
        best = state.memory["best"]
        least = self.tolerance if np.array_equal(moved != 0, best != 0) else self._least
        if np.count_nonzero(moved) > np.count_nonzero(best):
            least = _LAST_DIGITS  # room for further features is filled, whatever they gain
        return gain > least * _scale(state) and not _is_refused(state, moved)

    def _tried(self, state: State, moved: FloatArray, gain: float) -> State:
        """Go to a point that may be lower; if it is near, second derivatives are kept."""
        is_near = gain <= NEAR * _scale(state) and moved.ndim == 1
        if is_near and not _flag(state, "quadratic"):
            state = state.remember(anchor=state.memory["anchored"])
        else:
            state = state.forget("anchor")
        return state.remember(trial=np.array([np.inf])).step(moved, 0)

    def _asked_anew(self, state: State, moved: FloatArray) -> State | None:
        """Ask for second derivatives at Newton's step from the best x, if they come from elsewhere.

        Those that are known are precise enough for the step, and f there is told as well.
        """
        best = state.memory["best"]
        if "anchor" not in state.memory or np.array_equal(state.memory["anchor"], best):
            return None
        state = state.forget("anchor", "refused").remember(features=np.empty(0))
        union, ranked = _places(state, "narrow"), _places(state, "ranked")
        if self._bits(state, ranked) == 16:
            union, state = ranked, state.remember(wide=np.ones(1))
        return self._ask(state, union).step(moved, 0)

    def _widened(self, state: State) -> State | None:
        """Look farther, unless that has been done already, or is not much farther."""
        ranked, features = _places(state, "ranked"), _places(state, "features")
        both = np.union1d(ranked, features)
        if "wide" in state.memory or both.size < WORTHWHILE * features.size:
            return None
        state = state.forget("refused").remember(wide=np.ones(1))
        return self._ask(state, ranked).step(state.memory["best"], 0)

    def _once_more(self, state: State, moved: FloatArray) -> State | None:
        """After splices that gained little: look farther, or anew if that is cheap."""
        wider = self._widened(state)
        if wider is not None:
            return wider
        if self.candidates is not None or "again" in state.memory:
            return None
        if self._bits(state, _places(state, "narrow")) == 8:
            return None
        return self._asked_anew(state.remember(again=np.ones(1)), moved)

    def _settle(self, state: State, models: Models) -> State:
        """Look anew, and farther once; if that is of no use, make steps on the support."""
        moved, gain = models.lowest_on_support(_known(state))
        found = self._asked_anew(state, moved) or self._widened(state)
        if found is not None:
            return found
        if "wide" not in state.memory:  # there is nothing else to look at, but it can be searched
            return self._try(state.remember(wide=np.ones(1)), models)
        return self._end(state, moved, gain)

    def _end(self, state: State, moved: FloatArray, gain: float) -> State:
        """Exchange no more features: make steps on the support as long as these are of use."""
        best, features = state.memory["best"], _places(state, "features")
        support = np.flatnonzero(flatten(best))
        state = state.forget("union").remember(bend=np.ones(1))
        is_worth = self._is_worth(state, gain)
        if not is_worth or self._is_too_much(support):
            return state.remember(done=np.ones(1)).step(moved if gain > 0 else best, 0)
        if _flag(state, "quadratic") and np.isin(support, features, assume_unique=True).all():
            state = state.remember(
                triangles=part_of_triangle(state.memory["triangles"], features, support),
                rounding=state.memory["rounding"][np.searchsorted(features, support)],
                features=support.astype(np.float64),
            )
        else:
            state = state.remember(features=np.empty(0))
        return state.remember(ending=np.ones(1)).step(moved, 0)

    def _finish(self, state: State, request: Curvature, answers: Answers) -> State:
        """Make a step on the support, or a shorter one from where the last began."""
        objective, is_fresh = answers.average("objective"), request.known.size == 0
        if objective > _best_objective(state):
            return self._step_shorter(state, request)
        if is_fresh:
            state = state.remember(
                features=request.support.astype(np.float64),
                triangles=matrix_told(request, answers.mean("hessian")),
                rounding=rounding_told(request, answers),
            )
        l2, bend = float(state.memory["l2"][0]), state.memory["bend"]
        gradient = answers.mean("gradient") + l2 * flatten(state.x)[request.support]
        state = state.remember(
            best=state.x, best_objective=np.array([objective]), last_gradient=gradient
        )
        moved, gain = self._step_on(state, state.x, request.support, gradient)
        if not self._is_worth(state, gain) or (is_fresh and gain <= _LAST_STEP * _scale(state)):
            return state.remember(done=np.ones(1)).step(moved if gain > 0 else state.x, 0)
        before = float(state.memory.get("last_gain", np.array([np.inf]))[0])
        if not is_fresh and bend[0] == 1.0 and gain > _SLOW * before:
            # What is known is too rough, or from too far away, to end with: ask again.
            state = state.remember(fine=np.ones(1), features=np.empty(0))
        bend = np.maximum(bend / _SHORTER, 1.0)
        return state.remember(last_gain=np.array([gain]), bend=bend).step(moved, 0)

    def _step_shorter(self, state: State, request: Curvature) -> State:
        """The last step led too far: begin where it began."""
        best, bend = state.memory["best"], _MUCH_SHORTER * state.memory["bend"]
        if bend[0] > _MOST_BEND:
            return state.remember(done=np.ones(1)).step(best, 0)
        state = state.remember(bend=bend)
        if request.known.size == 0 or "last_gradient" not in state.memory:
            return state.remember(features=np.empty(0)).step(best, 0)
        moved, gain = self._step_on(state, best, request.support, state.memory["last_gradient"])
        if self._is_worth(state, gain):
            return state.step(moved, 0)
        return state.remember(done=np.ones(1)).step(best, 0)

    def _step_on(
        self, state: State, x: FloatArray, support: Int64Array, gradient: FloatArray
    ) -> tuple[FloatArray, float]:
        """The lowest point of the model that is remembered on a support, and what it gains."""
        hessian = from_triangle(state.memory["triangles"], support.size)
        hessian = state.memory["bend"][0] * above_rounding(hessian, state.memory["rounding"])
        hessian = hessian + float(state.memory["l2"][0]) * np.eye(support.size)
        return newton_point(x, support, gradient, hessian)

    def _is_slow(self, state: State, models: Models) -> bool:
        """Whether the last few splices gained next to nothing."""
        accepted = state.memory["accepted"][-PATIENCE - 1 :]
        is_full = models.size_of(state.x) >= models.most
        return bool(
            is_full
            and accepted.size > PATIENCE
            and accepted[0] - accepted[-1] <= self.tolerance * _scale(state)
        )

    def _is_worth(self, state: State, gain: float) -> bool:
        """Whether a gain is more than nothing."""
        return gain > self._least * _scale(state)

    @property
    def _least(self) -> float:
        """A share of f that is not worth another round: of a rough model that is soon so."""
        is_rough = self.tolerance > _USUAL_TOLERANCE
        return _LAST_OF_ROUGH * self.tolerance if is_rough else _LAST_DIGITS

    def _mend(
        self, state: State, answers: Answers, models: Models, moved: FloatArray, gain: float
    ) -> State:
        """The model misjudged x: make Newton's steps on its support while they promise to pay."""
        best, bend = state.memory["best"], state.memory["bend"]
        if np.array_equal(state.x != 0, best != 0):
            bend = _MUCH_SHORTER * bend
            if bend[0] > _MOST_BEND:
                return state.remember(done=np.ones(1)).step(best, 0)
            return self._settle(state.remember(bend=bend), models)
        objective, mended = answers.average("objective"), _count(state, "mended")
        promises = objective - 2.0 * gain < _best_objective(state)
        if promises and objective < state.memory["trial"][0] and mended < MOST_MENDINGS:
            return state.remember(
                trial=np.array([objective]), mended=np.array([mended + 1.0])
            ).step(moved, 0)
        gave_up = np.any((best != 0) & (state.x == 0))
        if not (gave_up or _flag(state, "quadratic")) and bend[0] < _MOST_BEND:
            # A step along these features leads to a lower f if only it is short enough.
            return self._try(state.forget("mended").remember(bend=_MUCH_SHORTER * bend), models)
        refused = np.append(state.memory.get("refused", np.empty(0)), _digest(state.x))
        state = state.forget("mended").remember(refused=refused, bend=_SHORTER * bend)
        moved, _ = models.lowest_on_support(_known(state))
        return self._asked_anew(state, moved) or self._try(state, models)

    def _newton(
        self, state: State, request: Slopes, answers: Answers, models: Models
    ) -> tuple[FloatArray, float]:
        """Newton's step on the support, as far as second derivatives there are known."""
        support = np.flatnonzero(flatten(state.x))
        features = _places(state, "features")
        if request.support.size:
            state = state.remember(
                triangles=matrix_told(request, answers.mean("hessian")),
                rounding=rounding_told(request, answers),
            )
        elif _is_kept(state) and np.isin(support, features, assume_unique=True).all():
            state = state.remember(
                triangles=part_of_triangle(state.memory["triangles"], features, support),
                rounding=state.memory["rounding"][np.searchsorted(features, support)],
            )
        elif models.classes > 1 and models.holds(features, state.x):
            return self._step_by_class(state, answers, models)
        else:
            return state.x, 0.0
        gradient = flatten(answers.mean("gradient") + float(state.memory["l2"][0]) * state.x)
        return self._step_on(state.remember(bend=np.ones(1)), state.x, support, gradient[support])

    def _step_by_class(
        self, state: State, answers: Answers, models: Models
    ) -> tuple[FloatArray, float]:
        """Of too many entries for Newton's step: by the matrices that led to x, less bent."""
        features, l2 = _places(state, "features"), float(state.memory["l2"][0])
        gradient = models.on_union(answers.mean("gradient") + l2 * state.x, features)
        bend = max(_LEAST_BEND, _LONGER * float(state.memory["bend"][0]))
        known = _known(state.remember(best_gradient=gradient), bend)
        return models.lowest_on_support(known._replace(x=state.x))

    def _stepped_on(self, state: State) -> Int64Array:
        """Entries of x for which `Slopes` asks for the Hessian."""
        support = np.flatnonzero(flatten(state.x))
        is_first = not state.memory["diagonal"].any()  # units of its entries are not known yet
        return support[:0] if is_first or _is_kept(state) or self._is_too_much(support) else support

    def _is_too_much(self, support: Int64Array) -> bool:
        """Whether a Hessian on the support would take more bytes than it is worth."""
        return support.size > MOST_UNKNOWNS or (
            self.message_bytes is not None and triangle_size(support.size) > self.message_bytes
        )

    def _beside(self, state: State, models: Models) -> tuple[int, int]:
        """How many candidates to take beside those that fill the support, at first and at most.

        More where most second derivatives are known, and only those of new ones are asked for.
        """
        if self.candidates is not None:
            return self.candidates, self.candidates
        is_short = models.classes > 1 or (_is_kept(state) and _places(state, "features").size)
        own = models.sparsity if is_short else FEWEST_CANDIDATES
        first = max(own, FEWEST_CANDIDATES, FIRST_FEATURES // models.classes - models.sparsity)
        allowed = MOST_FEATURES
        if self.message_bytes is not None:
            allowed = int(np.sqrt(self._fair_bytes(state) / models.classes))  # in sixteen bits
        return first, max(first, allowed - models.sparsity)

    def _fair_bytes(self, state: State) -> float:
        """Of an answer, where those of many sites add up."""
        assert self.message_bytes is not None
        return self.message_bytes * min(1.0, MANY_SITES / _count(state, "sites"))

    def _bits(self, state: State, features: Int64Array) -> int:
        """Of an entry of a Hessian on them; errors of many sites cancel, and eight will do."""
        if self.message_bytes is None or "sites" not in state.memory:
            return 16
        cancelled = np.sqrt(min(1.0, MANY_SITES / _count(state, "sites")))
        return 16 if 2 * triangle_size(features.size) <= cancelled * self._fair_bytes(state) else 8

    def _most_known(self, union: Int64Array) -> int:
        """Features whose second derivatives are remembered."""
        if self.candidates is not None:
            return union.size
        if self.message_bytes is None:
            return MOST_KNOWN
        return max(union.size, int(np.sqrt(2.0 * self.message_bytes)))

    def _kept(self, state: State, union: Int64Array) -> Int64Array:
        """Features of a union between which nothing needs to be asked again."""
        known = _places(state, "features")
        return known[np.isin(known, union)] if _is_kept(state) else known[:0]


def _only(units: FloatArray, places: Int64Array) -> FloatArray:
    """Some entries, and 0 for the others, which are short to send."""
    entries = np.zeros(units.size)
    entries[places] = flatten(units)[places]
    return unflatten(entries, units.shape)


def _warn_if_straight(gradient: FloatArray) -> None:
    """Where f slopes and does not bend, nothing says how far to go."""
    if gradient.any():
        message = (
            "FedSplice has nothing to go by: the loss has a slope where the run starts, and no "
            "second derivative. Rescale the targets, or take FedIterHT, which goes by slopes."
        )
        warnings.warn(message, DivergenceWarning, stacklevel=2)


def _best_objective(state: State) -> float:
    return float(state.memory["best_objective"][0])


def _scale(state: State) -> float:
    """What gains are a share of: f, unless classes can be separated and it goes to 0."""
    begun = state.memory["accepted"][:1].sum()
    return max(abs(_best_objective(state)), _NEXT_TO_NOTHING * abs(float(begun)))


def _flag(state: State, name: str) -> bool:
    return bool(state.memory[name][0])


def _is_kept(state: State) -> bool:
    """Whether second derivatives that are known need not be asked for again."""
    return _flag(state, "quadratic") or "anchor" in state.memory


def _count(state: State, name: str) -> int:
    return int(state.memory[name][0]) if name in state.memory else 0


def _places(state: State, name: str) -> Int64Array:
    return state.memory[name].astype(np.int64)


def _known(state: State, bend: float | None = None) -> Known:
    """What sites told around the best x."""
    memory = state.memory
    bend = float(memory["bend"][0]) if bend is None else bend
    return Known(
        memory["best"],
        _places(state, "features"),
        memory["best_gradient"],
        memory["triangles"],
        bend,
        float(memory["l2"][0]),
        memory["rounding"],
    )


def _is_refused(state: State, moved: FloatArray) -> bool:
    """Whether its support was tried in place of the best one and did not help."""
    return _digest(moved) in state.memory.get("refused", ())


def _digest(x: FloatArray) -> float:
    """A number that stands for a support."""
    places = np.flatnonzero(flatten(x))
    return float(zlib.crc32(places.tobytes()))
