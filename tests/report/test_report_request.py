"""`coranet report`: a page of any run and any comparison, and a sentence for what is missing."""

from __future__ import annotations

import csv
import html
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from coranet.cli import main
from coranet.errors import InputError
from coranet.evaluation import Scores
from coranet.metrics import METRICS, Metric
from coranet.report import ReportRequest, report_on, table_text
from coranet.report.numbers import FACTS, MEASURES, NOTHING, Fact, Measure
from tests.report.finished_runs import CASES, make_data, write_settings

pytestmark = pytest.mark.usefixtures("coarse_pictures")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("made"))


@pytest.fixture
def data(made: Path, tmp_path: Path) -> Path:
    """Scans, labels and two runs, to be spoilt."""
    root = shutil.copytree(made, tmp_path / "data")
    for name in ("supervised", "cora"):
        write_settings(root / name, 40)
    return root


def notes(page: Path) -> list[str]:
    return re.findall(r"<li>(.*?)</li>", page.read_text())


def pictures(page: Path) -> set[str]:
    return {file.stem for file in page.parent.glob("*.png")}


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return int(exit_.value.code or 0), out, err


# One run


def test_a_whole_run_needs_nothing_but_its_folder(data: Path) -> None:
    page, rows = report_on(ReportRequest(folders=(data / "cora",)))
    text = page.read_text()
    assert page == data / "cora" / "report.html"
    assert notes(page) == []
    assert pictures(page) == {"comparison", "film", "curves"}
    assert [row["run"] for row in rows] == ["cora"]
    headings = re.findall(r"<h2>(.*?)</h2>", text)
    assert headings == ["Scores", "By class", "Failures", "Pictures"]
    assert "<h1>cora: coranet on data</h1>" in text
    assert "<p>None.</p>" in text
    assert "train.batch" in text


def test_failures_are_listed_case_by_case(data: Path) -> None:
    page, _ = report_on(ReportRequest(folders=(data / "supervised",)))
    line = "<td>case_5</td><td>LV</td><td>supervised</td><td>missed</td>"
    assert line in page.read_text()
    assert re.search(r"<td>LV</td><td>supervised</td>.*<td>1 of 6</td>", page.read_text())


def test_what_a_run_lacks_is_said_with_the_command_that_makes_it(data: Path) -> None:
    run = data / "cora"
    (run / "scores.csv").unlink()
    page, rows = report_on(ReportRequest(folders=(run,)))
    assert rows == []
    assert notes(page) == [
        f"cora has no scores: `coranet evaluate {run}/predictions LABELS --out {run}/scores.csv` makes them."
    ]
    assert "not scored yet" in page.read_text()
    assert pictures(page) == {"comparison", "film", "curves"}

    shutil.rmtree(run / "predictions")
    (run / "log.jsonl").unlink()
    for file in run.glob("*.png"):
        file.unlink()
    page, _ = report_on(ReportRequest(folders=(run,)))
    assert [line.partition(":")[0] for line in notes(page)] == [
        "cora has no log",
        "cora has no predictions to show",
        "cora has no scores",
    ]
    assert f"`coranet predict {run} SCANS --out {run}/predictions --masks` makes them." in notes(page)[1]
    assert pictures(page) == {"film"}
    shutil.rmtree(run / "film")
    assert report_on(ReportRequest(folders=(run,)))[0].exists()


def test_a_run_that_has_only_begun(data: Path) -> None:
    run = data / "cora"
    lines = (run / "log.jsonl").read_text().splitlines()
    for part in ("predictions", "film"):
        shutil.rmtree(run / part)
    (run / "scores.csv").unlink()
    (run / "log.jsonl").write_text(f"{lines[0]}\n{lines[1][:20]}")  # it is writing
    page, _ = report_on(ReportRequest(folders=(run,)))
    assert pictures(page) == {"curves"}
    assert "cora has no film: `coranet train ... --set train.checks=10` keeps one." in notes(page)


