"""The paper's tables: what they declare, which runs they need, on which scans, and what finished runs say in them."""

import csv
import json
import re
import shutil
from dataclasses import replace
from statistics import mean, stdev

import numpy as np
import pytest
import torch

from coranet.cli import main
from coranet.cli.reproduce import ReproduceVerb
from coranet.data.datasets.folder import read_folder
from coranet.data.readers import nifti
from coranet.data.splits.protocols import find_protocol
from coranet.errors import InputError
from coranet.evaluation import Scores
from coranet.methods import find_method
from coranet.paper import printed
from coranet.paper.archive import Archive
from coranet.paper.figure_list import FIGURES
from coranet.paper.laid_scans import lay_out
from coranet.paper.reproduction import NAMES, Reproduction, cells_of, only_methods, prepare, sets_for
from coranet.paper.sets import SETS, find_scans, is_scans, split_of
from coranet.paper.settings import RECIPES, ROLES, Setting, places_of, setting_of
from coranet.paper.table_text import read_table, table_markdown, table_rows, write_table
from coranet.paper.tables import TABLES
from coranet.report.numbers import failures
from coranet.runs.exam import find_exam
from coranet.runs.row_text import NO_FIELDS, parse_row, run_name, split_rows
from coranet.runs.run_plan import make_run

STAND_INS = ("sunnybrook", "acdc-lv", "acdc", "acdc-7", "acdc-peng", "la", "hippocampus")


def run(capsys, *arguments):
    with pytest.raises(SystemExit) as caught:
        main([str(argument) for argument in arguments])
    captured = capsys.readouterr()
    return caught.value.code, captured.out, captured.err


# What is declared


def test_every_row_names_a_method_and_fields_it_has():
    for name in NAMES:
        for methods in cells_of(name, STAND_INS).values():
            assert split_rows(",".join(methods)) == methods
            for row in methods:
                method, fields = parse_row(row)
                known = {*find_method(method).__dataclass_fields__, *NO_FIELDS}
                assert {field.partition(".")[0] for field in fields} <= known, row


def test_every_printed_number_has_its_row():
    shown = {
        (table.name, block.title, row.label): dict(row.printed)
        for table in TABLES.values()
        for block in table.blocks
        for row in block.rows
        if row.printed
    }
    assert shown["table2", "1 : 1", "Ours"] == {"dsc": 67.01, "ppv": 68.41, "tpr": 74.19, "hd": 15.90}
    assert shown["table3", "1:4", "UA-MT"] == {"dsc": 50.63}
    assert shown["table5", "ResNet-18", "UMCT (6v+)"] == {"dsc": 81.18}
    assert shown["table8", "endocardium, 1 : 4", "α = 10"]["hd"] == 31.36
    assert shown["table9", "ACDC", "KL"] == {"dsc:RV": 85.08, "dsc:MYO": 81.08, "dsc:LV": 90.72, "dsc": 85.63}
    assert shown["table9", "ACDC, as in the paper", "KL"] == shown["table9", "ACDC", "KL"]
    counts = {name: sum(key[0] == name for key in shown) for name in TABLES}
    assert counts == {
        "table2": len(printed.TABLE2),
        "table3": 3 * 6,
        "table4": len(printed.TABLE4) + 1,  # one row's text reads two ways
        "table5": len(printed.TABLE5_VNET) + len(printed.TABLE5_RESNET),
        "table6": 8,
        "table7": 6,
        "table8": 8,
        "table9": 2 * len(printed.TABLE9),  # beside half as many labels nothing is printed
    }


def test_the_mean_of_printed_classes_is_the_printed_mean():
    """So that a misprint of ours would show."""
    for label, numbers in printed.TABLE9.items():
        classes = [numbers[f"dsc:{name}"] for name in ("RV", "MYO", "LV")]
        assert mean(classes) == pytest.approx(numbers["dsc"], abs=0.02), label


def test_tables_share_their_runs():
    ours = {name: cells_of(name, ("sunnybrook",)) for name in ("table2", "table3", "table4", "table6", "table8")}
    setting = Setting(scans="sunnybrook", share="1:1")
    assert all("coranet" in ours[name][setting] for name in ours)
    assert set(ours["table2"][setting]) <= set(ours["table3"][setting])


