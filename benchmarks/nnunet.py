"""nnU-Net on a split's labelled cases alone, with its own plans, scored as our runs are.

    python benchmarks/nnunet.py SCANS --split SPLIT.json --cases test --configuration 2d --epochs 100 --out DIR

SCANS is a raw folder in nnU-Net's layout or the Decathlon's, of .nii.gz files. The real nnunetv2 takes a fingerprint of the
labelled cases, plans, preprocesses and trains on all of them (fold `all`, the last checkpoint). Nothing is set but the
length. Then it predicts the split's cases twice, with mirrored copies averaged, which is its default, and without. Each is
scored by `coranet evaluate` into DIR/scores_mirrored.csv and DIR/scores_plain.csv. Every stage that is done is passed over,
and training goes on from its last checkpoint, so the same command resumes. With `--budget` it stops in good order after the
epoch in which so many seconds have passed, with status 3, and the same command goes on. Seeds are left to chance, as nnU-Net
leaves them: give `--repeat` another number, and DIR another name, for another training.

It needs nnunetv2, which is no part of ours: pip install "nnunetv2==2.8.*".

On a machine without network, where Python and PyTorch are there and nothing can be installed, ask there what is missing,
make a folder of it elsewhere with the same Python, and take the folder along. No console script is needed:

    python benchmarks/nnunet.py --missing > missing.txt                         # there: one package a line
    pip wheel --no-deps --wheel-dir wheels -r missing.txt                       # elsewhere, with the same Python
    for wheel in wheels/*.whl; do python -m zipfile -e $wheel packages; done
    PYTHONPATH=packages:src python benchmarks/nnunet.py SCANS ...               # there

nnU-Net's graphs are not compiled (`nnUNet_compile=t` in the environment changes that), since that needs a C compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable, Iterable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coranet.data.datasets.folder import Case, Dataset, read_folder
from coranet.data.splits.by_patient import Split
from coranet.errors import InputError
from coranet.evaluation import evaluate
from coranet.files import write_atomically
from coranet.json_files import read_json
from coranet.locks import owned

NUMBER, NAME, PLANS = 1, "Dataset001_Labelled", "nnUNetPlans"
IMPORTED = {
    "nnunetv2": "nnunetv2==2.8.0",
    "acvl_utils": "acvl-utils",
    "batchgenerators": "batchgenerators",
    "batchgeneratorsv2": "batchgeneratorsv2",
    "dynamic_network_architectures": "dynamic-network-architectures",
    **{name: name for name in ("blosc2", "msgpack", "ndindex", "numexpr", "httpx", "rich", "scipy", "tqdm")},
    **{name: name for name in ("imagecodecs", "imageio", "joblib", "narwhals", "nibabel", "pandas", "seaborn")},
    **{name: name for name in ("matplotlib", "packaging", "threadpoolctl", "tifffile", "SimpleITK", "requests")},
    **{name: name for name in ("click", "cloudpickle", "idna")},
    "charset_normalizer": "charset-normalizer",
    "dateutil": "python-dateutil",
    "cc3d": "connected-components-3d",
    "lazy_loader": "lazy-loader",
    "skimage": "scikit-image",
    "sklearn": "scikit-learn",
}
"""Modules that are imported on this way, and the packages that have them."""
STOPPED = 3
"""The exit status where time was up."""


class TimeIsUpError(Exception):
    """Training stopped after a whole epoch, with a checkpoint."""


def main() -> int:
    """All stages, each passed over where it is done."""
    asked = _arguments()
    if asked.missing:
        print(*absent(), sep="\n")
        return 0
    try:
        return run(asked)
    except InputError as error:
        print(error, file=sys.stderr)
        return 1


def run(asked: argparse.Namespace) -> int:
    """From scans to scores."""
    if missing := absent():
        raise InputError(
            f'nnU-Net is not whole here: there is no {", ".join(missing)}. Run `pip install "nnunetv2==2.8.*"`, or see '
            "the top of this file for a machine without network."
        )
    began = time.monotonic()
    with owned(asked.out):
        same_settings(asked)
        places = {kind: (asked.out / kind).resolve() for kind in ("raw", "preprocessed", "results")}
        os.environ.update({f"nnUNet_{kind}": str(place) for kind, place in places.items()})
        os.environ.setdefault("nnUNet_compile", "f")
        split, dataset = Split.read(asked.split), read_folder(asked.scans)
        once(asked.out / "laid_out", lambda: lay_out(dataset, split, asked))
        once(asked.out / "planned", lambda: plan(asked))
        try:
            trainer = trained(asked, began)
        except TimeIsUpError:
            print(f"Time is up. The same command goes on: {' '.join(sys.argv)}")
            return STOPPED
        for kind, mirrored in (("mirrored", True), ("plain", False)):
            predictions, scores = asked.out / f"predictions_{kind}", asked.out / f"scores_{kind}.csv"
            predict(trainer, asked.out / "images", predictions, mirrored=mirrored)
            found = evaluate(predictions, asked.out / "labels")
            found.write_csv(scores)
            missed = sum(row.status == "missed" for row in found.rows)
            dice = found.mean()["dsc"]
            print(
                f"{kind}: mean Dice {100 * dice.mean:.2f} [{100 * dice.low:.2f}, {100 * dice.high:.2f}] over {dice.n} "
                f"cases, {missed} objects missed: {scores}"
            )
    return 0


def absent() -> list[str]:
    """The packages that nnU-Net needs and that are not there."""
    return [package for module, package in IMPORTED.items() if find_spec(module) is None]


def same_settings(asked: argparse.Namespace) -> None:
    """Refuse to go on with another training than the folder holds."""
    names = ("scans", "split", "cases", "configuration", "epochs", "iterations", "repeat")
    ours, file = {name: str(getattr(asked, name)) for name in names}, asked.out / "settings.json"
    if file.exists() and (theirs := read_json(file)) != ours:
        raise InputError(f"{asked.out}: was begun with {theirs}. Give another --out, or delete the folder.")
    write_atomically(file, (json.dumps(ours, indent=1) + "\n").encode())


def once(mark: Path, stage: Callable[[], None]) -> None:
    """A stage, unless it was done before."""
    if not mark.exists():
        stage()
        write_atomically(mark, b"")


def lay_out(dataset: Dataset, split: Split, asked: argparse.Namespace) -> None:
    """Labelled cases as a raw folder of nnU-Net's, and the cases to predict beside it; all are links."""
    cases = {case.name: case for case in dataset.cases}
    chosen = getattr(split, asked.cases)
    if not chosen:
        raise InputError(f"{asked.split}: lists no case under {asked.cases}. Choose another with --cases.")
    raw = asked.out / "raw" / NAME
    link(files_of(cases, split.labelled), raw / "imagesTr", raw / "labelsTr")
    link(files_of(cases, chosen), asked.out / "images", asked.out / "labels")
    content = {
        "channel_names": {str(number): name for number, name in enumerate(dataset.channels)},
        "labels": {name: value for value, name in dataset.classes.items()},
        "numTraining": len(split.labelled),
        "file_ending": ".nii.gz",
    }
    write_atomically(raw / "dataset.json", json.dumps(content, indent=1).encode())


