"""The paper's figures: numbers against an oracle, every picture drawn, and what is missing said."""

from __future__ import annotations

import csv
import json
import re
import shutil
from collections.abc import Mapping
from dataclasses import asdict
from io import BytesIO
from pathlib import Path
from statistics import mean, stdev
from typing import Any

import nibabel as nib
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from matplotlib.colors import to_hex
from matplotlib.container import ErrorbarContainer
from matplotlib.contour import ContourSet
from matplotlib.figure import Figure
from numpy.typing import NDArray

from coranet.cli.reproduce import ReproduceVerb
from coranet.data.datasets.folder import read_folder
from coranet.data.prepare.cases import Preparation
from coranet.data.prepare.store_builder import cached_store
from coranet.data.readers import nifti
from coranet.errors import InputError
from coranet.evaluation import evaluate
from coranet.feed.case_maps import read_maps
from coranet.paper.archive import Archive
from coranet.paper.collection import JUDGED, collect
from coranet.paper.evidence import write_evidence
from coranet.paper.figure_list import COSTLY, FIGURES, SOURCES
from coranet.paper.figures import DRAW, judge_sources
from coranet.paper.figures.label_quality import (
    count_pixels,
    find_unlabelled,
    judge_labels,
    middling_case,
    refreshes,
)
from coranet.paper.figures.opposite_costs import choose_by_agreement
from coranet.paper.figures.outlines import COLOURS, TRUTH
from coranet.paper.figures.panels import YELLOW
from coranet.paper.reproduction import Reproduction, prepare
from coranet.paper.settings import Setting
from coranet.paper.tables import COSTS, TABLES
from coranet.report.pictures.paint import Picture
from coranet.runs.comparison import Job
from coranet.runs.jobs import attempt
from coranet.runs.row_text import run_name

Array = NDArray[Any]
STEPS = (2, 4, 6, 8, 10, 12)
"""Of refreshes in runs that are made up."""
ONE, FOUR = Setting(scans="phantom", share="1:1"), Setting(scans="phantom", share="1:4")
(HEARTS,) = {setting for needs in FIGURES["fig9"].needs for setting in needs.settings(("phantom-hearts",))}
"""Mean teacher and CoraNet by one recipe."""


