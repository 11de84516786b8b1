"""JSON that may come from anyone is read within bounds."""

import json
import os

import pytest

from coranet.errors import InputError
from coranet.files import JSON_BYTES, read_json


def test_json_is_read(tmp_path):
    content = {"a": [1, 2.5, None, True, ']}\\"[{' * 100], "ü": {"b": 10**200}}
    (tmp_path / "a.json").write_text(json.dumps(content))
    assert read_json(tmp_path / "a.json") == content


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"[" * 200_000 + b"]" * 200_000, "nested deeper than 50"),
        (b'{"a":' * 200_000, "nested deeper than 50"),
        (b"[" + b"1" * 5_000 + b"]", "a number of 5000 digits"),
        (b"[NaN]", "NaN is not a finite number"),
        (b"[-Infinity]", "Infinity is not a finite number"),
        (b"[1e999]", "1e999 is not a finite number"),
        (b'"' + b'\\"' * 500_000, "broken JSON"),
        (b"\xff\xfe", "broken JSON"),
        (b"", "broken JSON"),
    ],
    ids=["lists", "objects", "digits", "nan", "infinity", "overflow", "endless string", "no text", "empty"],
)
def test_json_beyond_all_use_is_refused_in_one_sentence(tmp_path, content, message):
    (tmp_path / "a.json").write_bytes(content)
    with pytest.raises(InputError, match=message) as caught:
        read_json(tmp_path / "a.json")
    assert len(str(caught.value)) < 300 + len(str(tmp_path))


def test_json_that_is_no_file_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "a.json")
    with pytest.raises(InputError, match=r"a\.json: is no file"):
        read_json(tmp_path / "a.json")


def test_json_of_any_size_is_not_believed(tmp_path):
    with (tmp_path / "a.json").open("wb") as file:
        file.truncate(JSON_BYTES + 10)
    with pytest.raises(InputError, match="larger than 64 MB"):
        read_json(tmp_path / "a.json")