def files_of(cases: dict[str, Case], names: Iterable[str]) -> list[Case]:
    """The cases of these names, each with a label, all as .nii.gz."""
    found = []
    for name in names:
        if (case := cases.get(name)) is None or case.label is None:
            raise InputError(f"{name}: the split names it, and SCANS has no such case with a label.")
        for source in (*case.images, case.label):
            if not source.path.name.endswith(".nii.gz"):
                raise InputError(f"{source.path}: is not .nii.gz. nnU-Net wants one format; convert the set.")
        found.append(case)
    return found


def link(cases: Iterable[Case], images: Path, labels: Path) -> None:
    """Under the names that nnU-Net knows."""
    images.mkdir(parents=True, exist_ok=True)
    labels.mkdir(parents=True, exist_ok=True)
    for case in cases:
        assert case.label is not None
        pairs = {images / f"{case.name}_{n:04d}.nii.gz": source.path for n, source in enumerate(case.images)}
        for place, file in {**pairs, labels / f"{case.name}.nii.gz": case.label.path}.items():
            place.unlink(missing_ok=True)
            place.symlink_to(file.resolve())


def plan(asked: argparse.Namespace) -> None:
    """Fingerprint, plans and preprocessing, all nnU-Net's own."""
    from nnunetv2.experiment_planning import plan_and_preprocess_api as api
    from nnunetv2.utilities.plans_handling.plans_handler import PlansManager

    api.extract_fingerprints([NUMBER], num_processes=asked.processes, check_dataset_integrity=True)
    api.plan_experiments([NUMBER])
    plans = PlansManager(str(asked.out / "preprocessed" / NAME / f"{PLANS}.json"))
    if asked.configuration not in plans.available_configurations:
        known = ", ".join(plans.available_configurations)
        raise InputError(f"--configuration {asked.configuration}: nnU-Net planned {known} for these scans.")
    # Not by its `preprocess`, which in the end imports distutils, gone since Python 3.12, to copy labels nobody reads.
    configuration = plans.get_configuration(asked.configuration)
    preprocessor = configuration.preprocessor_class(verbose=False)
    preprocessor.run(NUMBER, asked.configuration, PLANS, num_processes=asked.processes)


