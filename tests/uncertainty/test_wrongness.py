"""The probability of being wrong: counted in cells, fitted, and never worse than confidence where doubt tells nothing."""

import numpy as np
import pytest
import torch

from coranet.errors import InputError
from coranet.metrics import expected_calibration_error
from coranet.types import Prediction, Regions
from coranet.uncertainty.tally import CELLS, Signs, Tally
from coranet.uncertainty.wrongness import PRIOR, Wrongness, fit_wrongness


def predicted(seed=0, shape=(60, 60), classes=3, doubt=None):
    """Probabilities that claim too much, and a score between 0 and 1."""
    generator = torch.Generator().manual_seed(seed)
    logits = 3 * torch.randn(1, classes, *shape, generator=generator)
    score = torch.rand(1, *shape, generator=generator) if doubt is None else doubt
    guess = logits.argmax(dim=1).to(torch.uint8)
    regions = Regions(certain=score < 0.8, score=score, maps={"conservative": guess, "radical": guess})
    return Prediction(probabilities=logits.softmax(dim=1), regions=regions)


def truth_of(prediction, wrong, seed=0):
    """A label that is wrong with these probabilities."""
    drawn = torch.rand(wrong.shape, generator=torch.Generator().manual_seed(1000 + seed))
    guess = prediction.probabilities.argmax(dim=1)
    return torch.where(drawn < wrong, (guess + 1) % prediction.probabilities.shape[1], guess)


def test_a_tally_counts_every_voxel_once_and_adds_up():
    prediction = predicted()
    label = truth_of(prediction, torch.full((1, 60, 60), 0.2))
    whole = Tally.of(prediction, label)
    guess = prediction.probabilities.argmax(dim=1)
    assert whole.voxels.shape == (CELLS,)
    assert whole.voxels.sum() == 3600
    assert whole.wrong.sum() == (guess != label).sum()
    assert whole.found.sum(axis=1).tolist() == [(guess == k).sum() for k in (1, 2)]
    assert whole.uncertain == (prediction.regions.score >= 0.8).sum()
    twice = whole + whole
    np.testing.assert_array_equal(twice.voxels, 2 * whole.voxels)
    assert twice.uncertain == 2 * whole.uncertain


def test_the_prior_is_the_word_of_softmax():
    prediction = predicted()
    torch.testing.assert_close(Wrongness()(prediction), 1 - prediction.probabilities.amax(dim=1), atol=1e-5, rtol=0)


def test_a_fit_finds_how_often_confidence_is_wrong():
    """Labels are wrong three times as often as 1 - p says; the fit says so, on a case that it has not seen."""
    tallies = []
    for seed in range(4):
        prediction = predicted(seed)
        wrong = (3 * (1 - prediction.probabilities.amax(dim=1))).clamp(max=0.9)
        tallies.append(Tally.of(prediction, truth_of(prediction, wrong, seed)))
    fit = fit_wrongness(tallies)
    assert abs(fit.weights[-1]) < 0.02  # the score was drawn at random, and helps to find nothing
    fresh = predicted(9)
    wrong = (3 * (1 - fresh.probabilities.amax(dim=1))).clamp(max=0.9)
    right = (truth_of(fresh, wrong, 9) == fresh.probabilities.argmax(dim=1)).numpy()
    errors = [expected_calibration_error((1 - one(fresh)).numpy(), right) for one in (fit, Wrongness())]
    assert errors[0] < 0.05 < errors[1]


def test_doubt_of_the_estimator_counts_where_it_finds_errors():
    tallies = []
    for seed in range(3):
        prediction = predicted(seed)
        tallies.append(Tally.of(prediction, truth_of(prediction, prediction.regions.score**3, seed)))
    fit = fit_wrongness(tallies)
    assert fit.weights[-1] > 0.5
    gained = [tally.errors_held(fit.in_cells()) - tally.errors_held(Wrongness().in_cells()) for tally in tallies]
    assert min(gained) > 0.1


def test_expected_dice_is_that_of_the_errors_that_are_said():
    """With a fit that is true, the Dice to expect is about the Dice there is."""
    prediction = predicted(3)
    label = truth_of(prediction, 1 - prediction.probabilities.amax(dim=1), 3)
    guess = prediction.probabilities.argmax(dim=1)
    expected = Wrongness().expected_dice(Tally.of(prediction))
    for k in (1, 2):
        dice = 2 * ((guess == k) & (label == k)).sum() / ((guess == k).sum() + (label == k).sum())
        assert expected[k - 1] == pytest.approx(float(dice), abs=0.03)


def test_what_is_not_found_is_expected_to_be_missed():
    prediction = predicted()
    prediction.probabilities[:, 1] = 0
    expected = Wrongness().expected_dice(Tally.of(prediction))
    assert expected[0] == 0
    assert expected[1] > 0.5


def test_doubts_of_the_background_do_not_add_up():
    """Two cases of the same object: the background of one is unsure of itself, which says nothing of the object."""
    prediction = predicted()
    guess = prediction.probabilities.argmax(dim=1)
    unsure = prediction.probabilities.clone()
    unsure[:, 0] = torch.where(guess == 0, 0.4, unsure[:, 0])
    unsure[:, 1:] = torch.where((guess == 0)[:, None], 0.3, unsure[:, 1:])
    both = [Prediction(probabilities=one, regions=prediction.regions) for one in (prediction.probabilities, unsure)]
    sure, doubtful = (Wrongness().expected_dice(Tally.of(one)) for one in both)
    np.testing.assert_array_equal(sure, doubtful)


def test_cells_lie_where_they_say():
    middles = Signs.of_cells()
    assert middles.cells().tolist() == list(range(CELLS))


@pytest.mark.parametrize("weights", [(), (0.0,) * 3, (0.0, 1e3, 0.0, 0.0), (float("nan"), *PRIOR[1:])])
def test_weights_beyond_all_use_are_refused(weights):
    with pytest.raises(InputError, match="4 weights"):
        Wrongness(weights=weights)
