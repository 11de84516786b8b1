"""Checkpoints carry checksums: what is damaged, not finite or another run's is refused by name."""

import json
import os
import random
import shutil
import zipfile

import pytest
import torch

from coranet.engine import checkpoint
from coranet.engine.checksums import checksums
from coranet.engine.prediction.trained import Trained
from coranet.errors import DivergenceError, InputError
from coranet.runs.launch import train

CPU = torch.device("cpu")


@pytest.fixture
def run(finished, tmp_path):
    """A copy of a finished run."""
    return shutil.copytree(finished, tmp_path / "run")


def content_of(file):
    return torch.load(file, weights_only=True)


def equal(first, second):
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, dict):
        return first.keys() == second.keys() and all(equal(first[key], second[key]) for key in first)
    return first == second


def test_flipped_bits_are_found_or_change_nothing(run):
    file, chance = run / "best.pt", random.Random(0)
    raw, good = file.read_bytes(), checkpoint.load(file, CPU)
    refused = 0
    for _ in range(60):
        broken = bytearray(raw)
        broken[chance.randrange(len(raw))] ^= 1 << chance.randrange(8)
        file.write_bytes(broken)
        try:
            assert equal(checkpoint.load(file, CPU), good)
        except InputError:
            refused += 1
    assert refused > 40


@pytest.mark.parametrize("name", ["last.pt", "memory"])
def test_a_damaged_tensor_is_refused_by_name_in_every_verb(run, scans, small, name):
    file = run / name if name == "last.pt" else next(run.glob("memory-*.pt"))
    content = content_of(file)
    tensor = content["nets"]["teacher"]["encoder.0.0.0.weight"] if name == "last.pt" else content["maps"]["label"]
    tensor.view(-1).view(torch.uint8)[1] ^= 1
    torch.save(content, file)
    what = r"nets\.teacher\.encoder\.0\.0\.0\.weight" if name == "last.pt" else r"maps\.label"
    message = rf"{file.name}: is damaged: its checksums do not agree \({what}\)\. Use another copy"
    with pytest.raises(InputError, match=message):
        train(scans, run, small(val=1), resume=True)
    if name == "last.pt":
        with pytest.raises(InputError, match=message):
            Trained.load(run, CPU)
        with pytest.raises(InputError, match=message):
            train(scans, run.parent / "new", small(val=1, init=run))


def test_plain_values_are_checked_too(run):
    content = content_of(run / "last.pt")
    torch.save({**content, "step": content["step"] + 1}, run / "last.pt")
    with pytest.raises(InputError, match=r"checksums do not agree \(all else\)"):
        checkpoint.load(run / "last.pt", CPU)


def test_weights_that_are_not_finite_are_refused_by_name(run):
    content = checkpoint.load(run / "last.pt", CPU)
    content["nets"]["student"]["encoder.0.0.0.weight"][0, 0, 0, 0] = float("nan")
    checkpoint.save(run / "last.pt", content)
    with pytest.raises(InputError, match=r"last\.pt: student\.encoder\.0\.0\.0\.weight has values that are not finite"):
        Trained.load(run, CPU)


def test_weights_that_are_not_finite_are_not_saved_over_good_ones(scans, small, tmp_path, monkeypatch):
    from coranet.engine.trainer import Trainer

    def spoil(self, stretch):
        if self.state.done == 6:
            next(self.setup.nets["student"].parameters()).data[:] = float("inf")
            self.save()

    monkeypatch.setattr(Trainer, "_look_up", spoil)
    with pytest.raises(DivergenceError, match=r"Step 6: the weight student\..* is no longer finite"):
        train(scans, tmp_path / "run", small(method="supervised"))
    assert checkpoint.load(tmp_path / "run/last.pt", CPU)["step"] == 0


@pytest.mark.parametrize("name", ["last.pt", "best.pt"])
def test_a_file_of_another_run_is_refused(run, scans, small, name):
    other = train(scans, run.parent / "other", small(val=1, seed=1))
    shutil.copy(other / name, run / name)
    message = rf"{name}: is of another run than the run\.json beside it"
    with pytest.raises(InputError, match=message):
        Trained.load(run, CPU, best=name == "best.pt")
    if name == "last.pt":
        with pytest.raises(InputError, match=message):
            train(scans, run.parent / "new", small(val=1, init=run))


