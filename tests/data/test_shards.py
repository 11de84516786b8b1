"""Shares of cases: every case is in one, whoever lists them, and no two processes work on one case."""

import shutil

import pytest

from coranet.cli import main
from coranet.data.case_journal import JOURNALS, CaseJournal
from coranet.data.datasets.folder import scan_cases
from coranet.data.shards import Shard, sharing
from coranet.data.store import Store
from coranet.errors import InputError
from coranet.evaluation.quality import NOT_PREDICTED, read_qualities
from coranet.locks import OccupiedError

NAMES = [f"case_{number}" for number in range(500)]


def test_every_case_is_in_one_share_whatever_else_there_is():
    shards = [Shard(number, 7) for number in range(1, 8)]
    owners = {name: [shard for shard in shards if shard.has(name)] for name in NAMES}
    assert all(owner == [Shard.of(name, 7)] for name, owner in owners.items())
    assert min(sum(shard.has(name) for name in NAMES) for shard in shards) > 500 / 7 / 2


@pytest.mark.parametrize("text", ["0/3", "4/3", "3", "a/b", "1/0", "-1/3"])
def test_what_is_no_share_is_refused(text):
    with pytest.raises(InputError, match="such as 3/8"):
        Shard.from_text(text)
    assert Shard.from_text("3/8") == Shard(3, 8)


def test_shares_of_one_count_work_together_and_others_are_refused(tmp_path):
    with sharing(tmp_path, Shard(1, 2), tmp_path):
        with sharing(tmp_path, Shard(2, 2), tmp_path):
            pass
        for other in (Shard(1, 2), Shard(2, 3), None):
            with pytest.raises(OccupiedError), sharing(tmp_path, other, tmp_path):
                pass
    with sharing(tmp_path, None, tmp_path), pytest.raises(OccupiedError, match="worked on by process"):
        sharing(tmp_path, Shard(1, 2), tmp_path).__enter__()
    assert list(tmp_path.iterdir()) == []


@pytest.fixture
def three(tmp_path):
    """Scans, and their results beside them."""
    for name in ("a", "b", "c"):
        (tmp_path / f"{name}.nii.gz").write_bytes(b"scan")
        (tmp_path / "out").mkdir(exist_ok=True)
        (tmp_path / f"out/{name}.nii.gz").write_bytes(b"label")
    return tmp_path, [case for name in ("a", "b", "c") for case in scan_cases(tmp_path / f"{name}.nii.gz", 1)]


def test_a_case_is_finished_as_long_as_nothing_changes(three):
    folder, (a, b, c) = three
    out = folder / "out"
    for share, case in (("one", a), ("two", b), ("two", c)):
        with CaseJournal(out, "weights").opened(share) as journal:
            journal.add(case, {"LV": 0.1 + 0.2}, [out / f"{case.name}.nii.gz"])
    assert CaseJournal(out, "weights").rows([c, a, b]) == {name: {"LV": 0.1 + 0.2} for name in "cab"}
    assert list(CaseJournal(out, "weights").rows([c, a, b])) == ["c", "a", "b"]
    assert CaseJournal(out, "other weights").found(a) is None
    (folder / "a.nii.gz").write_bytes(b"scan!")
    (out / "b.nii.gz").unlink()
    assert [CaseJournal(out, "weights").found(case) is None for case in (a, b, c)] == [True, True, False]


def test_a_line_that_was_cut_off_costs_its_case_alone(three):
    folder, (a, b, _) = three
    out = folder / "out"
    with CaseJournal(out, "w").opened("all") as journal:
        journal.add(a, {}, [])
        journal.add(b, {}, [])
    file = out / JOURNALS / "all.txt"
    file.write_bytes(file.read_bytes()[:-9])
    with CaseJournal(out, "w").opened("all") as journal:
        assert (journal.found(a), journal.found(b)) == ({}, None)
        journal.add(b, {"LV": 1.0}, [])
    assert CaseJournal(out, "w").found(b) == {"LV": 1.0}


def command(capsys, *words):
    with pytest.raises(SystemExit) as caught:
        main([*map(str, words)])
    return caught.value.code, capsys.readouterr().err


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.glob("[!.]*")}


