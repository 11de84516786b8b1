"""What to label next: what is needed most, and no two alike."""

import numpy as np
import pytest

from coranet.evaluation.quality import Quality
from coranet.evaluation.selection import choose_next, choose_usual, describe_scan, need, stand_for


def rows(**expected):
    return [Quality(case=case, class_name="all", expected=value, millilitres=1.0) for case, value in expected.items()]


def test_need_is_what_dice_lacks_or_the_place_in_the_list():
    assert need(rows(a=0.25, b=0.75)) == {"a": 0.75, "b": 0.25}
    unknown = [Quality(case=case, class_name="all", millilitres=1.0) for case in "wxyz"]
    assert need([*unknown, Quality(case="w", class_name="heart", millilitres=1.0)]) == {
        "w": 1.0,
        "x": 0.75,
        "y": 0.5,
        "z": 0.25,
    }


def test_scans_that_are_alike_are_not_chosen_while_there_are_others():
    one, other, third = np.eye(3)
    looks = {"bad": one, "its twin": one, "fair": other, "good": third}
    needs = {"bad": 0.9, "its twin": 0.89, "fair": 0.3, "good": 0.1}
    assert choose_next(needs, looks, 3) == ["bad", "fair", "good"]
    assert choose_next(needs, looks, 9) == ["bad", "fair", "good", "its twin"]
    assert choose_next({}, {}, 3) == []


def test_a_little_alike_costs_a_little():
    half = np.array([0.5, np.sqrt(0.75)])
    looks = {"a": np.array([1.0, 0.0]), "b": half, "c": np.array([0.0, 1.0])}
    assert choose_next({"a": 1.0, "b": 0.9, "c": 0.5}, looks, 2) == ["a", "c"]  # 0.9 x 0.5 < 0.5 x 1
    assert choose_next({"a": 1.0, "b": 0.9, "c": 0.4}, looks, 2) == ["a", "b"]


@pytest.mark.parametrize("shape", [(1, 40, 30, 12), (1, 40, 30, 1), (2, 3, 5, 9)])
def test_scans_are_described_alike_whatever_their_size(shape):
    rng = np.random.default_rng(0)
    image = rng.normal(size=shape).astype(np.float32)
    described = describe_scan(image)
    assert described.shape == (512,)
    assert np.linalg.norm(described) == pytest.approx(1)
    assert described @ describe_scan(3 * image + 7) == pytest.approx(1)  # brightness is not what makes scans differ
    assert described @ describe_scan(-image) == pytest.approx(-1)
    assert not describe_scan(np.ones(shape, np.float32)).any()


def looks_like(*angles):
    """Scans on a circle: two are the more alike the nearer their angles are."""
    return [np.array([np.cos(angle), np.sin(angle)]) for angle in np.radians(angles)]


def test_the_scan_that_most_others_look_like_comes_first():
    """Two groups, the first one larger, and an outlier that stands for itself alone."""
    looks = dict(
        zip(("a", "b", "middle", "c", "d", "y", "z", "odd"), looks_like(0, 5, 10, 15, 20, 130, 135, 250), strict=True)
    )
    chosen = choose_usual(looks, 3)
    assert chosen[0] == "middle"
    assert chosen[1] in "yz"
    assert chosen[2] == "odd"
    assert stand_for(looks, chosen) == [4, 1, 0]
    assert choose_usual(looks, 99)[:3] == chosen
    assert sorted(choose_usual(looks, 99)) == sorted(looks)


def test_what_a_labelled_scan_looks_like_is_not_asked_for():
    looks = dict(zip(("a", "b", "c", "y", "z"), looks_like(0, 2, 4, 120, 123), strict=True))
    assert choose_usual(looks, 1)[0] == "b"
    known = looks_like(2)
    assert choose_usual(looks, 1, known)[0] in "yz"
    assert stand_for(looks, ["b"], known) == [0]
    assert stand_for(looks, ["y"], known) == [1]


def test_scans_count_by_their_need():
    looks = dict(zip(("a", "b", "c", "y"), looks_like(0, 2, 4, 120), strict=True))
    assert choose_usual(looks, 1, needs={"a": 0.1, "b": 0.1, "c": 0.1, "y": 0.9}) == ["y"]


@pytest.mark.parametrize("slices", range(1, 12))
def test_every_slice_of_a_thin_scan_counts(slices):
    image = np.random.default_rng(1).normal(size=(1, 16, 16, slices)).astype(np.float32)
    for place in range(slices):
        other = image.copy()
        other[..., place] += np.arange(16)
        assert describe_scan(other) @ describe_scan(image) < 0.999
