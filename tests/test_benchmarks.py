"""Figures are written with all that they depend on, and the page says what the files say."""

import json
import re
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from coranet.paper.reproduction import OF_THE_TEXT, cells_of, only_methods
from coranet.paper.sets import SETS
from coranet.runs.options import Options
from coranet.runs.row_text import check_row, split_rows
from coranet.runs.run_plan import make_run

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
RESULTS = sorted((BENCHMARKS / "results").glob("*.json"))
KEYS = {"name", "value", "unit", "must", "aim", "peer", "ratio", "device", "torch", "commit", "date", "command"}
PROMISED = {
    "coranet3d_step_ms",
    "mean_teacher2d_step_ms",
    "coranet2d_step_ms",
    "coranet2d_alternate_step_ms",
    "predict2d_slices_per_s",
    "predict3d_ratio",
    "idle_share",
    "cpu_step_ratio",
    "streaming_share",
}


@pytest.fixture
def bench(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    import page
    import rows

    yield page, rows
    for file in BENCHMARKS.glob("*.py"):
        sys.modules.pop(file.stem, None)


SOURCE = '''
class Box:
    def holds(self, x: int = 3) -> bool:
        """Whether x lies inside: 0 < 1."""
        assert x > 0
        if x < 5 and not self.empty:
            return x + 2 == self.size
        return False
'''
"""A function with one fault of each kind; assertions, defaults, types and texts are left alone."""


def test_mutants_are_faults_in_one_function_each(bench, tmp_path):
    import mutants

    room = tmp_path / "ops"
    room.mkdir()
    (room / "box.py").write_text(SOURCE)
    (unit,) = mutants.units(tmp_path)
    made = [mutants.mutated(SOURCE, mutants.Mutant(unit, site)) for site in range(unit.sites)]
    assert [what for _, what in made] == [
        "condition",
        "And to Or",
        "Lt to LtE",
        "constant",
        "return",
        "Eq to NotEq",
        "Add to Sub",
        "constant",
        "return",
        "constant",
    ]
    assert len({text for text, _ in made}) == len(made)
    assert all("x: int=3" in text and "assert x > 0" in text for text, _ in made)
    assert "x <= 5 and" in made[2][0]
    assert "('ops/box.py:Box.holds')\n        assert x > 0" in mutants.marked(SOURCE, unit.file)


def test_every_figure_says_where_it_comes_from():
    rows = [row for file in RESULTS for row in json.loads(file.read_text())]
    assert {row["name"] for row in rows} >= PROMISED
    assert all(row.keys() >= KEYS and row["command"] and row["commit"] for row in rows)


def test_the_page_is_what_the_files_say(bench, tmp_path, monkeypatch):
    page, _ = bench
    monkeypatch.setattr(page, "HERE", tmp_path)
    page.main()
    assert (tmp_path / "RESULTS.md").read_text() == (BENCHMARKS / "RESULTS.md").read_text()
    assert (tmp_path / "growth.png").stat().st_size > 10_000


@pytest.mark.parametrize(
    ("value", "less", "verdict", "ratio"),
    [(5, True, "aim", 4), (8, True, "must", 2.5), (12, True, "missed", 1.67), (12, False, "aim", 0.6)],
)
def test_bounds_and_ratios(bench, value, less, verdict, ratio):
    _, rows = bench
    aim, must = (5, 10) if less else (11, 10)
    row = rows.Row(name="x", value=value, unit="ms", what="", must=must, aim=aim, peer=20, less_is_better=less)
    assert row.verdict == verdict
    assert row.ratio == ratio


def test_a_report_keeps_each_row_as_it_comes(bench, tmp_path):
    import torch

    _, rows = bench
    report = rows.Report("speed", torch.device("cpu"), tmp_path, commit="abc")
    report.add(rows.Row(name="x", value=1.23456, unit="ms", what="work"))
    (row,) = json.loads((tmp_path / "speed.json").read_text())
    assert (row["value"], row["commit"], row["peer"], row["ratio"]) == (1.2346, "abc", None, None)


def test_what_is_measured_can_be_trained(bench, tmp_path):
    import torch
    import work

    from coranet.feed.augmentation import Augment
    from coranet.feed.windows import Slices
    from coranet.methods.mean_teacher import MeanTeacher
    from coranet.nets import Net

    trainer = work.make_trainer(
        work.make_store(tmp_path, (32, 32, 4), cases=3),
        tmp_path / "run",
        method=MeanTeacher(),
        net=Net(width=4, levels=2),
        window=Slices(size=(32, 32)),
        batch=(1, 1),
        augment=Augment(),
        device=torch.device("cpu"),
        accel=work.EXACT,
    )
    assert trainer.run.data.unit > 0
    before = [value.clone() for value in trainer.setup.nets["student"].parameters()]
    work.Steps(trainer, warm_up=2)
    assert not all(map(torch.equal, before, trainer.setup.nets["student"].parameters()))


def test_nnunet_is_asked_for_in_one_sentence(bench, scans, tmp_path, monkeypatch, capsys):
    import nnunet

    monkeypatch.setattr(nnunet, "IMPORTED", {"json": "json", "no_such_module": "no-such-package"})
    words = ["nnunet.py", str(scans), "--split", "s.json", "--out", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", words)
    assert nnunet.main() == 1
    said = capsys.readouterr().err
    assert said.startswith(
        'nnU-Net is not whole here: there is no no-such-package. Run `pip install "nnunetv2==2.8.*"`'
    )
    assert not (tmp_path / "out").exists()
    monkeypatch.setattr(sys, "argv", ["nnunet.py", "--missing"])
    assert (nnunet.main(), capsys.readouterr().out) == (0, "no-such-package\n")


def test_nnunet_sees_the_labelled_cases_alone(bench, scans, tmp_path):
    import nnunet

    from coranet.data.datasets.folder import read_folder
    from coranet.data.splits.by_patient import Split
    from coranet.errors import InputError

    split = Split(labelled=("phantom_000", "phantom_001"), unlabelled=("phantom_003",), test=("phantom_007",))
    asked = SimpleNamespace(out=tmp_path, cases="test", split="s.json")
    nnunet.lay_out(read_folder(scans), split, asked)
    found = {str(file.relative_to(tmp_path)): file.resolve() for file in tmp_path.rglob("*.nii.gz")}
    raw = f"raw/{nnunet.NAME}"
    assert found == {
        **{f"{raw}/imagesTr/{name}_0000.nii.gz": scans / f"imagesTr/{name}_0000.nii.gz" for name in split.labelled},
        **{f"{raw}/labelsTr/{name}.nii.gz": scans / f"labelsTr/{name}.nii.gz" for name in split.labelled},
        "images/phantom_007_0000.nii.gz": scans / "imagesTs/phantom_007_0000.nii.gz",
        "labels/phantom_007.nii.gz": scans / "labelsTs/phantom_007.nii.gz",
    }
    content = json.loads((tmp_path / raw / "dataset.json").read_text())
    assert content["labels"] == {"background": 0, "RV": 1, "Myo": 2, "LV": 3}
    with pytest.raises(InputError, match=r"phantom_003: .* no such case with a label"):
        nnunet.lay_out(read_folder(scans), replace(split, test=("phantom_003",), unlabelled=()), asked)


def test_a_stage_that_is_done_is_passed_over(bench, tmp_path):
    import nnunet

    from coranet.errors import InputError

    done = []
    for _ in range(2):
        nnunet.once(tmp_path / "mark", lambda: done.append(1))
    assert done == [1]
    names = ("scans", "split", "cases", "configuration", "iterations", "repeat")
    asked = SimpleNamespace(out=tmp_path, epochs=100, **dict.fromkeys(names, "same"))
    nnunet.same_settings(asked)
    nnunet.same_settings(asked)
    asked.epochs = 50
    with pytest.raises(InputError, match=r"was begun with .*'epochs': '100'"):
        nnunet.same_settings(asked)


QUEUE = ("next", "parts", "wide", "few", "la-next", "volumes")
"""Rows that are still to be run."""


@pytest.mark.parametrize("name", QUEUE)
def test_every_row_of_the_queue_is_a_run(name, scans, cache):
    content = json.loads((BENCHMARKS / "rows" / f"{name}.json").read_text())
    assert f"rows/{name}.json" in (BENCHMARKS / "queue.md").read_text()
    shared, made = content["shared"], []
    for row in content["rows"].values():
        pairs = (text.split("=", 1) for text in (*shared.get("set", ()), *row.get("set", ())))
        options = Options(
            preset=shared["preset"],
            dims=shared.get("dims"),
            patch=tuple(shared["patch"]) if "patch" in shared else None,
            method=row["method"],
            device="cpu",
            cache=cache,
            overrides=tuple((key, value) for key, value in pairs),
        )
        made.append(make_run(scans, options, torch.device("cpu"))[0])
    assert all(one != other for number, one in enumerate(made) for other in made[:number])


REPRODUCED = [
    shlex.split(line)
    for line in (BENCHMARKS / "queue.md").read_text().splitlines()
    if line.strip().startswith("coranet reproduce ") and "--data" in line
]
"""Commands of the queue that make the paper's evidence."""


@pytest.fixture(scope="module")
def probes(scans, cache):
    """A run on slices and one on volumes, for rows to be tried on."""
    small = {"device": "cpu", "cache": cache, "method": "supervised", "steps": 8}
    return {
        dims: make_run(scans, Options(preset="auto", dims=dims, **small), torch.device("cpu"))[0] for dims in (2, 3)
    }


@pytest.mark.parametrize("words", REPRODUCED, ids=" ".join)
def test_every_command_of_the_paper_s_evidence_builds_its_rows(words, probes):
    name, full, rest = words[2], "--full" in words, [word for word in words[3:] if word != "--full"]
    options = dict(zip(rest[::2], rest[1::2], strict=True))
    sets = options["--sets"].split(",")
    cells = cells_of(name, sets)
    assert {setting.scans for setting in cells} == set(sets)
    if "--methods" in options:
        cells = only_methods({name: cells}, split_rows(options["--methods"]))[name]
    assert cells
    assert int(options["--seeds"]) >= 1
    for setting, rows in cells.items():
        for row in rows:
            check_row(row, probes[SETS[setting.scans].options.dims])
    assert not full or all(SETS[one].options.preset in OF_THE_TEXT for one in sets)
    assert Path(options["--out"]).parent == Path("runs")


def test_the_queue_s_benchmarks_are_there():
    commands = re.findall(r"^ +python (benchmarks/\S+)", (BENCHMARKS / "queue.md").read_text(), flags=re.MULTILINE)
    assert {"benchmarks/peer_steps.py", "benchmarks/gpu.py"} <= set(commands)
    assert all((BENCHMARKS.parent / command).is_file() for command in commands)


def test_an_annotator_who_knows_the_truth_reaches_the_goal_and_never_turns_back(bench):
    import numpy as np
    from correcting import GOAL, Annotator

    from coranet.review.pieces import complete, cut

    truth = np.zeros((16, 16, 3), np.uint8)
    truth[4:12, 4:12, 1] = 1
    prediction = truth.copy()
    prediction[4:12, 4:6], prediction[0, 0, 0] = 0, 1
    region = cut(complete(prediction, truth != prediction, prediction, truth, (1, 1, 1)), (1, 1, 1), 2)
    taken = {}
    for way, (pieces, brush) in {"paint": (None, True), "choose": (region, False), "both": (region, True)}.items():
        annotator = Annotator(prediction.copy(), truth, 2, pieces, brush)
        annotator.correct()
        assert annotator.dice == sorted(annotator.dice)
        assert annotator.dice[-1] >= GOAL
        taken[way] = len(annotator.dice) - 1, annotator.painted
    assert taken["choose"] < taken["paint"]
    assert taken["choose"][1] == 0
    assert taken["both"] <= taken["paint"]


def test_corrections_are_written_as_they_were_made_and_no_better_than_actions_allow(bench, tmp_path):
    from training_on import correct

    from coranet.data.datasets.corrections import read_corrections
    from coranet.data.readers import nifti
    from tests.review.reviewed import maps, write_cases

    write_cases(tmp_path, ["a", "b"])
    (tmp_path / "labels").mkdir()
    for seed, name in enumerate(("a", "b")):
        scan = nifti.read(tmp_path / "scans" / f"{name}.nii.gz")
        nifti.write(tmp_path / "labels" / f"{name}.nii.gz", maps(seed)[3], scan.geometry)
    folders = tmp_path / "predictions", tmp_path / "labels"
    dice = [correct(*folders, tmp_path / f"out{actions}", actions) for actions in (0, 2, None)]
    assert dice[0] < dice[1] < dice[2] == 1
    found = read_corrections(tmp_path / "outNone")
    assert (nifti.read(found["b"].label).array == maps(1)[3]).all()


def test_a_planned_row_has_the_steps_of_its_plan_and_no_minutes(bench, tmp_path):
    from quick import options_of, planned

    from coranet.data.splits.by_patient import Split
    from uncertainty import Source

    asked = SimpleNamespace(
        out=tmp_path, minutes=18.0, device="cpu", threads=1, plan=BENCHMARKS / "quick_plan.json", sets=()
    )
    plan = planned(asked)
    assert set(plan) == {"sunnybrook", "phantom", "hippocampus"}
    source = Source(name="phantom", data=tmp_path, split=Split(labelled=("a",), unlabelled=("b",), val=(), test=("c",)))
    for row, settings in plan["phantom"].items():
        told = options_of(source, row, 3, asked, settings)
        assert (told.minutes, told.seed, told.method) == (None, 3, row)
        assert dict(told.overrides) == settings
        assert int(settings["train.steps"]) > 1000
    assert options_of(source, "coranet:plus[views=2]", 0, asked, None).minutes == 18.0
