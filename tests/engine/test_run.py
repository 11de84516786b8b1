"""A run is one value: to JSON and back, overridden by typed text, laid over steps."""

import json
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from coranet.data.splits.by_patient import Split
from coranet.engine.codec import decode, encode, override
from coranet.engine.run import Data, Run, Train, commit_of, versions
from coranet.engine.timeline import lay_out, natural_steps
from coranet.errors import InputError
from coranet.feed.windows import Patches, Slices
from coranet.methods import METHODS
from coranet.methods.coranet import ABLATION, CoraNet
from coranet.methods.one_vs_rest import OneVsRest
from coranet.types import Phase
from coranet.uncertainty import CRM, Softmax


def a_run(**fields):
    data = Data(source="scans", fingerprint="0", channels=1, classes={"0": "background", "1": "organ"}, preparation={})
    return Run(data=data, split=Split(labelled=("a",), unlabelled=("b",)), train=Train(steps=10), **fields)


WRAPPED = OneVsRest(inner=CoraNet(regions=CRM(alpha=2.0)), objects=3)


@pytest.mark.parametrize("method", [*(cls() for cls in METHODS.values()), *ABLATION.values(), WRAPPED], ids=str)
def test_a_run_survives_json(method, tmp_path):
    run = a_run(method=method, seed=3)
    run.write(tmp_path)
    assert Run.read(tmp_path) == run


@pytest.mark.parametrize("window", [Slices(axis=1, size=(32, 64)), Patches(size=(16, 32, 48), stride=(4, 4, 2))])
def test_both_kinds_of_window_survive_json(window, tmp_path):
    run = a_run()
    run = replace(run, data=replace(run.data, window=window))
    run.write(tmp_path)
    assert Run.read(tmp_path) == run


def test_a_run_from_before_there_were_patches_has_slices(tmp_path):
    a_run().write(tmp_path)
    content = json.loads((tmp_path / "run.json").read_text())
    assert content["data"]["window"].pop("kind") == "slices"
    (tmp_path / "run.json").write_text(json.dumps(content))
    assert Run.read(tmp_path).data.window == Slices()
    content["data"]["window"]["kind"] = "cubes"
    (tmp_path / "run.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"No window is called 'cubes'\. There are: slices, patches"):
        Run.read(tmp_path)


def test_overrides_are_typed():
    run = override(a_run(), "method.regions.alpha", "2")
    assert run.method.regions == CRM(alpha=2.0)
    assert isinstance(run.method.regions.alpha, float)
    assert override(run, "method.regions", "softmax").method.regions == Softmax()
    assert override(run, "method.regions", '{"kind": "softmax", "threshold": 0.7}').method.regions.threshold == 0.7
    assert override(run, "method.weights", "[1, 0.1]").method.weights == (1.0, 0.1)
    assert override(run, "method.mask", "false").method.mask is False
    assert override(run, "train.save_every", "none").train.save_every is None
    assert override(run, "net.width", "32").net.width == 32
    assert override(run, "optim.decay", "none").optim.decay == "none"


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("method.alfa", "2", "CoraNet has no field 'alfa'. There are: dice, regions"),
        ("method.updates", "both", "--set method.updates is one of alternate, joint, not 'both'"),
        ("method.weights", "[1]", "has 2 values, not 1"),
        ("method.weights", "1", "is a list"),
        ("net.width", "wide", "is a int, not 'wide'"),
        ("net.width", "true", "is a int, not True"),
        ("net.width.more", "1", "has no fields of its own"),
        ("method.regions", "guess", "No estimator is called 'guess'. There are: crm, softmax"),
        ("method.regions.alpha", "0.5", "at least 1"),
        ("net.body", "resnet", "No network is called 'resnet'. Did you mean resnet18? There are: unet"),
        ("train.steps", "0", "at least 1"),
        ("data.window.size", "[100, 100, 100]", "has 2 values, not 3"),
    ],
)
def test_wrong_overrides_say_what_is_right(path, text, message):
    with pytest.raises(InputError) as caught:
        override(a_run(), path, text)
    assert message in str(caught.value)


