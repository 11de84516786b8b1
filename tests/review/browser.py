"""Chromium, a server of its own, and what a person does on the page."""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
import urllib.request
from contextlib import contextmanager
from http.cookiejar import CookieJar
from pathlib import Path

import pytest

from coranet.review.viewer import PLACE, VIEWER

FLAGS = [
    "--no-sandbox",  # which it needs as root
    *(
        "--disable-quic",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
    ),
    *("--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"),  # WebGL without a graphics card
]
PATIENCE = 120_000
"""Milliseconds: software that draws volumes on a busy machine is slow."""


def find_chromium():
    """The browser, or a clear word why there is none."""
    found = os.environ.get("CHROMIUM") or shutil.which("chromium") or shutil.which("chromium-browser")
    if not found:
        pytest.skip("There is no Chromium: apt-get install chromium, or set CHROMIUM to one.")
    if not (PLACE / VIEWER.name).exists():
        pytest.skip("The viewer is not there: make viewer.")
    return found


@contextmanager
def reviewing(*words, cache):
    """`coranet review` as a process, and the address that it prints."""
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache), "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "coranet", "review", *map(str, words), "--no-browser"],
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if found := re.search(r"http://\S+", line):
                break
        else:
            raise AssertionError(f"coranet review ended with {process.wait()}: {''.join(said)}")
        yield found[0], process
    finally:
        process.terminate()
        process.wait(timeout=30)
        process.stderr.close()


class Script:
    """What the page sends, without the page."""

    def __init__(self, address):
        self.root = address.split("/?")[0]
        self.browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
        self.browser.open(address).read()

    def open(self, path):
        return self.browser.open(f"{self.root}{path}")

    def get(self, path):
        return self.open(path).read()

    def wait(self):
        """Until every case is prepared."""
        while json.loads(self.get("/api/queue"))["busy"]:
            time.sleep(0.1)

    def save(self, name, label):
        revision = json.loads(self.get(f"/api/case/{name}"))["revision"]
        content = json.dumps({"status": "corrected", "label": label, "revision": revision, "seconds": 1}).encode()
        headers = {"Origin": self.root, "Content-Type": "application/json"}
        self.browser.open(urllib.request.Request(f"{self.root}/api/case/{name}/save", content, headers)).read()


@contextmanager
def launched():
    """A browser."""
    from playwright.sync_api import sync_playwright

    program = find_chromium()
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=FLAGS)
        yield chromium
        chromium.close()


def open_page(chromium, address, *, width=900, height=640):
    """A page that was let in, and all that it asked for and complained of."""
    page = chromium.new_page(viewport={"width": width, "height": height})
    page.set_default_timeout(PATIENCE)
    page.complaints, page.asked = [], []
    page.on("pageerror", lambda error: page.complaints.append(str(error)))
    page.on("console", lambda said: page.complaints.append(said.text) if said.type == "error" else None)
    page.on("request", lambda request: page.asked.append(request.url))
    page.on("dialog", lambda dialog: dialog.accept())
    page.goto(address)
    page.wait_for_selector(".card img")
    return page


def open_case(page, name):
    """Wait until it can be worked on; asked for once more where the page was on its way to the next case by itself."""
    ready = f"window.review.info?.name === '{name}' && document.getElementById('piece').textContent !== ''"
    ends = time.monotonic() + PATIENCE / 1000
    while not page.evaluate(ready):
        assert time.monotonic() < ends, f"{name} did not open: {page.inner_text('#say')} {page.complaints}"
        page.evaluate(f"location.hash = 'case={name}'")
        asked = time.monotonic()
        while not page.evaluate(ready) and time.monotonic() < asked + 5:
            time.sleep(0.1)


def until(page, condition, seconds=PATIENCE / 1000):
    """Wait for the page; what its policy forbids is not needed for it."""
    ends = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < ends, f"{condition}: {page.inner_text('#say')} {page.complaints}"
        time.sleep(0.1)


def load_axe(folder: Path):
    """axe-core's source, out of its npm package."""
    if not shutil.which("npm"):
        pytest.skip("There is no npm to load axe-core with.")
    subprocess.run(["npm", "pack", "--silent", "axe-core@4.10.3"], cwd=folder, capture_output=True, check=False)
    packed = next(folder.glob("axe-core*.tgz"), None)
    if packed is None:
        pytest.skip("npm does not reach axe-core.")
    with tarfile.open(packed) as archive:
        source = archive.extractfile("package/axe.min.js")
        assert source is not None
        return source.read().decode()
