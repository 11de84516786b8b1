"""Shares of cases: every case is in one, whoever lists them, and no two processes work on one case."""

import shutil

import pytest

from coranet.cli import main
from coranet.data.case_journal import JOURNALS, CaseJournal
from coranet.data.datasets.folder import scan_cases
from coranet.data.shards import Shard, sharing
from coranet.data.store import Store
from coranet.errors import InputError
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


def test_a_shard_with_a_broken_scan_names_it_and_keeps_the_others(scans, tmp_path, capsys):
    raw = shutil.copytree(scans, tmp_path / "raw")
    broken = raw / "imagesTr/phantom_004_0000.nii.gz"
    broken.write_bytes(broken.read_bytes()[:700])
    code, err = command(capsys, "prepare", raw, "--out", tmp_path / "store", "--jobs", 1, "--shard", "1/1")
    assert (code, "phantom_004" in err) == (1, True)
    pieces = tmp_path / ".store-unfinished/pieces"
    assert len(list(pieces.glob("*.json"))) == 8
