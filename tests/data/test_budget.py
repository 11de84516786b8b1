"""What one scan may take: limits that hold by themselves, and how a person raises them."""

from __future__ import annotations

from pathlib import Path

import pytest

from coranet.cli import main
from coranet.data import budget
from coranet.data.budget import ALWAYS, LARGE, VARIABLE, adopt, allowing, claim, current_budget
from coranet.data.free_memory import free_memory
from coranet.data.problem import FileError
from coranet.errors import InputError

SCAN = Path("scan.nii.gz")
GB = 10**9


@pytest.fixture(autouse=True)
def plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    monkeypatch.setattr(budget, "free_memory", lambda: 64 * GB)


def test_empty_masks_pass() -> None:
    claim(SCAN, 512 * 512 * 1000, 512 * 512 * 1000 // 1030)
    claim(SCAN, 512 * 512 * 2000, 512 * 512 * 2000 // 1030)
    claim(SCAN, ALWAYS, 0)
    claim(SCAN, 4 * GB, 4 * GB // 400)


def test_more_than_can_be_packed_is_refused() -> None:
    with pytest.raises(FileError, match=r"scan.nii.gz: says that it holds 3.46 GB .*its 3 kB cannot.*--max-gb 7"):
        claim(SCAN, 1200**3 * 2, 3000)


def test_more_than_is_packed_is_refused_from_a_size_on() -> None:
    claim(SCAN, LARGE, LARGE // 1000)
    with pytest.raises(FileError, match=r"unpacks from 12 MB to 12 GB, which scans rarely do.*--max-gb 24"):
        claim(SCAN, 12 * GB, 12 * 10**6)


def test_more_than_half_of_free_memory_is_refused() -> None:
    claim(SCAN, 16 * GB)
    with pytest.raises(
        FileError, match=r"needs 34 GB of memory to be read, and a scan may take 32 GB here.*--max-gb 34"
    ):
        claim(SCAN, 17 * GB)


def test_processes_share() -> None:
    with allowing(None):
        adopt(current_budget(sharers=4))
        claim(SCAN, 4 * GB)
        with pytest.raises(FileError, match="a scan may take 8 GB here"):
            claim(SCAN, 5 * GB)


def test_a_person_raises_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with allowing(24):
        claim(SCAN, 12 * GB, 12 * 10**6)
        with allowing(None), pytest.raises(FileError, match="a scan may take 24 GB here"):
            claim(SCAN, 13 * GB)
    monkeypatch.setenv(VARIABLE, "80")
    claim(SCAN, 40 * GB, 3000)
    monkeypatch.delenv(VARIABLE)
    with pytest.raises(FileError):
        claim(SCAN, 40 * GB)


@pytest.mark.parametrize("gigabytes", [0, -1, float("nan"), float("inf")])
def test_what_is_no_number_of_gigabytes_is_refused(gigabytes: float, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match=r"--max-gb .*: give a number of gigabytes above 0"), allowing(gigabytes):
        pass
    for text in (str(gigabytes), "lots"):
        monkeypatch.setenv(VARIABLE, text)
        with pytest.raises(InputError, match=f"{VARIABLE}={text}: give a number of gigabytes"):
            claim(SCAN, GB)


def test_what_is_free_is_a_number_of_bytes_of_this_machine() -> None:
    assert 10**7 < free_memory() < 10**15


@pytest.mark.parametrize("words", [("doctor", "x"), ("prepare", "x", "--out", "y"), ("evaluate", "x", "y")])
def test_every_verb_that_reads_scans_takes_it(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    with pytest.raises(SystemExit) as caught:
        main([*words, "--max-gb", "-2"])
    assert caught.value.code == 1
    assert "--max-gb -2: give a number of gigabytes above 0, such as 8." in capsys.readouterr().err
