"""A command that cannot be read is answered in one sentence, with what was nearly meant."""

import pytest

from coranet.cli import main
from coranet.cli.terminal.usage import first_paragraph, options_in
from coranet.errors import suggest


@pytest.mark.parametrize(
    ("words", "code", "parts"),
    [
        ("trian DATA", 2, ["trian: there is nothing of this name to do. Did you mean train?"]),
        ("train DATA --out RUN --ouut x", 2, ["--ouut: `coranet train` has no such option. Did you mean --out?"]),
        ("train DATA --out RUN --stepps=3", 2, ["--stepps:", "Did you mean --steps?"]),
        ("train DATA --out RUN --save_evry 3", 2, ["--save-evry:", "Did you mean --save-every?"]),
        ("prepare DATA --out RUN --corp box", 2, ["--corp:", "Did you mean --crop?"]),
        ("train DATA --out RUN --xyzzy 3", 2, ["--xyzzy: `coranet train` has no such option.", "coranet train --help"]),
        ("train DATA --out RUN --preset papr", 2, ["--preset papr:", "Did you mean paper? There are: acdc, auto, la"]),
        ("train DATA --out RUN --steps many", 2, ["--steps many: is not a whole number."]),
        ("demo --seeds two", 2, ["--seeds two: is not a whole number."]),
        ("train DATA --out RUN --steps", 2, ["--steps"]),
        ("train DATA", 2, ["Missing from coranet train: --out RUN"]),
        ("doctor DATA MORE", 2, ["MORE"]),
        ("", 2, ["Name what to do: demo, doctor,"]),
        ("--ouut", 2, ["Name what to do:"]),
        ("train DATA --out RUN --method coranett", 1, ["'coranett'. Did you mean coranet"]),
        ("train DATA --out RUN --set steps", 1, ["write it as KEY=VALUE"]),
        ("prepare DATA --out RUN --preset pancreas-2", 1, ["Did you mean pancreas-2d"]),
        ("doctor DATA --dataset acd", 1, ["Did you mean acdc?"]),
        ("split DATA --out FILE --protocol acdc:8", 1, ["Did you mean acdc:"]),
        ("reproduce tabel9", 1, ["Did you mean table9?"]),
        ("methods mean_techer", 1, ["Did you mean mean_teacher?"]),
    ],
)
def test_one_sentence_names_what_was_nearly_meant(capsys, tmp_path, monkeypatch, words, code, parts):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "DATA").mkdir()
    with pytest.raises(SystemExit) as stop:
        main(words.split())
    captured = capsys.readouterr()
    assert stop.value.code == code
    assert captured.out == ""
    assert captured.err.startswith("coranet: ")
    assert captured.err.count("\n") == 1
    assert all(part in captured.err for part in parts), captured.err


@pytest.mark.parametrize(
    ("field", "near"),
    [("metod=dtc", "method"), ("net.widht=4", "width"), ("net.body=unt", "unet"), ("method.bta=1", "beta")],
)
def test_a_field_that_does_not_exist_names_its_neighbour(capsys, scans, cache, tmp_path, field, near):
    with pytest.raises(SystemExit) as stop:
        main(
            [
                "train",
                str(scans),
                "--out",
                str(tmp_path / "run"),
                "--cache",
                str(cache),
                "--device",
                "cpu",
                "--set",
                field,
            ]
        )
    (line,) = [line for line in capsys.readouterr().err.splitlines() if line.startswith("coranet: ")]
    assert stop.value.code == 1
    assert f"Did you mean {near}?" in line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("verb", "options"),
    [
        ("train", {"--out", "--set", "--threads", "--resume"}),
        ("prepare", {"--crop-box", "--jobs"}),
        ("doctor", {"--overlay"}),
    ],
)
def test_options_are_known_from_help(capsys, verb, options):
    with pytest.raises(SystemExit):
        main([verb, "--help"])
    assert options <= set(options_in(capsys.readouterr().out))


def test_a_box_becomes_a_line():
    lines = (
        "╭─ Value error ─╮",
        "│ Error parsing │",
        "│ \x1b[31m--steps\x1b[0m: no │",
        "│ ───────────── │",
        "│ more          │",
        "╰───╯",
    )
    box = "\n".join(lines) + "\n"
    assert first_paragraph(box) == "Error parsing --steps: no"
    assert first_paragraph("plain words\n") == "plain words"


def test_few_names_are_all_listed_and_of_many_the_nearest():
    assert suggest("tran", ["train", "split"]) == "Did you mean train? There are: train, split."
    assert suggest("x", ["train", "split"], ", and more") == "There are: train, split, and more."
    many = [f"method_{number}" for number in range(40)]
    assert suggest("method_39x", many) == "Did you mean method_39, method_9 or method_3?"
    assert suggest("zzz", many).startswith("There are: method_0, ")
