"""Splits keep patients whole, say what is wrong with them, and can be written down."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coranet.data.splits.by_patient import Split, assign, split_by_labels, split_by_ratio
from coranet.errors import InputError

PATIENTS = {f"p{number}_{frame}": f"p{number}" for number in range(1, 7) for frame in ("ED", "ES")}
"""Six patients, two frames each."""
CASES = list(PATIENTS)
ALONE = {f"c{number:02d}": f"c{number:02d}" for number in range(40)}
"""Forty patients of one scan each."""


def patients_of(cases: tuple[str, ...]) -> set[str]:
    return {PATIENTS[case] for case in cases}


def test_every_label_is_used_and_the_rest_is_unlabelled() -> None:
    split = split_by_labels(PATIENTS, ["p4_ES", "p1_ED", "p2_ES"])
    assert split.labelled == ("p1_ED", "p2_ES", "p4_ES")
    assert split.unlabelled == tuple(case for case in CASES if case not in split.labelled)
    assert split.val == split.test == ()
    assert split.stored == (*split.labelled, *split.unlabelled)


def test_only_the_first_labels_are_used() -> None:
    split = split_by_labels(ALONE, ALONE, use=3, val=0)
    assert split.labelled == ("c00", "c01", "c02")
    assert split.unlabelled == tuple(ALONE)[3:]


@pytest.mark.parametrize(("labels", "expected"), [(1, 0), (7, 0), (8, 1), (19, 1), (20, 2), (40, 4)])
def test_one_in_ten_is_watched_unless_told(labels: int, expected: int) -> None:
    split = split_by_labels(ALONE, list(ALONE)[:labels])
    assert len(split.val) == expected
    assert len(split.labelled) == labels - expected


@pytest.mark.parametrize("seed", range(6))
def test_frames_of_one_patient_stay_on_one_side(seed: int) -> None:
    split = split_by_labels(PATIENTS, CASES, val=2, seed=seed)
    assert len(split.val) == 2
    assert len(patients_of(split.val)) == 1
    assert not patients_of(split.val) & patients_of(split.labelled)


def test_the_unlabelled_frames_of_a_watched_patient_are_left_out() -> None:
    split = split_by_labels(PATIENTS, [case for case in CASES if case.endswith("ED")], val=2)
    assert len(split.val) == 2
    assert len(split.unlabelled) == 4
    assert not patients_of(split.val) & patients_of(split.unlabelled)


def test_labels_that_are_not_used_do_not_leak_from_a_watched_patient() -> None:
    split = split_by_labels(PATIENTS, CASES, use=3, val=1, seed=3)
    assert set(split.labelled) | set(split.val) == set(CASES[:3])
    assert not patients_of(split.val) & patients_of((*split.labelled, *split.unlabelled))


def test_the_seed_decides_who_is_watched() -> None:
    drawn = [split_by_labels(ALONE, ALONE, val=4, seed=seed).val for seed in (0, 0, 1, 2, 3)]
    assert drawn[0] == drawn[1]
    assert len(set(drawn)) == 4
    shuffled = dict(reversed(ALONE.items()))
    assert split_by_labels(shuffled, ALONE, val=4).val == drawn[0]


@pytest.mark.parametrize("use", [0, -1, 41])
def test_more_labels_than_there_are_cannot_be_used(use: int) -> None:
    with pytest.raises(InputError, match=f"--labelled {use}: between 1 and 40"):
        split_by_labels(ALONE, ALONE, use=use)


@pytest.mark.parametrize("val", [3, 4])
def test_watching_every_label_is_refused(val: int) -> None:
    with pytest.raises(InputError, match=f"--val {val}: .* 3 "):
        split_by_labels(ALONE, ALONE, use=3, val=val)


def test_watching_the_only_labelled_patient_is_refused() -> None:
    with pytest.raises(InputError, match="--val 1: "):
        split_by_labels(PATIENTS, ["p1_ED", "p1_ES"], val=1)


def test_the_only_labelled_patient_is_trained_on() -> None:
    one_person = {f"day{number}": "person" for number in range(12)}
    split = split_by_labels(one_person, one_person)
    assert split.labelled == tuple(one_person)
    assert split.val == ()


@settings(max_examples=200, deadline=None)
@given(data=st.data(), seed=st.integers(0, 5))
def test_parts_share_nothing_and_leave_out_only_who_would_leak(data: st.DataObject, seed: int) -> None:
    owners = data.draw(st.lists(st.integers(0, 9), min_size=2, max_size=25))
    patients = {f"case{number}": f"patient{owner}" for number, owner in enumerate(owners)}
    labelled = data.draw(st.sets(st.sampled_from(list(patients)), min_size=1))
    use = data.draw(st.none() | st.integers(1, len(labelled)))
    val = data.draw(st.none() | st.integers(0, len(labelled) - 1))
    try:
        split = split_by_labels(patients, labelled, use=use, val=val, seed=seed)
    except InputError:
        assert val is not None
        sizes = Counter(patients[case] for case in [case for case in patients if case in labelled][:use])
        assert sizes.total() - max(sizes.values()) < val  # some patient cannot be spared
        return
    split.check(patients, labelled)
    used = [case for case in patients if case in labelled][:use]
    assert set(split.labelled) | set(split.val) == set(used)
    assert len(split.val) >= (val or 0)
    watched = {patients[case] for case in split.val}
    left_out = {case for case in patients if patients[case] in watched} - set(split.val)
    assert len(split.stored) == len(set(split.stored))
    assert set(split.stored) | left_out == set(patients)
    assert not set(split.stored) & left_out


GOOD = Split(labelled=("p1_ED",), unlabelled=("p1_ES", "p2_ED"), val=("p3_ED",), test=("p4_ED", "p4_ES"))


def test_a_good_split_passes() -> None:
    GOOD.check(PATIENTS, ["p1_ED", "p3_ED"])


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ({"labelled": ("p1_ED", "p9_ED")}, "'labelled' names 'p9_ED', which is not in the data"),
        ({"test": ("nobody",)}, "'test' names 'nobody', which is not in the data"),
        ({"unlabelled": ("p1_ED",)}, "names 'p1_ED' twice, in 'labelled' and in 'unlabelled'"),
        ({"unlabelled": ("p2_ED", "p2_ED")}, "names 'p2_ED' twice, in 'unlabelled' and in 'unlabelled'"),
        ({"val": ("p1_ED",)}, "names 'p1_ED' twice, in 'labelled' and in 'val'"),
        ({"labelled": ("p1_ED", "p6_ED")}, "'labelled' needs labels, and these have none: p6_ED"),
        ({"val": ("p3_ED", "p3_ES", "p5_ED")}, "'val' needs labels, and these have none: p3_ES, p5_ED"),
        ({"labelled": ()}, "no labelled case"),
        ({"labelled": ("p1_ED", "p3_ES")}, "'p3' is in both training and val"),
        ({"unlabelled": ("p3_ES",)}, "'p3' is in both training and val"),
        ({"unlabelled": ("p1_ES",), "test": ("p1_ES",)}, "names 'p1_ES' twice"),
        ({"test": ("p2_ES",)}, "'p2' is in both training and test"),
        ({"test": ("p3_ES",)}, "'p3' is in both val and test"),
    ],
)
def test_mistakes_are_refused(parts: dict[str, tuple[str, ...]], message: str) -> None:
    content = {
        "labelled": GOOD.labelled,
        "unlabelled": GOOD.unlabelled,
        "val": GOOD.val,
        "test": GOOD.test,
        **parts,
    }
    labels = ["p1_ED", "p3_ED", *(["p3_ES"] if "p3_ES" in content["labelled"] else [])]
    with pytest.raises(InputError, match=message):
        Split(**content).check(PATIENTS, labels)


def test_a_split_can_be_written_down(tmp_path: Path) -> None:
    GOOD.write(tmp_path / "split.json")
    assert Split.read(tmp_path / "split.json") == GOOD
    assert json.loads((tmp_path / "split.json").read_text())["val"] == ["p3_ED"]


def test_only_the_labelled_cases_need_be_named(tmp_path: Path) -> None:
    (tmp_path / "split.json").write_text('{"labelled": ["ä", "b"]}', encoding="utf-8")
    assert Split.read(tmp_path / "split.json") == Split(labelled=("ä", "b"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "null",
        "3",
        '"labelled"',
        '["p1_ED"]',
        "{}",
        '{"unlabelled": ["p1_ED"]}',
        '{"labelled": "p1_ED"}',
        '{"labelled": [1, 2]}',
        '{"labelled": [["p1_ED"]]}',
        '{"labelled": null}',
        '{"labelled": {"p1_ED": 1}}',
        '{"labelled": ["p1_ED"], "validation": ["p2_ED"]}',
        '{"labelled": ["p1_ED"], "val": 2}',
        '{"labelled": ["p1_ED"]} and more',
        '{"labelled": ["p1_ED"],}',
    ],
)
def test_a_malformed_split_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "my split.json"
    path.write_text(text)
    with pytest.raises(InputError, match=r"my split\.json: "):
        Split.read(path)


@pytest.mark.parametrize("encoding", ["utf-16", "latin-1"])
def test_a_split_that_is_not_utf8_is_refused_by_name(tmp_path: Path, encoding: str) -> None:
    (tmp_path / "split.json").write_bytes('{"labelled": ["ä"]}'.encode(encoding))
    with pytest.raises(InputError, match=r"split\.json: "):
        Split.read(tmp_path / "split.json")


def test_a_missing_split_is_refused_by_name(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere.json", tmp_path):
        with pytest.raises(InputError, match=f"{path.name}: (does not exist|cannot be read)"):
            Split.read(path)


def test_a_split_says_where_it_comes_from_and_is_read_all_the_same(tmp_path: Path) -> None:
    GOOD.write(tmp_path / "split.json", source="the field's", notes=["chosen: ä"])
    assert Split.read(tmp_path / "split.json") == GOOD
    content = json.loads((tmp_path / "split.json").read_text(encoding="utf-8"))
    assert (content["source"], content["notes"]) == ("the field's", ["chosen: ä"])


@pytest.mark.parametrize(("ratio", "expected"), [((1, 4), 8), ((1, 2), 13), ((1, 1), 20), ((1, 0), 40), ((1, 99), 1)])
def test_a_ratio_counts_patients(ratio: tuple[int, int], expected: int) -> None:
    split = split_by_ratio(ALONE, ALONE, ratio)
    assert (len(split.labelled), len(split.unlabelled)) == (expected, 40 - expected)


def test_a_ratio_draws_test_and_validation_patients_first() -> None:
    split = split_by_ratio(PATIENTS, CASES, (1, 1), val=1, test=1)
    assert [len(cases) for cases in (split.labelled, split.unlabelled, split.val, split.test)] == [4, 4, 2, 2]
    assert split_by_ratio(PATIENTS, CASES, (1, 1), val=1, test=1) == split
    others = [split_by_ratio(PATIENTS, CASES, (1, 1), val=1, test=1, seed=seed) for seed in range(1, 5)]
    assert any(other != split for other in others)


def test_cases_the_dataset_keeps_for_test_are_tested_with_their_patients() -> None:
    split = split_by_ratio(PATIENTS, CASES, (1, 4), kept_for_test=["p6_ED"])
    assert split.test == ("p6_ED", "p6_ES")
    assert len(patients_of(split.labelled)) == 1


def test_more_labels_than_patients_have_are_refused() -> None:
    with pytest.raises(InputError, match=r"--ratio 1:1 .* needs labels of 3 patients, and 2 have some"):
        split_by_ratio(PATIENTS, ["p1_ED", "p2_ED"], (1, 1), val=1)


def test_an_unlabelled_case_of_a_labelled_patient_is_unlabelled_and_of_a_tested_one_left_out() -> None:
    labels = ["p1_ED", "p2_ED", "p3_ED"]
    split = assign(PATIENTS, labels, ["p1"], ["p2"], ["p3", "p4"])
    assert split == Split(
        labelled=("p1_ED",),
        unlabelled=("p1_ES", "p5_ED", "p5_ES", "p6_ED", "p6_ES"),
        val=("p2_ED",),
        test=("p3_ED",),
    )
    assert assign(PATIENTS, labels, ["p1"], test=["p4"]).test == ("p4_ED", "p4_ES")


@settings(max_examples=200, deadline=None)
@given(data=st.data(), seed=st.integers(0, 5), ratio=st.tuples(st.integers(1, 4), st.integers(0, 6)))
def test_a_drawn_split_is_always_a_good_one(data: st.DataObject, seed: int, ratio: tuple[int, int]) -> None:
    owners = data.draw(st.lists(st.integers(0, 9), min_size=1, max_size=25))
    patients = {f"case{number}": f"patient{owner}" for number, owner in enumerate(owners)}
    labelled = data.draw(st.sets(st.sampled_from(list(patients)), min_size=1))
    val, test = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
    try:
        split = split_by_ratio(patients, labelled, ratio, val=val, test=test, seed=seed)
    except InputError:
        training = len(set(patients.values())) - val - test
        use = max(1, round(training * ratio[0] / sum(ratio)))
        too_few_labels = use + val + test > len({patients[case] for case in labelled})
        assert too_few_labels or use >= training  # none would be left unlabelled
        return
    split.check(patients, labelled)
    assert len({patients[case] for case in split.val}) == val
    assert len({patients[case] for case in split.test}) == test
    people = {patients[case] for case in (*split.labelled, *split.unlabelled)}
    wanted = max(1, round(len(people) * ratio[0] / sum(ratio)))
    assert len({patients[case] for case in split.labelled}) == wanted


def test_a_ratio_that_leaves_no_patient_unlabelled_is_refused() -> None:
    with pytest.raises(InputError, match=r"--ratio 1:4: with 1 patients to train on none would be left unlabelled"):
        split_by_ratio({"a": "p", "b": "p"}, ["a", "b"], (1, 4))
    assert not split_by_ratio({"a": "p", "b": "q"}, ["a", "b"], (1, 0)).unlabelled
