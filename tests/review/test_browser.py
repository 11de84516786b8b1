"""The page in a real browser: look, jump, choose, draw, undo, save, reload, train on; by keys; for everyone's eyes."""

import json

import numpy as np
import pytest
import torch

from coranet.data.readers import nifti
from coranet.engine.prediction.trained import Trained
from coranet.review.miniature import PAINT
from coranet.runs.gain import GAIN
from tests.review.browser import launched, load_axe, open_case, open_page, reviewing, until
from tests.review.reviewed import SHAPE, directions, geometry_of, maps, workshop_of, write_cases

pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def chromium():
    with launched() as found:
        yield found


@pytest.fixture(scope="module")
def desk(chromium, scans, finished, tmp_path_factory):
    """The page of a run on scans that it has not seen, predicted by the server itself."""
    root = tmp_path_factory.mktemp("desk")
    words = (finished, scans / "imagesTs", "--out", root / "out", "--device", "cpu")
    with reviewing(*words, cache=root / "cache") as (address, _):
        page = open_page(chromium, address)
        until(page, "document.querySelectorAll('.card img').length === 2")
        yield page, root / "out", finished


def drawing(page):
    return np.frombuffer(bytes(page.evaluate("[...window.review.viewer.nv.drawBitmap]")), np.uint8)


def keys(page, *pressed):
    for key in pressed:
        page.keyboard.press(key)


def seen(page, voxels):
    """What the page shows in the middle of voxels of the scan, each looked at in turn, without the piece in question."""
    look = """async (voxels) => {
        const { viewer } = window.review, pen = document.getElementById('slices').getContext('2d'), found = [];
        viewer.mark(() => {});
        for (const voxel of voxels) {
            viewer.goTo(voxel);
            await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
            const [x, y] = viewer.nv.frac2canvasPos(viewer.nv.scene.crosshairPos);
            found.push([...pen.getImageData(x, y, 1, 1).data.slice(0, 3)]);
        }
        return found;
    }"""
    return np.array(page.evaluate(look, voxels))


def painted(voxels, window):
    """What a slice should show of the scan that `maps` makes up."""
    scan, prediction, conservative, radical, uncertain = maps()
    region = uncertain.astype(bool) | (conservative != prediction) | (radical != prediction)
    found = []
    for place in map(tuple, voxels):
        colour = np.repeat(np.clip((scan[place] - window[0]) / (window[1] - window[0]), 0, 1) * 255, 3)
        if prediction[place]:
            colour += 0.28 * (np.array(PAINT[prediction[place] - 1]) - colour)
        if region[place]:
            colour += 0.4 * (np.array([255, 60, 60]) - colour)
        found.append(colour)
    return np.array(found)


def saved(page, name):
    until(page, f"document.getElementById('say').textContent.startsWith('{name}: ')")


def test_queue_jump_choose_draw_undo_save_reload_train_on(desk):
    page, out, run = desk
    names = page.evaluate("[...document.querySelectorAll('.card strong')].map((one) => one.textContent)")
    keys(page, "n")
    until(page, f"window.review.info?.name === '{names[0]}' && document.getElementById('piece').textContent !== ''")
    first = drawing(page)
    piece = page.inner_text("#piece")
    keys(page, "n")
    assert page.inner_text("#piece") != piece
    keys(page, "p")
    assert page.inner_text("#piece") == piece
    keys(page, "r")
    chosen = drawing(page)
    keys(page, "Shift+C")
    assert not np.array_equal(drawing(page), chosen)
    keys(page, "z")
    assert np.array_equal(drawing(page), chosen)
    keys(page, "1", "]", "]")
    box = page.locator("#canvas").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + box["height"] * 0.5)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.34, box["y"] + box["height"] * 0.55, steps=4)
    page.mouse.up()
    until(page, "window.review.history.length === 2")
    drawn = drawing(page)
    assert not np.array_equal(drawn, chosen)
    keys(page, "z")
    assert np.array_equal(drawing(page), chosen)
    uncut = "window.review.viewer.nv.scene.clipPlaneDepthAziElevs.every(([depth]) => depth === 2)"
    assert page.evaluate(uncut)  # c and p are keys of NiiVue too, which cut the view in space
    keys(page, "h", "s")
    saved(page, names[0])
    assert page.inner_text("#say").endswith(" uncertain pieces left as predicted.")
    until(page, f"window.review.info?.name === '{names[1]}'")  # on to the next one by itself
    label = nifti.read(out / "labelsTr" / f"{names[0]}.nii.gz").array
    assert np.count_nonzero(label) == np.count_nonzero(chosen)
    note = json.loads((out / "labelsTr" / f"{names[0]}.json").read_text())
    assert note["drawn"]["voxels"] == 0
    assert {row["answer"] for row in note["chosen"]} == {"radical"}
    page.reload()
    open_case(page, names[0])
    assert np.array_equal(drawing(page), chosen)
    assert not np.array_equal(drawing(page), first) or note["changed"] == 0
    open_case(page, names[1])
    keys(page, "a")
    saved(page, names[1])
    assert page.inner_text("#say").endswith("Every case that is ready is done.")
    until(page, "document.getElementById('done').textContent === '2 of 2 done'")
    keys(page, "t")
    until(page, "document.getElementById('command').textContent.includes('--labels')")
    page.click("#train-start")
    until(page, "document.getElementById('gain').textContent.startsWith('Trained. 2 corrected cases: Dice')")
    assert (run.with_name("run-corrected1") / GAIN).exists()
    keys(page, "Escape")
    assert page.complaints == []
    assert {url.split("/")[2] for url in page.asked if not url.startswith("data:")} == {page.url.split("/")[2]}