def test_the_papers_own_set_goes_before_what_stands_for_it():
    (block,) = TABLES["table7"].blocks
    assert places_of(block, ("sunnybrook", "endocardium")) == ("endocardium",)
    assert places_of(block, ("sunnybrook", "acdc")) == ("sunnybrook",)
    (block,) = TABLES["table2"].blocks
    assert places_of(block, ("acdc-lv", "sunnybrook")) == ("sunnybrook", "acdc-lv")
    for role in ROLES.values():
        assert {role.own, *role.stand_ins, role.short} <= {*SETS, ""}


def test_full_supervision_has_all_labels():
    block, fewer, fifth = TABLES["table9"].blocks
    row = next(row for row in block.rows if row.label == "Fully supervised")
    assert setting_of(block, row, "acdc") == Setting(scans="acdc", share="70", recipe="modern")
    assert setting_of(block, row, "acdc").name == "acdc-70-modern"
    assert setting_of(fifth, fifth.rows[-1], "acdc-peng").name == "acdc-peng-100percent-modern"
    assert [row.label for row in fewer.rows] == [row.label for row in block.rows[:-1]]  # all labels are all labels
    assert {row.recipe for row in block.rows} == {"", "modern"} == {"", *RECIPES}


def test_rows_can_be_run_alone():
    cells = {name: cells_of(name, STAND_INS) for name in ("table5", "table9")}
    one = only_methods(cells, ["supervised", "coranet[classes=binary]"])
    assert {setting.name: methods for setting, methods in one["table9"].items()} == {
        "acdc-14-modern": ("supervised",),
        "acdc-14": ("coranet[classes=binary]",),
        "acdc-70-modern": ("supervised",),
        "acdc-7-modern": ("supervised",),
        "acdc-7": ("coranet[classes=binary]",),
        "acdc-peng-20percent-modern": ("supervised",),
        "acdc-peng-20percent": ("coranet[classes=binary]",),
        "acdc-peng-100percent-modern": ("supervised",),
    }
    chosen = cells_of("table9", ("acdc-7",))
    assert {setting.name for setting in chosen} == {"acdc-7-modern", "acdc-7"}
    assert set(sets_for("table9")) == {"acdc", "acdc-7", "acdc-peng"}
    assert {setting.net for setting in one["table5"]} == {None, "resnet18"}  # labels alone, by both
    with pytest.raises(InputError, match=r"--methods coranett: is no row here\. Did you mean coranet"):
        only_methods(cells, ["coranett"])
    with pytest.raises(InputError, match="name at least one row"):
        only_methods(cells, [])
    turned = {"table4": cells_of("table4", ("sunnybrook",))}
    (found,) = only_methods(turned, ["coranet[mean_teacher=false;self_training=false]"])["table4"].values()
    assert found == ("coranet[self_training=false;mean_teacher=false]",)
    assert only_methods({"fig2": {}}, ["coranet"]) == {"fig2": {}}


def test_a_figure_of_which_some_rows_alone_were_run_waits_for_the_others(capsys, tmp_path):
    code, _, err = run(
        capsys,
        *("reproduce", "fig1", "--short", "--methods", "supervised[costs=[5,1]]"),
        *("--out", tmp_path / "out", "--cache", tmp_path / "cache", "--device", "cpu", "--steps", 2),
    )
    assert code == 0, err
    assert "once its other rows are finished" in err


def test_a_figure_needs_what_its_caption_speaks_of():
    assert cells_of("fig2", STAND_INS) == {}
    (methods,) = cells_of("fig1", ("sunnybrook",)).values()
    assert methods == ("supervised[costs=[5,1]]", "supervised[costs=[1,5]]")
    assert len(cells_of("fig3", ("sunnybrook",))) == 2  # 1 : 1 for the pancreas, 1 : 4 for the endocardium
    assert {name for name in NAMES if name.startswith("fig")} == {f"fig{n}" for n in range(1, 10)} <= set(FIGURES)


# The scans


@pytest.fixture(scope="module")
def hearts(tmp_path_factory):
    """The short phantom as it is laid out, one object of three kept."""
    return lay_out(SETS["phantom"], None, tmp_path_factory.mktemp("home"))


