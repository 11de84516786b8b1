"""What is said of methods: measured numbers that can be checked by hand, and pages that are up to date."""

import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from coranet.cli import main
from coranet.methods import METHODS
from coranet.methods.coranet import CoraNet
from coranet.methods.mean_teacher import MeanTeacher
from coranet.methods.supervised import Supervised
from coranet.runs.catalogue import describe_method, list_methods, method_pages, write_pages
from coranet.runs.cost import step_cost
from coranet.types import Terms
from coranet.uncertainty import Ensemble, MCDropout

ROOT = Path(__file__).parents[2]
PAGES = ROOT / "docs/methods"
HANDLING = {"entropy minimisation", "consistency", "pseudo-labels", "adversarial", "none"}


@pytest.fixture(scope="module")
def methods():
    return {method["name"]: method for method in list_methods()}


@dataclass(frozen=True, kw_only=True)
class Twice(Supervised):
    """A second pass that is not learnt from."""

    def loss(self, nets, batch, at):
        with torch.no_grad():
            nets["student"](batch.unlabelled.image)
        return Terms(values=super().loss(nets, batch, at).values)


def test_passes_are_counted_forward_and_backward():
    one, twice, teacher = step_cost(Supervised()), step_cost(Twice()), step_cost(MeanTeacher())
    assert twice.forward == 2 * one.forward
    assert twice.backward == one.backward
    assert teacher.forward == 3 * one.forward  # labelled, student's and teacher's view of unlabelled
    assert teacher.backward == pytest.approx(2 * one.backward)
    assert one.forward < one.backward < 2 * one.forward  # weights and inputs; the image needs no gradient
    joint, apart = step_cost(CoraNet(updates="joint")), step_cost(CoraNet())
    # A joint update looks at unlabelled images once.
    assert apart.forward - joint.forward == one.forward
    assert apart.backward - joint.backward == one.backward
    members = step_cost(CoraNet(regions=Ensemble(members=3)))
    single = step_cost(CoraNet(regions=MCDropout()))
    assert members.forward == single.forward + 3 * one.forward


def test_counting_draws_no_random_number_of_the_user_s():
    torch.manual_seed(1)
    expected = torch.rand(1)
    torch.manual_seed(1)
    step_cost.cache_clear()
    step_cost(MeanTeacher(noise=0.3))
    assert torch.equal(torch.rand(1), expected)


def test_every_method_says_what_it_does(methods):
    assert list(methods) == list(METHODS)
    for name, method in methods.items():
        assert {*method["high"].split(" + "), *method["low"].split(" + ")} <= HANDLING, name
        assert (method["year"] is None) == (name == "supervised")
        assert method["summary"].endswith(".")
        assert "student" in method["networks"]
        assert "unet" in method["bodies"]
        assert method["cost"]["step"] >= 1
    json.dumps(list(methods.values()))


def test_coranet_in_numbers(methods):
    coranet = methods["coranet"]
    assert (coranet["paper"], coranet["year"]) == ("Shi et al., IEEE TMI 2021", 2021)
    assert (coranet["high"], coranet["low"]) == ("pseudo-labels", "consistency")
    assert list(coranet["networks"]) == ["student", "teacher"]
    assert coranet["networks"]["student"] > coranet["networks"]["teacher"] == 1
    assert coranet["bodies"] == ["unet", "vnet", "resnet18", "monai:NAME"]
    assert methods["supervised"]["cost"] == {"step": 1, "forward": 1, "backward": 1}


def test_a_method_that_needs_dropout_fits_our_own_bodies_alone(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text(
        '"""Mine (Me, 2031)."""\nfrom dataclasses import dataclass\nfrom coranet.methods.supervised import Supervised\n\n'
        '@dataclass(frozen=True, kw_only=True)\nclass Mine(Supervised):\n    """Mine."""\n\n'
        '    @property\n    def needs(self):\n        return frozenset({"dropout"})\n'
    )
    assert describe_method(f"{file}:Mine")["bodies"] == ["unet", "vnet", "resnet18"]


def test_the_command_prints_a_line_for_each_and_all_of_one(capsys, methods):
    with pytest.raises(SystemExit):
        main(["methods"])
    printed = capsys.readouterr()
    lines = printed.out.splitlines()
    assert [line.split()[0] for line in lines] == list(METHODS)
    assert "high confidence" in printed.err
    assert "Tarvainen & Valpola, NIPS 2017" in next(line for line in lines if line.startswith("mean_teacher"))
    with pytest.raises(SystemExit):
        main(["methods", "mean_teacher"])
    text = capsys.readouterr().out
    assert "θ' ← β θ' + (1 - β) θ" in text
    assert "student 1.0, teacher 1.0" in text
    assert "method.beta = 0.99" in text


def test_pages_hold_equations_and_fields(tmp_path, methods):
    (tmp_path / "gone.md").touch()
    written = write_pages(tmp_path)
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in written}
    assert len(written) == 1 + len(METHODS)
    index, page = (tmp_path / "README.md").read_text(), (tmp_path / "coranet-repaired.md").read_text()
    assert all(f"[{name}]({name.replace(':', '-')}.md)" in index for name in METHODS)
    assert "v(x) = c x + b + n" in page
    assert "| `view` | `0.5` | How much contrast, brightness and noise differ" in page


def test_pages_are_up_to_date():
    found = {file.name: file.read_text(encoding="utf-8") for file in PAGES.glob("*.md")}
    stale = [name for name, text in method_pages().items() if found.get(name) != text]
    assert not stale, "write them anew with make pages"
    assert len(found) == 1 + len(METHODS)


def test_no_two_methods_share_six_lines() -> None:
    """What they share is in a file of its own; blank lines and imports do not count."""
    places: dict[tuple[str, ...], set[str]] = {}
    for file in sorted((ROOT / "src/coranet/methods").glob("*.py")):
        every = map(str.strip, file.read_text(encoding="utf-8").splitlines())
        lines = [line for line in every if line and not line.startswith(("from ", "import "))]
        for start in range(len(lines) - 5):
            places.setdefault(tuple(lines[start : start + 6]), set()).add(file.name)
    assert len(places) > 1000
    assert {lines: files for lines, files in places.items() if len(files) > 1} == {}