def test_everyone_can_read_and_reach_it(desk, tmp_path):
    page, _, _ = desk
    axe = load_axe(tmp_path)
    page.evaluate("location.hash = ''")
    until(page, "!document.getElementById('queue-view').hidden")
    found = []
    for view in ("queue", "case", "help"):
        if view == "case":
            open_case(page, page.evaluate("document.querySelector('.card strong').textContent"))
        if view == "help":
            keys(page, "?")
            assert page.locator("#help").is_visible()
        page.evaluate(axe)
        rules = "{runOnly: ['wcag2a', 'wcag2aa', 'wcag21aa', 'best-practice']}"
        wrong = page.evaluate(f"axe.run(document, {rules}).then((said) => said.violations)")
        found += [(view, rule["id"], [node["html"][:90] for node in rule["nodes"]]) for rule in wrong]
    assert found == []
    keys(page, "Escape")
    undone = page.evaluate(
        "[...document.querySelectorAll('[data-do]')].filter((one) => !one.querySelector('kbd')).length"
    )
    assert undone == 0  # every button has its key


def test_what_is_shown_and_saved_is_right_in_every_orientation(chromium, finished, tmp_path):
    turns = dict(enumerate(directions()))
    for number, turn in turns.items():
        write_cases(tmp_path / str(number), [f"case{number}"], geometry_of(turn))
    for kind in ("scans", "predictions"):
        (tmp_path / kind).mkdir()
        for number in turns:
            for file in (tmp_path / str(number) / kind).iterdir():
                file.rename(tmp_path / kind / file.name)
    words = (finished, tmp_path / "scans", "--predictions", tmp_path / "predictions", "--out", tmp_path / "out")
    with reviewing(*words, cache=tmp_path) as (address, _):
        page = open_page(chromium, address, width=700, height=420)
        until(page, f"document.querySelectorAll('.card img').length === {len(turns)}")
        rng = np.random.default_rng(0)
        for number in turns:
            open_case(page, f"case{number}")
            keys(page, "k")
            voxels = [[int(rng.integers(size)) for size in SHAPE] for _ in range(4)] + [[4, 6, 2], [4, 8, 2]]
            window = page.evaluate("window.review.info.window")
            assert np.abs(seen(page, voxels) - painted(voxels, window)).max() <= 1.5
            keys(page, "k", "r", "f", "c", "n", "f", "r", "Shift+C", "s")
            saved(page, f"case{number}")
            page.evaluate("document.getElementById('say').textContent = ''")
    workshop = workshop_of(tmp_path, classes=Trained.load(finished, torch.device("cpu")).classes)
    _, prediction, *_ = maps()
    for number, turn in turns.items():
        files = workshop.prepared(f"case{number}")
        label, note = (
            nifti.read(workshop.corrections.label(f"case{number}")),
            workshop.corrections.note(f"case{number}"),
        )
        facts = files.facts()
        choices = {row["piece"]: row["answer"] for row in note["chosen"]}
        assert {"radical", "conservative"} <= set(choices.values())
        assert np.array_equal(label.array, files.region(facts).applied(prediction, choices))
        assert note["drawn"]["voxels"] == 0
        assert note["changed"] > 0
        assert np.allclose(label.geometry.affine, geometry_of(turn).affine)


def test_the_view_in_space_is_of_a_copy_and_waits_for_a_rest(chromium, finished, tmp_path):
    write_cases(tmp_path, ["long"], shape=(200, 120, 50))
    words = (finished, tmp_path / "scans", "--predictions", tmp_path / "predictions", "--out", tmp_path / "out")
    with reviewing(*words, cache=tmp_path) as (address, _):
        page = open_page(chromium, address)
        open_case(page, "long")
        page.evaluate("() => { window.space = window.review.viewer.space; }")
        page.evaluate("() => { window.shown = () => space.last.canvas.width && space.last.canvas.toDataURL(); }")
        until(page, "space.stale.size === 0 && shown()")
        assert page.evaluate("space.copy.dimsRAS.slice(1)") == [166, 120, 50]
        assert page.evaluate("window.review.viewer.nv.back.dims.slice(1, 4)") == [200, 120, 50]
        first = page.evaluate("shown()")
        keys(page, "n")
        assert page.evaluate("shown()") == first  # to go through pieces asks nothing of it
        keys(page, "l")
        until(page, "space.stale.size === 0")
        until(page, f"shown() !== '{first}'")
        assert page.complaints == []
