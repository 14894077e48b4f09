"""The theorems' constants against numbers worked out by hand, and what the notes claim."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import fedsparse as fs
from fedsparse.research.theory import (
    Setting,
    compare_rates,
    fed_ht_bounds,
    fed_iter_ht_bounds,
)


def setting(**changes):
    """κ = 2, α = 0.02: both theorems hold."""
    usual = {
        "sparsity": 10_001, "true_sparsity": 1, "local_steps": 1, "smoothness": 2.0,
        "convexity": 1.0, "squared_distance": 4.0, "squared_gradient": 0.5,
        "squared_mean_gradient": 0.2, "variance": 3.0, "precision": 0.01,
    }  # fmt: skip
    return Setting(**{**usual, **changes})


class TestSetting:
    def test_alpha_and_condition_number(self):
        assert setting().alpha == pytest.approx(0.02)
        assert setting(sparsity=200, true_sparsity=100).alpha == 2.0
        assert setting().condition_number == 2.0
        assert setting().shrinkage == pytest.approx(23 / 24)

    def test_no_convexity_means_an_infinite_condition_number(self):
        assert setting(convexity=0.0).condition_number == math.inf
        assert setting(convexity=0.0).shrinkage == 1.0

    @pytest.mark.parametrize("true_sparsity", [10_001, 20_000])
    def test_the_target_must_be_sparser_than_the_iterates(self, true_sparsity):
        with pytest.raises(fs.OptionError, match=f"true_sparsity is {true_sparsity}.*below"):
            setting(true_sparsity=true_sparsity)

    @pytest.mark.parametrize("name", ["smoothness", "precision"])
    @pytest.mark.parametrize("value", [0.0, -1.0, math.nan])
    def test_what_must_be_positive(self, name, value):
        with pytest.raises(fs.OptionError, match=f"{name} must be a number > 0"):
            setting(**{name: value})

    def test_counts_must_be_counts(self):
        with pytest.raises(fs.OptionError, match="local_steps"):
            setting(local_steps=0)


class TestFedHT:
    def test_constants_by_hand(self):
        stated, _ = fed_ht_bounds(setting(local_steps=3))
        power = (23 / 24) ** 3
        assert stated.step_size == pytest.approx(1 / 12)
        assert stated.rate == pytest.approx(1.04 * power)
        assert stated.kept == pytest.approx(1.02 * power)
        assert stated.slack == pytest.approx(0.02 * power)
        assert stated.noise == pytest.approx(1.02 * (1 - power) * 2 / 4)  # (1+α)(1−c^K) κ/l²
        assert stated.bias == pytest.approx(stated.noise * 0.5 / (1 - stated.kept))
        assert stated.first_batch == pytest.approx(stated.noise * 3 / (stated.slack * 4))
        assert stated.required_sparsity == pytest.approx(16 * 23**2 + 1)
        assert not stated.is_void
        assert stated.notes == ()

    def test_rounds_as_stated_miss_a_square(self):
        stated, recomputed = fed_ht_bounds(setting(local_steps=10))
        assert stated.rounds == math.ceil(math.log(2 / 0.01) / -math.log(stated.rate))
        assert recomputed.rounds == math.ceil(math.log(4 / 0.01) / -math.log(stated.rate))
        assert stated.rate**recomputed.rounds * 4 <= 0.01

    def test_no_rounds_are_needed_from_close_by(self):
        assert fed_ht_bounds(setting(squared_distance=1e-5))[1].rounds == 0

    def test_recomputed_differs_in_bias_and_needed_sparsity_only(self):
        stated, recomputed = fed_ht_bounds(setting(local_steps=5))
        assert recomputed.rate == stated.rate
        assert recomputed.bias == pytest.approx(5 * stated.bias)  # 1 + 2κ
        assert recomputed.required_sparsity < stated.required_sparsity

    def test_both_need_the_same_sparsity_for_one_local_step(self):
        stated, recomputed = fed_ht_bounds(setting())
        assert recomputed.required_sparsity == pytest.approx(stated.required_sparsity)

    def test_more_local_steps_lower_the_rate_and_raise_the_noise(self):
        bounds = [fed_ht_bounds(setting(local_steps=steps))[0] for steps in (1, 2, 5, 20)]
        rates, noises = [one.rate for one in bounds], [one.noise for one in bounds]
        assert rates == sorted(rates, reverse=True)
        assert noises == sorted(noises)


class TestFedIterHT:
    def test_constants_by_hand(self):
        stated, proved, recomputed = fed_iter_ht_bounds(setting(local_steps=3))
        c, power = 23 / 24, (23 / 24) ** 3
        assert stated.rate == pytest.approx(1.04**2 * c)
        assert proved.rate == pytest.approx(1.04**2 * power)
        assert recomputed.rate == pytest.approx(1.04**4 * power)
        assert stated.kept == pytest.approx(1.02**2 * c)
        assert proved.kept == pytest.approx(1.02**2 * power)
        assert recomputed.kept == pytest.approx(1.02**4 * power)
        assert stated.noise == proved.noise == pytest.approx(1.02**2 * (1 - power) * 2 / 4)
        q = 1.02 * c
        assert recomputed.noise == pytest.approx(1.02**2 * (1 + q + q**2) / 48)
        assert proved.slack == pytest.approx((0.04 + 2 * 0.02**2) * power)
        assert proved.kept + proved.slack <= proved.rate
        assert recomputed.kept + recomputed.slack == pytest.approx(recomputed.rate)
        root = math.sqrt(24 / 23) - 1
        assert stated.required_sparsity == pytest.approx(16 / root**2 + 1)

    def test_stated_and_recomputed_rates_agree_for_one_local_step(self):
        bounds = fed_iter_ht_bounds(setting())
        assert len({round(one.rate, 12) for one in bounds}) == 1
        assert len({round(one.required_sparsity, 6) for one in bounds}) == 1

    def test_needed_sparsity_is_where_the_rate_crosses_one(self):
        for version in range(3):
            needed = fed_iter_ht_bounds(setting(local_steps=4))[version].required_sparsity
            just_enough = setting(local_steps=4, sparsity=math.ceil(needed) + 1)
            too_little = setting(local_steps=4, sparsity=math.floor(needed) - 1)
            assert fed_iter_ht_bounds(just_enough)[version].rate < 1
            assert fed_iter_ht_bounds(too_little)[version].rate > 1


class TestCorollariesOnTheObjective:
    """κ = 2 and l = 2, so that ξ₁ = (1 + α)(1 − c^K)/2 and 1/(2l) is a quarter."""

    def test_of_fed_ht_by_hand(self):
        stated, recomputed = fed_ht_bounds(setting(local_steps=3))
        power = (23 / 24) ** 3
        held = 1.02 * (1 - power) / 2 / (1 - 1.02 * power)
        assert stated.initial_gap == recomputed.initial_gap == 8.0
        assert stated.objective_bias == pytest.approx((held + 0.25) * 0.2)
        assert recomputed.objective_bias == pytest.approx(2 * 5 * held * 0.5 + 0.25 * 0.2)

    def test_of_fed_iter_ht_by_hand(self):
        bounds = fed_iter_ht_bounds(setting(local_steps=3, sparsity=90_001))
        kept = 1 + 1 / 150  # 1 + α
        c, power = 23 / 24, (23 / 24) ** 3
        noise = kept**2 * (1 - power) / 2
        q = kept * c
        own_noise, own_kept = kept**2 * (1 + q + q**2) / 48, kept * q**3
        assert {one.initial_gap for one in bounds} == {8.0}
        assert [one.objective_bias for one in bounds] == pytest.approx(
            [
                (noise / (1 - kept**2 * c) + 0.25) * 0.2,
                (noise / (1 - kept**2 * power) + 0.25) * 0.2,
                2 * 5 * own_noise * 0.5 / (1 - own_kept) + 0.25 * 0.2,
            ]
        )

    def test_a_void_theorem_says_nothing_of_the_objective(self):
        for bound in fed_ht_bounds(setting(convexity=0.0)):
            assert bound.objective_bias == math.inf


class TestWhenFedIterHTHasTheSmallerRate:
    def pair(self, **changes):
        """κ_d = 4 and κ_s = 2."""
        return setting(smoothness=4.0, **changes), setting(**changes)

    @pytest.mark.parametrize("local_steps", [1, 3, 10])
    @pytest.mark.parametrize("sparsity", [200, 10_001, 100_001, 2_000_001])
    def test_the_condition_on_alpha_is_the_comparison_of_the_rates(self, sparsity, local_steps):
        whole, restricted = self.pair(sparsity=sparsity, local_steps=local_steps)
        for compared in compare_rates(whole, restricted):
            assert compared.fed_iter_ht_is_faster == (compared.fed_iter_ht < compared.fed_ht)

    def test_the_rates_are_those_of_the_theorems(self):
        whole, restricted = self.pair(local_steps=5)
        compared = compare_rates(whole, restricted)
        assert {one.fed_ht for one in compared} == {fed_ht_bounds(whole)[0].rate}
        assert [one.fed_iter_ht for one in compared] == pytest.approx(
            [bound.rate for bound in fed_iter_ht_bounds(restricted)]
        )

    def test_the_limits_by_hand(self):
        stated, proved, recomputed = compare_rates(*self.pair(local_steps=5))
        assert stated.limit == pytest.approx((47 / 48) ** 5 / (23 / 24) - 1)
        assert proved.limit == pytest.approx((47 / 46) ** 5 - 1)  # the paper's remark
        assert recomputed.limit == pytest.approx(1 / 46)

    def test_the_sparsity_needed_is_where_both_rates_are_the_same(self):
        for compared in compare_rates(*self.pair(local_steps=5))[1:]:
            needed = compared.required_sparsity
            below, above = (
                compare_rates(*self.pair(local_steps=5, sparsity=int(needed + change)))
                for change in (-1, 2)
            )
            place = ["as stated", "as proved", "recomputed"].index(compared.version)
            assert not below[place].fed_iter_ht_is_faster
            assert above[place].fed_iter_ht_is_faster

    def test_no_sparsity_is_enough_where_restriction_does_not_help(self):
        for compared in compare_rates(setting(), setting()):
            assert not compared.fed_iter_ht_is_faster
            assert compared.required_sparsity == math.inf


class TestVoid:
    @pytest.mark.parametrize("bounds", [fed_ht_bounds, fed_iter_ht_bounds])
    def test_without_strong_convexity(self, bounds):
        for bound in bounds(setting(convexity=0.0)):
            assert bound.is_void
            assert (bound.bias, bound.rounds) == (math.inf, math.inf)
            assert bound.required_sparsity == math.inf
            assert "ρ is 0" in bound.notes[0]

    @pytest.mark.parametrize("bounds", [fed_ht_bounds, fed_iter_ht_bounds])
    def test_with_the_papers_sparsity(self, bounds):
        for bound in bounds(setting(sparsity=200, true_sparsity=100)):
            assert bound.is_void
            assert "θ is" in bound.notes[0]

    def test_when_only_the_needed_sparsity_is_missed(self):
        stated, recomputed = fed_ht_bounds(setting(sparsity=5000, local_steps=20))
        assert stated.rate < 1
        assert stated.is_void
        assert "below the required" in stated.notes[0]
        assert not recomputed.is_void


class TestTheNotes:
    @given(
        st.lists(st.floats(0.1, 1.0), min_size=1, max_size=6),
        st.integers(0, 2**32 - 1),
    )
    def test_one_recomputed_step_holds_for_any_quadratic(self, curvatures, seed):
        random = np.random.default_rng(seed)
        curvature = np.array(curvatures)
        centre, x = random.standard_normal((2, curvature.size))  # x* = 0
        after = x - curvature * (x - centre) / (6 * curvature.max())
        kappa = curvature.max() / curvature.min()
        gradient = np.sum((curvature * centre) ** 2)
        bound = (1 - 1 / (12 * kappa)) * np.sum(x**2)
        bound += (1 + 2 * kappa) * gradient / (12 * curvature.max() ** 2)
        assert np.sum(after**2) <= bound * (1 + 1e-12)

    def test_one_step_as_the_paper_has_it_fails(self):
        x, centre = 0.5, 1.0  # f(x) = ½(x − 1)², l = ρ = 1, x* = 0
        after = x - (x - centre) / 6
        assert after**2 > 11 / 12 * x**2 + centre**2 / 12

    def test_a_federation_of_one_exceeds_the_stated_bias_but_not_the_recomputed(self):
        """H_τ changes nothing here, τ = d, and x* = (1, 0, …) is the best 1-sparse vector."""
        width = 10_000
        curvature = np.ones(width)
        curvature[0] = 2.0
        minimizer = np.zeros(width)
        minimizer[:2] = 1.0, 0.5
        target = np.zeros(width)
        target[0] = 1.0
        x = np.zeros(width)
        for _ in range(50 * 10):  # rounds of K = 10 steps on the only client
            x = x - curvature * (x - minimizer) / 12
        gradient = float(np.sum((curvature * (target - minimizer)) ** 2))
        known = setting(
            sparsity=width, local_steps=10, squared_distance=1.0, squared_gradient=gradient
        )
        stated, recomputed = fed_ht_bounds(known)
        assert not stated.is_void
        error = float(np.sum((x - target) ** 2))
        assert stated.rate**50 + stated.bias < error <= recomputed.bias
