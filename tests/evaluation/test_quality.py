"""What stands out of a case, and the table of cases, worst first."""

from math import isnan, nan

import pytest

from coranet.errors import InputError
from coranet.evaluation.oddities import Range, Usual, class_flags, scan_flags
from coranet.evaluation.quality import CASES, COLUMNS, judge, read_qualities, why, write_qualities
from coranet.metrics.case_facts import CaseFacts, ClassFacts
from coranet.metrics.expectation import DiceFit

PLACES = [(0.5, 0.5, 0.4), (0.52, 0.48, 0.5), (0.48, 0.51, 0.45), (0.5, 0.53, 0.42), (0.51, 0.5, 0.47)]
USUAL = Usual(
    sizes={"heart": [90.0, 100.0, 110.0, 105.0, 95.0], "tumour": [0.0, 0.0, 0.0, 5.0, 4.0]},
    places={"heart": PLACES},
    looks={"middle": [0.0, 0.1, -0.1, 0.05, 0.0]},
)


def heart(millilitres=100.0, centre=(0.5, 0.5, 0.45), **more):
    return ClassFacts(millilitres=millilitres, centre=centre if millilitres else None, **more)


def case(heart_facts, tumour=0.0, radical=0.0, uncertain=1.0, middle=0.0):
    classes = {"heart": heart_facts, "tumour": ClassFacts(millilitres=tumour, radical=radical)}
    return CaseFacts(classes=classes, uncertain=uncertain, look={"middle": middle})


@pytest.mark.parametrize(
    ("facts", "flags"),
    [
        (heart(), ()),
        (heart(0.0), ("missing",)),
        (heart(1.5), ("missing",)),
        (heart(12.0), ("odd size",)),
        (heart(600.0), ("odd size",)),
        (heart(centre=(0.9, 0.5, 0.45)), ("odd place",)),
        (heart(400.0, centre=(0.1, 0.5, 0.45)), ("odd size", "odd place")),
    ],
)
def test_an_object_that_is_not_as_usual_is_flagged(facts, flags):
    assert class_flags("heart", facts, USUAL) == flags


def test_an_object_that_may_be_absent_is_missing_only_where_the_radical_mask_has_it():
    assert class_flags("tumour", ClassFacts(millilitres=0.0, radical=0.1), USUAL) == ()
    assert class_flags("tumour", ClassFacts(millilitres=0.0, radical=3.0), USUAL) == ("missing",)
    assert class_flags("tumour", ClassFacts(millilitres=0.0), USUAL) == ()  # no radical mask: nothing is known


def test_scans_that_look_otherwise_are_flagged():
    assert scan_flags(case(heart()), USUAL) == ()
    assert scan_flags(case(heart(), middle=5.0), USUAL) == ("unlike the training scans",)
    assert scan_flags(case(heart(), middle=5.0), Usual()) == ()  # of an earlier run, which tells nothing of scans


def test_few_cases_call_less_odd_than_many():
    some = [0.0, 0.1, -0.1]
    assert Range.of(some, 0.0).holds(1.0)
    assert not Range.of(some * 10, 0.0).holds(1.0)
    assert Range.of(some[:2], 0.0).holds(1e9)
    assert Range.of([1e308, 1e308, 1e308], 0.0).holds(1.0)  # of a run that someone has tampered with


def test_the_worst_case_comes_first_by_the_dice_to_expect():
    cases = {
        "good": case(heart(expected=0.95, agreement=0.95)),
        "bad": case(heart(expected=0.4, agreement=0.4)),
        "middling": case(heart(expected=0.8, agreement=0.8)),
    }
    rows = judge(cases, USUAL, DiceFit(spread_of_all=0.5))
    assert [row.case for row in rows if row.whole] == ["bad", "middling", "good"]
    worst, of_heart, of_tumour = rows[:3]
    assert (worst.class_name, of_heart.class_name, of_tumour.class_name) == ("all", "heart", "tumour")
    assert worst.expected == of_heart.expected == pytest.approx(0.4)
    assert isnan(of_tumour.expected)  # is not there, and need not be
    assert worst.low < 0.4 < worst.high
    assert worst.millilitres == 100.0


def test_without_a_fit_flags_come_first_and_then_doubt():
    cases = {
        "sure": case(heart(), uncertain=1.0),
        "doubtful": case(heart(), uncertain=50.0),
        "missed": case(heart(0.0), uncertain=0.0),
        "far": case(heart(centre=(0.0, 0.0, 0.0))),
    }
    rows = judge(cases, USUAL, None)
    assert [row.case for row in rows if row.whole] == ["missed", "far", "doubtful", "sure"]
    assert all(isnan(row.expected) for row in rows)
    assert why(rows[0], rows[1:3]) == "missing: heart"


def test_earlier_runs_hold_sizes_against_those_of_the_other_scans():
    cases = {f"s{i}": case(heart(100.0 + i)) for i in range(6)} | {"tiny": case(heart(0.5))}
    rows = judge(cases, Usual(), None)
    assert [row.case for row in rows if row.flags and row.whole] == ["tiny"]


def test_the_table_is_written_and_read(tmp_path):
    cases = {"a": case(heart(0.0, expected=0.1), middle=9.0), "b": case(heart(expected=0.9, agreement=0.9))}
    rows = judge(cases, USUAL, DiceFit())
    lines = write_qualities(tmp_path, rows).read_text().splitlines()
    assert lines[0].split(",") == list(COLUMNS)
    assert lines[1].startswith("a,all,")
    assert lines[1].endswith(",missing; unlike the training scans")
    back = read_qualities(tmp_path)
    assert [(row.case, row.class_name, row.flags) for row in back] == [
        (row.case, row.class_name, row.flags) for row in rows
    ]
    assert back[0].expected == pytest.approx(rows[0].expected, abs=1e-4)


@pytest.mark.parametrize(
    "text", ["", "case,class\n", ",".join(COLUMNS) + "\na,all,x,,,1,\n", ",".join(COLUMNS) + "\na,all,,,,1,sick\n"]
)
def test_another_table_is_refused(tmp_path, text):
    (tmp_path / CASES).write_text(text)
    with pytest.raises(InputError, match=r"cases\.csv.*is not a table of cases"):
        read_qualities(tmp_path)
    with pytest.raises(InputError, match="cannot be read"):
        read_qualities(tmp_path / "nowhere")


def test_nan_is_nothing(tmp_path):
    rows = judge({"a": case(heart(expected=nan))}, USUAL, DiceFit())
    write_qualities(tmp_path, rows)
    assert (tmp_path / CASES).read_text().splitlines()[1] == "a,all,,,,100,"
