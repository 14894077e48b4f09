"""The losses of `fedsparse.problem.slopes` on tensors.

Scores have the shape (clients, models, classes, rows), targets and weights (clients, rows).
Weights are those of the rows over their number, and 0 where a block is padded.
"""

import torch
from torch import Tensor

from fedsparse.problem.slopes import LARGEST_LOG_RATE, LOGISTIC, POISSON, SOFTMAX, SQUARED


def to_mean_slopes(loss: int, scores: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Derivative of each client's mean loss by every score; scores are written over."""
    own = targets[:, None, None, :]
    if loss == SQUARED:
        scores.sub_(own).mul_(2.0)
    elif loss == LOGISTIC:
        scores.sigmoid_().sub_(own)
    elif loss == POISSON:
        scores.clamp_(max=LARGEST_LOG_RATE).exp_().sub_(own)
    else:
        scores = torch.softmax(scores, 2)
        scores.sub_(_is_own_class(scores, targets))
    return scores.mul_(weights[:, None, None, :])


def mean_losses(loss: int, scores: Tensor, targets: Tensor, weights: Tensor) -> Tensor:
    """Mean loss of clients and models."""
    if loss == SOFTMAX:
        own = targets[:, None, None, :].long().expand(-1, scores.shape[1], 1, -1)
        values = torch.logsumexp(scores, 2) - scores.gather(2, own)[:, :, 0]
    else:
        values = _losses(loss, scores[:, :, 0], targets[:, None, :])
    return (values * weights[:, None, :]).sum(-1)


def curvatures(loss: int, scores: Tensor, weights: Tensor) -> Tensor:
    """Second derivative of each client's mean loss by every score alone."""
    if loss == SQUARED:
        found = torch.full_like(scores, 2.0)
    elif loss == POISSON:
        found = scores.clamp(max=LARGEST_LOG_RATE).exp_()
    elif loss == LOGISTIC:
        tail = torch.exp(-scores.abs())
        found = tail / (1.0 + tail) ** 2
    else:
        chances = torch.softmax(scores, 2)
        found = chances * (1.0 - chances)
    return found * weights[:, None, None, :]


def _losses(loss: int, scores: Tensor, targets: Tensor) -> Tensor:
    if loss == SQUARED:
        return (targets - scores) ** 2
    if loss == LOGISTIC:
        return torch.log1p(torch.exp(-scores.abs())) + scores.clamp(min=0.0) - targets * scores
    rates = scores.clamp(max=LARGEST_LOG_RATE).exp()
    beyond = (scores - LARGEST_LOG_RATE).clamp(min=0.0)
    return rates * (1.0 + beyond) - targets * scores + torch.xlogy(targets, targets) - targets


def _is_own_class(scores: Tensor, targets: Tensor) -> Tensor:
    classes = torch.arange(scores.shape[2], device=scores.device, dtype=targets.dtype)
    return (targets[:, None, None, :] == classes[:, None]).to(scores.dtype)