def test_predictions_and_summary_of_shards_are_those_of_one_process(finished, scans, tmp_path, capsys):
    listed = tmp_path / "list.txt"
    listed.write_text("# all\n" + "".join(f"{file}\n" for file in sorted(scans.glob("imagesT?/*"))))
    words = ["predict", finished, listed, "--device", "cpu", "--masks"]
    code, whole = command(capsys, *words, "--out", tmp_path / "whole")
    assert code == 0
    for number in (2, 1, 3):
        assert command(capsys, *words, "--out", tmp_path / "whole2", "--shard", f"{number}/3")[0] == 0
    times = {file: file.stat().st_mtime_ns for file in (tmp_path / "whole2").glob("*.gz")}
    assert len(times) == 9 * 5
    code, merged = command(capsys, *words, "--out", tmp_path / "whole2")
    assert code == 0
    assert merged == whole.replace("whole", "whole2")
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "whole2").glob("*.gz")} == times
    assert contents(tmp_path / "whole") == contents(tmp_path / "whole2")


def test_a_broken_scan_is_named_and_stops_no_other_in_shards_as_in_one_process(finished, scans, tmp_path, capsys):
    raw = shutil.copytree(scans / "imagesTs", tmp_path / "raw")
    broken = raw / "phantom_000_0000.nii.gz"
    broken.write_bytes((scans / "imagesTr/phantom_000_0000.nii.gz").read_bytes()[:700])
    words = ["predict", finished, raw, "--device", "cpu", "--page"]
    code, whole = command(capsys, *words, "--out", tmp_path / "whole")
    assert code == 1
    assert "Predicted 2 scans" in whole
    assert f"1 of 3 scans could not be predicted: {broken}. Mend or remove" in whole.splitlines()[-1]
    codes = {}
    for number in (2, 1):
        codes[number], said = command(capsys, *words, "--out", tmp_path / "whole2", "--shard", f"{number}/2")
        assert (str(broken) in said) == bool(codes[number])
    assert sorted(codes.values()) == [0, 1]
    code, merged = command(capsys, *words, "--out", tmp_path / "whole2")
    assert (code, merged) == (1, whole.replace("whole", "whole2"))
    assert contents(tmp_path / "whole") == contents(tmp_path / "whole2")
    assert (tmp_path / "whole/cases.csv").read_text().splitlines()[1] == "phantom_000,all,,,,,not predicted"
    assert read_qualities(tmp_path / "whole")[0].flags == (NOT_PREDICTED,)
    broken.write_bytes((scans / "imagesTr/phantom_000_0000.nii.gz").read_bytes())
    assert command(capsys, *words, "--out", tmp_path / "whole")[0] == 0
    assert "not predicted" not in (tmp_path / "whole/cases.csv").read_text()


def test_a_list_names_what_is_wrong_with_it(finished, tmp_path, capsys):
    listed = tmp_path / "list.txt"
    for text, error in (("", "lists no scan"), ("absent.nii.gz\n", "list.txt lists it")):
        listed.write_text(text)
        code, err = command(capsys, "predict", finished, listed, "--out", tmp_path / "out")
        assert (code, error in err) == (1, True)
    assert command(capsys, "predict", finished, listed, "--out", tmp_path / "out", "--shard", "4/3")[0] == 1


@pytest.mark.parametrize("preset", ["auto", "acdc"])
def test_a_store_of_shards_is_that_of_one_process(scans, tmp_path, capsys, preset):
    words = ["prepare", scans, "--preset", preset, "--jobs", 1]
    assert command(capsys, *words, "--out", tmp_path / "whole")[0] == 0
    for number in (2, 1):
        assert command(capsys, *words, "--out", tmp_path / "store", "--shard", f"{number}/2")[0] == 0
        assert not Store.is_store(tmp_path / "store")
    code, err = command(capsys, *words, "--out", tmp_path / "store")
    assert (code, "Prepared" in err) == (0, True)
    assert contents(tmp_path / "whole") == contents(tmp_path / "store")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["store", "whole"]


