"""`coranet next`, from scans to a list, a page and what was left out."""

import csv
import json
import shutil

import pytest

from coranet.cli import main
from coranet.data.datasets.folder import scan_cases
from coranet.engine.prediction.scan_list import list_scans
from coranet.evaluation.quality import ALL, Quality
from coranet.runs.labelling import Choice


def run(capsys, *words):
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    said = capsys.readouterr()
    return stop.value.code, said.out, said.err


@pytest.fixture
def pool(scans, tmp_path):
    """Two scans, a twin of one, one that is broken, and one that the run has the label of."""
    folder = tmp_path / "pool"
    folder.mkdir()
    for name in ("phantom_007", "phantom_008"):
        shutil.copy(scans / f"imagesTs/{name}_0000.nii.gz", folder)
    shutil.copy(scans / "imagesTs/phantom_007_0000.nii.gz", folder / "twin_0000.nii.gz")
    for known in ("phantom_000", "phantom_001", "phantom_002"):
        shutil.copy(scans / f"imagesTr/{known}_0000.nii.gz", folder)
    (folder / "torn_0000.nii.gz").write_bytes((folder / "phantom_008_0000.nii.gz").read_bytes()[:500])
    return folder


def test_scans_are_chosen_listed_and_shown(capsys, finished, pool, tmp_path):
    out = tmp_path / "new/next.csv"
    words = ["next", finished, pool, "-n", 2, "--first", "worst", "--device", "cpu"]
    code, said, _ = run(capsys, *words, "--out", out)
    assert code == 0
    with out.open() as file:
        lines = list(csv.DictReader(file))
    chosen = [line["case"] for line in lines if line["rank"]]
    assert len(chosen) == 2
    assert "phantom_008" in chosen  # of the twins one alone is taken
    assert all(line["why"] for line in lines)
    assert (lines[-1]["rank"], lines[-1]["case"]) == ("", "torn")
    assert "left out" in lines[-1]["why"]
    assert f"1. {chosen[0]}: " in said
    assert "left out: torn: " in said
    page = (tmp_path / "new/next.html").read_text()
    assert page.index(f"<h3>{chosen[0]}</h3>") < page.index(f"<h3>{chosen[1]}</h3>")
    assert "torn" not in page
    assert "phantom_000" not in page
    # Predictions that are there are not made again, and give the same list.
    again = tmp_path / "again.csv"
    assert run(capsys, *words, "--out", again, "--predictions", tmp_path / "new/next_predictions")[0] == 0
    assert again.read_text() == out.read_text()
    assert not (tmp_path / "again_predictions").exists()


def test_usual_scans_come_first_unless_said_otherwise(capsys, finished, pool, scans, tmp_path):
    """Of three scans, two of them twins: a twin stands for the other, and the labelled ones do not come."""
    out, words = tmp_path / "next.csv", ["--device", "cpu"]
    code, said, err = run(capsys, "next", finished, pool, "--out", out, *words)
    assert code == 0
    with out.open() as file:
        lines = [line for line in csv.DictReader(file) if line["rank"]]
    reasons = {line["case"]: line["why"] for line in lines}
    assert set(reasons) == {"phantom_007", "phantom_008", "twin"}
    assert lines[-1]["case"] in ("phantom_007", "twin")  # nothing is left for the second twin to stand for
    assert all(why.startswith("no other is most like it") for why in reasons.values())  # all are chosen
    assert "no longer where" not in err + said
    one = tmp_path / "one/next.csv"
    run(capsys, "next", finished, pool, "-n", 1, "--out", one, *words)
    with one.open() as file:
        first = next(csv.DictReader(file))
    predicted = {file.name.split(".")[0] for file in (tmp_path / "one/next_predictions").glob("*_uncertain.nii.gz")}
    assert predicted == {f"{first['case']}_uncertain"}  # of the others nothing but their looks is needed
    assert first["case"] in ("phantom_007", "twin")
    assert first["why"].startswith("2 others look like it")


def test_of_a_dataset_the_unlabelled_training_scans_come(capsys, finished, scans, tmp_path):
    """And the list beside them is what other commands take."""
    out, device = tmp_path / "next.csv", ("--device", "cpu")
    assert run(capsys, "next", finished, scans, "-n", 2, "--out", out, *device)[0] == 0
    with out.open() as file:
        chosen = [line["case"] for line in csv.DictReader(file)]
    assert len(chosen) == 2
    assert set(chosen) < {"phantom_003", "phantom_004", "phantom_005", "phantom_006"}
    listed = out.with_suffix(".txt")
    assert listed.read_text().split() == [str(scans / f"imagesTr/{case}_0000.nii.gz") for case in chosen]
    assert run(capsys, "predict", finished, listed, "--out", tmp_path / "p", *device)[0] == 0
    assert {f"{case}.nii.gz" for case in chosen} < {file.name for file in (tmp_path / "p").iterdir()}
    code, _, err = run(capsys, "next", finished, scans, "--out", listed, *device)
    assert (code, "ends in .csv" in err) == (1, True)


