"""Whether a list of cases, worst first, knew which are bad."""

import json
from dataclasses import replace
from math import isnan, nan

import numpy as np
import pytest

from coranet.cli import main
from coranet.data.readers.nifti import write
from coranet.evaluation import evaluate, foresee
from coranet.evaluation.foresight import Foresight
from coranet.evaluation.quality import CASES, Quality, write_qualities
from coranet.geometry import Geometry

EYE = ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0), (0.0, 0.0, 0.0, 1.0))
SHARES = {"good": 10, "fair": 8, "poor": 5, "missed": 0}
"""Of ten voxels of an object, how many are found."""


@pytest.fixture
def folders(tmp_path):
    geometry = Geometry(shape=(20, 1, 1), affine=EYE)
    for folder in ("p", "labels"):
        (tmp_path / folder).mkdir()
    truth = np.zeros((20, 1, 1), np.uint8)
    truth[:10] = 1
    for case, found in SHARES.items():
        guess = np.zeros_like(truth)
        guess[:found] = 1
        write(tmp_path / f"p/{case}.nii.gz", guess, geometry)
        write(tmp_path / f"labels/{case}.nii.gz", truth, geometry)
    return tmp_path / "p", tmp_path / "labels"


def listed(expected):
    """Rows in the order of this mapping."""
    return [
        Quality(case=case, class_name="all", expected=value, low=value - 0.1, high=value + 0.1, millilitres=1.0)
        for case, value in expected.items()
    ]


def test_a_list_that_knows_is_told_from_one_that_does_not(folders):
    predictions, labels = folders
    scores = evaluate(predictions, labels)
    assert foresee(predictions, scores) is None
    write_qualities(predictions, listed({"missed": 0.1, "poor": 0.7, "fair": 0.9, "good": 0.95}))
    knows = foresee(predictions, scores)
    assert knows is not None
    assert knows.rank_correlation == pytest.approx(1)
    assert (knows.failures, knows.failures_first, knows.first, knows.cases) == (1, 1, 1, 4)
    assert knows.covered == 1
    write_qualities(predictions, listed({"good": 0.1, "fair": 0.2, "poor": 0.3, "missed": 0.9}))
    wrong = foresee(predictions, scores)
    assert wrong is not None
    assert wrong.rank_correlation == pytest.approx(-1)
    assert (wrong.failures_first, wrong.covered) == (0, 0)
    assert wrong.off > 0.5


def test_without_a_fit_failures_are_counted_alone(folders, capsys):
    predictions, labels = folders
    rows = [Quality(case=case, class_name="all", millilitres=1.0) for case in ("missed", "good", "fair", "poor")]
    write_qualities(predictions, rows)
    found = foresee(predictions, evaluate(predictions, labels))
    assert found is not None
    assert isnan(found.rank_correlation)
    poor = "Poor (Dice below 0.5, or an object missed)"
    assert found.in_words() == f"{poor}: 1 of 4 cases, 1 of them among the first 1 of {CASES}."
    assert replace(found, failures=0).in_words() == f"{poor}: 0 of 4 cases."
    with pytest.raises(SystemExit):
        main(["evaluate", str(predictions), str(labels), "--json"])
    content = json.loads(capsys.readouterr().out)["expected"]
    assert content["rank_correlation"] is None
    assert content["failures_first"] == 1


def test_of_no_case_nothing_is_said_but_that():
    nothing = Foresight(cases=0, rank_correlation=nan, off=nan, covered=nan, failures=0, failures_first=0, first=0)
    assert nothing.in_words() == "cases.csv says nothing of these cases."
