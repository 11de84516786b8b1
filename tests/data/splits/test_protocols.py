"""Protocols by name: their lists are whole, apart and the field's own, and fit every form their set comes in."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from coranet.cli import main
from coranet.data.splits.by_patient import Split
from coranet.data.splits.protocols import Protocol, find_protocol, protocols
from coranet.data.store import StoreWriter
from coranet.errors import InputError

SIZES = {
    "acdc:3": (3, 67, 10, 20),
    "acdc:7": (7, 63, 10, 20),
    "acdc:14": (14, 56, 10, 20),
    "acdc:70": (70, 0, 10, 20),
    "acdc-peng:20%": (15, 60, 0, 25),
    "acdc-peng:100%": (75, 0, 0, 25),
    "endocardium:1:4": (5, 21, 0, 7),
    "endocardium:1:2": (9, 17, 0, 7),
    "endocardium:1:1": (13, 13, 0, 7),
    "la:8": (8, 72, 0, 20),
    "la:16": (16, 64, 0, 20),
    "la:80": (80, 0, 0, 20),
    "pancreas-2d:1:1": (32, 32, 0, 16),
    "pancreas-2d:1:2": (21, 43, 0, 16),
    "pancreas-2d:1:4": (13, 51, 0, 16),
    "pancreas-a:6": (6, 56, 0, 18),
    "pancreas-a:12": (12, 50, 0, 18),
    "pancreas-a:62": (62, 0, 0, 18),
    "pancreas-b:6": (6, 56, 0, 20),
    "pancreas-b:12": (12, 50, 0, 20),
    "pancreas-b:62": (62, 0, 0, 20),
    "sunnybrook:1:4": (7, 29, 0, 9),
    "sunnybrook:1:2": (12, 24, 0, 9),
    "sunnybrook:1:1": (18, 18, 0, 9),
}


def lists(protocol: Protocol) -> tuple[tuple[str, ...], ...]:
    return protocol.labelled, protocol.unlabelled, protocol.val, protocol.test


def test_every_protocol_has_the_size_it_is_known_by() -> None:
    assert {name: tuple(map(len, lists(find_protocol(name)))) for name in protocols()} == SIZES


@pytest.mark.parametrize("name", SIZES)
def test_lists_share_nobody_and_say_where_they_come_from(name: str) -> None:
    protocol = find_protocol(name)
    everyone = [key for keys in lists(protocol) for key in keys]
    assert len(everyone) == len(set(everyone))
    assert protocol.source
    assert protocol.notes
    assert set(protocol.withdrawn) <= set(everyone)


@pytest.mark.parametrize(
    ("family", "everyone"),
    [
        ("acdc:7", [f"{number:03d}" for number in range(1, 101)]),
        ("acdc-peng:20%", [f"{number:03d}" for number in range(1, 101)]),
        ("endocardium:1:4", [f"{number:02d}" for number in range(1, 34)]),
        ("pancreas-b:12", [f"{number:04d}" for number in range(1, 83)]),
        ("pancreas-a:12", [f"{number:04d}" for number in range(1, 83) if number not in (25, 70)]),
        ("pancreas-2d:1:1", [f"{number:04d}" for number in range(1, 83) if number not in (25, 70)]),
    ],
)
def test_everyone_of_the_set_is_in_a_list(family: str, everyone: Sequence[str]) -> None:
    assert sorted(key for keys in lists(find_protocol(family)) for key in keys) == list(everyone)


def test_what_was_drawn_can_be_drawn_again() -> None:
    subjects = [f"{number:02d}" for number in range(1, 34)]
    random.Random(0).shuffle(subjects)
    protocol = find_protocol("endocardium:1:4")
    assert protocol.test == tuple(subjects[:7])
    assert protocol.labelled == tuple(subjects[7:12])
    peng = find_protocol("acdc-peng:20%")
    groups = [sorted((int(key) - 1) // 20 for key in keys) for keys in (peng.labelled, peng.test)]
    assert groups == [sorted([*range(5)] * 3), sorted([*range(5)] * 5)]


def test_pancreas_a_goes_by_number() -> None:
    protocol = find_protocol("pancreas-a:12")
    assert protocol.labelled == tuple(f"{number:04d}" for number in range(1, 13))
    assert (protocol.unlabelled[0], protocol.unlabelled[-1], protocol.test[0]) == ("0013", "0063", "0064")


@pytest.mark.parametrize("form", ["PANCREAS_{}", "image{}_norm", "{}", "label{}"])
def test_patients_are_recognised_by_number_in_every_form(form: str) -> None:
    patients = {form.format(f"{number:04d}"): form.format(f"{number:04d}") for number in range(1, 83)}
    split, said = find_protocol("pancreas-b:12").split(patients, patients)
    assert split.labelled[:3] == tuple(form.format(number) for number in ("0057", "0018", "0062"))
    assert len(split.test) == 20
    assert said == ()
    for number in ("0025", "0070"):
        del patients[form.format(number)]
    split, said = find_protocol("pancreas-b:12").split(patients, patients)
    assert [len(cases) for cases in (split.labelled, split.unlabelled, split.test)] == [11, 50, 19]
    assert said == ("Withdrawn from the set, and so left out: 0070, 0025.",)


def acdc(frames: Sequence[str] = ("frame01", "frame12")) -> dict[str, str]:
    return {f"patient{n:03d}_{frame}": f"patient{n:03d}" for n in range(1, 101) for frame in frames}


@pytest.mark.parametrize("frames", [("frame01", "frame02"), ("ED", "ES"), ("frame01", "frame12")])
def test_frames_may_be_called_anything(frames: Sequence[str]) -> None:
    patients = acdc(frames)
    split, said = find_protocol("acdc:7").split(patients, patients)
    split.check(patients, patients)
    assert [len(cases) for cases in (split.labelled, split.unlabelled, split.val, split.test)] == [14, 126, 20, 40]
    assert split.labelled[:2] == tuple(f"patient099_{frame}" for frame in frames)
    assert not said


def test_others_are_left_out_and_named() -> None:
    patients = acdc() | {"patient101_frame01": "patient101"}
    split, said = find_protocol("acdc:7").split(patients, patients)
    assert "patient101_frame01" not in (*split.stored, *split.test)
    assert said == ("In none of the protocol's lists, and so left out: patient101.",)


def test_missing_patients_are_refused_by_name() -> None:
    patients = {case: patient for case, patient in acdc().items() if patient not in ("patient099", "patient011")}
    with pytest.raises(InputError, match=r"acdc:7: the data lacks 2 of its 100 patients: 099, 011\. Add them"):
        find_protocol("acdc:7").split(patients, patients)
    with pytest.raises(InputError, match="la:8: the data has none of its patients, such as 06SR"):
        find_protocol("la:8").split(patients, patients)


@pytest.mark.parametrize("name", ["acdc", "acdc:5", "acdc:", "liver:3", "", "../acdc:7"])
def test_unknown_names_list_the_known_ones(name: str) -> None:
    with pytest.raises(InputError, match=r"no such protocol\. .*There are: .*acdc:7, .*la:16"):
        find_protocol(name)


@pytest.mark.skipif("CORANET_DATA" not in os.environ, reason="needs real scans: set CORANET_DATA to their folder")
@pytest.mark.parametrize("name", ["acdc:3", "acdc:7", "acdc:14", "la:8", "la:16"])
def test_the_field_s_own_files_have_the_same_lists(name: str) -> None:
    family, _, count = name.partition(":")
    file = Path(os.environ["CORANET_DATA"]) / family / "splits" / f"{family}-{count}.json"
    if not file.exists():
        pytest.skip(f"{family} is not there")
    theirs = Split.read(file)
    patients = {case: case.split("_frame")[0] for case in (*theirs.stored, *theirs.test)}
    ours, said = find_protocol(name).split(patients, patients)
    assert not said
    for part in ("labelled", "unlabelled", "val", "test"):
        assert set(getattr(ours, part)) == set(getattr(theirs, part))


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    assert isinstance(caught.value.code, int)
    return caught.value.code, captured.out, captured.err


@pytest.fixture
def store(tmp_path: Path) -> Path:
    voxels = np.zeros((1, 2, 2, 1), np.float32)
    header = {"name": "acdc", "channels": ["MRI"], "classes": {"0": "background", "1": "RV"}, "preparation": {}}
    with StoreWriter(tmp_path / "store", header) as writer:
        for case, patient in acdc().items():
            writer.add(case, patient, voxels, voxels[0].astype(np.uint8), {})
    return tmp_path / "store"


def test_the_command_writes_a_protocol_s_lists(capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path) -> None:
    code, out, _ = run(capsys, "split", store, "--protocol", "acdc:7", "--out", tmp_path / "split.json")
    assert code == 0
    assert "SSL4MIS" in out
    assert "labelled      14 cases of 7 patients" in out
    assert len(Split.read(tmp_path / "split.json").test) == 40
    assert "SSL4MIS" in json.loads((tmp_path / "split.json").read_text())["source"]


def test_the_command_draws_lists(capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path) -> None:
    for out in ("a", "b"):
        options = ("--ratio", "1:4", "--val", 5, "--test", 20, "--seed", 3, "--out", tmp_path / out)
        assert run(capsys, "split", store, *options)[0] == 0
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    split = Split.read(tmp_path / "a")
    assert [len(cases) for cases in (split.labelled, split.unlabelled, split.val, split.test)] == [30, 120, 10, 40]


def test_the_command_splits_a_raw_folder_too(capsys: pytest.CaptureFixture[str], scans: Path, tmp_path: Path) -> None:
    code, out, _ = run(capsys, "split", scans, "--ratio", "1:2", "--test", "1", "--out", tmp_path / "split.json")
    assert code == 0
    assert "test           3 cases of 3 patients" in out
    split = Split.read(tmp_path / "split.json")
    assert {"phantom_007", "phantom_008"} < set(split.test)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ([], "Give either --ratio, such as 1:4, or --protocol, one of acdc"),
        (["--protocol", "acdc:7", "--ratio", "1:4"], "Give either --ratio"),
        (["--protocol", "acdc:7", "--seed", "1"], "--seed: a protocol has its own lists"),
        (["--protocol", "acdc:9"], "no such protocol"),
        (["--ratio", "4"], "--ratio 4: write it as labelled:unlabelled"),
        (["--ratio", "0:4"], "--ratio 0:4: write it as"),
        (["--ratio", "1:4", "--val", "-1"], "give numbers of patients, 0 or more"),
        (["--ratio", "1:4", "--test", "100"], "needs labels of"),
    ],
)
def test_the_command_says_what_is_wrong(
    capsys: pytest.CaptureFixture[str], store: Path, tmp_path: Path, options: list[str], message: str
) -> None:
    code, out, err = run(capsys, "split", store, *options, "--out", tmp_path / "split.json")
    assert (code, out) == (1, "")
    assert message in err
    assert not (tmp_path / "split.json").exists()
