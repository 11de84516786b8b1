"""An app for MONAI Label: a run of coranet segments what 3D Slicer or another client opens.

    monailabel start_server --app apps/monailabel --studies SCANS --conf run RUN

RUN is a folder that `coranet train` made, or a file that `coranet export` wrote. Further settings, each after --conf:

    coranet ENV/bin/coranet    the command, where it is not on the path
    cases PREDICTIONS/cases.csv    hand out the worst case first (strategy worst_first), by what `coranet predict` wrote
    device cuda    to predict on

coranet is called as a command, since the two packages cannot share an environment: MONAI Label 0.8.5 needs pydicom 2.
"""

from __future__ import annotations

import csv
import json
import subprocess
import tempfile
from pathlib import Path
from typing import Any

from monailabel.interfaces.app import MONAILabelApp
from monailabel.interfaces.datastore import Datastore
from monailabel.interfaces.exception import MONAILabelError, MONAILabelException
from monailabel.interfaces.tasks.infer_v2 import InferTask, InferType
from monailabel.interfaces.tasks.strategy import Strategy
from monailabel.tasks.activelearning.random import Random


class Segmentation(InferTask):
    """Labels of a scan, and the Dice to expect of them where the run has a fit."""

    def __init__(self, run: Path, command: str, device: str | None) -> None:
        self.run, self.command, self.device = run, command, device
        about = json.loads((run / "run.json" if run.is_dir() else run.with_name("recipe.json")).read_text())
        classes = about["data"]["classes"] if run.is_dir() else about["classes"]
        self.names = {name: int(value) for value, name in classes.items() if int(value)}
        super().__init__(InferType.SEGMENTATION, self.names, 3, f"coranet, {run.name}")

    def is_valid(self) -> bool:
        """The run was there."""
        return True

    def __call__(self, request: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """The label map in a file of its own, which the server sends and removes."""
        with tempfile.TemporaryDirectory() as folder:
            device = ["--device", self.device] if self.device else []
            command = [self.command, "predict", str(self.run), request["image"], "--out", folder, *device]
            try:
                subprocess.run(command, check=True, capture_output=True, text=True)
            except OSError as error:
                message = f"{self.command} cannot be run ({error.strerror}). Name it: --conf coranet FILE."
                raise MONAILabelException(MONAILabelError.INFERENCE_ERROR, message) from error
            except subprocess.CalledProcessError as error:
                message = error.stderr.strip().rpartition("\n")[2]
                raise MONAILabelException(MONAILabelError.INFERENCE_ERROR, message) from error
            whole = rows_of(Path(folder) / "cases.csv")[0]
            with tempfile.NamedTemporaryFile(suffix=".nii.gz", delete=False) as file:
                file.write((Path(folder) / f"{whole['case']}.nii.gz").read_bytes())
        return file.name, {"label_names": self.names, "expected_dice": whole["expected_dice"], "flags": whole["flags"]}


class WorstFirst(Strategy):
    """The next case that has no label, in the order of cases.csv."""

    def __init__(self, cases: Path) -> None:
        super().__init__("The case with the lowest expected Dice first")
        order = dict.fromkeys(row["case"] for row in rows_of(cases))
        self.rank = {case: place for place, case in enumerate(order)}

    def __call__(self, request: dict[str, Any], datastore: Datastore) -> dict[str, str] | None:
        """An image; those that are not in the file come last."""
        images = datastore.get_unlabeled_images(request.get("label_tag"), request.get("labels"))
        return {"id": min(images, key=self.place)} if images else None

    def place(self, image: str) -> int:
        """Of an image, which may carry the number of its channel."""
        return self.rank.get(image, self.rank.get(image.removesuffix("_0000"), len(self.rank)))


class CoraNetApp(MONAILabelApp):
    """One model and two strategies; training is done by `coranet train`."""

    def __init__(self, app_dir: str, studies: str, conf: dict[str, str]) -> None:
        if "run" not in conf or not Path(conf["run"]).exists():
            raise MONAILabelException(MONAILabelError.APP_INIT_ERROR, "Name a trained run: --conf run RUN.")
        super().__init__(app_dir, studies, conf, name="coranet", description="A run of coranet", version="1")

    def init_infers(self) -> dict[str, InferTask]:
        """The run."""
        command, device = self.conf.get("coranet", "coranet"), self.conf.get("device")
        return {"coranet": Segmentation(Path(self.conf["run"]).resolve(), command, device)}

    def init_strategies(self) -> dict[str, Strategy]:
        """At random, and worst first where there is a cases.csv."""
        cases = self.conf.get("cases")
        return {**({"worst_first": WorstFirst(Path(cases))} if cases else {}), "random": Random()}


def rows_of(cases: Path) -> list[dict[str, str]]:
    """Of a cases.csv: the worst case first, and of each case first the row of the whole."""
    with cases.open(newline="") as file:
        return list(csv.DictReader(file))
