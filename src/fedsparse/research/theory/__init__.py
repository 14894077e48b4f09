"""What the paper's theory says of a problem, and what is measured beside it."""

from fedsparse.research.theory.bounds import (
    FED_HT_NOTES,
    FED_ITER_HT_NOTES,
    Bound,
    fed_ht_bounds,
    fed_iter_ht_bounds,
)
from fedsparse.research.theory.conditioning import (
    Conditioning,
    global_conditioning,
    restricted_conditioning,
)
from fedsparse.research.theory.contraction import (
    Contraction,
    Reference,
    measure_contraction,
    reference_solution,
)
from fedsparse.research.theory.gradients import (
    ClientGradients,
    client_gradients,
    gradient_variances,
)
from fedsparse.research.theory.rate_comparison import RATE_NOTES, RateComparison, compare_rates
from fedsparse.research.theory.setting import Setting
from fedsparse.research.theory.study import Dissimilarity, Measurement, Study, study

__all__ = [
    "FED_HT_NOTES",
    "FED_ITER_HT_NOTES",
    "RATE_NOTES",
    "Bound",
    "ClientGradients",
    "Conditioning",
    "Contraction",
    "Dissimilarity",
    "Measurement",
    "RateComparison",
    "Reference",
    "Setting",
    "Study",
    "client_gradients",
    "compare_rates",
    "fed_ht_bounds",
    "fed_iter_ht_bounds",
    "global_conditioning",
    "gradient_variances",
    "measure_contraction",
    "reference_solution",
    "restricted_conditioning",
    "study",
]