def test_a_list_is_prepared_as_the_scans_that_it_names(scans, tmp_path, capsys):
    names = [f"imagesTr/phantom_00{number}_0000.nii.gz" for number in (1, 4, 0)] + ["imagesTs/phantom_007_0000.nii.gz"]
    listed = tmp_path / "some.txt"
    listed.write_text("".join(f"{scans / name}\n" for name in names))
    words = ["prepare", listed, "--jobs", 1]
    assert command(capsys, *words, "--out", tmp_path / "whole")[0] == 0
    assert list(Store.open(tmp_path / "whole").cases) == [f"phantom_00{number}" for number in (0, 1, 4, 7)]
    for number in (1, 2):
        assert command(capsys, *words, "--out", tmp_path / "store", "--shard", f"{number}/2")[0] == 0
    assert command(capsys, *words, "--out", tmp_path / "store")[0] == 0
    assert contents(tmp_path / "whole") == contents(tmp_path / "store")


@pytest.mark.parametrize(
    ("line", "error"),
    [
        ("", "lists no scan"),
        ("{scans}/labelsTr/phantom_000.nii.gz", "does not lie in imagesTr"),
        ("{scans}/imagesTr", "does not lie in imagesTr"),
        ("{scans}/imagesTr/../dataset.json", "does not lie in imagesTr"),
        ("{scans}/imagesTr/phantom_000_0000.nii.gz\nimagesTr/stranger.nii.gz", "lists scans of"),
    ],
)
def test_a_list_of_something_else_is_refused_before_anything_is_prepared(scans, tmp_path, capsys, line, error):
    (tmp_path / "imagesTr").mkdir()
    (tmp_path / "imagesTr/stranger.nii.gz").touch()
    (tmp_path / "list.txt").write_text(line.format(scans=scans))
    code, err = command(capsys, "prepare", tmp_path / "list.txt", "--out", tmp_path / "store")
    assert (code, error in err) == (1, True), err
    assert not list(tmp_path.glob(".store*"))


@pytest.mark.parametrize("shard", [[], ["--shard", "1/1"]])
@pytest.mark.parametrize("preset", ["auto", "acdc"])
def test_a_broken_scan_is_named_and_the_others_are_prepared_and_kept(scans, tmp_path, capsys, preset, shard):
    raw = shutil.copytree(scans, tmp_path / "raw")
    broken = raw / "imagesTr/phantom_004_0000.nii.gz"
    broken.write_bytes(broken.read_bytes()[:700])
    words = ["prepare", raw, "--out", tmp_path / "store", "--jobs", 1, "--preset", preset, "--spacing", "2", "2", "4"]
    code, err = command(capsys, *words, *shard)
    assert (code, broken.name in err) == (1, True), err
    times = {file.stat().st_mtime_ns for file in (tmp_path / ".store-unfinished/pieces").glob("*.json")}
    journal = tmp_path / ".store-unfinished/journal.jsonl"
    ready = len(journal.read_text().splitlines()) if journal.exists() else 0
    assert len(times) + ready == 8
    broken.unlink()
    (raw / "labelsTr/phantom_004.nii.gz").unlink(missing_ok=True)
    assert command(capsys, *words, *shard)[0] == 0
    if shard:
        assert {file.stat().st_mtime_ns for file in (tmp_path / ".store-unfinished/pieces").glob("*.json")} == times
    else:
        assert len(Store.open(tmp_path / "store").cases) == 8


def test_all_broken_scans_are_named(scans, tmp_path, capsys):
    raw = shutil.copytree(scans, tmp_path / "raw")
    for name in ("phantom_001", "phantom_004"):
        (raw / f"imagesTr/{name}_0000.nii.gz").write_bytes(b"nothing")
    code, err = command(capsys, "prepare", raw, "--out", tmp_path / "store", "--preset", "acdc", "--jobs", 1)
    assert code == 1
    assert "phantom_001_0000.nii.gz: " in err
    assert f"Others that cannot be prepared: {raw / 'imagesTr/phantom_004_0000.nii.gz'}." in " ".join(err.split())
