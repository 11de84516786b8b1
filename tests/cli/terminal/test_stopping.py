"""Verbs that are asked to stop: they say how to go on, leave nothing half made, and go on."""

import signal

import pytest

from coranet.cli import main
from coranet.data.readers import Source
from coranet.data.store import Store
from coranet.engine.prediction.trained import Trained
from coranet.runs import jobs
from tests.verbs import files_in

SIGNALS = [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]
SMALL = ["--set", "net.width=4", "--set", "net.levels=2", "--set", "train.batch=[2,2]", "--device", "cpu"]


@pytest.fixture
def run(capsys):
    def call(*arguments):
        with pytest.raises(SystemExit) as ended:
            main(list(map(str, arguments)))
        return ended.value.code, capsys.readouterr().err

    return call


@pytest.fixture(autouse=True)
def heard(monkeypatch):
    """A closed terminal is heard here, also where the tests were started with `nohup`; standard output stays."""
    monkeypatch.setattr("coranet.signals._leave_terminal", lambda: None)
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


def stopping(monkeypatch, owner, name, signum, after=0):
    """Ask for a stop at a call of a function, after so many others."""
    function, calls = getattr(owner, name), iter(range(1000))

    def called(*arguments, **named):
        if next(calls) == after:
            signal.raise_signal(signum)
        return function(*arguments, **named)

    monkeypatch.setattr(owner, name, called)


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_preparation_that_is_stopped_goes_on(scans, tmp_path, run, monkeypatch, signum):
    command = ["prepare", scans, "--out", tmp_path / "store", "--jobs", 1]
    with monkeypatch.context() as patch:
        stopping(patch, Source, "read", signum, after=7)
        code, said = run(*command)
    assert code == 128 + signum
    assert f"Stopped by {signum.name}. What is prepared is kept: the same command goes on from there." in said
    assert {path.name for path in tmp_path.iterdir()} == {".store-unfinished"}
    assert run(*command)[0] == 0
    assert {path.name for path in tmp_path.iterdir()} == {"store"}
    assert len(Store.open(tmp_path / "store").cases) == 9


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_prediction_that_is_stopped_goes_on(scans, finished, tmp_path, run, monkeypatch, signum):
    command = ["predict", finished, scans / "imagesTs", "--out", tmp_path / "out", "--device", "cpu"]
    with monkeypatch.context() as patch:
        stopping(patch, Trained, "predict_volumes", signum, after=1)
        code, said = run(*command)
    assert code == 128 + signum
    assert f"Stopped by {signum.name}. What is predicted is kept: the same command goes on from there." in said
    assert files_in(tmp_path / "out") == [
        ".cases/all.txt",
        "phantom_007.nii.gz",
        "phantom_007_score.nii.gz",
        "phantom_007_uncertain.nii.gz",
    ]
    assert run(*command)[0] == 0
    assert len(files_in(tmp_path / "out")) == 9


@pytest.mark.parametrize("signum", SIGNALS)
def test_a_training_that_is_stopped_before_its_first_step_starts_anew(scans, tmp_path, run, monkeypatch, signum):
    command = ["train", scans, "--out", tmp_path / "out", "--cache", tmp_path / "cache", "--steps", 1, *SMALL]
    with monkeypatch.context() as patch:
        stopping(patch, Source, "read", signum, after=5)
        code, said = run(*command)
    assert code == 128 + signum
    assert f"Stopped by {signum.name} before the first step. Start with the same command again." in said
    assert not (tmp_path / "out").exists()
    assert run(*command)[0] == 0
    assert not [name for name in files_in(tmp_path) if "/." in name or name.startswith(".")]


def test_a_comparison_that_is_stopped_while_it_reads_goes_on(scans, tmp_path, run, monkeypatch):
    command = [
        "compare",
        scans,
        "--methods",
        "supervised",
        "--seeds",
        1,
        "--steps",
        1,
        "--out",
        tmp_path / "out",
        *SMALL,
    ]
    command += ["--cache", tmp_path / "cache"]
    for owner, name in ((Source, "read"), (jobs, "evaluate")):
        with monkeypatch.context() as patch:
            stopping(patch, owner, name, signal.SIGHUP)
            code, said = run(*command)
        assert code == 129
        assert "Stopped by SIGHUP. Continue with the same command." in said
    assert run(*command)[0] == 0
    assert not [name for name in files_in(tmp_path) if "/." in name or name.startswith(".")]