def test_scans_that_were_moved_are_asked_for_and_taken_from_there(data: Path, tmp_path: Path) -> None:
    shutil.move(data / "imagesTs", tmp_path / "scans")
    shutil.move(data / "labelsTs", tmp_path / "truth")
    page, _ = report_on(ReportRequest(folders=(data / "cora",)))
    assert pictures(page) == {"film", "curves"}
    assert "--images SCANS --labels LABELS" in notes(page)[0]
    page, _ = report_on(ReportRequest(folders=(data / "cora",), images=tmp_path / "scans", labels=tmp_path / "truth"))
    assert (pictures(page), notes(page)) == ({"comparison", "film", "curves"}, [])


def test_predictions_elsewhere_are_scored_against_the_labels_that_are_given(data: Path, tmp_path: Path) -> None:
    shutil.move(data / "cora" / "predictions", tmp_path / "elsewhere")
    (data / "cora" / "scores.csv").rename(tmp_path / "expected.csv")
    shutil.copy(data / "dataset.json", tmp_path / "elsewhere")
    request = ReportRequest(folders=(data / "cora",), out=tmp_path / "page", predictions=tmp_path / "elsewhere")
    page, rows = report_on(request)
    assert rows == []
    assert f"coranet evaluate {tmp_path / 'elsewhere'} LABELS" in notes(page)[0]
    labelled = ReportRequest(**{**vars(request), "labels": data / "labelsTs", "images": data / "imagesTs"})
    page, rows = report_on(labelled)
    (tmp_path / "expected.csv").rename(data / "cora" / "scores.csv")
    assert rows == table_text({"cora": data / "cora"})
    assert notes(page) == []
    assert "comparison" in pictures(page)


def test_predictions_without_labels_are_shown_all_the_same(data: Path) -> None:
    shutil.rmtree(data / "labelsTs")
    (data / "cora" / "scores.csv").unlink()
    page, _ = report_on(ReportRequest(folders=(data / "cora",)))
    caption, film, *_ = re.findall(r"<figcaption>(.*?)</figcaption>", page.read_text())
    assert caption.startswith("Some of the cases.")
    assert "right is on the left" in html.unescape(caption)
    assert "(case b, slice 3)" in film  # which is kept as 2: pages count from 1
    assert "edge of the truth" not in caption
    assert "comparison" in pictures(page)


# Several runs


def test_runs_side_by_side(data: Path, tmp_path: Path) -> None:
    folders = (data / "supervised", data / "cora")
    page, rows = report_on(ReportRequest(folders=folders, out=tmp_path / "both"))
    assert page == tmp_path / "both" / "report.html"
    assert [row["run"] for row in rows] == ["supervised", "cora"]
    assert "cora − supervised" in page.read_text()
    (data / "cora" / "scores.csv").unlink()
    page, rows = report_on(ReportRequest(folders=folders, out=tmp_path / "both"))
    assert [row["run"] for row in rows] == ["supervised"]
    assert [line.partition(":")[0] for line in notes(page)] == ["cora has no scores"]
    assert "<p>supervised: scored on 6 test cases.</p>" in page.read_text()


def test_runs_of_one_name_are_told_apart_by_their_path(data: Path, tmp_path: Path) -> None:
    twin = shutil.copytree(data / "cora", tmp_path / "other" / "cora")
    _, rows = report_on(ReportRequest(folders=(data / "cora", twin), out=tmp_path / "both"))
    assert [row["run"] for row in rows] == ["data/cora", "other/cora"]
    _, rows = report_on(
        ReportRequest(folders=(twin, tmp_path / "other" / ".." / "other" / "cora"), out=tmp_path / "one")
    )
    assert [row["run"] for row in rows] == ["cora"]