def test_a_set_is_laid_out_once_with_the_objects_that_are_kept(hearts, tmp_path):
    dataset = read_folder(hearts)
    assert dict(dataset.classes) == {0: "background", 1: "LV"}
    assert len(dataset.cases) == 12
    whole = read_folder(lay_out(SETS["phantom-hearts"], None, tmp_path))
    for one, other in zip(dataset.cases, whole.cases, strict=True):
        assert one.name == other.name
        assert np.array_equal(one.images[0].read().array, other.images[0].read().array)
        assert np.array_equal(one.label.read().array == 1, other.label.read().array == 3)
    before = (hearts / "dataset.json").stat().st_mtime_ns
    assert lay_out(SETS["phantom"], None, hearts.parent) == hearts
    assert (hearts / "dataset.json").stat().st_mtime_ns == before
    assert [path.name for path in hearts.parent.iterdir()] == ["phantom"]


def test_a_folder_in_our_layout_is_used_as_it_is(scans, tmp_path):
    place = tmp_path / "acdc"
    place.symlink_to(scans)
    assert find_scans(SETS["acdc"], tmp_path) == place
    assert find_scans(SETS["acdc"], place) == place
    assert find_scans(SETS["la"], tmp_path) is None
    assert lay_out(SETS["acdc"], place, tmp_path / "home") == place
    ventricle = lay_out(SETS["acdc-lv"], place, tmp_path / "home")
    assert ventricle == tmp_path / "home" / "acdc-lv"
    assert dict(read_folder(ventricle).classes) == {0: "background", 1: "LV"}


def test_a_protocol_may_test_on_cases_of_both_parts(scans, tmp_path):
    """ACDC as the field splits it, 20 patients apart, of which the paper's share trains on some and tests on others."""
    apart = find_protocol("acdc:14").test
    label = next((scans / "labelsTr").glob("*.nii.gz"))
    image = scans / "imagesTr" / label.name.replace(".nii.gz", "_0000.nii.gz")
    shutil.copytree(
        scans, place := tmp_path / "acdc", ignore=lambda *_: ["imagesTr", "labelsTr", "imagesTs", "labelsTs"]
    )
    for number in range(1, 101):
        name, part = f"patient{number:03d}_ED", "Ts" if f"{number:03d}" in apart else "Tr"
        for folder, file, source in ((f"images{part}", f"{name}_0000", image), (f"labels{part}", name, label)):
            (place / folder).mkdir(exist_ok=True)
            (place / folder / f"{file}.nii.gz").symlink_to(source)
    request = Reproduction(out=tmp_path / "out", cache=tmp_path / "cache", steps=2, seeds=1, device="cpu")
    made = prepare(Setting(scans="acdc", share="7", recipe="modern"), ("supervised",), place, request)
    assert made.best  # the protocol has validation cases
    laid = {name: lay_out(SETS[name], place, tmp_path / "home") for name in ("acdc-7", "acdc-peng")}
    assert laid["acdc-7"] == place
    for name, share, sizes in (("acdc-7", "7", (7, 63, 10, 20)), ("acdc-peng", "20%", (15, 60, 0, 25))):
        split, _ = split_of(SETS[name], read_folder(laid[name]).cases, share)
        assert tuple(len(part) for part in (split.labelled, split.unlabelled, split.val, split.test)) == sizes
        exam = find_exam(laid[name], split)
        assert all((exam.labels / f"{case}.nii.gz").is_file() for case in exam.cases)


@pytest.mark.parametrize(
    ("names", "sets"),
    [
        ([f"patient{number:03d}_ED" for number in range(1, 101)], {"acdc", "acdc-lv", "acdc-7", "acdc-peng"}),
        ([f"hippocampus_{number:03d}" for number in range(3)], {"hippocampus"}),
        ([f"somebody_{number:03d}" for number in range(3)], set()),
    ],
)
def test_a_folder_of_any_name_is_known_by_its_patients(names, sets, scans, tmp_path):
    """What a reader can make out is not yet the set that the reader is for."""
    image, label = (next((scans / part).glob("*.nii.gz")) for part in ("imagesTr", "labelsTr"))
    for part in ("imagesTr", "labelsTr"):
        (tmp_path / part).mkdir()
    for name in names:
        (tmp_path / "imagesTr" / f"{name}_0000.nii.gz").symlink_to(image)
        (tmp_path / "labelsTr" / f"{name}.nii.gz").symlink_to(label)
    shutil.copy(scans / "dataset.json", tmp_path)
    assert {name for name in SETS if SETS[name].readers and is_scans(SETS[name], tmp_path)} == sets


