"""A run folder is data: what it names runs only where a person allows it, and only the file it was begun with."""

import json
import os
import shutil

import pytest

import coranet
from coranet.cli import main
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.runs.launch import train

MINE = """
from dataclasses import dataclass
from pathlib import Path
from coranet.methods.supervised import Supervised

Path(__file__).with_suffix(".ran").touch()

@dataclass(frozen=True, kw_only=True)
class Mine(Supervised):
    extra: float = 2.0
"""


@pytest.fixture(scope="module")
def begun(scans, small, tmp_path_factory):
    """A run by a method of one's own, and the file that it was begun with."""
    root = tmp_path_factory.mktemp("own")
    (root / "mine.py").write_text(MINE)
    return train(scans, root / "run", small(method=f"{root / 'mine.py'}:Mine", steps=2)), root / "mine.py"


@pytest.fixture
def own(begun, tmp_path):
    """A copy of the run."""
    return shutil.copytree(begun[0], tmp_path / "run")


def edit(folder, **changes):
    content = json.loads((folder / "run.json").read_text())
    (folder / "run.json").write_text(json.dumps({**content, **changes}))


def said(capsys, *words):
    with pytest.raises(SystemExit) as ended:
        main([str(word) for word in words])
    return ended.value.code, capsys.readouterr().err


def test_predict_runs_no_file_of_the_run_unless_it_is_trusted(own, scans, tmp_path, capsys):
    command = ["predict", own, scans / "imagesTs", "--out", tmp_path / "out", "--device", "cpu"]
    code, words = said(capsys, *command)
    assert code == 1
    assert f"would run the Python file {own / 'mine.py'}" in words
    assert "--trust" in words
    assert not (own / "mine.ran").exists()
    assert said(capsys, *command, "--trust")[0] == 0
    assert (own / "mine.ran").exists()


def test_load_and_resume_run_no_file_of_the_run_unless_it_is_trusted(own, scans, small):
    with pytest.raises(InputError, match="would run the Python file"):
        coranet.load(own, "cpu")
    with pytest.raises(InputError, match="would run the Python file"):
        train(scans, own, small(steps=2, method=None), resume=True)
    assert not (own / "mine.ran").exists()
    assert coranet.load(own, "cpu", trust=True).run.method.extra == 2.0
    train(scans, own, small(steps=2, trust=True, method=None), resume=True)


def test_the_same_command_continues_one_s_own_run(own, begun, scans, small, tmp_path):
    moved = tmp_path / "moved.py"
    shutil.copy(begun[1], moved)
    for file in (begun[1], moved):
        train(scans, own, small(steps=2, method=f"{file}:Mine"), resume=True)
    moved.write_text(MINE + "\n# changed")
    with pytest.raises(InputError, match=r"--method .*moved\.py:Mine: is not .*run/mine\.py"):
        train(scans, own, small(steps=2, method=f"{moved}:Mine"), resume=True)


def test_compare_runs_what_is_named_and_nothing_that_lies_in_its_folder(own, begun, scans, cache, tmp_path, capsys):
    """A run under a known method's name that would bring a file of its own is one that failed."""
    shutil.copytree(own, tmp_path / "out/supervised-seed0")
    small = ["--seeds", "1", "--steps", "2", "--cache", cache, "--device", "cpu", "--set", "net.width=4"]
    rows = f"{begun[1]}:Mine,supervised"
    code, words = said(capsys, "compare", scans, "--methods", rows, "--out", tmp_path / "out", *small)
    assert code == 1
    assert "supervised, seed 0: failed" in words
    assert "would run the Python file" in " ".join(words.split())
    assert not list(tmp_path.glob("out/supervised-seed0/*.ran"))
    assert len(list(tmp_path.glob("out/*mine.py-Mine-seed0/scores.csv"))) == 1


