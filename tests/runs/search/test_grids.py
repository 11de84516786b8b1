"""Grids: which rows they make, what these are called and set, and what is refused."""

import csv
import json
import re

import pytest

from coranet.cli import main
from coranet.errors import InputError
from coranet.runs.row_text import run_name
from coranet.runs.search.grids import Axis, crossed, read_axes

SETTINGS = ("net.levels=2", "train.checks=1", "train.watch=false")
SMALL = [*(word for setting in SETTINGS for word in ("--set", setting)), "--device", "cpu", "--seeds", "1"]


def compare(capsys, *arguments):
    with pytest.raises(SystemExit) as caught:
        main(["compare", *map(str, arguments)])
    captured = capsys.readouterr()
    return caught.value.code, captured.out + captured.err


def test_every_combination_is_a_row():
    axes = read_axes((("train.batch", "[4,4], [8,8]"), ("optim.lr", "1e-3,1e-4")))
    assert axes[0] == Axis(path="train.batch", values=("[4,4]", "[8,8]"))
    assert crossed(["supervised"], axes) == (
        "supervised[train.batch=[4,4];optim.lr=1e-3]",
        "supervised[train.batch=[4,4];optim.lr=1e-4]",
        "supervised[train.batch=[8,8];optim.lr=1e-3]",
        "supervised[train.batch=[8,8];optim.lr=1e-4]",
    )
    assert crossed(["supervised"], ()) == ("supervised",)


def test_a_method_s_field_is_set_where_the_method_has_it():
    axes = read_axes((("method.regions.alpha", "2,5"),))
    assert crossed(["supervised", "coranet", "coranet[regions.alpha=2]"], axes) == (
        "supervised",
        "coranet[regions.alpha=2]",
        "coranet[regions.alpha=5]",
    )
    with pytest.raises(InputError, match=r"--grid method.regions.alpha: none of supervised has that field"):
        crossed(["supervised"], axes)


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ((("width", "16,32"),), "rows may differ in method.FIELD"),
        ((("data.source", "a,b"),), "all rows see the same data"),
        ((("net.width", ""),), "at least one value"),
        ((("net.width", "16,16"),), "each once"),
        ((("train.batch", "[4,4,[8,8]"),), "closes every bracket"),
        ((("net.width", "16;32"),), "no semicolon"),
        ((("net.width", "16"), ("net.width", "32")), "is given twice"),
        ((("net.levels", "2,3"),), "also given with --set"),
    ],
)
def test_what_makes_no_grid_is_refused(grid, message):
    with pytest.raises(InputError, match=message):
        read_axes(grid, [("net.levels", "2")])


def test_rows_of_a_grid_are_trained_as_they_are_called(scans, cache, tmp_path, capsys):
    out = tmp_path / "out"
    grids = ["--grid", "net.width=4,6", "--grid", "train.batch=[1,1],[2,2]"]
    arguments = ["--methods", "supervised", "--steps", 2, "--out", out, "--cache", cache, *grids, *SMALL]
    code, printed = compare(capsys, scans, *arguments)
    assert code == 0, printed
    rows = [row["run"] for row in csv.DictReader((out / "table.csv").read_text().splitlines())]
    assert rows == [
        f"supervised[net.width={width};train.batch={batch}]" for width in (4, 6) for batch in ("[1,1]", "[2,2]")
    ]
    runs = [json.loads((out / run_name(row, 0) / "run.json").read_text()) for row in rows]
    found = [(run["net"]["width"], run["train"]["batch"]) for run in runs]
    assert "Varied: net.width = 4, 6; train.batch = [1,1], [2,2]." in (out / "report.html").read_text()
    assert found == [(4, [1, 1]), (4, [2, 2]), (6, [1, 1]), (6, [2, 2])]


@pytest.mark.parametrize(
    ("grid", "message"),
    [
        ("net.widht=4,6", "has no field 'widht'"),
        ("train.batch=[4,4],8", r"supervised\[train.batch=8\]: --set train.batch is a list"),
        ("net.width", "write it as KEY=A,B"),
    ],
)
def test_wrong_values_are_refused_before_any_training(scans, cache, tmp_path, capsys, grid, message):
    out = tmp_path / "out"
    code, printed = compare(
        capsys, scans, "--methods", "supervised", "--out", out, "--cache", cache, "--grid", grid, *SMALL
    )
    assert code == 1
    assert re.search(message, " ".join(printed.split()))
    assert not out.exists()
