"""What many tests share: a small phantom on disk, a cache of its prepared form, and a seed for each test."""

import signal
from pathlib import Path

import pytest
import torch

from coranet.data.datasets.phantom import Phantom, write_folder
from coranet.runs.launch import train
from coranet.runs.options import Options

if hasattr(signal, "SIGHUP"):  # which nohup and its like take away, also from commands that are tested
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


LONGEST = (
    "methods/test_contract.py",
    "attacks/test_attacks.py",
    "runs/test_volumes.py",
    "engine/test_trainer.py",
    "report/test_report_request.py",
    "cli/test_cli.py",
    "paper/test_figures.py",
    "cli/test_endings.py",
    "runs/test_comparison.py",
    "paper/test_studies.py",
    "nets/test_monai.py",
    "engine/test_group.py",
    "paper/test_reproduce.py",
    "runs/search/test_halving.py",
    "test_kills.py",
    "engine/prediction/test_onnx.py",
    "engine/prediction/test_predict.py",
    "test_label_app.py",
    "paper/test_own_sets.py",
    "attacks/test_judgement.py",
    "report/test_run_contract.py",
    "engine/test_watch.py",
    "evaluation/test_reliability.py",
    "data/prepare/test_cases.py",
    "test_docs.py",
    "methods/test_partial_labels.py",
    "ops/test_tiling.py",
    "report/test_report.py",
)
"""Files that take more than five seconds, the longest first: so no worker is left alone with one at the end."""


def pytest_collection_modifyitems(items):
    places = {Path(__file__).parent / file: place for place, file in enumerate(LONGEST)}
    items.sort(key=lambda item: places.get(item.path, len(places)))


@pytest.fixture(autouse=True)
def seeded():
    """No test depends on what those before it drew."""
    torch.default_generator.manual_seed(0)  # torch.manual_seed writes down the stack for each kind of device
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(0)


@pytest.fixture(scope="session")
def scans(tmp_path_factory):
    """A raw folder: 3 labelled, 4 unlabelled and 2 test patients of 32 x 32 x 3 voxels."""
    root = tmp_path_factory.mktemp("phantom") / "scans"
    return write_folder(root, Phantom(shape=(32, 32, 3)), seed=5, labelled=3, unlabelled=4, test=2)


@pytest.fixture(scope="session")
def cache(tmp_path_factory):
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="session")
def small(cache):
    """Options of a run that takes a second or two."""

    def options(**changes):
        # So few steps find next to nothing: the watch would end self-training at once.
        overrides = (("net.width", "4"), ("net.levels", "2"), ("train.batch", "[2, 2]"), ("train.watch", "false"))
        return Options(
            **{
                "preset": "auto",
                "method": "coranet",
                "steps": 12,
                "cache": cache,
                "device": "cpu",
                **changes,
                "overrides": (*overrides, *changes.get("overrides", ())),
            }
        )

    return options


@pytest.fixture(scope="session")
def finished(scans, small, tmp_path_factory):
    """A CoraNet run."""
    return train(scans, tmp_path_factory.mktemp("runs") / "run", small(val=1))


@pytest.fixture
def coarse_pictures(monkeypatch):
    """For tests of what is on a page: pixels take most of the time, and tests/report/test_report.py looks at them."""
    monkeypatch.setattr("coranet.report.pictures.page_pictures.DPI", 30)