def test_a_changed_copy_is_refused_even_when_trusted(own):
    (own / "mine.py").write_text(MINE.replace("2.0", "3.0"))
    with pytest.raises(InputError, match=r"mine\.py: is not the file that the run was begun with"):
        Run.read(own, trust=True)
    (own / "mine.py").unlink()
    with pytest.raises(InputError, match=r"mine\.py: the run's own method is not in its folder"):
        Run.read(own, trust=True)
    assert not (own / "mine.ran").exists()


def test_what_python_compiled_before_is_not_run(own):
    """A compiled file in the folder, of the same time and size, could hold anything."""
    import importlib.util
    import py_compile

    file = own / "mine.py"
    time = file.stat()
    file.write_text(MINE.replace("2.0", "9.0"))
    os.utime(file, ns=(time.st_atime_ns, time.st_mtime_ns))
    py_compile.compile(str(file), importlib.util.cache_from_source(str(file)))
    file.write_text(MINE)
    os.utime(file, ns=(time.st_atime_ns, time.st_mtime_ns))
    assert Run.read(own, trust=True).method.extra == 2.0


@pytest.mark.parametrize("trust", [False, True])
@pytest.mark.parametrize("wrapped", [False, True])
def test_a_path_in_run_json_is_never_followed(own, tmp_path, trust, wrapped):
    evil = tmp_path / "evil.py"
    evil.write_text(MINE)
    method = {"kind": f"{evil}:Mine"}
    edit(own, method={"kind": "one_vs_rest", "objects": 1, "inner": method} if wrapped else method, method_source=None)
    with pytest.raises(
        InputError, match=r"run\.json: names the Python file .*evil\.py as its method, which is not run"
    ):
        Run.read(own, trust=trust)
    edit(own, method_source=f"{evil}:Mine")
    with pytest.raises(InputError, match=r"run/evil\.py: the run's own method is not in its folder"):
        Run.read(own, trust=trust)
    assert not evil.with_suffix(".ran").exists()


def test_a_link_out_of_the_folder_is_not_followed_without_a_checksum(own, tmp_path):
    (tmp_path / "evil.py").write_text(MINE)
    (own / "mine.py").unlink()
    (own / "mine.py").symlink_to(tmp_path / "evil.py")
    edit(own, method_sha256=None)
    with pytest.raises(InputError, match="not in its folder"):
        Run.read(own, trust=True)


@pytest.mark.parametrize("source", [5, "", "mine.py", "..:Mine", ["mine.py:Mine"]])
def test_a_method_source_that_is_none_is_refused_in_words(own, source):
    edit(own, method_source=source)
    with pytest.raises(InputError, match=r"run\.json: method_source is not of the form file\.py:Class"):
        Run.read(own, trust=True)


def test_a_wrapped_method_of_one_s_own_is_trusted_alike(own):
    content = json.loads((own / "run.json").read_text())
    edit(own, method={"kind": "one_vs_rest", "objects": 3, "inner": {**content["method"], "extra": 5.0}})
    with pytest.raises(InputError, match="would run the Python file"):
        Run.read(own)
    assert Run.read(own, trust=True).method.inner.extra == 5.0


def test_a_file_that_changes_while_scans_are_prepared_is_found_out(scans, small, tmp_path, monkeypatch):
    from coranet.runs import run_plan

    file = tmp_path / "mine.py"
    file.write_text(MINE)
    opened = run_plan.open_store

    def slow(*given, **named):
        file.write_text(MINE + "# later\n")
        return opened(*given, **named)

    monkeypatch.setattr(run_plan, "open_store", slow)
    with pytest.raises(InputError, match=r"mine\.py: was changed while the scans were prepared"):
        train(scans, tmp_path / "run", small(method=f"{file}:Mine", steps=1))


@pytest.mark.parametrize("kind", ["os.system", "coranet.methods.vat:VAT", None, [1], {"kind": "vat"}])
def test_names_of_methods_come_from_the_table(own, kind):
    edit(own, method={"kind": kind}, method_source=None)
    with pytest.raises(InputError, match=r"No method is called .*There are: advent, bcp"):
        Run.read(own)