def test_runs_scored_on_other_cases_are_shown_and_not_compared(data: Path, tmp_path: Path) -> None:
    scores = Scores.read_csv(data / "cora" / "scores.csv")
    Scores(rows=scores.rows[2:]).write_csv(data / "cora" / "scores.csv")
    page, rows = report_on(ReportRequest(folders=(data / "supervised", data / "cora"), out=tmp_path / "both"))
    assert len(rows) == 2
    assert "cora is not compared with supervised: only one of the two is scored on case_0." in notes(page)[0]
    assert "cora − supervised" not in page.read_text()
    assert "<p>supervised, cora: scored on different test cases.</p>" in page.read_text()


# A comparison


def comparison(data: Path, root: Path) -> Path:
    """Two rows with two seeds, as `coranet compare` leaves them."""
    for name, folder in (("supervised", "supervised"), ("cora", "coranet-regions=tta")):
        for seed in (0, 1):
            shutil.copytree(data / name, root / f"{folder}-seed{seed}")
    (root / "compare.json").write_text(json.dumps({"data": str(data)}))
    return root


def test_a_comparison_ends_in_the_same_table_again(data: Path, tmp_path: Path) -> None:
    root = comparison(data, tmp_path / "compared")
    page, rows = report_on(ReportRequest(folders=(root,)))
    assert [row["run"] for row in rows] == ["supervised", "coranet-regions=tta"]
    assert "coranet[regions=tta]" not in page.read_text()
    table = (root / "table.csv").read_text()
    (root / "table.csv").write_text(table.replace("coranet-regions=tta", "coranet[regions=tta]"))  # as compare wrote it
    page, rows = report_on(ReportRequest(folders=(root,)))
    assert [row["run"] for row in rows] == ["supervised", "coranet[regions=tta]"]
    assert rows[1]["each seed"].count(",") == 1
    assert rows[1]["ahead of supervised [95 % over patients]"].startswith("+")
    text = page.read_text()
    assert re.findall(r"<h2>(.*?)</h2>", text)[0] == "Over seeds"
    assert "coranet[regions=tta] − supervised" in text
    assert "<h1>compared: 2 methods on data</h1>" in text
    assert (notes(page), pictures(page)) == ([], {"comparison", "film", "curves"})
    assert [line["run"] for line in csv.DictReader((root / "table.csv").read_text().splitlines())] == [
        "supervised",
        "coranet[regions=tta]",
    ]


def test_a_comparison_that_is_not_finished(data: Path, tmp_path: Path) -> None:
    root = comparison(data, tmp_path / "compared")
    (root / "supervised-seed1" / "scores.csv").unlink()
    (root / "broken-seed0").mkdir()
    (root / "broken-seed0" / "error.txt").write_text("RuntimeError: no such luck\n\nTraceback")
    page, rows = report_on(ReportRequest(folders=(root,)))
    assert [row["run"] for row in rows] == ["supervised", "coranet-regions=tta", "broken"]
    assert "," not in rows[0]["each seed"] + rows[1]["each seed"]  # of the seed that both have
    assert notes(page) == [
        "broken failed, seed 0: RuntimeError: no such luck",
        "Not finished yet: supervised-seed1. The command that began them, given again, continues them.",
    ]
    for file in root.glob("*/scores.csv"):
        file.unlink()
    page, rows = report_on(ReportRequest(folders=(root,)))
    assert rows == []
    assert "supervised has no scores" in page.read_text()


# What is refused