def trained(asked: argparse.Namespace, began: float) -> Any:
    """nnU-Net's own trainer when it is done, with its last weights."""
    import torch
    from nnunetv2.training.nnUNetTrainer.nnUNetTrainer import nnUNetTrainer

    base = asked.out / "preprocessed" / NAME
    plans = read_json(base / f"{PLANS}.json")
    last = sorted((asked.out / "results").rglob("checkpoint_latest.pth"))
    final = sorted((asked.out / "results").rglob("checkpoint_final.pth"))
    trainer = nnUNetTrainer(
        plans={**plans, "continue_training": bool(last or final)},
        configuration=asked.configuration,
        fold="all",
        dataset_json=read_json(base / "dataset.json"),
        device=torch.device(asked.device),
    )
    trainer.num_epochs, trainer.save_every = asked.epochs, 5
    if asked.iterations is not None:
        trainer.num_iterations_per_epoch = trainer.num_val_iterations_per_epoch = asked.iterations
    if final or last:
        trainer.load_checkpoint(str((final or last)[0]))
    if not final:
        after = trainer.on_epoch_end

        def on_epoch_end() -> None:
            after()
            if asked.budget is not None and time.monotonic() - began > asked.budget:
                trainer.save_checkpoint(str(Path(trainer.output_folder) / "checkpoint_latest.pth"))
                raise TimeIsUpError

        trainer.on_epoch_end = on_epoch_end
        torch.backends.cudnn.benchmark = True
        trainer.run_training()
    return trainer


def predict(trainer: Any, images: Path, out: Path, *, mirrored: bool) -> None:
    """Label maps of all cases, in a folder that is there once it is whole."""
    if out.exists():
        return
    from nnunetv2.inference.predict_from_raw_data import nnUNetPredictor

    part = out.with_suffix(".part")
    part.mkdir(exist_ok=True)
    trainer.set_deep_supervision_enabled(False)
    trainer.network.eval()
    predictor = nnUNetPredictor(use_mirroring=mirrored, device=trainer.device, allow_tqdm=False)
    predictor.manual_initialization(
        trainer.network,
        trainer.plans_manager,
        trainer.configuration_manager,
        [trainer.network.state_dict()],
        trainer.dataset_json,
        type(trainer).__name__,
        trainer.inference_allowed_mirroring_axes,
    )
    predictor.predict_from_files_sequential(str(images), str(part))
    part.rename(out)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--missing", action="store_true", help="list the packages that are not there, and stop")
    known, _ = parser.parse_known_args()
    parser.add_argument("scans", type=Path, nargs="?" if known.missing else None)
    parser.add_argument("--split", type=Path, required=not known.missing)
    parser.add_argument("--cases", choices=("unlabelled", "val", "test"), default="val", help="what is predicted")
    parser.add_argument("--configuration", choices=("2d", "3d_fullres"), default="2d")
    parser.add_argument("--epochs", type=int, default=100, help="of 250 steps")
    parser.add_argument("--iterations", type=int, help="steps in an epoch, to try this script out")
    parser.add_argument("--repeat", type=int, default=0)
    parser.add_argument("--budget", type=float, help="seconds after which to stop")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--processes", type=int, default=8, help="that preprocess")
    parser.add_argument("--out", type=Path, required=not known.missing)
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
