"""How the uncertain region is cut, and that what is chosen is what comes out, voxel by voxel."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from coranet.review.pieces import CHOICES, LEVELS, alike, complete, cut, groups
from tests.review.reviewed import maps

STEPS = (1.0, 1.0, 3.0)
LABELS = arrays(np.uint8, (5, 6, 4), elements=st.integers(0, 2))


def answers_of(seed=0):
    _, prediction, conservative, radical, uncertain = maps(seed)
    return complete(prediction, uncertain, conservative, radical, STEPS)


@settings(max_examples=40, deadline=None)
@given(prediction=LABELS, conservative=LABELS, radical=LABELS, axis=st.integers(0, 2), draw=st.randoms())
def test_the_label_is_what_was_chosen_voxel_by_voxel(prediction, conservative, radical, axis, draw):
    answers = complete(prediction, conservative != radical, conservative, radical, STEPS)
    region = cut(answers, STEPS, axis)
    choices = {number: draw.choice(CHOICES) for number in range(len(region.pieces)) if draw.random() < 0.7}
    label = region.applied(prediction, choices)
    expected = prediction.copy()
    for number, piece in enumerate(region.pieces):
        for index in region.index[piece.start : piece.start + piece.voxels]:
            place = np.unravel_index(index, prediction.shape, order="F")
            assert place[axis] == piece.key[0]
            expected[place] = getattr(answers, choices.get(number, "prediction"))[place]
    assert np.array_equal(label, expected)


@settings(max_examples=40, deadline=None)
@given(prediction=LABELS, conservative=LABELS, radical=LABELS, axis=st.integers(0, 2))
def test_each_voxel_in_question_lies_in_one_piece(prediction, conservative, radical, axis):
    answers = complete(prediction, conservative != radical, conservative, radical, STEPS)
    region = cut(answers, STEPS, axis)
    seen = np.zeros(prediction.size, int)
    np.add.at(seen, region.index, 1)
    assert np.array_equal(seen.reshape(prediction.shape, order="F"), answers.in_question.astype(int))
    assert sum(piece.voxels for piece in region.pieces) == len(region.index)
    keys = [piece.key for piece in region.pieces]
    assert len(set(keys)) == len(keys)
    for piece in region.pieces:
        here = region.index[piece.start : piece.start + piece.voxels]
        assert np.ravel_multi_index(piece.middle, prediction.shape, order="F") in here


def test_pieces_get_finer_by_edge_and_by_sector():
    region = cut(answers_of(), STEPS, 2)
    coarse, edges, sectors = (groups(region, level) for level in range(3))
    assert len(coarse) < len(edges) < len(sectors) == len(region.pieces)
    for key, numbers in coarse.items():
        inside = [number for part, own in edges.items() if part[: LEVELS[0]] == key for number in own]
        assert sorted(inside) == sorted(numbers)
    sizes = [sum(region.pieces[number].voxels for number in numbers) for numbers in coarse.values()]
    assert sizes == sorted(sizes, reverse=True)


def test_the_outer_edge_is_where_the_prediction_leaves_the_object_out():
    answers = answers_of()
    region = cut(answers, STEPS, 2)
    for piece in region.pieces:
        part = slice(piece.start, piece.start + piece.voxels)
        assert ((region.prediction[part] == piece.key[1]) == bool(piece.key[3])).all()


def test_pieces_like_one_have_its_class_and_edge_on_any_slice():
    region = cut(answers_of(), STEPS, 2)
    key = next(iter(groups(region, 1)))
    found = list(alike(region, key))
    assert key in found
    assert len({other[0] for other in found}) > 2
    assert {(other[1], other[3]) for other in found} == {(key[1], key[3])}


def test_two_objects_of_one_class_on_a_slice_are_two_pieces():
    prediction = np.zeros((20, 8, 1), np.uint8)
    radical = prediction.copy()
    radical[2:6, 2:6], radical[12:16, 2:6] = 1, 1
    region = cut(complete(prediction, radical, prediction, radical, STEPS), STEPS, 2)
    assert len(groups(region, 0)) == 2


def test_without_masks_doubt_is_left_out_or_given_to_the_nearest_object():
    prediction = np.zeros((9, 3, 1), np.uint8)
    prediction[0], prediction[8] = 1, 2
    uncertain = np.zeros_like(prediction)
    uncertain[1], uncertain[7], uncertain[8] = 1, 1, 1
    answers = complete(prediction, uncertain, None, None, STEPS)
    assert answers.radical[:, 0, 0].tolist() == [1, 1, 0, 0, 0, 0, 0, 2, 2]
    assert answers.conservative[:, 0, 0].tolist() == [1, 0, 0, 0, 0, 0, 0, 0, 0]


@pytest.mark.parametrize("axis", range(3))
def test_nothing_in_question_is_no_piece(axis):
    prediction = np.ones((3, 4, 5), np.uint8)
    region = cut(complete(prediction, np.zeros_like(prediction), None, None, STEPS), STEPS, axis)
    assert region.pieces == ()
    assert np.array_equal(region.applied(prediction, {}), prediction)
