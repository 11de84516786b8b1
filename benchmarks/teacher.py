"""What labels by another model are worth, by how good they are: with a few true labels, on development cases.

    OMP_NUM_THREADS=1 python benchmarks/teacher.py DATA --split docs/splits/hippocampus-10.json --labelled 1 --out scores.csv
    OMP_NUM_THREADS=1 python benchmarks/teacher.py LA --split docs/splits/la-dev1-8.json --preset quick --by 8 --out FILE

Data, split and classes as of `partial.py`. The other model is made: true labels of all unlabelled cases, spoilt in one of
several ways. Rows: `maps`, how good these are themselves, on the unlabelled cases; `alone`, the true labels without them;
`taken`, a network that takes them for true, beside the true ones; `doubted`, --teacher with maps of unlabelled cases alone;
`tried`, --teacher with maps of the labelled cases too.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from partial import Labels, Scores, arguments, chosen_split, copy_dataset, dice
from scipy import ndimage

from coranet.data.datasets.folder import read_folder
from coranet.data.readers import nifti
from coranet.data.splits.by_patient import Split


def shifted(label: Labels, by: int) -> Labels:
    """Moved along the first axis."""
    return np.roll(label, by, axis=0)


def dilated(label: Labels, by: int) -> Labels:
    """Larger on every side."""
    return np.asarray(ndimage.binary_dilation(label > 0, iterations=by), np.uint8)


def halved(label: Labels) -> Labels:
    """Without what lies in front of the object's middle."""
    where = np.flatnonzero(label.any(axis=(0, 2)))
    return np.where(np.arange(label.shape[1])[:, None] < where[len(where) // 2], label, 0).astype(np.uint8)


def roughened(label: Labels, by: int) -> Labels:
    """With an edge that lies here too far out and there too far in, as other networks draw it; the same each time."""
    inside = ndimage.distance_transform_edt(label > 0) - ndimage.distance_transform_edt(label == 0)
    noise = ndimage.gaussian_filter(np.random.default_rng(int(label.sum())).standard_normal(label.shape), by)
    return np.asarray(inside + by * noise / noise.std() > 0, np.uint8)


def spoilt(by: int) -> dict[str, Callable[[Labels], Labels]]:
    """The ways, each with its name; `by` is in voxels of the scans."""
    return {
        "as it is": lambda label: label,
        f"shifted by {by}": lambda label: shifted(label, by),
        f"dilated by {by}": lambda label: dilated(label, by),
        f"rough by {by}": lambda label: roughened(label, by),
        "half missing": halved,
    }


def main() -> int:
    """Spoil, train and score."""
    asked = arguments(__doc__, labelled=1, methods=["coranet:plus"], seeds=1, by=2)
    dataset, split = read_folder(asked.data), chosen_split(asked)
    taken = Split(labelled=(*split.labelled, *split.unlabelled), unlabelled=(), val=split.val, test=())
    (method,) = asked.methods
    with (
        tempfile.TemporaryDirectory(prefix="teacher-") as work,
        Scores(asked.out, ("teacher", "row", "seed")) as scores,
    ):
        root = Path(work)
        copy_dataset(dataset, split, root / "plain", lambda label: label)
        for seed in range(asked.seeds):
            scores.add(("none", "alone", seed), dice(root / "plain", split, method, seed, asked))
        for name, spoil in spoilt(asked.by).items():
            copy_dataset(dataset, taken, root / name, lambda label: label)
            some, more = root / f"{name} maps", root / f"{name} maps of all"
            for folder in (some, more):
                folder.mkdir()
            found = []
            for case in taken.labelled:
                file = root / name / f"labelsTr/{case}.nii.gz"
                volume = nifti.read(file)
                told = spoil(np.asarray(volume.array, np.uint8))
                nifti.write(more / file.name, told, volume.geometry)
                if case in split.unlabelled:
                    found.append(2 * (told & volume.array.astype(np.uint8)).sum() / (told.sum() + volume.array.sum()))
                    shutil.copy(more / file.name, some)
                    file.unlink()
                    shutil.copy(more / file.name, file)
            scores.add((name, "maps", 0), {"mean": float(np.mean(found)), "object": float(np.mean(found))})
            for seed in range(asked.seeds):
                scores.add((name, "taken", seed), dice(root / name, taken, "supervised", seed, asked))
                for row, folder in (("doubted", some), ("tried", more)):
                    scores.add((name, row, seed), dice(root / "plain", split, method, seed, asked, teacher=folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
