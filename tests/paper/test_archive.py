"""Finished runs as one typed table: what is written is read again, and laid out as it was."""

from __future__ import annotations

import csv
import io
import json
import lzma
import re
from dataclasses import replace
from math import isnan
from pathlib import Path
from typing import get_args

import pytest

from coranet.errors import InputError
from coranet.evaluation import Row, Scores
from coranet.metrics import Status
from coranet.metrics.mask import METRICS
from coranet.metrics.overlap import Counts
from coranet.paper.archive import DOCUMENTS, SCORES, Archive, find_archive
from coranet.paper.collection import collect
from coranet.paper.score_table import COLUMNS, OVERLAPS, read_text, write_text

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
LIMIT = 3_000_000


def row(case: str, *, tp: int = 5, fp: int = 2, fn: int = 4, status: Status = "scored") -> Row:
    counts = Counts(tp=tp, fp=fp, fn=fn)
    empty = float("nan") if status == "absent" else 0.0
    shares = {name: getattr(counts, name) if status == "scored" else empty for name in OVERLAPS}
    stored = {name: empty if isnan(empty) else 1 / 3 + len(name) for name in METRICS if name in COLUMNS}
    voxels = {"prediction_voxels": tp + fp, "label_voxels": tp + fn}
    values = {**dict.fromkeys(METRICS, float("nan")), **stored, **shares}
    return Row(case=case, class_name="a, b", value=2, status=status, values=values, **voxels)


ROWS = (
    row("one", tp=123_457, fp=70_001, fn=3),
    row("two", tp=0, fp=7, fn=9),  # both are there, and share nothing
    row("three", tp=0, fp=0, fn=9, status="missed"),
    row("four", tp=0, fp=9, fn=0, status="invented"),
    row("five", tp=0, fp=0, fn=0, status="absent"),
)


def finished(root: Path, setting: str, run: str, rows: tuple[Row, ...] = ROWS) -> Path:
    """A run folder as `coranet reproduce` leaves it."""
    folder = root / setting / run
    folder.mkdir(parents=True)
    shared = {"data": str(root / "scans"), "seeds": 1}
    (folder.parent / "compare.json").write_text(json.dumps(shared, indent=1) + "\n")
    settings = {"data": {"source": str(root / "scans")}, "seed": 0, "optim": {"lr": 1e-05}}
    (folder / "run.json").write_text(json.dumps(settings, indent=1) + "\n")
    log = [{"step": step, "phase": "train", "seconds": 0.1 * step, "terms": {"ce": 1 / step}} for step in (1, 2)]
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log))
    (folder / "held.json").write_text(json.dumps({"looks": [{"held": 1 / 3}]}, indent=1) + "\n")
    (folder / "last.pt").write_bytes(b"weights")
    for name in ("scores.csv", "scores-best.csv"):
        Scores(rows=rows).write_csv(folder / name)
    return folder


def files_of(root: Path) -> dict[str, bytes]:
    return {str(file.relative_to(root)): file.read_bytes() for file in root.rglob("*") if file.is_file()}


def test_runs_are_laid_out_as_they_were(tmp_path: Path) -> None:
    folder = finished(tmp_path / "runs", "la-16", "coranet-seed0")
    collect(tmp_path / "runs", "paper").write(tmp_path / "table")
    stored = Archive.read(tmp_path / "table")
    assert stored.runs == ("paper/la-16/coranet-seed0",)
    stored.group("paper").unpack(tmp_path / "again")
    before, after = files_of(tmp_path / "runs"), files_of(tmp_path / "again")
    assert after.keys() == before.keys() - {"la-16/coranet-seed0/last.pt"}
    for name in ("scores.csv", "scores-best.csv", "log.jsonl", "held.json"):
        assert after[f"la-16/coranet-seed0/{name}"] == (folder / name).read_bytes()
    assert json.loads(after["la-16/coranet-seed0/run.json"])["data"] == {"source": "scans"}
    assert not any(str(tmp_path).encode() in content for content in after.values())
    collect(tmp_path / "again", "").unpack(tmp_path / "third")  # what was stored once is stored alike again
    assert files_of(tmp_path / "third") == after


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    finished(tmp_path / "runs", "la-16", "coranet-seed0")
    finished(tmp_path / "runs", "acdc-14", "ua_mt-seed1", ROWS[:2])
    stored = collect(tmp_path / "runs", "paper")
    turned = Archive(scores=dict(reversed(stored.scores.items())), documents=dict(reversed(stored.documents.items())))
    for name, archive in (("a", stored), ("b", turned), ("c", Archive().with_runs(stored))):
        archive.write(tmp_path / name)
    Archive.read(tmp_path / "a").write(tmp_path / "d")
    first = files_of(tmp_path / "a")
    assert first.keys() == {SCORES, DOCUMENTS}
    assert all(files_of(tmp_path / name) == first for name in "bcd")


