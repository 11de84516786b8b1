"""Files that lie about their size are refused before memory is taken, each in one sentence."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.data.readers import inflated_files as made

MOST = 800e6
"""Bytes that the process may take: libraries take a third of it."""

READ = """
import json, resource, sys, time
from pathlib import Path
from coranet.data.readers import source
from coranet.errors import InputError

resource.setrlimit(resource.RLIMIT_AS, (12 * 2**30, 12 * 2**30))  # so that this machine survives a failure
for path in map(Path, sys.argv[1:]):
    began = time.monotonic()
    try:
        said = f"read {source(path).read().array.shape}"
    except InputError as error:
        said = str(error)
    except BaseException as error:
        said = f"TRACEBACK {type(error).__name__} {error}"
    status = Path("/proc/self/status").read_text()  # a process inherits the peak of its parent in getrusage
    peak = 1024 * int(status.partition("VmHWM:")[2].split()[0])
    print(json.dumps({"name": path.name, "said": said, "peak": peak, "seconds": time.monotonic() - began}), flush=True)
"""

Make = Callable[[Path], Path]


def sparse_nii(path: Path) -> Path:
    os.truncate(made.nifti(path, (20000, 20000, 300), 0), 352 + 20000 * 20000 * 300 * 2)
    return path


def long_npy(path: Path) -> Path:
    np.save(path, np.zeros((4, 4, 4)))
    path.write_bytes(path.read_bytes().replace(b"(4, 4, 4), }      ", b"(9999, 9999, 99), }"))
    return path


ATTACKS: dict[str, tuple[Make, str]] = {
    "3kb.nii.gz": (lambda path: made.nifti(path, (1200, 1200, 1200), 0), "says that it holds 3.46 GB"),
    "honest.nii.gz": (
        lambda path: made.nifti(path, (2048, 2048, 1500), made.MANY),
        "unpacks from 12.* MB to 12.6 GB",
    ),
    "modest.nii.gz": (
        lambda path: made.nifti(path, (16, 16, 10), made.MANY),
        "unpacks to far more than the 5472 bytes",
    ),
    "large.nii": (sparse_nii, "needs 480.1 GB of memory.*--max-gb 481"),
    "honest.nrrd": (
        lambda path: made.nrrd(path, "2048 2048 1500", made.MANY),
        "unpacks from 12.* MB to 12.6 GB",
    ),
    "modest.nrrd": (
        lambda path: made.nrrd(path, "8 8 10", made.MANY),
        "unpacks to far more than the 1280 bytes",
    ),
    "empty.h5": (lambda path: made.hdf5(path, (1024, 1024, 1024), "u1"), "says that it holds 1.07 GB"),
    "wide.h5": (
        lambda path: made.hdf5(path, (32767, 32767, 32767), "u1"),
        "says that it holds 35,181 GB of voxels, which its 0 bytes cannot",
    ),
    "packed.mat": (lambda path: made.mat(path, 160), "unpacks from 524 kB to 538 MB, which scans rarely do"),
    "pages.tif": (lambda path: made.tiff(path, 64), "says that it holds .* of voxels"),
    "pixels.png": (lambda path: made.png(path, 60000), "has more than 178,956,970 pixels"),
    "rows.dcm": (lambda path: made.dicom_of_a_lie(path, Rows=65535, Columns=65535), "says that it holds"),
    "frames.dcm": (
        lambda path: made.dicom_of_a_lie(path, NumberOfFrames=10**8),
        "100000000 frames, which its bytes",
    ),
    "apart": (made.dicom_far_apart, r"slices 1e\+09 mm apart where 1 mm is usual"),
    "deflated.dcm": (
        lambda path: made.dicom_deflated(path, made.MANY),
        "unpacks from 524 kB to 538 MB",
    ),
    "short.npy": (long_npy, "is not NumPy's, damaged or cut short"),
}


@pytest.fixture(scope="module")
def answers(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """What one process said of each, one after the other, and how much memory it ever had."""
    folder = tmp_path_factory.mktemp("bombs")
    paths = [make(folder / name) for name, (make, _) in ATTACKS.items()]
    environment = {name: value for name, value in os.environ.items() if name != "CORANET_MAX_GB"}
    done = subprocess.run(
        [sys.executable, "-c", READ, *map(str, paths)], capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    return {line["name"]: line for line in lines}


@pytest.mark.parametrize("name", ATTACKS)
def test_a_file_that_lies_about_its_size_is_refused_before_memory_is_taken(
    answers: dict[str, dict[str, Any]], name: str
) -> None:
    said = answers[name]["said"]
    assert re.search(ATTACKS[name][1], said), said
    assert name in said
    assert "\n" not in said
    assert answers[name]["peak"] < MOST
    assert answers[name]["seconds"] < 20
