"""Flipped, turned and swapped labels are found on synthetic scans of any shape, and nothing is found where nothing is."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest
import scipy
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import ndimage

from coranet.data.alignment import AS_IT_LIES, Turn, fits, judge, turns

SIZES = st.tuples(st.sampled_from([18, 24]), st.sampled_from([18, 24]), st.sampled_from([1, 8, 18]))


def scan(shape: tuple[int, int, int], seed: int) -> tuple[np.ndarray, np.ndarray]:
    """An image of mottled tissue with a lopsided organ of two parts, a little brighter and a little darker than the rest."""
    rng = np.random.default_rng(seed)
    x, y, z = np.meshgrid(*((np.arange(size) - size / 2 + 0.5) / size for size in shape), indexing="ij")
    x, y, z = x - rng.uniform(0.05, 0.15), y - rng.uniform(0.05, 0.15), z - 0.1
    label = ((x / 0.3) ** 2 + (y / 0.15) ** 2 + (z / 0.45) ** 2 < 1).astype(np.uint8)
    label[(x / 0.1) ** 2 + ((y - 0.1) / 0.12) ** 2 + (z / 0.4) ** 2 < 1] = 2
    mottle = ndimage.gaussian_filter(rng.normal(size=shape), [min(2, size / 4) for size in shape])
    image = 0.5 * mottle / mottle.std() + np.array([0, 1.5, -1.5])[label] + rng.normal(0, 0.3, shape)
    return (400 * image).astype(np.int16), label


def undone(turn: Turn, by: Turn) -> bool:
    marks = np.arange(24).reshape(2, 3, 4)
    return np.array_equal(by.apply(turn.apply(marks)), marks)


@settings(max_examples=25, deadline=None)
@given(shape=SIZES, seed=st.integers(0, 999), data=st.data())
def test_what_was_done_to_the_labels_is_found(shape: tuple[int, int, int], seed: int, data: st.DataObject) -> None:
    done = data.draw(st.sampled_from(turns(shape, shape)))
    cases = []
    for patient in range(5):
        image, label = scan(shape, 10 * seed + patient)
        cases.append((str(patient), fits(image, done.apply(label))))
    verdict = judge(cases)
    assert verdict is not None
    assert verdict.clear
    assert undone(done, verdict.turn)
    assert (verdict.turn == AS_IT_LIES) == (done == AS_IT_LIES)


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 999), data=st.data())
def test_axes_that_only_fit_in_another_order(seed: int, data: st.DataObject) -> None:
    shape = (16, 24, 10)
    order = data.draw(st.permutations(range(3)).filter(lambda order: tuple(order) != (0, 1, 2)))
    done = Turn(tuple(order), data.draw(st.tuples(*[st.booleans()] * 3)))
    verdict = judge(
        (str(i), fits(image, done.apply(label))) for i in range(4) for image, label in [scan(shape, seed + i)]
    )
    assert verdict is not None
    assert verdict.clear
    assert undone(done, verdict.turn)
    assert verdict.gain == np.inf


@given(shape=SIZES, data=st.data())
def test_a_turn_in_code_and_in_steps_is_the_turn(shape: tuple[int, int, int], data: st.DataObject) -> None:
    turn = data.draw(st.sampled_from(turns(shape, shape)))
    label = np.arange(np.prod(shape)).reshape(shape)
    assert np.array_equal(eval(turn.code), turn.apply(label))
    axes, signs = turn.steps[1::2], turn.steps[::2]
    stepped = np.flip(label.transpose(["xyz".index(axis) for axis in axes]), [i for i in range(3) if signs[i] == "-"])
    assert np.array_equal(stepped, turn.apply(label))


@pytest.mark.parametrize(
    ("turn", "words"),
    [
        (AS_IT_LIES, "as it lies"),
        (Turn(mirror=(False, True, False)), "flipped along y"),
        (Turn((1, 0, 2)), "with x and y swapped"),
        (Turn((1, 0, 2), (True, False, True)), "with x and y swapped and then flipped along x and z"),
        (Turn((1, 2, 0)), "with its axes in the order y, z, x"),
    ],
)
def test_a_turn_in_words(turn: Turn, words: str) -> None:
    assert str(turn) == words


def test_every_way_to_turn_once() -> None:
    assert len(turns((5, 5, 5), (5, 5, 5))) == len(set(turns((5, 5, 5), (5, 5, 5)))) == 48
    assert len(turns((5, 6, 1), (5, 6, 1))) == 4
    assert turns((5, 6, 7), (5, 6, 7))[0] == AS_IT_LIES
    assert turns((5, 6, 7), (5, 6, 8)) == ()


def test_the_mutual_information_is_that_of_the_definition() -> None:
    image, label = scan((40, 40, 30), 3)
    near = ndimage.binary_dilation(label > 0, np.ones((3, 3, 3)), iterations=4)
    levels = np.searchsorted(np.quantile(image, np.arange(1, 32) / 32), image[near])
    expected = 0.0
    for value in range(3):
        for level in range(32):
            joint = np.mean((label[near] == value) & (levels == level))
            apart = np.mean(label[near] == value) * np.mean(levels == level)
            expected += joint * np.log(joint / apart) if joint else 0.0
    assert fits(image, label)[AS_IT_LIES] == pytest.approx(expected, abs=0.01)


def test_neither_brightness_nor_contrast_matters() -> None:
    image, label = scan((24, 24, 8), 1)
    plain = fits(image, label)
    for other in (-3.0 * image + 7, np.exp(image / 400), image.astype(np.float32)):
        assert fits(other, label) == pytest.approx(plain, abs=0.02)


def test_voxels_that_are_not_finite_are_no_trouble() -> None:
    image, label = scan((24, 24, 8), 1)
    broken = image.astype(np.float32)
    broken[:2] = np.nan
    broken[-1] = np.inf
    assert max(fits(broken, label), key=fits(broken, label).__getitem__) == AS_IT_LIES
    assert set(fits(np.full_like(broken, np.nan), label).values()) == {0.0}


def test_a_constant_image_and_an_empty_label_say_nothing() -> None:
    label = scan((24, 24, 8), 1)[1]
    same = fits(np.ones(label.shape), label)
    assert max(same.values()) == pytest.approx(0)
    assert fits(np.ones(label.shape), 0 * label) == {}
    assert fits(np.ones((9, 9, 9)), label) == {}
    assert judge([]) is None
    assert judge([("a", {})]) is None


def test_noise_decides_nothing() -> None:
    rng = np.random.default_rng(0)
    for trial in range(20):
        label = scan((24, 24, 8), trial)[1]
        verdict = judge((str(i), fits(rng.normal(size=label.shape), label)) for i in range(10))
        assert verdict is not None
        assert not verdict.clear


def test_one_patient_is_one_vote() -> None:
    flip = Turn(mirror=(True, False, False))
    cases = [fits(image, flip.apply(label)) for i in range(12) for image, label in [scan((24, 24, 1), i)]]
    several, one = judge((str(i), case) for i, case in enumerate(cases)), judge(("a", case) for case in cases)
    assert several is not None
    assert one is not None
    assert (several.votes, several.voters, several.clear, several.turn) == (12, 12, True, flip)
    assert (one.votes, one.voters, one.clear) == (1, 1, False)


def test_a_verdict_waits_for_no_statistics_to_load(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scipy.stats", None)  # whoever imports it now fails
    monkeypatch.delitem(vars(scipy), "stats", raising=False)
    verdict = judge([("a", {AS_IT_LIES: 1.0})])
    assert verdict is not None
    assert not verdict.clear


def test_an_organ_with_a_slightly_clearer_twin_is_not_called_flipped() -> None:
    cases = []
    for patient in range(12):
        image, label = scan((24, 24, 8), patient)
        both = image + 1.05 * image[::-1].astype(float)
        cases.append((str(patient), fits(both, label)))
    verdict = judge(cases)
    assert verdict is not None
    assert not verdict.clear or verdict.turn == AS_IT_LIES


def test_a_large_scan_is_judged_by_a_part_of_it() -> None:
    image, label = (np.kron(array, np.ones((5, 5, 5), array.dtype)) for array in scan((24, 24, 18), 2))
    found = fits(image, label)
    assert max(found, key=found.__getitem__) == AS_IT_LIES


REAL = Path(os.environ.get("CORANET_DATA", "/nowhere"))


@pytest.mark.skipif(not (REAL / "hippocampus").exists(), reason="needs hippocampus in the folder CORANET_DATA")
@pytest.mark.parametrize(
    "mirror", [(False, False, False), (True, False, False), (False, True, False), (False, False, True)]
)
def test_real_scans(mirror: tuple[bool, bool, bool]) -> None:
    from coranet.data.readers import source

    done = Turn(mirror=mirror)
    labels = sorted((REAL / "hippocampus").rglob("labelsTr/h*.nii.gz"))[:12]
    arrays = [
        (source(file.parent.parent / "imagesTr" / file.name).read().array, source(file).read().array) for file in labels
    ]
    verdict = judge((str(i), fits(image, done.apply(label))) for i, (image, label) in enumerate(arrays))
    assert verdict is not None
    assert verdict.clear
    assert verdict.turn == done