def test_scans_laid_out_from_another_folder_are_refused(scans, tmp_path):
    other = shutil.copytree(scans, tmp_path / "other")
    made = lay_out(SETS["acdc-lv"], scans, tmp_path / "home")
    assert lay_out(SETS["acdc-lv"], scans, tmp_path / "home") == made
    with pytest.raises(InputError, match="was laid out from"):
        lay_out(SETS["acdc-lv"], other, tmp_path / "home")


def test_a_set_that_stands_for_another_may_have_the_text_s_network_and_length(tmp_path):
    hearts = lay_out(SETS["phantom-hearts"], None, tmp_path)
    request = Reproduction(out=tmp_path / "out", cache=tmp_path / "cache", seeds=1, device="cpu")
    setting, lengths = Setting(scans="acdc-lv", share="1:1"), []
    for full in (False, True):
        made = prepare(setting, ("supervised",), hearts, replace(request, full=full, out=tmp_path / f"out-{full}"))
        run, _ = make_run(made.data, made.options_of(made.jobs[0]), torch.device("cpu"))
        lengths.append((run.net.width, run.train.steps))
    assert lengths[0] == (16, 4_000)
    assert lengths[1][0] == 64
    assert lengths[1][1] % 130 == 0  # whole epochs, 30 and 100 of them
    with pytest.raises(InputError, match="leave out --short and --steps"):
        ReproduceVerb(name="table7", full=True, short=True, out=tmp_path / "out")()


def test_patients_are_drawn_one_in_five_for_test(hearts):
    cases = read_folder(hearts).cases
    split, said = split_of(SETS["phantom"], cases, "1:4")
    assert [len(part) for part in (split.labelled, split.unlabelled, split.val, split.test)] == [2, 8, 0, 2]
    other, _ = split_of(SETS["phantom"], cases, "1:1")
    assert other.test == split.test  # scores at all ratios are of the same patients
    assert set(split.labelled) < set(other.labelled)
    assert "seed 0" in said[0]


# The runs


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """Table 7 as the command makes it, on the phantom: its folder and what it printed."""
    out = tmp_path_factory.mktemp("paper") / "out"
    arguments = ["reproduce", "table7", "--short", "--steps", "4", "--out", out, "--cache", out.parent / "cache"]
    with pytest.raises(SystemExit) as caught:
        main([*map(str, arguments), "--device", "cpu"])
    assert caught.value.code == 0
    return out


def test_the_command_leaves_runs_tables_and_a_page(made):
    folder = made / "phantom-1to4"
    names = sorted(path.name for path in folder.iterdir() if path.is_dir())
    assert names == sorted(run_name(row.method, 0) for row in TABLES["table7"].blocks[0].rows)
    assert json.loads((folder / "split.json").read_text())["source"] == "phantom, slices, one object, 1:4"
    runs = [json.loads((folder / name / "run.json").read_text()) for name in names]
    steps = {name: run["train"]["steps"] for name, run in zip(names, runs, strict=True)}
    assert steps.pop("supervised-work=coranet-seed0") == 1 + 3 * 3  # as many updates as CoraNet makes in 4 steps
    assert set(steps.values()) == {4}
    assert {json.dumps(run["split"]) for run in runs} == {json.dumps(runs[0]["split"])}
    assert "table7" in (made / "table7.html").read_text()
    assert (made / "tables" / "table7.md").exists()


def test_every_cell_is_the_mean_of_its_runs_scores(made):
    lines = list(csv.DictReader((made / "tables" / "table7.csv").read_text().splitlines()))
    assert len(lines) == 7 * 4
    for line in lines:
        (folder,) = line["runs"].split()
        scores = Scores.read_csv(made / folder / "scores.csv")
        by_case = scores.by_case(line["metric"])
        scale = 1 if line["metric"] == "hd" else 100
        assert float(line["ours"]) == pytest.approx(scale * np.nanmean(list(by_case.values())))
        assert line["std"] == line["difference"] == ""  # on the phantom, which is not the paper's set