@pytest.fixture(scope="session")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of `coranet reproduce --short`: one run of each setting is real, the others say what is made up."""
    out = tmp_path_factory.mktemp("paper")
    request = Reproduction(out=out, short=True, seeds=1, steps=4, device="cpu", cache=out / "cache")
    compared = [row.method for row in TABLES["table2"].blocks[0].rows]
    costs = [method for label, method in COSTS.items() if "*" not in label]
    for setting, real, methods, seeds in (
        (ONE, "coranet", [*SOURCES.values(), *costs, *compared], 2),
        (FOUR, "coranet", [*SOURCES.values(), *costs, *compared, *COSTLY.values()], 1),
        (HEARTS, "mean_teacher", ["mean_teacher", "coranet"], 1),
    ):
        made = prepare(setting, [real], None, request)
        assert attempt(made, Job(real, 0), say=lambda line: None) is None
        template = made.folder(Job(real, 0))
        for number, method in enumerate(dict.fromkeys(methods)):
            for seed in range(seeds):
                make_up(template, out / setting.name / run_name(method, seed), made.data, 10 * number + seed)
    return out


def make_up(template: Path, run: Path, data: Path, number: int) -> None:
    """A run whose predictions are the truth moved by some voxels, and whose maps are the truth with errors."""
    if run != template:
        shutil.copytree(template, run)
    for file in sorted((run / "predictions").glob("phantom_???.nii.gz")):
        label = nifti.read(data / "labelsTr" / file.name)
        nifti.write(file, np.roll(label.array, number % 4, axis=0), label.geometry)
    evaluate(run / "predictions", data / "labelsTr").write_csv(run / "scores.csv")
    if not (run / "maps").exists():
        return
    rng = np.random.default_rng(number)
    with np.load(next((run / "maps").glob("*.npz"))) as kept:
        cases, sizes = kept["cases"], kept["sizes"]
    shutil.rmtree(run / "maps")
    (run / "maps").mkdir()
    truth = np.concatenate([oracle(data, case).ravel() for case in dict.fromkeys(cases.tolist())])
    for step in STEPS:
        label = np.where(rng.random(truth.shape) < 0.1, 1 - truth, truth)
        certain = rng.random(truth.shape) < rng.uniform(0.5, 0.9)
        maps = {"label": label.astype(np.uint8), "certain": certain.astype(np.uint8)}
        np.savez_compressed(run / "maps" / f"{step:07d}.npz", cases=cases, sizes=sizes, **maps)


def oracle(data: Path, case: str) -> Array:
    """The true object, slices first, read by nibabel alone."""
    image = nib.as_closest_canonical(nib.load(data / "labelsTr" / f"{case}.nii.gz"))
    return np.moveaxis(np.asarray(image.dataobj), 2, 0).astype(np.int64)


def shares(root: Path, setting: Setting, method: str, seed: int, step: int) -> dict[str, float]:
    """PPV, TPR and CSI in percent, by hand."""
    tp = fp = fn = 0
    maps = read_maps(root / setting.name / run_name(method, seed) / "maps" / f"{step:07d}.npz")
    for case, labels in maps["label"].items():
        truth = oracle(root / "scans" / "phantom", case) == 1
        said = np.where(np.stack(maps["certain"][case]) == 1, np.stack(labels), 0) == 1
        tp, fp, fn = tp + (said & truth).sum(), fp + (said & ~truth).sum(), fn + (~said & truth).sum()
    return {"PPV": 100 * tp / (tp + fp), "TPR": 100 * tp / (tp + fn), "CSI": 100 * tp / (tp + fp + fn)}


def copy_of(root: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(root, tmp_path / "paper"))


def lose(root: Path, setting: Setting, *methods: str, seed: int = 0) -> None:
    """As if these were not finished."""
    for method in methods:
        (root / setting.name / run_name(method, seed) / "scores.csv").unlink()


def lines_of(figure: Figure) -> list[list[str]]:
    """The colours of the edges in each panel."""
    panels = [axes for axes in figure.axes if axes.get_images()]
    return [
        [to_hex(one.get_edgecolor()[0]).upper() for one in axes.collections if isinstance(one, ContourSet)]
        for axes in panels
    ]


def render(picture: Picture) -> None:
    picture.figure.savefig(BytesIO(), dpi=40)


@pytest.mark.parametrize("name", DRAW)
def test_every_figure_is_drawn_and_says_of_what(root: Path, name: str) -> None:
    pictures = DRAW[name](root)
    scans = {"fig2": "fig2", "fig9": "fig9-phantom-hearts"}.get(name, f"{name}-phantom")
    assert [picture.name for picture in pictures] == [scans]
    render(pictures[0])
    caption = pictures[0].caption
    assert "Missing" not in caption
    if name != "fig2":
        expected = {"fig1": (FOUR,), "fig4": (ONE,), "fig6": (ONE,), "fig7": (FOUR,), "fig9": (HEARTS,)}
        for setting in expected.get(name, (ONE, FOUR)):
            assert f"{setting.name} (" in caption
        assert "seed 0" in caption
        assert "standing for" in caption


def test_without_runs_only_the_framework_is_drawn(tmp_path: Path) -> None:
    assert {name: len(draw(tmp_path)) for name, draw in DRAW.items()} == dict.fromkeys(DRAW, 0) | {"fig2": 1}


def test_first_pseudo_labels_are_scored_over_all_pixels_and_seeds(root: Path) -> None:
    (picture,) = DRAW["fig3"](root)
    panels = iter(picture.figure.axes)
    for setting, seeds in ((ONE, (0, 1)), (FOUR, (0,))):
        each = {source: [shares(root, setting, method, s, 2) for s in seeds] for source, method in SOURCES.items()}
        for share in ("PPV", "TPR", "CSI"):
            axes = next(panels)
            assert axes.get_title() == share
            expected = [[one[share] for one in found] for found in each.values()]
            heights = [patch.get_height() for patch in axes.patches]
            assert heights == pytest.approx([mean(values) for values in expected])
            spreads = [one for one in axes.containers if isinstance(one, ErrorbarContainer)]
            assert len(spreads) == (len(SOURCES) if len(seeds) > 1 else 0)
            for spread, values in zip(spreads, expected, strict=False):
                low, high = spread.lines[2][0].get_segments()[0][:, 1]
                assert (high - low) / 2 == pytest.approx(stdev(values))


def test_numbers_behind_bars_and_lines_are_beside_them(root: Path) -> None:
    for name, refreshed in (("fig3", STEPS[:1]), ("fig4", STEPS)):
        write_evidence(root, (name,))
        (file,) = (root / "figures").glob(f"{name}-*.csv")
        with file.open(newline="") as content:
            rows = list(csv.DictReader(content))
        assert {int(row["step"]) for row in rows} == set(refreshed)
        for row in rows:
            setting = next(one for one in (ONE, FOUR) if one.name == row["setting"])
            expected = shares(root, setting, SOURCES[row["source"]], int(row["seed"]), int(row["step"]))
            assert {share: float(row[share]) for share in expected} == pytest.approx(expected, abs=1e-4)


def test_what_pseudo_labels_were_worth_is_kept_without_maps_and_scans(root: Path, tmp_path: Path) -> None:
    judge_sources(root)
    drawn = {name: DRAW[name](root) for name in ("fig3", "fig4")}
    collect(root, "").unpack(tmp_path)
    assert not list(tmp_path.rglob("*.npz"))
    assert not (tmp_path / "scans").exists()
    for name, (picture,) in drawn.items():
        (again,) = DRAW[name](tmp_path)
        assert again.numbers == picture.numbers
        assert again.caption == picture.caption
    assert DRAW["fig5"](tmp_path) == []  # maps are what it shows


def test_runs_that_are_kept_are_looked_at_first(root: Path, tmp_path: Path) -> None:
    for file in root.rglob(JUDGED):
        file.unlink()
    ReproduceVerb(out=root, keep=tmp_path / "table" / "paper")()
    stored = Archive.read(tmp_path / "table").documents
    assert sum(file.endswith(JUDGED) for file in stored) == 3 * len(SOURCES)  # two seeds at 1 : 1, one at 1 : 4


def test_maps_whose_scans_are_gone_hide_no_table(root: Path, tmp_path: Path) -> None:
    judge_sources(root)
    copy = copy_of(root, tmp_path)
    shutil.rmtree(copy / "scans")
    for setting in (ONE, FOUR):
        about = json.loads((copy / setting.name / "compare.json").read_text())
        (copy / setting.name / "compare.json").write_text(json.dumps(about | {"data": str(tmp_path / "gone")}))
    (copy / ONE.name / run_name(SOURCES["CRM"], 0) / JUDGED).unlink()
    (picture,) = DRAW["fig4"](copy)
    assert "Missing, for want of finished runs: CRM in phantom-1to1 with seed 0." in picture.caption
    for file in copy.rglob(JUDGED):
        file.unlink()
    assert DRAW["fig3"](copy) == []
    page, _ = write_evidence(copy, ("fig3", "fig4", "table2"))
    assert page.is_file()


@pytest.mark.parametrize("file", ["compare.json", f"{run_name(SOURCES['CRM'], 0)}/{JUDGED}"])
def test_a_broken_file_is_named(root: Path, tmp_path: Path, file: str) -> None:
    judge_sources(root)
    collect(root, "").unpack(tmp_path)
    (tmp_path / ONE.name / file).write_text('{"2": ')
    with pytest.raises(InputError, match=rf"{re.escape(file)}: is broken JSON .* Delete it"):
        write_evidence(tmp_path, ("fig3",))


def test_what_has_no_precision_is_kept_as_none(root: Path, tmp_path: Path) -> None:
    run = root / ONE.name / run_name(SOURCES["CRM"], 0)
    shutil.copytree(run / "maps", tmp_path / "maps")
    for file in (tmp_path / "maps").glob("*.npz"):
        with np.load(file) as kept:
            maps = dict(kept)
        np.savez_compressed(file, **(maps | {"label": np.zeros_like(maps["label"])}))
    truth = find_unlabelled(root / "scans" / "phantom", run).truth()
    for found in (judge_labels(tmp_path, lambda: truth), judge_labels(tmp_path, dict)):  # the second time it is read
        assert list(found) == list(STEPS)
        assert all(np.isnan(one["PPV"]) and one["TPR"] == one["CSI"] == 0 for one in found.values())
    assert "NaN" not in (tmp_path / JUDGED).read_text()


def test_no_share_is_drawn_below_0_or_above_100(root: Path, tmp_path: Path) -> None:
    collect(root, "").unpack(tmp_path)
    for seed, share in ((0, None), (1, 100.0)):
        for source, method in SOURCES.items():
            file = tmp_path / ONE.name / run_name(method, seed) / JUDGED
            part = {"PPV": share, "TPR": share or 0.0, "CSI": 10.0 if source == "CRM" else share or 0.0}
            file.write_text(json.dumps(dict.fromkeys(map(str, STEPS), part)))
    (first,), (course,) = DRAW["fig3"](tmp_path), DRAW["fig4"](tmp_path)
    spreads = [one for axes in first.figure.axes for one in axes.containers if isinstance(one, ErrorbarContainer)]
    ends = [spread.lines[2][0].get_segments()[0][:, 1] for spread in spreads]
    bands = [one.get_paths()[0].vertices[:, 1] for axes in course.figure.axes for one in axes.collections]
    for found in (ends, bands):
        assert {0.0, 100.0} <= set(np.concatenate(found))
        assert all(0 <= value <= 100 for values in found for value in values)
    assert [len(axes.patches) for axes in first.figure.axes[:3]] == [
        len(SOURCES)
    ] * 3  # PPV of the one seed that has it


def test_course_has_every_refresh_of_every_source(root: Path) -> None:
    (picture,) = DRAW["fig4"](root)
    for axes, share in zip(picture.figure.axes, ("PPV", "TPR", "CSI"), strict=True):
        assert [line.get_label() for line in axes.lines] == list(SOURCES)
        for line, method in zip(axes.lines, SOURCES.values(), strict=True):
            expected = [mean(shares(root, ONE, method, seed, step)[share] for seed in (0, 1)) for step in STEPS]
            assert line.get_xdata() == pytest.approx(STEPS)
            assert line.get_ydata() == pytest.approx(expected)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 3))
def test_pixels_that_are_not_certain_count_as_background(
    tmp_path_factory: pytest.TempPathFactory, seed: int, classes: int
) -> None:
    rng = np.random.default_rng(seed)
    truth, label = rng.integers(0, classes + 1, (2, 2, 4, 5))
    certain = rng.integers(0, 2, truth.shape)
    file = tmp_path_factory.mktemp("maps") / "0000001.npz"
    sizes = np.array([truth.shape[1:]] * 2)
    np.savez(file, cases=["a", "a"], sizes=sizes, label=label.ravel(), certain=certain.ravel())
    counts = count_pixels(file, {"a": truth})
    said = (label > 0) & (certain == 1)
    assert counts.tp == np.sum(said & (truth > 0))
    assert counts.fp == np.sum(said & (truth == 0))
    assert counts.fn == np.sum((truth > 0) & ((certain == 0) | (label == 0)))


def test_truth_lies_on_the_grid_that_runs_were_trained_on(root: Path, tmp_path: Path) -> None:
    preparation = Preparation(intensity="minmax", size=(48, 40, None), fit="resize")
    data, real = root / "scans" / "phantom", root / ONE.name / "coranet-seed0"
    about = json.loads((real / "run.json").read_text())
    about["data"]["preparation"] = asdict(preparation)
    (tmp_path / "run.json").write_text(json.dumps(about))
    dataset = read_folder(data)
    store = cached_store(dataset, dataset.cases, preparation, tmp_path / "cache")
    truth = find_unlabelled(data, tmp_path).truth()
    assert sorted(truth) == sorted(about["split"]["unlabelled"])
    for case, label in truth.items():
        assert label.shape == (4, 48, 40)
        np.testing.assert_array_equal(label, np.moveaxis(store.label(case), 2, 0))


def test_uncertain_case_is_the_median_at_the_first_refresh(root: Path) -> None:
    (picture,) = DRAW["fig5"](root)
    run = root / ONE.name / "coranet-seed0"
    certain = read_maps(refreshes(run)[STEPS[0]])["certain"]
    ranked = sorted(certain, key=lambda case: np.mean(np.stack(certain[case]) == 0))
    median = ranked[len(ranked) // 2]
    assert middling_case(refreshes(run)[STEPS[0]], find_unlabelled(root / "scans" / "phantom", run).cases) == median
    first = picture.figure.axes[0]
    assert median in first.get_ylabel()
    steps = [int(axes.get_title().split()[1]) for axes in picture.figure.axes[:5]]
    assert steps == [2, 4, 6, 10, 12]  # of six, five evenly spaced
    index = int(first.get_ylabel().split("slice ")[1])
    share = 100 * np.mean(certain[median][index] == 0)
    assert f"{share:.1f} %" in first.get_title()
    assert set(map(tuple, lines_of(picture.figure))) == {(YELLOW.upper(),)}


def test_contours_have_the_papers_colours(root: Path) -> None:
    (picture,) = DRAW["fig6"](root)
    expected = [[TRUTH, COLOURS[row.label]] for row in TABLES["table2"].blocks[0].rows if row.printed]
    assert lines_of(picture.figure)[: len(expected)] == expected
    assert {"#000000", "#00FFFF", "#FF00FF"} < set(COLOURS.values())


@pytest.mark.parametrize(
    ("name", "setting", "lost", "said"),
    [
        ("fig3", ONE, (SOURCES["softmax 0.5"],), "softmax 0.5 in phantom-1to1 with seed 0"),
        ("fig4", ONE, (SOURCES["softmax 0.5"], SOURCES["softmax 0.9"]), "softmax 0.9 in phantom-1to1 with seed 0"),
        ("fig7", FOUR, ("supervised", "ua_mt", "coranet"), "U-Net in phantom-1to4; UA-MT in phantom-1to4; Ours in"),
        ("fig8", FOUR, ("coranet", "coranet[regions.alpha=2]"), "α = 2 in phantom-1to4; α = 5 in phantom-1to4"),
        ("fig9", HEARTS, ("coranet",), "CoraNet."),
    ],
)
def test_what_is_missing_is_said_and_the_rest_drawn(
    root: Path, tmp_path: Path, name: str, setting: Setting, lost: tuple[str, ...], said: str
) -> None:
    copied = copy_of(root, tmp_path)
    lose(copied, setting, *lost)
    (whole,), (picture,) = DRAW[name](root), DRAW[name](copied)
    render(picture)
    missing = picture.caption.partition("Missing, for want of finished runs: ")[2]
    assert missing.startswith(said) or f"; {said}" in missing
    if name in ("fig7", "fig9"):
        assert len(picture.figure.axes) < len(whole.figure.axes)


def test_one_model_alone_disagrees_with_none(root: Path, tmp_path: Path) -> None:
    copied = copy_of(root, tmp_path)
    lose(copied, FOUR, *list(COSTLY.values())[:1])
    assert DRAW["fig1"](copied) == []


def test_a_folder_of_runs_can_be_moved(root: Path, tmp_path: Path) -> None:
    copied = copy_of(root, tmp_path)
    file = copied / ONE.name / "compare.json"
    about: Mapping[str, Any] = json.loads(file.read_text())
    file.write_text(json.dumps({**about, "data": "/gone"}))
    assert DRAW["fig6"](copied)
    shutil.rmtree(copied / "scans" / "phantom")
    assert DRAW["fig6"](copied) == []


@given(st.dictionaries(st.text("abc", min_size=1), st.floats(0, 1) | st.just(float("nan")), min_size=1, max_size=9))
def test_cases_by_agreement(agreement: dict[str, float]) -> None:
    chosen = choose_by_agreement(agreement)
    known = {case: value for case, value in agreement.items() if not np.isnan(value)}
    assert 1 <= len(chosen) == len(set(chosen.values())) <= 3
    assert agreement[chosen["least agreement"]] == min(known.values(), default=pytest.approx(float("nan"), nan_ok=True))
    if "median" in chosen:
        values = [agreement[case] for case in chosen.values()]
        assert values == sorted(values) or not known


def test_evidence_needs_no_folder_for_the_framework(tmp_path: Path) -> None:
    page, parts = write_evidence(tmp_path / "new", ["fig2"])
    assert (tmp_path / "new" / "figures" / "fig2.png").stat().st_size > 10_000
    assert not parts
    assert "Figure 2 of Shi et al." in page.read_text()
