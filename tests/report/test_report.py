"""The report: numbers as scored, pictures as promised, a page that is whole and safe, and clear words for missing files."""

from __future__ import annotations

import base64
import csv
import re
from collections.abc import Mapping
from dataclasses import replace
from html.parser import HTMLParser
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from matplotlib.backend_bases import RendererBase
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.image import imread
from matplotlib.lines import Line2D
from numpy.typing import NDArray
from scipy.stats import wilcoxon

from coranet.data.readers import Volume
from coranet.errors import InputError
from coranet.evaluation import Row, Scores
from coranet.geometry import Geometry
from coranet.metrics import METRICS
from coranet.report import table_text, write_report
from coranet.report.curves import INKS, curve_of
from coranet.report.numbers import FACTS, failures, p_value
from coranet.report.pictures.case_slices import choose_cases, cut_case, middle_of_object
from coranet.report.pictures.filmstrip import MOST, evenly
from coranet.report.pictures.paint import COLOURS, Panel, as_png, draw_panel, square_around
from coranet.report.run_files import read_runs
from coranet.report.score_tables import difference_row, score_row
from coranet.report.seeds import comparison_text, standings, write_comparison
from tests.report.finished_runs import CASES, band, make_data, make_run, truth_of, write_settings

VOID = {"meta", "img"}
Array = NDArray[Any]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_data(tmp_path_factory.mktemp("data"))


@pytest.fixture(scope="module")
def runs(data: Path) -> dict[str, Path]:
    return {"plain <b>& $x$": data / "supervised", "CoraNet": data / "cora"}