def test_folders_that_hold_no_run(capsys: pytest.CaptureFixture[str], data: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    made_by = "Give a folder that `coranet train`, `coranet compare` or `coranet demo` made"
    assert command(capsys, "report", tmp_path / "empty")[2] == f"coranet: {tmp_path}/empty: has no run. {made_by}.\n"
    code, _, err = command(capsys, "report", data / "cora", tmp_path / "nowhere")
    assert (code, err) == (1, f"coranet: {tmp_path}/nowhere: does not exist. {made_by}.\n")
    comparison(data, tmp_path / "paper" / "acdc")
    code, _, err = command(capsys, "report", tmp_path / "paper")
    assert (code, err.count("\n")) == (1, 1)
    assert (
        f"is a folder of `coranet reproduce`. Make its pages again with `coranet reproduce --out {tmp_path}/paper`"
        in err
    )
    with pytest.raises(InputError, match="belong to one run"):
        report_on(ReportRequest(folders=(data / "cora", data / "supervised"), predictions=tmp_path))
    with pytest.raises(InputError, match="belong to one run"):
        report_on(ReportRequest(folders=(tmp_path / "paper" / "acdc",), predictions=tmp_path))


# The command


def test_the_command(capsys: pytest.CaptureFixture[str], data: Path, tmp_path: Path) -> None:
    code, out, err = command(capsys, "report", data / "supervised", data / "cora", "--out", tmp_path / "page")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["run", "supervised", "cora"]
    assert err == f"Pictures and details: {tmp_path}/page/report.html\n"


@pytest.mark.parametrize(
    ("code", "unwanted"),
    [
        ("import coranet.report", ("torch", "matplotlib", "scipy.stats", "scipy.ndimage", "coranet.methods")),
        (
            "from coranet.cli import main\ntry: main(['report', {run!r}])\nexcept SystemExit as stop: assert not stop.code",
            ("torch", "coranet.methods", "coranet.engine", "coranet.runs.launch", "coranet.paper"),
        ),
    ],
)
def test_neither_the_room_nor_the_command_loads_what_it_does_not_need(
    data: Path, code: str, unwanted: tuple[str, ...]
) -> None:
    asked = f"print([name for name in {unwanted!r} if name in sys.modules])"
    script = f"import sys\n{code.format(run=str(data / 'cora'))}\n{asked}"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


# Columns


def test_a_new_column_is_one_row_and_shows_everywhere(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    newer = Metric("Size", "%", lambda pairing: 0.25)
    monkeypatch.setitem(METRICS, "size", newer)
    monkeypatch.setitem(MEASURES, "tpr", Measure("Recall", 3, brief=True))
    monkeypatch.setitem(MEASURES, "size", Measure("Size", 2))
    monkeypatch.setitem(FACTS, "log lines", Fact(lambda run: len(run.log)))
    root = comparison(data, tmp_path / "compared")
    page, rows = report_on(ReportRequest(folders=(root,)))
    assert rows[0]["Recall"] == f"{Scores.read_csv(data / 'supervised/scores.csv').mean()['tpr'].mean:.3f}"
    assert rows[0]["log lines"] == "20"
    assert "Size" not in rows[0]
    assert "Recall" in table_text({"one": data / "cora"})[0]
    text = page.read_text()
    assert text.count("<th>Recall</th>") == 4  # over seeds, scores, by class, differences
    assert text.count("<th>Size</th>") == 3
    assert "<td>log lines</td><td>20</td><td>20</td>" in text
    line = next(csv.DictReader((root / "table.csv").read_text().splitlines()))
    assert (line["size"], line["log lines"]) == ("nan", "20")  # runs that were scored before there was such a metric
    assert float(line["tpr"]) > 0
    assert "| Recall |" in (root / "table.md").read_text()


def test_a_fact_is_said_over_seeds() -> None:
    runs: Any = ["first", "other one"]
    assert Fact(len).value(runs) == 7
    assert Fact(len, over=min).value(runs) == 5
    assert Fact(lambda run: float("nan") if run == "first" else 1.0, over=min).text(runs) == NOTHING
    assert Fact(len).text([]) == NOTHING


def test_long_cells_wrap_and_wide_tables_scroll(data: Path) -> None:
    write_settings(data / "cora", 40, labelled=CASES)
    page, _ = report_on(ReportRequest(folders=(data / "cora",)))
    text = page.read_text()
    assert text.count('<div class="scroll"><table>') == text.count("<table>") > 4
    assert "overflow-x: auto" in text
    assert "cora has seen test cases in training or validation" in text
