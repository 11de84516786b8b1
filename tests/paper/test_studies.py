"""What the text claims without a table, and what any mask can give: numbers against sums written out, and tiny runs."""

import csv
import json
import shutil
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from coranet.data.store import Store
from coranet.engine.log import Listener
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.feed.case_maps import read_maps, soft_maps
from coranet.metrics.calibration import error_retention
from coranet.nets import Net
from coranet.paper import collection, efficiency
from coranet.paper.error_shares import error_share, look, read_truth, without_costs
from coranet.paper.evidence import show_evidence, write_evidence
from coranet.paper.head_marks import MARKS, write_all_marks
from coranet.paper.masked_runs import ROWS, Masked, choose_highest
from coranet.paper.reproduction import Reproduction, cells_of, prepare, run_cells
from coranet.paper.studies.heads_sheet import begins, read_heads
from coranet.paper.studies.masks_sheet import read_masks
from coranet.paper.studies.weights_sheet import mean_term
from coranet.report.run_files import FinishedRun
from coranet.runs.comparison import Job
from coranet.runs.jobs import attempt, attempt_all
from coranet.types import Prediction
from coranet.uncertainty import CRM

CPU = torch.device("cpu")
STUDIES = ("efficiency", "weights", "masks")


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """All three studies on the phantom, 16 steps a run."""
    out = tmp_path_factory.mktemp("studies")
    request = Reproduction(out=out / "runs", short=True, seeds=1, steps=16, device="cpu", cache=out / "cache")
    for name in STUDIES:
        errors = run_cells(
            cells_of(name, request.sets()),
            request,
            lambda made: attempt_all(made, 1, lambda job: attempt(made, job, say=lambda line: None)),
            lambda line: None,
            lambda what, done, total: None,
            study=name,
        )
        assert not errors
    return request


@pytest.fixture(scope="session")
def page(made):
    return write_evidence(made.out, STUDIES)


def folder(made, run):
    return made.out / "phantom-1to1" / f"{run}-seed0"


def rows_of(page, part):
    _, parts = page
    (rows,) = [rows for title, rows in show_evidence(parts) if part in title]
    return rows


# When heads begin


def test_what_each_head_marks_is_counted_at_every_refresh(made, tmp_path):
    shutil.copytree(made.out / "phantom-1to1", tmp_path / "phantom-1to1")
    run = tmp_path / "phantom-1to1" / "coranet-seed0"
    write_all_marks([run, tmp_path / "phantom-1to1" / "no such run"])
    looks = json.loads((run / MARKS).read_text())["looks"]
    files = sorted((run / "maps").glob("*.npz"))
    assert [one["step"] for one in looks] == [int(file.stem) for file in files]
    assert looks[0]["epoch"] == pytest.approx(130 * looks[0]["step"] / 16)
    for one, file in zip(looks, files, strict=True):
        maps = {
            name: np.concatenate([np.ravel(image) for image in each.values()]) for name, each in read_maps(file).items()
        }
        assert one["main.1"] == pytest.approx((maps["label"] == 1).mean())
        for head in ("con", "rad"):
            assert one[f"{head}.1"] == pytest.approx((maps[f"{head}.1"] / 255 > 0.5).mean())
    (sheet,) = read_heads(tmp_path)
    assert [(row["head"], row["seeds"]) for row in sheet.rows] == [
        ("main", "1"),
        ("conservative", "1"),
        ("radical", "1"),
    ]
    assert len(sheet.numbers) == 3 * len(files)


def test_a_head_begins_where_it_first_marks_anything():
    looks = [{"epoch": 30.0, "con.1": 0.0}, {"epoch": 35.0, "con.1": 0.001}, {"epoch": 40.0, "con.1": 0.0}]
    assert begins(looks, "con.1") == 35
    assert begins(looks[:1], "con.1") is None


# What a region holds


def pixels(draw_seed, count=400):
    generator = np.random.default_rng(draw_seed)
    return generator.integers(0, 256, count).astype(np.uint8), generator.random(count) < 0.3