def test_broken_run_files_are_named(tmp_path):
    with pytest.raises(InputError, match="no such folder"):
        Run.read(tmp_path / "nowhere")
    with pytest.raises(InputError, match=r"holds no run \(no run.json\)"):
        Run.read(tmp_path)
    (tmp_path / "run.json").write_text("{")
    with pytest.raises(InputError, match=r"run.json: is not valid JSON"):
        Run.read(tmp_path)
    (tmp_path / "run.json").write_text("[]")
    with pytest.raises(InputError, match="not a run"):
        Run.read(tmp_path)
    content = encode(a_run())
    content["method"]["alfa"] = 1
    (tmp_path / "run.json").write_text(json.dumps(content))
    with pytest.raises(InputError, match="CoraNet has no field alfa"):
        Run.read(tmp_path)


def test_no_git_is_no_commit(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert versions()["commit"] == "none"


def test_the_commit_is_that_of_the_repository_that_has_the_source(monkeypatch, tmp_path):
    """Not that of a repository that happens to lie around an environment, nor one that the caller works on."""
    package = tmp_path / "work/.venv/coranet"
    package.mkdir(parents=True)
    (package / "run.py").touch()

    def git(*words):
        who = ["-c", "user.name=a", "-c", "user.email=a@b"]
        command = ["git", "-C", str(tmp_path / "work"), *who, *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()

    git("init", "-q")
    git("commit", "-q", "--allow-empty", "-m", "of something else")
    assert commit_of(package / "run.py") == "none"
    git("add", "-f", ".")
    git("commit", "-q", "-m", "the source itself")
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "nowhere"))
    assert commit_of(package / "run.py") == git_head(tmp_path / "work")


def git_head(folder):
    return subprocess.run(
        ["git", "--git-dir", str(folder / ".git"), "rev-parse", "--short", "HEAD"],
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()


def test_decode_refuses_what_does_not_fit():
    with pytest.raises(InputError, match="is an object"):
        decode(CoraNet, 3)
    assert decode(tuple[float, ...], [1, 2]) == (1.0, 2.0)


def test_the_paper_s_epochs():
    """30 + 100 epochs, relabelled every 5: twenty times."""
    phases, epoch = CoraNet().phases, 37
    steps = natural_steps(phases, epoch)
    assert steps == 130 * epoch
    pretrain, selftrain = lay_out(phases, steps, epoch)
    assert (pretrain.start, pretrain.stop, pretrain.interval) == (0, 30 * epoch, None)
    assert (selftrain.start, selftrain.stop, selftrain.interval) == (30 * epoch, 130 * epoch, 5 * epoch)
    assert selftrain.refreshes_from(selftrain.start) == 20
    assert [s for s in range(30 * epoch, 130 * epoch) if selftrain.refreshes_at(s)] == [
        (30 + 5 * k) * epoch for k in range(20)
    ]


@settings(deadline=None)
@given(st.integers(12, 20_000), st.integers(1, 500))
def test_any_length_keeps_the_proportion_and_relabels_at_least_four_times(steps, epoch):
    pretrain, selftrain = lay_out(CoraNet().phases, steps, epoch)
    assert pretrain.stop == round(steps * 30 / 130)
    assert (pretrain.start, selftrain.start, selftrain.stop) == (0, pretrain.stop, steps)
    refreshed = [step for step in range(selftrain.start, steps) if selftrain.refreshes_at(step)]
    assert refreshed[0] == selftrain.start
    assert len(refreshed) == selftrain.refreshes_from(selftrain.start) >= 4
    assert selftrain.interval <= max(5 * epoch, 1)


def test_phases_without_memory_are_not_refreshed():
    online = lay_out(replace(CoraNet(), masks="online").phases, 100, 5)[1]
    assert online.refreshes_from(online.start) == 0
    assert lay_out((Phase(name="train", epochs=3),), 7, 2)[0].stop == 7


@settings(max_examples=100, deadline=None)
@given(steps=st.integers(1, 500))
def test_a_short_run_refreshes_four_times_and_no_more_than_it_must(steps):
    (stretch,) = lay_out([Phase(name="only", epochs=1, refresh_every=5)], steps, epoch=10_000)
    times = [step for step in range(steps) if stretch.refreshes_at(step)]
    for first in range(stretch.start, stretch.stop):
        assert stretch.refreshes_from(first) == sum(step >= first for step in times)
    assert len(times) >= min(4, steps)
    if steps >= 12:
        assert len(times) == 4  # evenly: none of them just before the end
        assert steps - times[-1] >= stretch.interval - 3
