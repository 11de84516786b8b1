"""How long a large case takes to open: the server alone, and the page in Chromium.

    make viewer && python -m tests.review.opening --out DIR

Makes scans of 512 x 512 x 300 in 16 bits with predictions, starts `coranet review` on them, and opens each in turn. The
server's time is that of all the page asks for, one after the other, to the last byte. The page's time goes from the click to
the moment when the case is on the screen and pieces can be chosen. Without a graphics card Chromium draws by software.
"""

import argparse
import json
import os
import sys
import time
from pathlib import Path
from statistics import median

import numpy as np

from coranet.data.datasets.phantom import Phantom, write_folder
from coranet.data.readers import nifti
from coranet.geometry import Geometry
from coranet.runs.launch import train
from coranet.runs.options import Options
from tests.review.browser import Script, launched, open_page, reviewing, until

FILES = ("region.bin", "image0.nii", "prediction.bin")
PAINTED = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
ORGANS = ((-0.35, 0.1, 0.0), (0.3, 0.2, 0.2), (0.05, -0.35, -0.2))


def write_case(root, name, shape, seed):
    """A body with noise and three organs, each with a shell of doubt."""
    affine = np.diag((0.8, 0.8, 1.0, 1.0))
    geometry = Geometry(shape=shape, affine=tuple(map(tuple, affine.tolist())))
    x, y, z = np.meshgrid(*(np.linspace(-1, 1, n, dtype=np.float32) for n in shape), indexing="ij", sparse=True)
    apart = [((x - a) / 0.25) ** 2 + ((y - b) / 0.2) ** 2 + ((z - c) / 0.5) ** 2 for a, b, c in ORGANS]
    nearest, kind = np.min(apart, axis=0), np.argmin(apart, axis=0) + 1
    noise = np.random.default_rng(seed).normal(0, 12, shape).astype(np.float32)
    scan = np.where((x / 0.9) ** 2 + (y / 0.7) ** 2 < 1, 40 + noise, -1000) + 60 * (nearest < 1)
    maps = {
        end: np.where(nearest < size, kind, 0) for end, size in (("", 1), ("_conservative", 0.9), ("_radical", 1.1))
    }
    maps["_uncertain"] = maps["_conservative"] != maps["_radical"]
    for folder in ("scans", "predictions"):
        (root / folder).mkdir(parents=True, exist_ok=True)
    nifti.write(root / "scans" / f"{name}.nii.gz", scan.astype(np.int16), geometry)
    for end, values in maps.items():
        nifti.write(root / "predictions" / f"{name}{end}.nii.gz", values.astype(np.uint8), geometry)


def ask(script, names):
    """Of each file of a case: seconds to its first byte and to its last, and megabytes that are sent."""
    rows = {}
    for name in names:
        for file in ("", *(f"/{file}" for file in FILES)):
            began = time.perf_counter()
            with script.open(f"/api/case/{name}{file}") as answer:
                first, size = time.perf_counter() - began, 0
                while part := answer.read(1 << 20):
                    size += len(part)
            rows.setdefault(file, []).append((first, time.perf_counter() - began, size / 1e6))
    found = {file: [round(median(column), 3) for column in zip(*of, strict=True)] for file, of in rows.items()}
    return {"all": [round(sum(column), 3) for column in zip(*found.values(), strict=True)], **found}


def open_all(address, names):
    """Seconds from the click until pieces can be chosen, and from a key until the next piece is shown, at once and later."""
    with launched() as chromium:
        page = open_page(chromium, address, width=1280, height=800)
        opened, moved = [], {"at once": [], "later": []}
        for name in names:
            began = time.perf_counter()
            page.evaluate(f"location.hash = 'case={name}'")
            until(page, f"window.review.info?.name === '{name}' && document.getElementById('piece').textContent !== ''")
            page.evaluate(PAINTED)
            opened.append(time.perf_counter() - began)
            for when, wait in (("at once", 0), ("later", 10)):
                time.sleep(wait)
                began = time.perf_counter()
                page.keyboard.press("n")
                page.evaluate(PAINTED)
                moved[when].append(time.perf_counter() - began)
        rows = {"open": opened, **{f"key, {when}": of for when, of in moved.items()}}
        return {"load": os.getloadavg()[0], **{row: [round(one, 2) for one in of] for row, of in rows.items()}}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--cases", type=int, default=3)
    parser.add_argument("--shape", type=int, nargs=3, default=(512, 512, 300))
    parser.add_argument("--no-page", action="store_true", help="the server alone")
    asked = parser.parse_args()
    names = [f"large{number}" for number in range(asked.cases)]
    for seed, name in enumerate(names):
        if not (asked.out / f"predictions/{name}_uncertain.nii.gz").exists():
            write_case(asked.out, name, tuple(asked.shape), seed)
    if not (asked.out / "run/last.pt").exists():
        write_folder(asked.out / "data", Phantom(shape=(32, 32, 4)), seed=0, labelled=2, unlabelled=2, test=0)
        train(asked.out / "data", asked.out / "run", Options(steps=2, cache=asked.out / "cache"))
    words = (asked.out / "run", asked.out / "scans", "--predictions", asked.out / "predictions")
    began = time.perf_counter()
    with reviewing(*words, "--out", asked.out / "corrections", cache=asked.out) as (address, _):
        script = Script(address)
        script.wait()
        found = {"prepared": round(time.perf_counter() - began, 1), "server": ask(script, names)}
        if not asked.no_page:
            found["page"] = open_all(address, names)
    sys.stdout.write(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
