"""What preparation costs: cases a second, and the most memory one case takes, of synthetic scans written for it.

    python benchmarks/prepare.py --all                                          everything, to benchmarks/results
    python benchmarks/prepare.py --kind ct --preparation resampled --jobs 2     one of it

A CT is 512 x 512 x 200 voxels of 0.7 x 0.7 x 1 mm, a heart 216 x 256 x 10 of 1.5 x 1.5 x 10 mm, both NIfTI, compressed, of
whole numbers that the header scales where `--scaled` asks for it. `plain` keeps the grid; `resampled` brings CT to 1 mm by
splines, cropped to the body, and hearts to 1.25 mm and 256 x 256; `finer` resamples along all axes to more voxels than there
were. Memory is that of a whole process, its libraries too; the limit is three times the decoded float32 volume and 300 MB.
Peaks only grow, so each setting is a process of its own. Times do not include the writing of the synthetic scans.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import nibabel as nib
import numpy as np

from coranet.data.datasets.folder import read_folder
from coranet.data.prepare.preparation import Preparation
from coranet.data.prepare.store_builder import build_store
from coranet.data.store import Store

SHAPES = {"ct": (512, 512, 200), "acdc": (216, 256, 10)}
SPACINGS = {"ct": (0.7, 0.7, 1.0), "acdc": (1.5, 1.5, 10.0)}
PREPARATIONS = {
    ("ct", "plain"): Preparation(intensity="window"),
    ("ct", "resampled"): Preparation(
        intensity="window", spacing=(1.0, 1.0, 1.0), crop="foreground", crop_margin=(5, 5, 5)
    ),
    ("ct", "finer"): Preparation(intensity="percentile", spacing=(0.6, 0.6, 0.6)),
    ("acdc", "plain"): Preparation(),
    ("acdc", "resampled"): Preparation(spacing=(1.25, 1.25, None), size=(256, 256, None)),
    ("acdc", "finer"): Preparation(intensity="percentile", spacing=(1.0, 1.0, 5.0)),
}


def write_scans(root: Path, kind: str, cases: int, *, scaled: bool) -> None:
    """A body in air with noise, and a label of three classes inside."""
    for folder in ("imagesTr", "labelsTr"):
        (root / folder).mkdir(parents=True)
    description = {
        "channel_names": {"0": "CT" if kind == "ct" else "MRI"},
        "labels": {"background": 0, "a": 1, "b": 2, "c": 3},
        "file_ending": ".nii.gz",
    }
    (root / "dataset.json").write_text(json.dumps(description))
    shape, affine = SHAPES[kind], np.diag([*(-np.array(SPACINGS[kind])), 1])
    x, y, z = np.meshgrid(*(np.linspace(-1, 1, size, dtype=np.float32) for size in shape), indexing="ij", sparse=True)
    for number in range(cases):
        rng = np.random.default_rng(number)
        image, label, centre = np.empty(shape, np.int16), np.empty(shape, np.uint8), rng.uniform(-0.2, 0.2)
        for i in range(shape[0]):  # a process that others are started from must stay small: they inherit its peak
            body = (x[i] / 0.8) ** 2 + (y[0] / 0.6) ** 2 < 1
            image[i] = np.where(body, 40, -1000) + rng.integers(-20, 20, shape[1:])
            radius = ((x[i] - centre) ** 2 + y[0] ** 2 + (z[0] * 0.5) ** 2) ** 0.5
            label[i] = (radius < 0.3).astype(np.uint8) + (radius < 0.2) + (radius < 0.1)
        for file, array in ((f"imagesTr/case_{number:02d}_0000", image), (f"labelsTr/case_{number:02d}", label)):
            volume = nib.Nifti1Image(array, affine)
            if scaled and array is image:
                volume.header.set_slope_inter(0.5, -3)
            nib.save(volume, root / f"{file}.nii.gz")


def measure_all() -> None:
    """Time and memory of every kind, as rows of one file."""
    import torch  # here: what this file imports, each process that prepares a case imports too
    from rows import Report, Row

    report = Report("prepare", torch.device("cpu"))
    for kind, preparation in PREPARATIONS:
        for scaled in (False, True) if preparation == "plain" else (False,):
            command = [sys.executable, __file__, "--kind", kind, "--preparation", preparation]
            done = subprocess.run([*command, *(["--scaled"] * scaled)], capture_output=True, text=True, check=True)
            found = json.loads(done.stdout.splitlines()[-1])
            name = f"prepare_{kind}_{preparation}{'_scaled' if scaled else ''}"
            what = f"{found['cases']} cases of {' x '.join(map(str, SHAPES[kind]))}, {found['jobs']} processes"
            report.add(
                Row(
                    name=f"{name}_cases_per_s",
                    value=found["cases_per_second"],
                    unit="cases/s",
                    what=what,
                    less_is_better=False,
                )
            )
            report.add(
                Row(name=f"{name}_peak_mib", value=found["peak_mib"], unit="MiB", what=what, must=found["limit_mib"])
            )


def main() -> None:
    """Prepare, and say what it took."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kind", choices=SHAPES, default="ct")
    parser.add_argument("--preparation", choices=("plain", "resampled", "finer"), default="plain")
    parser.add_argument("--cases", type=int, help="by default 4 CTs or 40 hearts")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--scaled", action="store_true", help="the headers have a slope, so that readers must scale")
    parser.add_argument("--all", action="store_true", help="every kind, each in a process of its own")
    args = parser.parse_args()
    if args.all:
        measure_all()
        return
    cases = args.cases or {"ct": 4, "acdc": 40}[args.kind]
    with tempfile.TemporaryDirectory() as folder:
        raw, store = Path(folder, "raw"), Path(folder, "store")
        write_scans(raw, args.kind, cases, scaled=args.scaled)
        dataset = read_folder(raw)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        began = time.perf_counter()
        build_store(dataset, dataset.cases, PREPARATIONS[args.kind, args.preparation], store, jobs=args.jobs)
        seconds = time.perf_counter() - began
        prepared = Store.open(store)
        voxels = sum(int(np.prod(case.shape)) for case in prepared.cases.values())
    who = resource.RUSAGE_SELF if args.jobs == 1 else resource.RUSAGE_CHILDREN
    peak = resource.getrusage(who).ru_maxrss / 1024
    decoded = 4 * int(np.prod(SHAPES[args.kind])) / 2**20
    figures = {
        "kind": args.kind,
        "preparation": args.preparation,
        "scaled": args.scaled,
        "cases": cases,
        "jobs": args.jobs,
        "seconds": round(seconds, 2),
        "cases_per_second": round(cases / seconds, 3),
        "peak_mib": round(peak),
        "decoded_mib": round(decoded, 1),
        "limit_mib": round(3 * decoded + 300),
        "stored_mib": round(4 * voxels / 2**20),
    }
    if before > 0.95 * peak:
        print("Writing the scans took as much memory as preparing them: the peak is no higher than this.")
    print(json.dumps(figures))


if __name__ == "__main__":
    main()