@given(seed=st.integers(0, 10_000), coverage=st.floats(0, 1), levels=st.sampled_from([1, 3, 256]))
@settings(max_examples=60, deadline=None)
def test_what_the_highest_scores_hold_is_the_error_retention_curve_upside_down(seed, coverage, levels):
    score, wrong = pixels(seed)
    score = (score.astype(int) * levels // 256).astype(np.uint8)
    curve = error_retention(score, wrong)
    left = np.interp(1 - coverage, curve.kept, curve.errors)
    assert error_share(score, wrong, coverage) == pytest.approx(1 - left / curve.errors[-1])


def test_what_the_highest_scores_hold_by_hand():
    score = np.array([9, 9, 5, 5, 1, 0], np.uint8)
    wrong = np.array([1, 1, 1, 0, 0, 1], bool)
    assert error_share(score, wrong, 2 / 6) == pytest.approx(2 / 4)
    assert error_share(score, wrong, 3 / 6) == pytest.approx(2.5 / 4)  # one of two that tie
    assert error_share(score, wrong, 1.0) == 1
    assert np.isnan(error_share(score, np.zeros(6, bool), 0.5))


def test_a_look_at_a_refresh_is_what_plain_sums_give():
    generator = np.random.default_rng(3)
    count, alpha = 3000, 5.0
    p = generator.random(count)
    quantised = np.round(255 * p).astype(np.uint8)
    con = np.round(255 * p / (p + alpha * (1 - p))).astype(np.uint8)
    rad = np.round(255 * alpha * p / (alpha * p + 1 - p)).astype(np.uint8)
    truth = (generator.random(count) < p).astype(np.uint8)
    label = (quantised > 127).astype(np.uint8)
    certain = ((con > 127) == (rad > 127)).astype(np.uint8)
    confidence = np.where(label == 1, quantised, 255 - quantised).astype(np.uint8)
    maps = {"label": label, "certain": certain, "confidence": confidence, "con.1": con, "rad.1": rad}
    found = look(maps, truth, alpha)
    wrong, region = label != truth, certain == 0
    band = (quantised / 255 > 1 / 6) & (quantised / 255 < 5 / 6)
    assert found["errors"] == wrong.mean()
    assert found["coverage"] == found["random"] == region.mean()
    assert found["held"] == (wrong & region).sum() / wrong.sum()
    assert found["oracle"] == min(region.sum() / wrong.sum(), 1)
    assert found["band_coverage"] == band.mean()
    assert found["band"] == (wrong & band).sum() / wrong.sum()
    assert found["overlap"] == (region & band).sum() / (region | band).sum()
    least = np.argsort(confidence, kind="stable")[: region.sum()]
    assert found["softmax"] == pytest.approx(wrong[least].sum() / wrong.sum(), abs=0.01)
    # Heads that are calibrated: the two regions are one, but for rounding, and no head is off.
    assert found["overlap"] > 0.98
    assert found["softmax"] == pytest.approx(found["held"], abs=0.01)
    assert max(found[f"ece_{head}"] for head in ("main", "con", "rad")) < 0.06


def test_of_several_objects_any_in_its_band_is_enough():
    maps = {
        "label": np.array([0, 1, 2, 0], np.uint8),
        "certain": np.array([1, 1, 0, 1], np.uint8),
        "confidence": np.array([250, 130, 200, 120], np.uint8),
        **{f"main.{k}": np.array(p, np.uint8) for k, p in {1: [3, 130, 20, 10], 2: [2, 100, 200, 115]}.items()},
        **{f"{head}.{k}": np.zeros(4, np.uint8) for head in ("con", "rad") for k in (1, 2)},
    }
    found = look(maps, np.array([0, 1, 1, 2], np.uint8), 5.0)
    assert found["band_coverage"] == 3 / 4
    assert found["band"] == 1
    assert found["overlap"] == 1 / 3


@given(p=st.floats(0.01, 0.99), alpha=st.floats(1, 20))
def test_costs_are_undone(p, alpha):
    said = {"main": p, "con": p / (p + alpha * (1 - p)), "rad": alpha * p / (alpha * p + 1 - p)}
    for head, value in said.items():
        assert without_costs(np.array([value]), head, alpha)[0] == pytest.approx(p)


# Masks to train with


@given(seed=st.integers(0, 1000), share=st.floats(0, 1))
@settings(max_examples=40, deadline=None)
def test_the_highest_ranked_are_chosen_and_no_more(seed, share):
    rank = torch.from_numpy(np.random.default_rng(seed).integers(0, 4, 200).astype(np.uint8))
    count = round(share * 200)
    chosen = choose_highest(rank, count, torch.Generator().manual_seed(seed), CPU)
    assert chosen.sum() == count
    if 0 < count < 200:
        assert rank[chosen].min() >= rank[~chosen].max()


def test_among_equals_chance_decides_alike_each_time():
    rank = torch.zeros(1000, dtype=torch.uint8)
    first, again, other = (choose_highest(rank, 500, torch.Generator().manual_seed(s), CPU) for s in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert 200 < first[:500].sum() < 300


def test_soft_maps_are_255ths_of_each_head():
    generator = torch.Generator().manual_seed(0)
    main, con, rad = (torch.rand(2, 3, 4, 4, generator=generator).softmax(dim=1) for _ in range(3))
    regions = CRM().judge({"main": main, "con": con[:, 1:], "rad": rad[:, 1:]})
    found = soft_maps(Prediction(probabilities=main, regions=regions))
    assert list(found) == ["confidence", "main.1", "main.2", "con.1", "con.2", "rad.1", "rad.2"]
    torch.testing.assert_close(found["confidence"] / 255, main.amax(dim=1), atol=0.5 / 255 + 1e-6, rtol=0)
    torch.testing.assert_close(found["rad.2"] / 255, rad[:, 2], atol=0.5 / 255 + 1e-6, rtol=0)
    one = soft_maps(Prediction(probabilities=main[:, :2]))
    assert list(one) == ["confidence"]


def test_replacing_nothing_is_coranet_itself(made):
    plain, same = folder(made, "coranet"), folder(made, "masks-crm")
    weights = [torch.load(run / "last.pt", weights_only=True)["nets"]["student"] for run in (plain, same)]
    assert all(torch.equal(value, weights[1][name]) for name, value in weights[0].items())
    assert "masks" not in Run.read(plain).made_with
    assert Run.read(same).made_with["masks"] == "crm"


@pytest.mark.parametrize("row", [row for row in ROWS if row != "masks-crm"])
def test_a_mask_keeps_its_size_and_goes_where_its_source_says(made, row):
    run = Run.read(folder(made, row))
    truth = read_truth(run, Path(run.data.source))
    first = sorted((folder(made, row) / "maps").glob("*.npz"))[0]
    ours, plain = (_flat(file) for file in (first, folder(made, "coranet") / "maps" / first.name))
    np.testing.assert_array_equal(ours["label"], plain["label"])  # up to here both have learnt the same
    uncertain = ours["certain"] == 0
    assert uncertain.sum() == (plain["certain"] == 0).sum()
    assert (uncertain != (plain["certain"] == 0)).any()
    wrong = ours["label"] != truth
    if row == "masks-oracle":
        assert (wrong & uncertain).sum() == min(wrong.sum(), uncertain.sum())
    if row == "masks-softmax":
        assert ours["confidence"][uncertain].max() <= ours["confidence"][~uncertain].min()
    if row == "masks-random":
        assert uncertain[wrong].mean() == pytest.approx(uncertain.mean(), abs=0.1)


def _flat(file):
    return {
        name: np.concatenate([image.ravel() for images in cases.values() for image in images])
        for name, cases in read_maps(file).items()
    }


def test_the_mask_that_is_learnt_from_is_the_one_that_is_kept(made):
    memory = torch.load(next(folder(made, "masks-oracle").glob("memory-*.pt")), weights_only=True)["maps"]
    last = _flat(sorted((folder(made, "masks-oracle") / "maps").glob("*.npz"))[-1])
    assert set(memory) == {"label", "certain"}
    np.testing.assert_array_equal(memory["certain"].numpy(), last["certain"])


def test_the_truth_is_read_on_the_store_s_grid(made):
    run = Run.read(folder(made, "coranet"))
    (store,) = [Store.open(index.parent) for index in made.cache.rglob("index.json")]
    assert store.fingerprint == run.data.fingerprint
    own = [run.data.window.split(store.label(name)).ravel() for name in run.split.unlabelled]
    np.testing.assert_array_equal(read_truth(run, Path(run.data.source)), np.concatenate(own))


def test_a_masked_run_that_was_cut_off_is_continued_with_its_masks(made, tmp_path):
    (setting,) = cells_of("masks", made.sets())
    request = replace(made, out=tmp_path)
    compare = Masked.like(prepare(setting, ("coranet",), None, request))
    job = Job("masks-oracle", 0)
    cut = _Cut()
    with pytest.raises(_Stopped):
        attempt(compare, job, [cut], say=lambda line: None)
    assert not compare.finished(job)
    assert attempt(compare, job, say=lambda line: None) is None
    assert (compare.folder(job) / "scores.csv").read_bytes() == (
        folder(made, "masks-oracle") / "scores.csv"
    ).read_bytes()


class _Stopped(KeyboardInterrupt):
    pass


class _Cut(Listener):
    def on_record(self, record):
        raise _Stopped


# What is written


def test_magnitudes_are_means_over_the_steps_of_self_training(tmp_path):
    settings_of_run = {"train": {"steps": 26}, "method": {"pretrain_epochs": 30, "selftrain_epochs": 100}}
    # Self-training begins after 6 steps. The terms of steps 7 to 26 are 7, 8, ..., 26.
    lines = [(4, None), (10, np.mean(range(7, 11))), (13, np.mean(range(11, 14))), (26, np.mean(range(14, 27)))]
    log = tuple({"step": step, "terms": {} if value is None else {"certain": value}} for step, value in lines)
    run = FinishedRun(name="", folder=tmp_path, settings=settings_of_run, log=log, scores=None)
    assert mean_term(run, "certain") == pytest.approx(np.mean(range(7, 27)))


@settings(deadline=None, max_examples=50)
@given(seed=st.integers(0, 1000), every=st.integers(1, 9), pretrain=st.integers(0, 60))
def test_a_log_that_is_kept_small_says_the_same_of_means_and_time(seed, every, pretrain):
    """Lines of any length, one of which holds steps of both phases, of a run that was cut off once."""
    rng = np.random.default_rng(seed)
    steps = np.cumsum(rng.integers(1, 5, 60))
    begin = round(steps[-1] * pretrain / (pretrain + 100))
    values, cut = rng.random(steps[-1] + 1), rng.integers(1, 59)
    lines = []
    for number, (before, step) in enumerate(pairwise([0, *steps.tolist()])):
        has = range(max(before, begin) + 1, step + 1)
        term = {"certain": float(np.mean(values[has]))} if has else {}
        phase = "selftrain" if step > begin else "pretrain"
        clock = number + 1 if number < cut else 0.5 + number - cut
        lines.append({"step": step, "phase": phase, "seconds": clock, "terms": term, "measures": {}, "val": None})
    lines[30]["val"] = {"mean": 0.5}
    text = "".join(json.dumps(line) + "\n" for line in lines)
    with patch.object(collection, "EVERY", every):
        kept = collection.thinned(text)
    about = {
        "train": {"steps": int(steps[-1])},
        "method": {"pretrain_epochs": pretrain, "selftrain_epochs": 100},
    }
    whole, copy = (
        FinishedRun(name="", folder=Path(), settings=about, log=tuple(log), scores=None) for log in (lines, kept)
    )
    assert mean_term(copy, "certain") == pytest.approx(mean_term(whole, "certain"))
    assert mean_term(copy, "certain") == pytest.approx(np.mean(values[begin + 1 :]))
    assert copy.seconds == whole.seconds
    assert [line["step"] for line in kept if line["val"]] == [lines[30]["step"]]
    assert len(kept) <= len(lines) // every + 8


def test_terms_are_logged_before_their_weights(made, page):
    """Over so few steps weights move little: what is logged is much the same at ratios from 0.01 to 100."""
    rows = list(csv.DictReader((made.out / "tables" / "weights.csv").read_text().splitlines()))
    assert [float(row["ratio"]) for row in rows] == [0.01, 0.1, 1, 10, 100]
    certain = [float(row["certain"]) for row in rows]
    assert max(certain) < 2 * min(certain)
    for row in rows:
        assert float(row["quotient"]) == pytest.approx(float(row["certain"]) / float(row["consistency"]))


def test_parameters_are_counted_by_layer():
    counted = efficiency.count(Net(), 1, 2)
    assert counted == {"unet": 31_110_530, "training": 31_258_758, "test": 31_110_530}  # docs/paper.md


def test_the_table_of_efficiency(made, page):
    timed = json.loads((folder(made, "coranet") / "test_time.json").read_text())
    assert timed["slices"] == 8  # two test cases of four
    assert {"device", "torch", "seconds"} < set(timed)
    rows = _efficiency(page)
    assert rows["parameters of CoraNet in training, 64 channels, 2^20"]["difference"] == "+0.01"
    more = rows["training of CoraNet beyond mean teacher's, %"]
    assert (more["paper"], more["difference"]) == ("+6.6", "–")  # times are of other scans than the paper's
    seconds = timed["seconds"] / 8 * 1414
    assert rows["test of CoraNet on 1,414 slices, s"]["ours"] == f"{seconds:.2f}"
    assert rows["optimizer updates of mean teacher"]["ours"] == "16"


def _efficiency(page):
    _, parts = page
    (rows,) = [rows for _, rows in show_evidence(parts) if "made of" in rows[0]]
    return {row[""]: row for row in rows}


def test_what_is_measured_is_not_measured_again(made):
    (setting,) = cells_of("efficiency", made.sets())
    file = folder(made, "coranet") / "test_time.json"
    before = file.stat().st_mtime_ns
    efficiency.measure(prepare(setting, ("mean_teacher", "coranet"), None, made))
    assert file.stat().st_mtime_ns == before


def test_the_tables_of_masks(made, page):
    held = json.loads((folder(made, "coranet") / "held.json").read_text())
    first, last = rows_of(page, "equal coverage")
    assert first["held by CRM, % of errors"] == f"{100 * held['looks'][0]['held']:.1f}"
    assert last["held by random, % of errors"] == f"{100 * held['looks'][-1]['coverage']:.1f}"
    trained = {row["mask"]: row for row in rows_of(page, "trained with other masks")}
    assert list(trained) == ["CoraNet", "CRM", "least confident", "random", "oracle"]
    assert trained["CRM"]["DSC %"] == trained["CoraNet"]["DSC %"]
    assert len(rows_of(page, "band of the main head")) == 2


def test_all_of_it_is_on_the_page_and_beside_it(made, page):
    place, _ = page
    text = place.read_text()
    for name in STUDIES:
        assert f"<h2>{name}: " in text
        assert (made.out / "tables" / f"{name}.md").read_text().startswith(f"## {name}: ")
        assert (made.out / "tables" / f"{name}.csv").exists()
    for picture in ("weights-phantom", "masks-phantom"):
        assert (made.out / "figures" / f"{picture}.png").stat().st_size > 5_000
        assert f'alt="{picture}"' in text


def test_runs_without_probabilities_are_shown_by_the_run_that_replaces_nothing(made, tmp_path):
    shutil.copytree(made.out, tmp_path / "runs")
    (tmp_path / "runs" / "phantom-1to1" / "coranet-seed0" / "held.json").unlink()
    for source in ("masks-softmax", "masks-random", "masks-oracle"):
        shutil.rmtree(tmp_path / "runs" / "phantom-1to1" / f"{source}-seed0")
    page = write_evidence(tmp_path / "runs", ("masks",))
    assert len(rows_of(page, "equal coverage")) == 2
    assert "Missing, for want of finished runs: least confident, random, oracle." in page[0].read_text()


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("masks", "masks-random-seed0/held.json"),
        ("efficiency", "coranet-seed0/test_time.json"),
        ("efficiency", "parameters.json"),
    ],
)
def test_a_broken_file_of_a_study_is_named(made, tmp_path, name, file):
    copy = Path(shutil.copytree(made.out, tmp_path / "runs"))
    (copy / "phantom-1to1" / file).write_text("{")
    with pytest.raises(InputError, match=rf"{file}: is broken JSON .* Delete it"):
        write_evidence(copy, (name,))


def test_what_a_mask_held_stands_beside_the_run_it_was_looked_at_in(made, tmp_path):
    """A seed that was not looked at comes first."""
    place = Path(shutil.copytree(made.out, tmp_path / "runs")) / "phantom-1to1"
    shutil.copytree(place / "masks-random-seed0", place / "masks-random-seed1")
    (place / "masks-random-seed0" / "held.json").unlink()
    (sheet,) = (one for one in read_masks(tmp_path / "runs") if "trained with other masks" in one.title)
    held = {line["run"].split("/")[1]: line.get("held_first") for line in sheet.numbers if line["mask"] == "random"}
    looks = json.loads((place / "masks-random-seed1" / "held.json").read_text())["looks"]
    assert held == {"masks-random-seed0": None, "masks-random-seed1": looks[0]["held"]}
    assert "different seeds" in sheet.note
