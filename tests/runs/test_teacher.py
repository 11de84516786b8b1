"""Training with labels by another model: what is said, kept, continued and refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from coranet.data.datasets.phantom import Phantom, write_folder
from coranet.data.prepare.other_labels import OtherLabels
from coranet.engine.run import Run
from coranet.engine.setup import Setup
from coranet.errors import InputError
from coranet.methods.other_voice import SILENT, TRIED, VOICE
from coranet.runs.launch import train
from coranet.runs.other_models import kept_teacher, voices_of
from coranet.runs.run_plan import make_run
from tests.runs.test_partial_cases import options

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def scans(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One labelled case, and three unlabelled ones of which another model labelled two: truly, here."""
    phantom = Phantom(shape=(28, 28, 24), slice_gap=(1.4, 1.6))
    folder = tmp_path_factory.mktemp("taught")
    root = write_folder(folder / "scans", phantom, seed=5, labelled=4, unlabelled=0, test=1)
    (folder / "teacher").mkdir()
    for file in sorted((root / "labelsTr").iterdir())[1:]:
        shutil.move(file, folder / "teacher" / file.name)
    sorted((folder / "teacher").iterdir())[-1].unlink()
    shutil.copy(root / "dataset.json", folder / "teacher/dataset.json")
    return root


@pytest.mark.parametrize("dims", [2, 3])
def test_words_are_cut_and_warped_with_the_image(scans: Path, cache: Path, dims: int) -> None:
    run, store = make_run(scans, options(cache, dims, method="coranet:plus"), CPU)
    words = OtherLabels.read(scans.parent / "teacher", store, run.split.unlabelled).maps
    setup = Setup.of(run, store, CPU, voices={VOICE: words})
    pool = setup.unlabelled
    assert pool is not None
    silent = [bool((word == SILENT).all()) for word in pool.maps[VOICE]]
    assert [name not in words for name in pool.cases] == silent
    assert 0 < sum(silent) < len(silent)
    for number in (0, len(pool) - 1):
        if pool.cases[number] in words:
            whole = run.data.window.split(words[pool.cases[number]])
            place = pool.cases[:number].count(pool.cases[number])
            assert torch.equal(pool.maps[VOICE][number], torch.from_numpy(whole[place].copy()))
    batch = setup.batch(0, None).unlabelled
    assert batch is not None
    assert batch.maps[VOICE].shape == batch.valid.shape
    assert batch.maps[VOICE].dtype == torch.uint8


def test_a_run_keeps_what_it_was_told_and_goes_on_without_the_folder(scans: Path, cache: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(scans.parent / "teacher", tmp_path / "teacher")
    said: list[str] = []
    asked = options(cache, 3, method="coranet:plus", teacher=folder, steps=4, save_every=1)
    train(scans, tmp_path / "run", asked, say=said.append)
    assert "Labels by others, of 2 of 3 unlabelled cases." in said
    assert Run.read(tmp_path / "run").made_with["teacher"] == str(folder)
    first = json.loads((tmp_path / "run/log.jsonl").read_text().splitlines()[0])
    assert "told_ce" in first["terms"]
    shutil.rmtree(folder)
    train(scans, tmp_path / "run", asked, say=said.append, resume=True)
    assert said[-1] == "Continuing after step 4 of 4."
    with pytest.raises(InputError, match=r"--teacher .*: the run was begun with"):
        train(scans, tmp_path / "run", options(cache, 3, teacher=scans, steps=4), resume=True)
    (tmp_path / "run/teacher.npz").unlink()
    with pytest.raises(InputError, match=r"teacher\.npz: is missing or cannot be read"):
        train(scans, tmp_path / "run", asked, resume=True)


def test_maps_of_labelled_cases_are_what_words_are_tried_on(scans: Path, cache: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(scans.parent / "teacher", tmp_path / "teacher")
    for file in (scans / "labelsTr").iterdir():
        shutil.copy(file, folder)
    said: list[str] = []
    asked = options(cache, 2, method="coranet:plus", teacher=folder, steps=4, save_every=1)
    train(scans, tmp_path / "run", asked, say=said.append)
    (sentence,) = (line for line in said if line.startswith("Tried on labelled cases, their Dice is"))
    assert sentence.count("100.0") >= 3
    assert "like labels in 100.0 % of the voxels" in sentence
    terms = [json.loads(line)["terms"] for line in (tmp_path / "run/log.jsonl").read_text().splitlines()]
    assert all("told_ce" in one for one in terms)  # in the joint phase too
    train(scans, tmp_path / "run", asked, resume=True)
    run = Run.read(tmp_path / "run")
    assert list(voices_of(kept_teacher(run, tmp_path / "run", make_run(scans, asked, CPU)[1]))) == [TRIED]
    (tmp_path / "run/teacher.npz").unlink()
    with pytest.raises(InputError, match=r"teacher\.npz: is missing or cannot be read"):
        train(scans, tmp_path / "run", asked, resume=True)


def test_without_maps_of_labelled_cases_the_way_to_try_them_is_said(scans: Path, cache: Path, tmp_path: Path) -> None:
    said: list[str] = []
    asked = options(cache, 3, method="coranet:plus", teacher=scans.parent / "teacher", steps=1)
    train(scans, tmp_path / "run", asked, say=said.append)
    assert f"Put maps of labelled cases into {scans.parent / 'teacher'} too" in " ".join(said)


@pytest.mark.parametrize("method", ["mean_teacher", "supervised", "coranet:released"])
def test_a_method_that_cannot_use_it_refuses(scans: Path, cache: Path, tmp_path: Path, method: str) -> None:
    asked = options(cache, 3, method=method, teacher=scans.parent / "teacher")
    message = (
        f"--teacher: {method} learns nothing from labels by others. Use one of coranet, coranet:plus, coranet:repaired"
    )
    with pytest.raises(InputError, match=message):
        train(scans, tmp_path / "run", asked)