def test_what_is_finished_is_not_run_again_and_what_is_missing_is_said(made, capsys, tmp_path):
    times = {file: file.stat().st_mtime_ns for file in made.glob("*/*/last.pt")}
    code, _, err = run(
        capsys, "reproduce", "table7", "--short", "--steps", 4, "--out", made, "--cache", tmp_path, "--device", "cpu"
    )
    assert code == 0
    assert "7 of 7 runs are finished already" in err
    assert times == {file: file.stat().st_mtime_ns for file in made.glob("*/*/last.pt")}


def test_finished_runs_are_kept_in_a_table_and_shown_from_it(made, capsys, tmp_path):
    copied, whole, table = tmp_path / "copied", tmp_path / "whole", tmp_path / "table"
    shutil.copytree(made, whole, ignore=lambda folder, names: ["ua_mt-seed0"])
    code, _, err = run(capsys, "reproduce", "--out", whole, "--keep", table / "paper")
    assert (code, "Added 6 runs" in err) == (0, True)
    assert {file.name for file in table.iterdir()} == {"scores.csv.xz", "runs.jsonl.xz"}
    code, _, err = run(capsys, "reproduce", "--unpack", table / "paper", "--out", copied)
    assert (code, "Laid out 6 runs" in err) == (0, True)
    kept = {file.name for file in copied.rglob("*") if file.is_file()}
    assert kept == {"compare.json", "split.json", "patients.json", "run.json", "log.jsonl", "scores.csv"}
    assert str(made.parent) not in "".join(file.read_text() for file in copied.rglob("*.json"))
    code, out, _ = run(capsys, "reproduce", "--out", copied)
    assert code == 0
    assert re.search(r"UA-MT +ua_mt +missing", out)
    text = (copied / "tables" / "table7.md").read_text()
    assert "missing" in next(line for line in text.splitlines() if "UA-MT" in line)
    assert "86.67" in next(line for line in text.splitlines() if line.startswith("| Ours |"))


def test_seeds_are_averaged_and_cases_compared(made, tmp_path):
    """Two seeds by hand: one run's scores under another number."""
    root = tmp_path / "two"
    for method in ("supervised", "coranet"):
        for seed, source in enumerate(("supervised", "mean_teacher")):
            target = root / "phantom-1to4" / run_name(method, seed)
            target.mkdir(parents=True)
            scores = made / "phantom-1to4" / run_name(source, 0) / "scores.csv"
            (target / "scores.csv").write_bytes(scores.read_bytes())
    (root / "phantom-1to4" / "compare.json").write_text("{}")
    (part,) = read_table(root, TABLES["table7"])
    line = next(line for line in part.lines if line.row.label == "U-Net")
    each = [100 * np.nanmean(list(Scores.read_csv(run / "scores.csv").by_case("tpr").values())) for run in line.runs]
    assert line.cells["tpr"].ours == pytest.approx(each)
    assert line.cells["tpr"].text == f"{mean(each):.2f} ± {stdev(each):.2f}"
    assert line.ahead.difference == 0
    assert table_rows(part)[0]["seeds"] == "2"
    assert (table_rows(part)[0]["updates"], table_rows(part)[0]["images"]) == ("–", "–")  # there is no log
    (short,) = read_table(made, TABLES["table7"])
    ours = next(row for row in table_rows(short) if row["row"] == "U-Net")
    scores = Scores.read_csv(made / "phantom-1to4" / run_name("supervised", 0) / "scores.csv")
    log = (made / "phantom-1to4" / run_name("supervised", 0) / "log.jsonl").read_text().splitlines()
    assert ours["failures"] == failures([scores])
    assert {name: int(ours[name]) for name in ("updates", "images")}.items() <= json.loads(log[-1]).items()


