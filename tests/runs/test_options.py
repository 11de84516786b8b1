"""Options are said once: the command line, `coranet.train` and what a resumed run refuses come from one dataclass."""

import json
from dataclasses import fields, replace
from pathlib import Path
from typing import get_args

import pytest

from coranet.cli import main
from coranet.cli.terminal.parsing import option_fields
from coranet.cli.terminal.preparation_options import as_settings, settings_fields
from coranet.data.prepare.preparation import Preparation
from coranet.data.prepare.recipes import RECIPES
from coranet.data.splits.by_patient import Split
from coranet.engine.run import Run
from coranet.errors import InputError
from coranet.flags import field_helps
from coranet.runs.admission import check_same
from coranet.runs.launch import train
from coranet.runs.options import WHERE, Options, PresetName, Shared
from coranet.runs.presets import PRESETS


def shown(capsys, verb):
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    return capsys.readouterr().out


def test_no_preset_is_hidden(capsys):
    assert get_args(PresetName) == tuple(PRESETS)
    assert "{auto,quick,paper,acdc,pancreas,la,released}" in shown(capsys, "train")
    assert all(recipe in shown(capsys, "prepare") for recipe in RECIPES)


@pytest.mark.parametrize(
    ("verb", "options"),
    [("train", option_fields(Options)), ("compare", option_fields(Shared)), ("prepare", settings_fields())],
)
def test_every_option_is_on_the_command_line_with_its_help(capsys, verb, options):
    text = " ".join(shown(capsys, verb).replace("│", " ").split())
    for option in options:
        flag = "set" if option.name == "overrides" else option.name.replace("_", "-")
        assert f"--{flag} " in text
        assert option.helptext
        assert option.helptext in text
    assert "{None}" not in text


def test_every_field_has_a_help():
    for cls in (Options, Preparation):
        assert set(field_helps(cls)) == {field.name for field in fields(cls)}


def test_what_isas_settings_to_prepare_becomes_settings():
    assert as_settings(clip=None, crop_label_for_all=False) == {}
    assert as_settings(intensity=("zscore",)) == {"intensity": "zscore", "intensities": ()}
    assert as_settings(intensity=("zscore", "window"))["intensities"] == ("zscore", "window")
    assert as_settings(crop_box=(1, 2, 3, 4, 5, 6)) == {"crop": "box", "crop_box": ((1, 2), (3, 4), (5, 6))}
    boxed = Preparation(**as_settings(crop_box=(1, 2, 3, 4, 5, 6)))
    assert replace(boxed, **as_settings(crop="foreground")) == Preparation(crop="foreground")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"patch": (8, 0)}, "--patch 8 0"),
        ({"overrides": (("a",),)}, "--set a"),
        ({"minutes": 0.0}, "--minutes 0: give a positive number"),
        ({"minutes": float("nan")}, "--minutes nan"),
    ],
)
def test_options_are_checked_in_python_too(given, message):
    with pytest.raises(InputError, match=message):
        Options(**given)


OTHER = {
    "preset": "la",
    "dims": 3,
    "net": "resnet18",
    "classes": "binary",
    "patch": (8, 8),
    "steps": 50,
    "labelled": 1,
    "val": 2,
    "save_every": 5,
    "overrides": (("net.width", "8"),),
    "method": "supervised",
    "minutes": 3.0,
    "seed": 9,
    "init": Path("elsewhere"),
    "weights": Path("elsewhere"),
    "labels": Path("elsewhere"),
    "teacher": Path("elsewhere"),
}


@pytest.mark.parametrize("name", sorted({field.name for field in fields(Options)} - WHERE - {"split"}))
def test_a_resumed_run_refuses_any_option_that_differs(finished, name):
    flag = "set" if name == "overrides" else name.replace("_", "-")
    with pytest.raises(InputError, match=f"^--{flag} .*the run was begun with"):
        check_same(Run.read(finished), Options(**{name: OTHER[name]}))


def test_a_resumed_run_may_move(finished):
    check_same(Run.read(finished), Options(device="cuda", cache=Path("elsewhere")))


def test_a_resumed_run_refuses_another_split_of_the_same_test_cases(scans, small, finished, tmp_path):
    split = Run.read(finished).split
    split.write(tmp_path / "same.json", source="elsewhere")
    check_same(Run.read(finished), Options(split=tmp_path / "same.json"))
    for name, other in {
        "fewer": replace(split, unlabelled=split.unlabelled[1:]),
        "swapped": replace(split, labelled=split.val, val=split.labelled),
    }.items():
        other.write(tmp_path / f"{name}.json")
        with pytest.raises(InputError, match=rf"{name}\.json: not the split the run was begun with"):
            train(scans, finished, small(split=tmp_path / f"{name}.json"), resume=True)


def test_the_same_command_continues_a_run_with_part_of_a_split_and_other_weights(scans, small, finished, tmp_path):
    Split(labelled=("phantom_001", "phantom_002"), unlabelled=("phantom_004",)).write(tmp_path / "split.json")
    options = small(method="supervised", steps=1, labelled=1, split=tmp_path / "split.json", save_every=1)
    out = train(scans, tmp_path / "first", options)
    assert Run.read(out).split.unlabelled == ("phantom_002", "phantom_004")
    check_same(Run.read(out), options)
    again = replace(options, init=out)
    second = train(scans, tmp_path / "second", again)
    assert json.loads((second / "run.json").read_text())["made_with"]["init"] == str(out)
    check_same(Run.read(second), again)
    with pytest.raises(InputError, match=r"--init .*: the run was begun without it"):
        check_same(Run.read(out), again)