def test_all_channels_of_a_chosen_scan_are_listed_where_they_lie(tmp_path):
    """A list has no folder beside it to look in; and a link keeps the name of its case."""
    for channel in (0, 1):
        (tmp_path / f"archive{channel}.nii.gz").write_bytes(b"")
        (tmp_path / f"a_{channel:04d}.nii.gz").symlink_to(tmp_path / f"archive{channel}.nii.gz")
    (case,) = scan_cases(tmp_path / "a_0000.nii.gz", 2)
    chosen = Choice(cases=(Quality(case="a", class_name=ALL),), reasons={"a": "usual"}, scans={"a": case}, broken={})
    chosen.write(tmp_path / "next.csv")
    assert (tmp_path / "next.txt").read_text().split() == [
        str(tmp_path / f"a_{channel:04d}.nii.gz") for channel in (0, 1)
    ]
    assert [case.name for case in list_scans(tmp_path / "next.txt", tmp_path / "out", 2)] == ["a"]


def test_labelled_scans_that_are_gone_are_said_to_be(capsys, finished, pool, scans, tmp_path):
    moved = shutil.copytree(finished, tmp_path / "moved")
    text = (moved / "run.json").read_text()
    (moved / "run.json").write_text(text.replace(str(scans), str(tmp_path / "nowhere")))
    for known in ("phantom_000", "phantom_001", "phantom_002"):
        (pool / f"{known}_0000.nii.gz").unlink()
    code, said, err = run(capsys, "next", moved, pool, "-n", 1, "--out", tmp_path / "next.csv", "--device", "cpu")
    assert code == 0
    assert "2 labelled scans are no longer where the run was trained from" in said + err


def test_before_any_run_the_usual_scans_of_a_dataset_come_first(capsys, scans, pool, tmp_path):
    """Labelled cases and test scans do not come; a folder of scans has neither."""
    out = tmp_path / "new/first.csv"
    code, said, _ = run(capsys, "next", scans, "-n", 2, "--out", out)
    assert code == 0
    with out.open() as file:
        lines = list(csv.DictReader(file))
    unlabelled = {"phantom_003", "phantom_004", "phantom_005", "phantom_006"}
    assert len(lines) == 2
    assert {line["case"] for line in lines} < unlabelled
    assert all(line["why"] and not line["expected_dice"] for line in lines)
    assert f"1. {lines[0]['case']}: " in said
    assert {file.name for file in out.parent.iterdir()} == {"first.csv", "first.txt"}
    code, said, _ = run(capsys, "next", pool, "--out", out)
    assert code == 0
    assert "left out: torn: " in said
    assert all(name in said for name in ("phantom_000", "phantom_007", "twin"))


def test_what_needs_a_run_is_said(capsys, finished, scans, tmp_path):
    words = ["--out", tmp_path / "next.csv"]
    code, _, err = run(capsys, "next", finished, *words)
    assert (code, "is a run. Give the folder of scans after it" in err) == (1, True)
    code, _, err = run(capsys, "next", scans, "--first", "worst", *words)
    assert (code, "need a run" in err) == (1, True)
    (tmp_path / "torn.nii.gz").write_bytes(b"no scan")
    code, _, err = run(capsys, "next", tmp_path / "torn.nii.gz", *words)
    assert (code, "no scan of it can be read" in err) == (1, True)


def test_what_cannot_be_chosen_is_said(capsys, finished, pool, scans, tmp_path):
    words = ["--device", "cpu", "--out", tmp_path / "next.csv"]
    code, _, err = run(capsys, "next", finished, pool, "-n", 0, *words)
    assert (code, "-n 0: at least one" in err) == (1, True)
    known = tmp_path / "known"
    known.mkdir()
    shutil.copy(scans / "imagesTr/phantom_000_0000.nii.gz", known)
    code, _, err = run(capsys, "next", finished, known, *words)
    assert (code, "all its scans are labelled, validation or test cases of the run" in err) == (1, True)
    (known / "phantom_000_0000.nii.gz").rename(known / "new_0000.nii.gz")
    (tmp_path / "p").mkdir()
    code, _, err = run(capsys, "next", finished, known, "--predictions", tmp_path / "p", *words)
    assert (code, "cases.csv" in err) == (1, True)
    (known / "new_0000.nii.gz").write_bytes(b"no scan")
    code, _, err = run(capsys, "next", finished, known, *words)
    assert (code, "no scan of it can be read" in err) == (1, True)


def test_test_cases_are_not_asked_for(capsys, finished, pool, tmp_path):
    run_folder = shutil.copytree(finished, tmp_path / "run")
    for file in ("run.json", "split.json"):
        content = json.loads((run_folder / file).read_text())
        split = content["split"] if file == "run.json" else content
        split["test"] = ["phantom_008"]
        (run_folder / file).write_text(json.dumps(content))
    code, said, err = run(capsys, "next", run_folder, pool, "--out", tmp_path / "next.csv", "--device", "cpu")
    assert code == 0, err
    assert "phantom_008" not in said