@pytest.fixture(scope="module")
def report(data: Path, runs: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report") / "new" / "folder"
    title, notes = 'Runs & "quotes" <script>alert(1)</script>', ["one <i>note</i>"]
    page = write_report(folder, runs, data / "imagesTs", data / "labelsTs", title=title, notes=notes)
    assert page == folder / "report.html"
    return folder


class Reader(HTMLParser):
    """Refuses tags that are not closed in order; gathers text by tag."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.sources: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.sources += [value or "" for name, value in attrs if name in ("src", "href")]
        if tag not in VOID:
            self.open.append(tag)
            self.texts.setdefault(tag, []).append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, text: str) -> None:
        if self.open:
            self.texts[self.open[-1]][-1] += text


def read_page(folder: Path) -> Reader:
    return Reader((folder / "report.html").read_text(encoding="utf-8"))


def close_to(picture: Array, colour: str, tolerance: float = 0.12) -> NDArray[np.bool_]:
    near: NDArray[np.bool_] = (np.abs(picture[..., :3] - to_rgb(colour)) < tolerance).all(axis=-1)
    return near


def reddish(picture: Array) -> NDArray[np.bool_]:
    red: NDArray[np.bool_] = picture[..., 0] - picture[..., 1:3].max(axis=-1) > 0.4
    return red


# Pictures


def test_pictures_are_wide_and_show_classes_and_uncertainty(report: Path) -> None:
    pictures = {name: imread(report / f"{name}.png") for name in ("comparison", "film", "curves")}
    for picture in pictures.values():
        height, width, _ = picture.shape
        assert 1500 <= width <= 2000
        assert 400 <= height <= 1600
        assert picture[..., :3].std() > 0.05
    above_legend = {name: pictures[name][: len(pictures[name]) * 2 // 5] for name in ("comparison", "film")}
    for picture in above_legend.values():
        assert reddish(picture).sum() > 1000
        assert all(close_to(picture, colour).sum() > 500 for colour in COLOURS[:2])
    columns = np.nonzero(reddish(above_legend["comparison"]))[1]
    assert columns.min() > 0.8 * pictures["comparison"].shape[1]  # in the last of seven columns
    assert all(close_to(pictures["curves"], ink).sum() > 40 for ink in INKS[:2])


@pytest.mark.parametrize("layout", ["constrained", None])
def test_a_figure_is_drawn_once_and_looks_as_matplotlib_saves_it(layout: Literal["constrained"] | None) -> None:
    figures, drawn = [Figure(figsize=(3, 2), layout=layout) for _ in range(2)], []

    class Counted(Line2D):
        def draw(self, renderer: RendererBase) -> None:
            drawn.append(self)
            super().draw(renderer)

    for figure in figures:
        figure.add_subplot().add_line(Counted([0, 1], [1, 0]))
        figure.suptitle("title")
    written = as_png(figures[0], 70)
    assert len(drawn) == 1
    content = BytesIO()
    figures[1].savefig(content, format="png", dpi=70)
    assert written == content.getvalue()


def paint(panel: Panel, limits: Array) -> Array:
    """The pixels of one panel, from its upper left corner."""
    canvas = FigureCanvasAgg(Figure(figsize=(2, 2), dpi=100))
    draw_panel(canvas.figure.add_axes((0, 0, 1, 1)), panel, limits)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba()) / 255


def test_the_patient_s_right_is_on_the_left_and_y_runs_upwards() -> None:
    mask = np.zeros((20, 20), np.uint8)
    mask[14:18, 2:4] = 1  # far along X, near along Y
    whole = np.array([(-0.5, 19.5), (-0.5, 19.5)])
    rows, columns = np.nonzero(reddish(paint(Panel(image=np.zeros((20, 20)), uncertain=mask), whole)))
    assert (columns.min(), columns.max()) == pytest.approx((20, 60), abs=2)
    assert (rows.min(), rows.max()) == pytest.approx((160, 180), abs=2)
    brightest = np.zeros((20, 20))
    brightest[14:18, 2:4] = 1
    rows, columns = np.nonzero(paint(Panel(image=brightest), whole)[..., 0] > 0.9)
    assert (columns.mean(), rows.mean()) == pytest.approx((40, 170), abs=3)


@pytest.mark.parametrize("name", ["filled", "outlined", "truth"])
def test_an_edge_runs_round_each_class_even_at_the_border(name: str) -> None:
    labels = np.zeros((20, 20), np.uint8)
    labels[:6], labels[12:16, 8:12] = 1, 2
    maps: dict[str, Any] = {name: labels}
    pixels = paint(Panel(image=np.zeros((20, 20)), **maps), np.array([(-2.0, 19.5), (-2.0, 21.5)]))
    first, second = ("#FFFFFF",) * 2 if name == "truth" else COLOURS[:2]
    assert close_to(pixels[:, 175:], first, 0.2).any()
    assert close_to(pixels[:, :100], second, 0.2).any()
    assert reddish(pixels).sum() == 0


@settings(deadline=None, max_examples=60)
@given(
    mask=arrays(np.bool_, st.tuples(st.integers(1, 30), st.integers(1, 30))),
    spacing=st.tuples(st.floats(0.5, 3), st.floats(0.5, 3)),
)
def test_a_square_holds_the_mask(mask: Array, spacing: tuple[float, float]) -> None:
    limits = square_around(mask, spacing)
    sides = (limits[:, 1] - limits[:, 0]) * spacing
    assert sides[0] == pytest.approx(sides[1])
    assert sides[0] <= max(np.multiply(mask.shape, spacing)) + 1e-9
    found = np.argwhere(mask) if mask.any() else np.argwhere(~mask)
    assert (found.min(axis=0) - 0.5 >= limits[:, 0] - 1e-9).all()
    assert (found.max(axis=0) + 0.5 <= limits[:, 1] + 1e-9).all()


@given(st.integers(1, 100))
def test_a_strip_has_few_frames_evenly_spaced(count: int) -> None:
    files = [Path(str(number)) for number in range(count)]
    places = [int(file.name) for file in evenly(files)]
    assert (places[0], places[-1], len(places)) == (0, count - 1, min(count, MOST))
    gaps = np.diff(places)
    assert not len(gaps) or (gaps.min() >= 1 and gaps.max() - gaps.min() <= 1)


# Which cases and slices


@given(st.dictionaries(st.text("abcdef", min_size=1, max_size=3), st.floats(0, 1), min_size=1, max_size=12))
def test_cases_are_chosen_by_their_dice(dice: dict[str, float]) -> None:
    rows = [evaluated_row(case, value) for case, value in dice.items()]
    rows.append(evaluated_row("nothing to score", float("nan")))
    chosen = choose_cases(Scores(rows=tuple(rows)))
    values = [dice[case] for case in chosen.values()]
    assert len(set(chosen.values())) == len(chosen) == min(len(dice), 4)
    assert values == sorted(values)
    assert (values[0], values[-1]) == (min(dice.values()), max(dice.values()))
    assert "median" not in chosen or dice[chosen["median"]] == sorted(dice.values())[len(dice) // 2]


def evaluated_row(case: str = "", dsc: float = 0.5) -> Row:
    values = dict.fromkeys(METRICS, 1.0) | {"dsc": dsc}
    counts = {"prediction_voxels": 1, "label_voxels": 1}
    return Row(case=case, class_name="RV", value=1, status="scored", values=values, **counts)


def test_the_slice_is_in_the_middle_of_the_object_across_the_widest_spacing() -> None:
    array = np.zeros((10, 6, 7), np.uint8)
    array[3:8, 2, 2] = 1
    along_x = Geometry(shape=(10, 6, 7), affine=((5, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)))
    assert middle_of_object(Volume(array, along_x)) == (0, 5)
    assert middle_of_object(Volume(np.zeros_like(array), along_x)) == (0, 5)
    equal = Geometry(shape=(10, 6, 7), affine=((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 1, 0), (0, 0, 0, 1)))
    assert middle_of_object(Volume(array, equal)) == (2, 2)


def test_a_case_is_cut_through_all_files_alike(data: Path, runs: Mapping[str, Path]) -> None:
    finished = read_runs(runs)
    regions = {"uncertain": finished[1].region("case_3", "uncertain")}
    seen = cut_case("case_3", finished, data / "imagesTs", data / "labelsTs", regions)
    assert (seen.index, seen.spacing) == (2, (1.5, 1.5))
    truth = truth_of(3)
    np.testing.assert_array_equal(seen.truth, truth[..., 2])
    np.testing.assert_array_equal(seen.predictions["CoraNet"], np.roll(truth, 1, axis=0)[..., 2])
    np.testing.assert_array_equal(seen.regions["uncertain"], band(truth)[..., 2])
    np.testing.assert_array_equal(np.floor(seen.image - 1e-3), seen.truth)


# Numbers


def by_case(folder: Path, metric: str) -> dict[str, float]:
    """Means over classes, from the text of the table alone."""
    header, *lines = [line.split(",") for line in (folder / "scores.csv").read_text().splitlines()]
    values: dict[str, list[float]] = {}
    for line in lines:
        values.setdefault(line[0], []).append(float(line[header.index(metric)]))
    return {case: float(np.mean(numbers)) for case, numbers in values.items()}


def test_the_page_has_the_numbers_of_the_scores(report: Path, runs: Mapping[str, Path]) -> None:
    cells = read_page(report).texts["td"]
    for name, folder in runs.items():
        assert name in cells
        for metric, digits in (("dsc", 3), ("jaccard", 3), ("hd95_mm", 2), ("asd_mm", 2)):
            mean = f"{np.mean(list(by_case(folder, metric).values())):.{digits}f}"
            assert any(re.fullmatch(rf"{mean} \[[\d.]+, [\d.]+\]", cell) for cell in cells), (name, metric, mean)
        for summary in Scores.read_csv(folder / "scores.csv").per_class().values():
            one = summary["dsc"]
            assert f"{one.mean:.3f} [{one.low:.3f}, {one.high:.3f}]" in cells
    assert {"1 of 12", "0 of 12"} <= set(cells)
    assert {"0.000", "–"}.isdisjoint(cells)


def test_differences_are_those_of_pairs_and_have_a_sign(report: Path, runs: Mapping[str, Path]) -> None:
    base, other = read_runs(runs)
    first, second = (by_case(folder, "dsc") for folder in runs.values())
    gaps = [second[case] - first[case] for case in CASES]
    text = difference_row(other, base)["DSC"]
    assert text.startswith(f"{np.mean(gaps):+.3f} [+")
    assert text.endswith(f"p = {wilcoxon(gaps).pvalue:.3f}")
    assert text in read_page(report).texts["td"]
    assert difference_row(other, base)["HD95 mm"].startswith("-")
    assert difference_row(base, base)["DSC"] == "+0.000 [+0.000, +0.000], p = 1.000"


def test_p_values_are_never_zero() -> None:
    assert (p_value(0.00049), p_value(0.0314)) == ("p < 0.001", "p = 0.031")


def test_the_console_table_has_a_row_for_each_run(runs: Mapping[str, Path]) -> None:
    rows = table_text(runs)
    assert [row["run"] for row in rows] == list(runs)
    columns = ["run", "DSC", "DSC RV", "DSC LV", "HD95 mm", "failures", "updates", "images"]
    assert all(list(row) == columns for row in rows)
    for row, folder in zip(rows, runs.values(), strict=True):
        assert row["DSC"].startswith(f"{np.mean(list(by_case(folder, 'dsc').values())):.3f} [")
        assert row["HD95 mm"] == f"{np.mean(list(by_case(folder, 'hd95_mm').values())):.2f}"
    assert [row["failures"] for row in rows] == ["1 of 12", "0 of 12"]
    assert [(row["updates"], row["images"]) for row in rows] == [("120", "320")] * 2


def test_every_table_that_compares_counts_failures_and_work(runs: Mapping[str, Path], tmp_path: Path) -> None:
    expected = [("1 of 12", "120", "320"), ("0 of 12", "120", "320")]
    found = standings([runs])
    tables = [comparison_text(found), [score_row(run) for run in read_runs(runs)]]
    for rows in tables:
        assert [(row["failures"], row["updates"], row["images"]) for row in rows] == expected
    assert [row["failures"] for row in comparison_text(standings([runs, runs]))] == ["2 of 24", "0 of 24"]
    write_comparison(tmp_path, found, {})
    written = csv.DictReader((tmp_path / "table.csv").read_text().splitlines())
    assert [line["failures"] for line in written] == ["1 of 12", "0 of 12"]


def test_a_log_that_does_not_say_is_shown_as_nothing(runs: Mapping[str, Path]) -> None:
    """Runs of earlier versions logged neither updates nor images."""
    run = read_runs(runs)[0]
    earlier = replace(run, log=tuple({**line, "updates": 9} for line in run.log))
    for line in earlier.log:
        del line["images"]
    assert score_row(earlier) | {"updates": "9", "images": "–"} == score_row(earlier)
    assert FACTS["images"].text([run, earlier]) == "–"
    assert FACTS["updates"].text([replace(run, log=())]) == "–"
    assert (failures([]), failures([run.scores, run.scores])) == ("–", "2 of 24")


def test_seconds_of_a_continued_run_are_added_up(runs: Mapping[str, Path]) -> None:
    run = read_runs(runs)[0]
    log = tuple({**run.log[0], "seconds": seconds} for seconds in (5.0, 20.0, 4.0, 10.0, 1.0))
    assert replace(run, log=log).seconds == 31


def test_curves_skip_lines_that_do_not_have_them(runs: Mapping[str, Path]) -> None:
    log = read_runs(runs)[1].log
    assert curve_of(log, "val", "mean") == {40: 0.8}
    assert curve_of(log, "measures", "uncertain_share") == {step: 1 / step for step in range(22, 41, 2)}


# The page


def test_the_page_is_well_formed_and_needs_no_other_file(report: Path) -> None:
    page = read_page(report)
    embedded = {base64.b64decode(source.removeprefix("data:image/png;base64,")) for source in page.sources}
    assert embedded == {(report / f"{name}.png").read_bytes() for name in ("comparison", "film", "curves")}
    assert len(page.sources) == len(page.texts["figcaption"]) == 3
    assert "script" not in page.texts
    assert not re.search(r"https?:|@import|url\(", (report / "report.html").read_text())


def test_all_text_is_escaped(report: Path) -> None:
    page = read_page(report)
    assert page.texts["h1"] == page.texts["title"] == ['Runs & "quotes" <script>alert(1)</script>']
    assert page.texts["li"] == ["one <i>note</i>"]
    assert "b" not in page.texts
    assert "plain <b>& $x$" in page.texts["td"]
    assert "coranet train <scans> --steps 40" in page.texts["td"]


def test_settings_fold_out_with_what_was_spent(report: Path) -> None:
    page = read_page(report)
    cells = page.texts["td"]
    spent = {"steps": "40", "updates": "120", "images": "320", "seconds": "40", "seed": "7", "commit": "c0ffee1"}
    for name, value in spent.items():
        assert cells[cells.index(name) + 1 : cells.index(name) + 3] == [value, value]
    assert page.texts["summary"] == ["DSC of every case", "Settings", "Every setting"]
    assert cells[cells.index("train.batch") + 1] == "[4, 4]"
    assert not any(cell.startswith("split.") for cell in cells)


def test_one_run_without_regions_and_an_unfair_comparison(data: Path, tmp_path: Path) -> None:
    folder = make_run_beside(data, tmp_path)
    write_settings(folder, 80, unlabelled=["b", "case_1"])
    runs = {"short": data / "supervised", "long": folder}
    page = write_report(tmp_path / "two", runs, data / "imagesTs", data / "labelsTs", title="Two")
    assert read_page(page.parent).texts["li"] == [
        "The runs were not trained for the same number of steps: short 40, long 80.",
        "long has seen test cases in training or validation: case_1.",
    ]
    assert not any(reddish(imread(page.parent / f"{name}.png")).any() for name in ("comparison", "film"))
    assert page.read_text().count("<figure>") == 3


# What can be wrong


def make_run_beside(data: Path, root: Path) -> Path:
    """The supervised run again, to be spoilt."""
    (root / "labelsTs").symlink_to(data / "labelsTs")
    return make_run(root, "run", shift=2, regions=False)


@pytest.mark.parametrize(
    ("name", "way_out"),
    [("scores.csv", "coranet evaluate .*predictions"), ("run.json", "coranet train"), ("log.jsonl", "coranet train")],
)
def test_a_missing_file_is_named_with_the_way_out(data: Path, tmp_path: Path, name: str, way_out: str) -> None:
    folder = make_run_beside(data, tmp_path)
    (folder / name).unlink()
    with pytest.raises(InputError, match=rf"run/{name}: .*{way_out}"):
        table_text({"run": folder})


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("run.json", "{", "is broken JSON"),
        ("log.jsonl", '{"step": 2}\n{"st\n', "is broken JSON"),
        ("log.jsonl", "", "is empty"),
        ("scores.csv", "a,b\n1,2\n", "is not a table of scores"),
    ],
)
def test_a_broken_file_is_named(data: Path, tmp_path: Path, name: str, content: str, message: str) -> None:
    folder = make_run_beside(data, tmp_path)
    (folder / name).write_text(content)
    with pytest.raises(InputError, match=rf"run/{name}: {message}"):
        table_text({"run": folder})


def test_scores_of_no_object_are_refused(data: Path, tmp_path: Path) -> None:
    folder = make_run_beside(data, tmp_path)
    Scores(rows=(replace(evaluated_row(), status="absent"),)).write_csv(folder / "scores.csv")
    with pytest.raises(InputError, match=r"run/scores\.csv: is about no object at all"):
        table_text({"run": folder})


def test_runs_scored_on_other_cases_are_refused(data: Path, tmp_path: Path) -> None:
    folder = make_run_beside(data, tmp_path)
    scores = Scores.read_csv(folder / "scores.csv")
    Scores(rows=scores.rows[2:]).write_csv(folder / "scores.csv")
    with pytest.raises(InputError, match=r"run/scores\.csv: is not about the same cases .*supervised.*: case_0\."):
        table_text({"a": data / "supervised", "b": folder})


def test_a_missing_scan_is_named_and_nothing_is_written(data: Path, runs: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"nowhere/case_\d_0000\.nii\.gz: does not exist"):
        write_report(tmp_path / "out", runs, data / "nowhere", data / "labelsTs", title="")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_named(data: Path, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    runs = {"one": data / "supervised"}
    with pytest.raises(InputError, match=r"out: cannot be made"):
        write_report(tmp_path / "out", runs, data / "imagesTs", data / "labelsTs", title="")