def test_files_of_earlier_versions_are_taken_with_a_word(run, scans, small):
    about = json.loads((run / "run.json").read_text())
    del about["identity"]
    (run / "run.json").write_text(json.dumps(about))
    content = checkpoint.load(run / "last.pt", CPU)
    del content["run"]
    torch.save({"format": checkpoint.EARLIER, **content, "step": 11}, run / "last.pt")
    (run / "calibration.json").unlink()  # which they did not have
    heard = []
    assert Trained.load(run, CPU, say=heard.append).parameters
    assert len(heard) == 1
    assert heard[0].startswith(f"{run / 'last.pt'}: was written by an earlier version, without checksums")
    heard.clear()
    train(scans, run, small(val=1), resume=True, say=heard.append)
    assert sum("without checksums" in line for line in heard) == 1
    Trained.load(run, CPU)  # it has been saved anew, with checksums


def test_a_newer_run_takes_no_file_without_its_identity(run):
    content = checkpoint.load(run / "last.pt", CPU)
    del content["run"]
    torch.save({"format": checkpoint.EARLIER, **content}, run / "last.pt")
    with pytest.raises(InputError, match="of another run"):
        Trained.load(run, CPU)


def test_each_fault_has_a_sentence_of_its_own(run):
    file = run / "last.pt"
    raw, content = file.read_bytes(), checkpoint.load(file, CPU)
    checkpoint.save(file, {name: part for name, part in content.items() if name != "nets"})
    with pytest.raises(InputError, match=r"last\.pt: has no 'nets'"):
        Trained.load(run, CPU)
    for broken, message in (
        (raw[: len(raw) // 2], r"last\.pt: is cut off"),
        (b"", r"last\.pt: not a checkpoint of coranet, as it is empty"),
        (b"hello", r"last\.pt: not a checkpoint of coranet, and so not opened further"),
    ):
        file.write_bytes(broken)
        with pytest.raises(InputError, match=message):
            Trained.load(run, CPU)
    file.unlink()
    with pytest.raises(InputError, match=r"last\.pt: no such checkpoint"):
        Trained.load(run, CPU)
    file.mkdir()
    with pytest.raises(InputError, match=r"last\.pt: is no file"):
        Trained.load(run, CPU)


@pytest.mark.parametrize("name", ["last.pt", "run.json"])
def test_a_file_that_may_not_be_read_is_called_that(run, monkeypatch, name):
    if os.geteuid() == 0:  # whom nothing is forbidden
        opened = type(run).open

        def refuse(self, *given, **named):
            if self.name == name:
                raise PermissionError(13, "Permission denied")
            return opened(self, *given, **named)

        monkeypatch.setattr(type(run), "open", refuse)
    else:
        (run / name).chmod(0)
    with pytest.raises(InputError, match=rf"{name}: cannot be read \(Permission denied\)"):
        Trained.load(run, CPU)


def test_a_packed_checkpoint_is_not_unpacked(run):
    """12 MB may hold 12 GB."""
    file = run / "last.pt"
    with zipfile.ZipFile(file) as stored:
        parts = {part.filename: stored.read(part) for part in stored.infolist()}
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, part in parts.items():
            packed.writestr(name, part)
    with pytest.raises(InputError, match="not opened further"):
        checkpoint.load(file, CPU)


def test_a_tensor_is_not_larger_than_what_is_stored_of_it(tmp_path):
    huge = torch.zeros(1).expand(10**6, 10**6)
    torch.save({"format": checkpoint.FORMAT, "checksums": {}, "nets": {"student": {"w": huge}}}, tmp_path / "last.pt")
    with pytest.raises(InputError, match="larger than what is stored of it"):
        checkpoint.load(tmp_path / "last.pt", CPU)


def test_a_checkpoint_names_no_file_but_the_run_s_memory(run, scans, small):
    content = checkpoint.load(run / "last.pt", CPU)
    checkpoint.save(run / "last.pt", {**content, "memory": "../elsewhere.pt"})
    with pytest.raises(InputError, match="names a file that is none of the run's"):
        train(scans, run, small(val=1), resume=True)


def test_checksums_do_not_depend_on_how_a_tensor_lies_in_memory():
    image = torch.arange(48.0).reshape(2, 2, 3, 4)
    lying = image.to(memory_format=torch.channels_last)
    assert checksums({"a": image}) == checksums({"a": lying})
    assert checksums({"a": image}) != checksums({"a": image.reshape(4, 3, 4)})
    assert checksums({"a": image}) != checksums({"a": image.int()})
    assert checksums({"a": 1}) != checksums({"a": 1.0})
    assert checksums({"a": (1, 2)}) != checksums({"a": [1, 2]})
    assert checksums({"a": torch.tensor(1.0).bfloat16(), "b": torch.zeros(0)})
