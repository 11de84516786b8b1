"""A person on the page, played by a script that knows the truth.

    python -m tests.review.by_script RUN SCANS LABELS --out CORRECTIONS

Each case is opened in Chromium. Pieces come largest first, and for each the key is pressed whose answer is right in most
voxels, at most so many keys a case. Then it is saved. Nothing is drawn.
"""

import argparse
import sys
import tempfile
from pathlib import Path

import numpy as np

from coranet.data.readers import label_source
from coranet.review.pieces import CHOICES
from tests.review.browser import launched, open_case, open_page, reviewing, until

KEYS = dict(zip(CHOICES, "ocr", strict=True))


def review(page, name, truth, most):
    """Choose and save; how many keys it took."""
    open_case(page, name)
    rows = page.evaluate(
        "[...window.review.pieces.index].map((place, row) => [place, ...CHOICES(row)])".replace(
            "CHOICES(row)",
            "['prediction', 'conservative', 'radical'].map((answer) => window.review.pieces[answer][row])",
        )
    )
    lists = np.array(rows, np.int64).reshape(-1, 4)
    right = lists[:, 1:] == truth.ravel(order="F")[lists[:, 0]][:, None]
    pressed = 0
    while pressed < most and page.evaluate("window.review.pieces.left") > 0:
        parts = page.evaluate("window.review.pieces.current.numbers.map((one) => window.review.pieces.finest[one])")
        own = np.concatenate([np.arange(part["start"], part["start"] + part["voxels"]) for part in parts])
        page.keyboard.press(KEYS[CHOICES[int(right[own].sum(axis=0).argmax())]])
        pressed += 1
    page.keyboard.press("s")
    until(page, f"document.getElementById('say').textContent.startsWith('{name}: ')")
    return pressed + 1


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("run", "scans", "labels"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--most", type=int, default=20, help="keys a case")
    asked = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as cache,
        reviewing(asked.run, asked.scans, "--out", asked.out, cache=Path(cache)) as (address, _),
        launched() as chromium,
    ):
        page = open_page(chromium, address, width=700, height=420)
        until(page, "document.getElementById('busy').textContent === ''", 900)
        names = page.evaluate("[...document.querySelectorAll('.card strong')].map((one) => one.textContent)")
        for name in names:
            truth = label_source(asked.labels / f"{name}.nii.gz").read().array
            sys.stdout.write(f"{name}: {review(page, name, truth, asked.most)} keys\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
