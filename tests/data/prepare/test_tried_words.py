"""What labels by another model are worth, by cases whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.ndimage import binary_dilation, binary_erosion

from coranet.data.prepare.tried_words import EDGES, NO_WORD, TriedWords, kinds_of

SHAPE = (40, 44, 30)


def ball(centre: tuple[int, int, int] = (18, 20, 15), radius: float = 8.0) -> np.ndarray:
    """An organ."""
    grid = np.indices(SHAPE)
    inside = sum((axis - at) ** 2 for axis, at in zip(grid, centre, strict=True)) <= radius**2
    return inside.astype(np.uint8)


def grown(truth: np.ndarray, by: int) -> np.ndarray:
    """Larger, or smaller where `by` is negative."""
    change = binary_dilation if by > 0 else binary_erosion
    return change(truth > 0, iterations=abs(by)).astype(np.uint8)


def halved(truth: np.ndarray) -> np.ndarray:
    """Without its upper half."""
    half = truth.copy()
    half[:, :, 15:] = 0
    return half


def right(heard: np.ndarray, truth: np.ndarray) -> float:
    """The share of words that are true."""
    spoken = heard != NO_WORD
    return float((heard == truth)[spoken].mean())


def test_true_words_stand() -> None:
    truth, other = ball(), ball((22, 24, 14), 7)
    heard = TriedWords.on([(truth, truth)], 2).heard(other)
    assert (heard == other).all()


@pytest.mark.parametrize("by", [2, -2])
def test_words_that_always_lie_too_far_are_put_right(by: int) -> None:
    truth, other = ball(), ball((22, 24, 14), 7)
    heard = TriedWords.on([(grown(truth, by), truth)], 2).heard(grown(other, by))
    spoken = heard != NO_WORD
    assert spoken.mean() > 0.97
    assert right(heard, other) > 0.995
    assert right(grown(other, by), other) < 0.99


def test_where_half_of_an_organ_is_missing_its_background_is_not_heard() -> None:
    truth, other = ball(), ball((22, 24, 14), 7)
    heard = TriedWords.on([(halved(truth), truth)], 2).heard(halved(other))
    missing = (other == 1) & (halved(other) == 0)
    assert (heard[halved(other) == 1] == 1).all()
    assert not (heard[missing] == 0).any()
    assert (heard == 0).mean() > 0.3  # far from the organ it is


def test_shifted_words_are_not_heard_at_their_edge_alone() -> None:
    truth, other = ball(), ball((22, 24, 14), 7)
    heard = TriedWords.on([(np.roll(truth, 2, 0), truth)], 2).heard(np.roll(other, 2, 0))
    assert right(heard, other) > 0.998
    assert right(np.roll(other, 2, 0), other) < 0.99
    assert 0.8 < (heard != NO_WORD).mean() < 1
    assert (heard == 1).any()


def test_an_organ_that_is_missed_whole_in_some_cases_does_not_make_empty_maps_believed() -> None:
    truth = ball()
    words = TriedWords.on([(truth, truth), (np.zeros_like(truth), truth)], 2)
    assert (words.heard(np.zeros_like(truth)) == NO_WORD).all()
    assert (words.heard(ball((22, 24, 14), 7)) == 1).any()


def test_voxels_that_nobody_drew_and_silence_say_nothing() -> None:
    truth = ball()
    wrong = np.where(truth, 0, 1).astype(np.uint8)
    drawn = np.where(np.arange(SHAPE[2]) < 15, truth, 200).astype(np.uint8)
    word = np.where(np.arange(SHAPE[2]) < 15, truth, wrong).astype(np.uint8)
    word[:, :, 14] = truth[:, :, 14] = NO_WORD  # so that right and wrong words do not touch
    heard = TriedWords.on([(word, drawn)], 2).heard(word)
    assert (heard[:, :, :14] == truth[:, :, :14]).all()
    assert (heard[:, :, 14] == NO_WORD).all()


def test_kinds_are_told_apart_by_word_neighbour_and_distance() -> None:
    word = np.zeros((60, 6, 6), np.uint8)
    word[:3], word[57:] = 1, 2
    kinds = kinds_of(word, 3)[:, 0, 0]
    assert len(set(kinds[3:29])) == len(EDGES) + 1  # five bands and what is far
    assert not set(kinds[3:19]) & set(kinds[41:57])  # the neighbour is another
    assert kinds[29] == kinds[30]  # far from both
    box = np.zeros((60, 60, 60), np.uint8)
    box[28:31, 28:31, 28:31] = 1
    everywhere = kinds_of(box, 2)
    assert everywhere[0, 0, 0] == everywhere[59, 59, 59] == everywhere[29, 29, 0]
    assert (everywhere == kinds_of(np.roll(box, 3, 1), 2)[:, np.arange(60) - 57, :]).all()


def test_an_empty_map_is_of_one_kind() -> None:
    assert len(np.unique(kinds_of(np.zeros((5, 6, 7), np.uint8), 2))) == 1
