"""Ranks behind the AUC, against `scipy.stats`."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import rankdata

from fedsparse.requests.judged import _ranks


@given(st.lists(st.integers(-3, 3), max_size=30))
def test_equal_scores_share_the_mean_of_their_ranks(scores):
    np.testing.assert_array_equal(_ranks(np.array(scores, float)), rankdata(scores))