def test_rows_of_different_seeds_are_compared_over_those_they_share(tmp_path):
    for seed, dice in enumerate((0.5, 0.8)):
        _scored(tmp_path, "phantom-1to4", "coranet", seed, {"a": dice, "b": dice})
    (alone,) = read_table(tmp_path, TABLES["table7"])
    assert not alone.note
    _scored(tmp_path, "phantom-1to4", "supervised", 0, {"a": 0.6, "b": 0.6})
    (part,) = read_table(tmp_path, TABLES["table7"])
    line = next(line for line in part.lines if line.row.label == "U-Net")
    assert line.ahead.difference == pytest.approx(0.1)
    assert "different seeds" in part.note
    assert part.note in table_markdown(TABLES["table7"], [part])


def _scored(root, setting, row, seed, dice, classes=("LV",)):
    """A finished run as far as tables read it: `dice` by case, alike in all classes."""
    folder = root / setting / run_name(row, seed)
    folder.mkdir(parents=True)
    titles = "case,class_name,value,status,dsc,jaccard,ppv,tpr,hd,hd95,asd,assd,hd_mm,hd95_mm,asd_mm,assd_mm"
    lines = [
        f"{case},{title},{value},scored," + ",".join([str(one)] * 12) + ",10,10"
        for case, one in dice.items()
        for value, title in enumerate(classes, start=1)
    ]
    text = "\n".join([f"{titles},prediction_voxels,label_voxels", *lines])
    (folder / "scores.csv").write_text(text + "\n")


def test_what_others_published_on_a_set_stands_beside_runs_on_that_set_alone(tmp_path):
    for setting in ("la-16", "hippocampus-1to4"):
        _scored(tmp_path, setting, "ua_mt", 0, {"a": 0.5})
        _scored(tmp_path, setting, "dan", 0, {"a": 0.5})
    atrium, hippocampus = read_table(tmp_path, TABLES["table5"])
    title = "published here: DSC % / Jaccard % / ASD voxels / HD95 voxels"
    beside = {row["row"]: row[title] for row in table_rows(atrium)}
    assert beside["UA-MT"] == "88.88 / 80.21 / 2.26 / 7.32"
    assert beside["DAN"] == "–"
    assert title not in table_rows(hippocampus)[0]
    assert atrium.note
    assert not hippocampus.note
    text = table_markdown(TABLES["table5"], [atrium, hippocampus])
    assert text.index("UA-MT") < text.index(atrium.note) < text.index(hippocampus.title)


def test_the_test_is_over_patients_and_not_over_their_slices(tmp_path):
    """Nine slices of each of three patients, of whom one gains: no 27 witnesses."""
    cases = {f"{patient}-slice{n}": patient for patient in ("a", "b", "c") for n in range(9)}
    _scored(tmp_path, "sunnybrook-1to4", "coranet", 0, dict.fromkeys(cases, 0.5))
    better = {case: 0.8 if patient == "a" else 0.5 for case, patient in cases.items()}
    _scored(tmp_path, "sunnybrook-1to4", "supervised", 0, better)
    (tmp_path / "sunnybrook-1to4" / "patients.json").write_text(json.dumps(cases))
    (part,) = read_table(tmp_path, TABLES["table7"])
    ahead = part.lines[0].ahead
    assert ahead.n == 3
    assert ahead.difference == pytest.approx(0.1)
    assert ahead.low == 0
    assert ahead.p == 1
    (tmp_path / "sunnybrook-1to4" / "patients.json").unlink()  # then the scans that the runs were made on say it
    (tmp_path / "dataset.json").write_text(json.dumps({"patients": cases}))
    shared = {"data": str(tmp_path), "test": list(cases)}
    (tmp_path / "sunnybrook-1to4" / "compare.json").write_text(json.dumps(shared))
    (part,) = read_table(tmp_path, TABLES["table7"])
    assert part.lines[0].ahead.n == 3


def test_a_seed_that_is_missing_hides_no_other(tmp_path):
    for seed, dice in ((1, 0.5), (2, 0.7)):
        _scored(tmp_path, "sunnybrook-1to4", "coranet", seed, {"a": dice})
    for seed, dice in ((0, 0.1), (2, 0.6)):
        _scored(tmp_path, "sunnybrook-1to4", "supervised", seed, {"a": dice})
    (part,) = read_table(tmp_path, TABLES["table7"])
    first, *_, last = part.lines
    assert last.cells["dsc"].ours == pytest.approx((50, 70))
    assert first.ahead.difference == pytest.approx(-0.1)  # of the one seed that both have