def test_a_run_that_is_there_is_replaced_whole(tmp_path: Path) -> None:
    finished(tmp_path / "old", "la-16", "coranet-seed0")
    finished(tmp_path / "old", "la-16", "dan-seed0")
    folder = finished(tmp_path / "new", "la-16", "coranet-seed0", ROWS[:1])
    (folder / "scores-best.csv").unlink()
    (folder / "held.json").unlink()
    old, new = (collect(tmp_path / name, "paper") for name in ("old", "new"))
    both = old.with_runs(new)
    assert set(both.runs) == set(old.runs)
    assert repr(both.scores["paper/la-16/coranet-seed0/scores.csv"]) == repr(ROWS[:1])  # NaN equals nothing
    gone = {f"paper/la-16/coranet-seed0/{name}" for name in ("scores-best.csv", "held.json")}
    assert {*old.scores, *old.documents} - {*both.scores, *both.documents} == gone


def test_columns_have_the_types_that_they_say() -> None:
    text = write_text({"paper/la-16/coranet-seed0/scores-best.csv": ROWS})
    lines = list(csv.DictReader(io.StringIO(text)))
    assert tuple(lines[0]) == tuple(COLUMNS)
    assert {(line["run"], line["scores"]) for line in lines} == {("paper/la-16/coranet-seed0", "scores-best")}
    for line in lines:
        for name, kind in COLUMNS.items():
            if line["status"] == "absent" and kind is float:
                assert line[name] == ""
            else:
                assert str(kind(line[name])) == line[name]
    (again,) = read_text(text).values()
    assert [repr(one) for one in again] == [repr(one) for one in ROWS]
    assert {one.status for one in again} == set(get_args(Status))


def test_other_tables_and_broken_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"scores\.csv: overlaps of one are not those of its voxels"):
        write_text({"a/b/scores.csv": (replace(ROWS[0], values={**ROWS[0].values, "tpr": 0.5}),)})
    for line in ("run,case", ",".join(COLUMNS) + "\nrun,scores,case"):
        with pytest.raises(ValueError):
            read_text(line)
    Archive(scores={"a/b/scores.csv": ROWS}).write(tmp_path)
    (tmp_path / DOCUMENTS).write_bytes(lzma.compress(b'{"file": "a"}\n'))
    with pytest.raises(InputError, match=r"runs\.jsonl\.xz: holds no files of runs"):
        Archive.read(tmp_path)
    (tmp_path / SCORES).write_bytes(b"text")
    with pytest.raises(InputError, match=r"scores\.csv\.xz: is broken"):
        Archive.read(tmp_path)
    with pytest.raises(InputError, match="has no finished run"):
        collect(tmp_path, "paper")
    assert Archive.read(tmp_path / "none") == Archive()


def test_a_path_names_a_table_and_a_group(tmp_path: Path) -> None:
    assert find_archive(tmp_path / "table" / "paper") == (tmp_path / "table", "paper")
    Archive().write(tmp_path / "table")
    assert find_archive(tmp_path / "table") == (tmp_path / "table", "")
    assert find_archive(tmp_path / "table" / "ranking" / "acdc") == (tmp_path / "table", "ranking/acdc")


# The table of this repository


@pytest.fixture(scope="module")
def stored() -> Archive:
    return Archive.read(RESULTS)


def test_results_are_few_files_of_at_most_3_megabytes() -> None:
    files = [file for file in RESULTS.rglob("*") if file.is_file()]
    assert {file.name for file in files} == {"README.md", SCORES, DOCUMENTS}
    assert sum(file.stat().st_size for file in files) <= LIMIT


def test_results_are_written_as_they_were_read(stored: Archive) -> None:
    assert write_text(stored.scores) == lzma.decompress((RESULTS / SCORES).read_bytes()).decode()
    lines = lzma.decompress((RESULTS / DOCUMENTS).read_bytes()).decode().splitlines()
    assert [json.loads(line)["file"] for line in lines] == sorted(stored.documents)


def test_results_name_the_commit_of_every_run(stored: Archive) -> None:
    about = {file: content for file, content in stored.documents.items() if file.endswith("/run.json")}
    assert about
    assert all(re.fullmatch("[0-9a-f]{7,40}", content["made_with"]["commit"]) for content in about.values())
    assert not [file for file, content in about.items() if Path(content["data"]["source"]).is_absolute()]


def test_the_readme_of_results_says_what_is_there(stored: Archive) -> None:
    text = (RESULTS / "README.md").read_text(encoding="utf-8")
    columns = dict(re.findall(r"^\| `(\w+)` \| (str|int|float) \|", text, flags=re.MULTILINE))
    assert columns == {name: kind.__name__ for name, kind in COLUMNS.items()}
    _, _, groups = text.partition("## Where the runs came from")
    named = set(re.findall(r"^\| `([\w-]+)` \|", groups, flags=re.MULTILINE))
    assert named == {run.partition("/")[0] for run in stored.runs}
