"""The Dice to expect: held to what voxels say, moved by cases, with an interval that holds as often as it claims."""

from math import isnan, nan

import numpy as np
import pytest

from coranet.errors import InputError
from coranet.metrics.case_facts import CaseFacts, ClassFacts
from coranet.metrics.expectation import DiceFit, Judged, fit_dice


def facts(expected, agreement=nan):
    return ClassFacts(millilitres=1.0, expected=expected, agreement=agreement)


def cases(n, seed, bias=0.0, noise=0.3):
    """Dice that lie off what is expected by a bias and noise, in logits."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(1.5, 0.8, n)
    expected, dice = 1 / (1 + np.exp(-logits)), 1 / (1 + np.exp(-(logits + bias + rng.normal(0, noise, n))))
    return [
        Judged(case=f"c{i}", patient=f"p{i}", facts=facts(e), dice=d)
        for i, (e, d) in enumerate(zip(expected.tolist(), dice.tolist(), strict=True))
    ]


def test_without_cases_enough_there_is_no_fit():
    assert fit_dice(cases(2, 0)) is None
    assert fit_dice([]) is None
    assert fit_dice(cases(3, 0)) is not None


def test_few_cases_move_it_little_and_many_as_far_as_they_say():
    one = facts(0.7)
    few, many = fit_dice(cases(3, 1, bias=-1)), fit_dice(cases(200, 1, bias=-1))
    assert few is not None
    assert many is not None
    true = 1 / (1 + np.exp(-(np.log(0.7 / 0.3) - 1)))
    assert many.expect(one) == pytest.approx(true, abs=0.03)
    assert many.expect(one) < few.expect(one) < 0.7
    assert isnan(many.expect(facts(nan)))


def test_what_would_make_doubt_a_good_sign_is_not_taken():
    turned = [
        Judged(case=j.case, patient=j.patient, facts=facts(1 - j.facts.expected), dice=j.dice) for j in cases(60, 2)
    ]
    fit = fit_dice(turned)
    assert fit is not None
    assert min(fit.weights[1:]) >= 0


def test_the_interval_holds_as_often_as_it_claims():
    inside = []
    for seed in range(10):
        fit = fit_dice(cases(30, seed))
        assert fit is not None
        assert fit.level == 0.9
        for one in cases(200, 100 + seed):
            low, high = fit.interval(fit.expect(one.facts))
            inside.append(low <= one.dice <= high)
    assert 0.87 < np.mean(inside) < 0.97
    six = fit_dice(cases(6, 3))
    assert six is not None
    assert six.level == pytest.approx(6 / 7)
    assert six.interval(0.99)[1] == 1.0


def test_fits_beyond_all_use_are_refused():
    for broken in ({"spread": -1.0}, {"spread": 1e9}, {"weights": (0.0, 1e9, 0.0)}, {"level": 2.0}, {"spread": nan}):
        with pytest.raises(InputError, match="fit of Dice"):
            DiceFit(**broken)


def test_doubt_is_per_organ_and_not_per_image():
    small, large = (CaseFacts(classes={"a": ClassFacts(millilitres=size)}, uncertain=2.0, look={}) for size in (1, 10))
    assert small.doubt == 2.0
    assert large.doubt == 0.2
    assert CaseFacts(classes={"a": ClassFacts(millilitres=0.0)}, uncertain=0.0, look={}).doubt == np.inf
