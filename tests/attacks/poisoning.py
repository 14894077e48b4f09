"""A site that answers what its rows do not say, for tests of what becomes of the model."""

import numpy as np

from fedsparse.compute.matrices import RoundedStack
from fedsparse.compute.rounded_matrix import RoundedMatrix, code_type, largest_code
from fedsparse.compute.stacks import DenseStack, Stack, flatten
from fedsparse.federation.payloads import Described, from_bytes, to_bytes
from fedsparse.federation.sites.site import Site
from fedsparse.requests import Curvature, LocalSteps, Slopes

PLANTED = 5
"""The feature that a planted slope makes important."""
MANY = 10**6


class PoisonedSite(Site):
    """A site whose answers go through a function of the request and the answer's parts."""

    def __init__(self, *arguments, change, times_rows=1):
        super().__init__(*arguments)
        self._change = change
        self._times = times_rows

    def reply(self, message, run, crossed=None):
        said = from_bytes(super().reply(message, run, crossed))
        if isinstance(said, Described) and self._times > 1:
            said.told["description"]["rows"] *= self._times
        return to_bytes(said)

    def _answer_of(self, engine, lens, request):
        own = super()._answer_of(engine, lens, request)
        if own is None:
            return None
        answer, mass = own
        parts = {
            name: next(field.each()) if isinstance(field, Stack) else field
            for name, field in answer.items()
        }
        changed = self._change(request, parts)
        told = {name: _like(answer[name], np.asarray(own, float)) for name, own in changed.items()}
        return {name: told.get(name, own) for name, own in answer.items()}, mass * self._times


def _like(honest, part):
    """A part of an answer in the form that the server expects."""
    if isinstance(honest, RoundedStack):
        return RoundedStack(honest.shape, [[_rounded(part, *honest.shape.blocks)]])
    return DenseStack(flatten(part)[None], part.shape) if isinstance(honest, Stack) else part


def _rounded(entries, asked):
    """Any entries, as far as they can be told: diagonals only by their size."""
    matrix = np.zeros((asked.size, asked.size))
    matrix[asked.mask] = entries
    spread, above = np.abs(np.diag(matrix)), np.triu(asked.mask, 1)
    roots = np.sqrt(spread)
    correlations = (matrix / np.maximum(roots * roots[:, None], 1e-9))[above]
    step = float(np.abs(correlations).max(initial=0.0)) / largest_code(asked.bits)
    codes = np.rint(correlations / (step or 1.0)).astype(code_type(asked.bits))
    held, mean = np.arange(asked.size), np.empty(0)
    return RoundedMatrix(held, 0.0, mean, spread, step, None, codes)


def honest(request, parts):
    """Nothing is changed."""
    return {}


def steeper(request, parts):
    """Ten times the slopes; ten times as far, where x is told instead."""
    if isinstance(request, LocalSteps):
        return {"x": request.x + 10.0 * (parts["x"] - request.x)}
    return {"gradient": 10.0 * parts["gradient"]} if "gradient" in parts else {}


def gentler(request, parts):
    """Half the slopes: no bound is passed."""
    return {"gradient": 0.5 * parts["gradient"]} if "gradient" in parts else {}


def planted(request, parts):
    """50 more on the slope of one feature, in every local step where these are asked for."""
    if isinstance(request, LocalSteps):
        moved = parts["x"].copy()
        moved[PLANTED] -= request.steps * request.step_size * 50.0
        return {"x": moved}
    if isinstance(request, Slopes):
        return {"gradient": parts["gradient"] + 50.0 * (np.arange(request.x.size) == PLANTED)}
    if isinstance(request, Curvature):
        return {"gradient": parts["gradient"] + 50.0 * (request.support == PLANTED)}
    return {}


def concave(request, parts):
    """The second derivatives turned round."""
    return {name: -parts[name] for name in ("diagonal", "hessian") if name in parts}


def far_below(request, parts):
    """f = −1e9."""
    return {"objective": np.array([-1e9])} if "objective" in parts else {}
