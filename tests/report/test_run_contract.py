"""What a stranger may put into a run folder: `coranet report` answers in one sentence, and never with a fault of ours."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from coranet.data.readers.nifti import write
from coranet.errors import InputError
from coranet.geometry import Geometry
from coranet.report import ReportRequest, report_on
from coranet.report.run_contract import RECORD, SETTINGS
from tests.report.finished_runs import CASES, GEOMETRY, make_data

pytestmark = pytest.mark.usefixtures("coarse_pictures")


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return make_data(tmp_path / "data") / "cora"


def refusal(run: Path) -> str:
    with pytest.raises(InputError) as caught:
        report_on(ReportRequest(folders=(run,)))
    return str(caught.value)


def spoil(content: Any, path: str, value: object) -> None:
    *lead, last = path.split(".")
    for name in lead:
        content = content[name]
    content[last] = value


@pytest.mark.parametrize("value", [None, [[]], {"0": 1}, float("nan"), 10**30, "\0"])
def test_settings_that_are_none_are_refused_by_name(run: Path, value: object) -> None:
    whole = json.loads((run / "run.json").read_text())
    for path, (fits, _) in SETTINGS.items():
        if fits(value):
            continue
        content = json.loads(json.dumps(whole))
        spoil(content, path, value)
        (run / "run.json").write_text(json.dumps(content))
        assert f"run.json: {path} is missing, or is not {SETTINGS[path][1]}" in refusal(run)


@pytest.mark.parametrize("value", ["word", [1], -1, float("inf"), {"seg": "low"}])
def test_lines_of_a_log_that_are_none_are_refused_by_name(run: Path, value: object) -> None:
    lines = (run / "log.jsonl").read_text().splitlines()
    for path, (fits, _) in RECORD.items():
        if fits(value):
            continue
        record = {**json.loads(lines[1]), path: value}
        (run / "log.jsonl").write_text("\n".join([lines[0], json.dumps(record), *lines[2:], ""]))
        assert f"log.jsonl: {path} is missing, or is not {RECORD[path][1]}" in refusal(run)


def test_half_a_sign_in_a_name_is_spelled_out_on_the_page(run: Path) -> None:
    content = json.loads((run / "run.json").read_text())
    content["data"]["classes"]["1"] = "R\ud800V"
    content["\ud800"] = "\x1b[2J"
    (run / "run.json").write_text(json.dumps(content))
    page, _ = report_on(ReportRequest(folders=(run,)))
    assert "\\ud800" in page.read_text(encoding="utf-8")


def frames(run: Path) -> list[Path]:
    return sorted((run / "film").glob("*.npz"))


ARRAYS = {"image": np.zeros((8, 8)), "prediction": np.zeros((8, 8), np.uint8), "case": "a", "slice": 1}


@pytest.mark.parametrize(
    "arrays",
    [
        {"image": np.array([{}], object)},
        {"prediction": np.zeros((7, 8), np.uint8)},
        {"prediction": np.full((8, 8), np.nan)},
        {"prediction": np.zeros((8, 8, 2), np.uint8), "image": np.zeros((8, 8, 2))},
        {"uncertain": np.array("all")},
        {"image": np.zeros((3000, 3000))},
    ],
)
def test_a_picture_of_a_training_that_is_none_is_refused_by_name(run: Path, arrays: dict[str, Any]) -> None:
    film = frames(run)[0]
    np.savez_compressed(film, **{**ARRAYS, **arrays})
    assert f"{film.name}: is no picture of a training" in refusal(run)


@pytest.mark.parametrize("content", [b"", b"PK", b"\x93NUMPY"])
def test_a_damaged_picture_of_a_training_is_refused_by_name(run: Path, content: bytes) -> None:
    film = frames(run)[-1]
    film.write_bytes(content)
    assert film.name in refusal(run)


@pytest.mark.parametrize("name", ["log.jsonl", "scores.csv", "film/0000001.npz"])
def test_a_named_pipe_in_a_run_folder_is_never_opened(run: Path, name: str) -> None:
    (run / name).unlink(missing_ok=True)
    os.mkfifo(run / name)
    assert f"{name}: is a named pipe, not a file" in refusal(run)


def test_a_prediction_of_another_size_is_refused_by_name(run: Path) -> None:
    larger = Geometry(shape=(24, 20, 9), affine=GEOMETRY.affine)
    for case in CASES:
        write(run / f"predictions/{case}.nii.gz", np.zeros(larger.shape, np.uint8), larger)
    assert "voxels, and" in refusal(run)


def test_a_comparison_s_files_that_are_none_are_refused_by_name(run: Path) -> None:
    folder = run.parent
    for name, content, said in (
        ("compare.json", b'{"data": 7}', "data is missing, or is not a path"),
        ("table.csv", b"run\n" + b"x" * 200_000, "is no table"),
        ("patients.json", b"[]", "is not a JSON object"),
    ):
        (folder / name).write_bytes(content)
        assert f"{name}: {said}" in refusal(folder)
        (folder / name).unlink()
