"""JSON of others: whatever is wrong with it is one sentence, and nothing in it makes the reader fail."""

import json
import os

import pytest

from coranet.data.datasets import survey_dataset
from coranet.data.splits.by_patient import Split
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.evaluation.patients import read_patients
from coranet.json_files import MOST_BYTES, JsonError, parse_json, read_json, read_object
from coranet.report.comparison_folder import scans_of
from coranet.report.run_files import read_run

HOSTILE = {
    "deep": ("[" * 200_000 + "]" * 200_000, "nests lists or objects more than 100 deep"),
    "deep objects": ('{"a":' * 200_000 + "1" + "}" * 200_000, "nests lists or objects more than 100 deep"),
    "less deep": ("[" * 200 + "]" * 200, "nests lists or objects more than 100 deep"),
    "digits": (json.dumps({"a": 1}).replace("1", "9" * 5000), "has a number of 5000 digits"),
    "half": ('{"a": [1', "is not valid JSON at line 1"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_json_is_refused_in_one_sentence(tmp_path, name):
    content, message = HOSTILE[name]
    for place, read in {
        "any.json": read_json,
        "dataset.json": lambda file: (_ for _ in ()).throw(InputError(survey_dataset(file.parent)[1][0])),
        "split.json": Split.read,
        "run.json": lambda file: Run.read(file.parent),
        "compare.json": lambda file: scans_of(file.parent),
        "patients.json": lambda file: read_patients(file.parent),
    }.items():
        (tmp_path / place).write_text(content)
        with pytest.raises(InputError) as caught:
            read(tmp_path / place)
        said = str(caught.value)
        assert f"{place}: {message}" in said
        assert "\n" not in said
        (tmp_path / place).unlink()
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(InputError, match=f"run.json: is broken JSON .*{message}"):
        read_run("a run", tmp_path)


def test_what_is_no_file_or_no_text_or_too_large_is_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "latin.json").write_bytes(b'"\xe9"')
    (tmp_path / "list.json").write_text("[]")
    with (tmp_path / "large.json").open("wb") as file:
        file.truncate(MOST_BYTES + 1)
    for name, message in (
        ("pipe.json", "is a named pipe"),
        ("latin.json", "is not text"),
        ("large.json", "is larger than 256 MiB"),
        ("none.json", "does not exist. Restore the file"),
        ("list.json", "is not a JSON object"),
    ):
        with pytest.raises(JsonError, match=f"{name}: {message}"):
            read_object(tmp_path / name)


def test_what_is_sound_is_read(tmp_path):
    content = {"a": [1, -2, 3.5, None, True, "é"], "b": {"c": 10**39}}
    (tmp_path / "a.json").write_text("\ufeff" + json.dumps(content), encoding="utf-8")
    assert read_json(tmp_path / "a.json") == content
    assert parse_json("[" * 100 + "]" * 100, "a text")