def test_a_set_without_a_finished_run_hides_none_that_has_one(tmp_path):
    _scored(tmp_path, "sunnybrook-1to1", "coranet", 0, {"a": 0.5})
    for begun in ("pancreas-3d-12", "pancreas-1to1"):
        (tmp_path / begun).mkdir()
        (tmp_path / begun / "compare.json").write_text("{}")
    (part,) = read_table(tmp_path, TABLES["table2"])
    assert part.scans == "sunnybrook"


def test_the_checkpoint_chosen_on_validation_cases_stands_beside_the_last(tmp_path):
    _scored(tmp_path, "sunnybrook-1to4", "supervised", 0, {"a": 0.5})
    _scored(tmp_path, "sunnybrook-1to4", "coranet", 0, {"a": 0.6})
    chosen = tmp_path / "sunnybrook-1to4" / "supervised-seed0"
    (part,) = read_table(tmp_path, TABLES["table7"])
    assert not any("chosen" in column for row in table_rows(part) for column in row)
    (chosen / "scores-best.csv").write_text((chosen / "scores.csv").read_text().replace("0.5", "0.7"))
    (part,) = read_table(tmp_path, TABLES["table7"])
    beside = {row["row"]: row["DSC %, chosen on validation"] for row in table_rows(part)}
    assert (beside["U-Net"], beside["Ours"]) == ("70.00", "–")


def test_hearts_are_told_by_value_whatever_a_folder_calls_them(tmp_path):
    _scored(tmp_path, "acdc-14-modern", "mean_teacher", 0, {"patient001_ED": 0.5}, ("RV", "MLV", "LVC"))
    (part,) = read_table(tmp_path, TABLES["table9"])
    line = next(line for line in part.lines if line.runs)
    assert [cell.ours for cell in line.cells.values()] == [pytest.approx((50,))] * 4


def test_validation_cases_choose_weights_beside_the_last(scans, tmp_path):
    request = Reproduction(out=tmp_path, seeds=1, short=True, device="cpu", cache=tmp_path / "cache")
    made = prepare(Setting(scans="phantom", share="1:1"), ("supervised",), None, request)
    assert not made.best
    assert made.options.overrides[-1] == ("train.keep_maps", "true")
    plain = prepare(Setting(scans="phantom", share="1:1", recipe="modern"), ("supervised",), None, request)
    assert "train.keep_maps" not in dict(plain.options.overrides)


def test_wrong_names_and_missing_scans_are_refused(capsys, tmp_path, monkeypatch):
    monkeypatch.delenv("CORANET_DATA", raising=False)
    code, _, err = run(capsys, "reproduce", "table1", "--short", "--out", tmp_path)
    assert code == 1
    assert "no table or figure is called that" in err
    assert "table9" in err
    code, _, err = run(capsys, "reproduce", "table9", "--out", tmp_path)
    assert code == 1
    assert "--data" in err
    code, _, err = run(capsys, "reproduce", "table9", "--out", tmp_path, "--data", tmp_path / "nowhere")
    assert code == 1
    assert "no such folder" in err
    (tmp_path / "empty").mkdir()
    code, _, err = run(capsys, "reproduce", "table9", "--out", tmp_path, "--data", tmp_path / "empty")
    assert code == 1
    assert "none of the sets" in err
    code, _, err = run(capsys, "reproduce", "--out", tmp_path / "empty")
    assert code == 1
    assert "no finished run" in err
    for wrong in ({"seeds": 0}, {"steps": 0}):
        with pytest.raises(InputError, match="at least 1"):
            ReproduceVerb(name="table2", short=True, out=tmp_path, **wrong)()
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="is no folder"):
        ReproduceVerb(name="fig2", out=tmp_path / "file")()


def test_sets_that_are_asked_for_must_be_there_and_of_use(scans, tmp_path):
    (tmp_path / "acdc").symlink_to(scans)

    def asked(sets):
        ReproduceVerb(name="table7", data=tmp_path, sets=sets, out=tmp_path / "out")()

    with pytest.raises(InputError, match="acdcc: no such set"):
        asked("acdc, acdcc")
    with pytest.raises(InputError, match="none of the sets la"):
        asked("acdc,la")
    with pytest.raises(InputError, match="table7: is made on endocardium, sunnybrook"):
        asked("acdc")


