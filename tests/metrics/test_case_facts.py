"""What is known of a predicted case, kept in a file and read again."""

import json
from math import isnan

import pytest

from coranet.metrics.case_facts import CaseFacts, ClassFacts

FACTS = CaseFacts(
    classes={
        "LV": ClassFacts(millilitres=3.5, agreement=0.5, centre=(0.5, 0.25, 0.75)),
        "RV": ClassFacts(millilitres=0),
    },
    uncertain=1.25,
    look={"mean": 0.1},
)


def test_a_row_gives_the_facts_again():
    read = CaseFacts.from_row(json.loads(json.dumps(FACTS.to_row(), allow_nan=False)))
    assert read.classes["LV"].centre == (0.5, 0.25, 0.75)
    assert read.classes["RV"].centre is None
    assert isnan(read.classes["RV"].radical)
    assert read.to_row() == FACTS.to_row()


@pytest.mark.parametrize("row", [{}, {"classes": [], "uncertain": 1, "look": {}}, {**FACTS.to_row(), "uncertain": "x"}])
def test_a_damaged_row_is_no_facts(row):
    assert CaseFacts.from_row(row) is None