def test_what_cannot_be_kept_or_laid_out_is_refused(made, capsys, tmp_path):
    Archive().write(tmp_path / "table")
    code, _, err = run(capsys, "reproduce", "--out", made, "--keep", tmp_path / "table")
    assert (code, "name a group of runs too" in err) == (1, True)
    code, _, err = run(capsys, "reproduce", "--out", tmp_path / "none", "--keep", tmp_path / "table" / "paper")
    assert (code, "has no finished run" in err) == (1, True)
    before = {file: file.read_bytes() for file in made.rglob("log.jsonl")}
    code, _, err = run(capsys, "reproduce", "--out", made, "--unpack", tmp_path / "table" / "paper")
    assert (code, "is there already" in err) == (1, True)
    assert before == {file: file.read_bytes() for file in made.rglob("log.jsonl")}
    code, _, err = run(capsys, "reproduce", "--out", tmp_path / "new", "--unpack", tmp_path / "table" / "paper")
    assert (code, "no table of runs with paper" in err) == (1, True)


def test_a_difference_to_the_paper_is_shown_on_its_own_scans_alone(tmp_path):
    _scored(tmp_path, "acdc-14-modern", "mean_teacher", 0, {"a": 0.5}, ("RV", "MYO", "LV"))
    _scored(tmp_path, "sunnybrook-1to4", "coranet", 0, {"a": 0.5})
    (own,), (other,) = (read_table(tmp_path, TABLES[name]) for name in ("table9", "table7"))
    rows = {row["row"]: row for row in table_rows(own)}
    printed_mean = printed.TABLE9["MT"]["dsc"]
    assert rows["MT"]["mean % difference"] == f"{50 - printed_mean:+.2f}"
    (row,) = [row for row in table_rows(other) if row["row"] == "Ours"]
    assert row["DSC % ours"] == "50.00"
    assert row["DSC % paper"] == f"{printed.TABLE7['Ours']['dsc']:.2f}"
    assert not any("difference" in column for column in row)
    for name, part in (("table9", own), ("table7", other)):
        write_table(tmp_path, TABLES[name], [part], tmp_path)
        lines = csv.DictReader((tmp_path / f"{name}.csv").read_text().splitlines())
        assert any(line["difference"] for line in lines) == part.own


def test_the_drawing_needs_no_scans(capsys, tmp_path, monkeypatch):
    monkeypatch.delenv("CORANET_DATA", raising=False)
    code, _, err = run(capsys, "reproduce", "fig2", "--out", tmp_path / "out")
    assert code == 0, err
    assert [file.name for file in (tmp_path / "out" / "figures").iterdir()] == ["fig2.png"]


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_every_table_and_figure_runs_end_to_end(name, capsys, tmp_path_factory):
    home = tmp_path_factory.getbasetemp() / "every"  # names share their runs
    code, _, err = run(
        capsys, "reproduce", name, "--short", "--device", "cpu", "--out", home / "out", "--cache", home / "cache"
    )
    assert code == 0, err
    assert (home / "out" / f"{name}.html").stat().st_size > 1_000
    made = list((home / "out").glob(f"tables/{name}.md")) + list((home / "out").glob(f"figures/{name}*.png"))
    assert made
    assert all("missing" not in file.read_text() for file in made if file.suffix == ".md")


@pytest.mark.slow
def test_runs_may_go_side_by_side(capsys, tmp_path):
    asked = ("reproduce", "fig1", "--short", "--steps", 2, "--device", "cpu", "--cache", tmp_path / "cache")
    for jobs, out in ((1, "one"), (2, "two")):
        code, _, err = run(capsys, *asked, "--jobs", jobs, "--out", tmp_path / out)
        assert code == 0, err
    one, two = (sorted((tmp_path / out).glob("*/*/scores.csv")) for out in ("one", "two"))
    assert [file.read_bytes() for file in one] == [file.read_bytes() for file in two]
    assert len(one) == 2


def test_labels_that_are_written_lie_on_their_images(hearts):
    for case in read_folder(hearts).cases[:2]:
        image, label = case.images[0].read(), nifti.read(case.label.path)
        assert image.geometry == label.geometry
