"""The server: what it answers, what it saves, and whom it refuses."""

import base64
import gzip
import json
import threading
from pathlib import Path

import numpy as np
import pytest
from starlette.testclient import TestClient

from coranet.data.datasets.corrections import read_corrections
from coranet.data.readers import nifti
from coranet.errors import InputError
from coranet.evaluation.quality import CASES
from coranet.review.entrance import Entrance
from coranet.review.prepared_case import PreparedCase
from coranet.review.retraining import Retraining
from coranet.review.server import ReviewServer
from tests.review.reviewed import directions, geometry_of, maps, workshop_of, write_cases

PORT, TOKEN = 8123, "secret"
OURS = f"http://127.0.0.1:{PORT}"


class Desk:
    """A server, and a browser that was let in."""

    def __init__(self, root, *, prepared=True):
        self.root, self.workshop = root, workshop_of(root)
        if prepared:
            self.workshop.work(threading.Event())
        retraining = Retraining(data=root / "data", run=root / "run", corrections=root / "out")
        server = ReviewServer(self.workshop, retraining, title="test")
        self.browser = TestClient(Entrance(server.app(), port=PORT, token=TOKEN), base_url=OURS)
        self.browser.get("/", params={"token": TOKEN})

    def open(self, name="a"):
        return self.browser.get(f"/api/case/{name}").json()

    def post(self, path, content, **headers):
        return self.browser.post(path, json=content, headers={"Origin": OURS, **headers})

    def save(self, label, name="a", geometry=None, **more):
        case = self.open(name)
        file = self.root / "sent.nii"
        nifti.write(file, label, geometry or self.workshop.facts(name).geometry)
        text = base64.b64encode(gzip.compress(file.read_bytes())).decode()
        content = {"status": "corrected", "label": text, "seconds": 12.5, "revision": case["revision"], **more}
        return self.post(f"/api/case/{name}/save", content)


@pytest.fixture
def desk(tmp_path):
    write_cases(tmp_path, ["a", "b", "c"])
    return Desk(tmp_path)


def test_a_stranger_is_refused(desk):
    stranger = TestClient(desk.browser.app, base_url=OURS)
    for path in ("/", "/api/queue", "/static/app.js", "/api/case/a/image0.nii"):
        assert stranger.get(path).status_code == 403
    assert stranger.get("/", params={"token": "guessed"}).status_code == 403
    assert "error" not in desk.browser.get("/api/queue").json()
    welcome = stranger.get("/", params={"token": TOKEN}, follow_redirects=False)
    assert welcome.status_code == 303
    assert welcome.headers["location"] == "/"
    assert {"HttpOnly", "SameSite=strict"} <= set(welcome.headers["set-cookie"].split("; "))


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", f"evil.example:{PORT}", "127.0.0.1:1", ""])
def test_another_host_s_name_is_refused(desk, host):
    assert desk.browser.get("/api/queue", headers={"Host": host}).status_code == 403
    assert desk.browser.get("/", params={"token": TOKEN}, headers={"Host": host}).status_code == 403


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", f"https://127.0.0.1:{PORT}", f"http://127.0.0.1:{PORT + 1}"]
)
def test_what_comes_from_another_page_changes_nothing(desk, origin):
    for path in ("/api/case/a/save", "/api/case/a/alive", "/api/train"):
        assert desk.post(path, {"status": "set aside"}, Origin=origin).status_code == 403
    assert desk.browser.post("/api/case/a/save", json={"status": "set aside"}).status_code == 403
    assert desk.open()["status"] == "to do"


@pytest.mark.parametrize("name", ["..%2Fa", "%2e%2e%2fa", "a%00", "/etc/passwd", "nobody", "a%2f..%2fa"])
def test_names_of_cases_are_not_paths(desk, name):
    assert desk.browser.get(f"/api/case/{name}").status_code == 404
    assert desk.browser.get(f"/api/case/{name}/image0.nii").status_code == 404
    assert desk.browser.get(f"/api/case/a/{name}").status_code == 404
    assert desk.browser.get(f"/static/{name}").status_code == 404


def test_what_is_too_large_is_refused(desk, monkeypatch):
    assert desk.post("/api/case/a/save", {"status": "corrected"}, **{"Content-Length": str(2**40)}).status_code == 413
    bomb = base64.b64encode(gzip.compress(bytes(2**24))).decode()
    answer = desk.post("/api/case/a/save", {"status": "corrected", "label": bomb})
    assert answer.status_code == 413
    assert "larger than its scan" in answer.json()["error"]
    monkeypatch.setattr("coranet.review.entrance.MOST_BYTES", 100)
    assert desk.post("/api/case/a/save", {"status": "set aside", "more": "x" * 200}).status_code == 413


def test_a_label_on_another_grid_is_refused(desk):
    label = maps()[1]
    moved = geometry_of(spacing=(1.5, 1.0, 4.5))
    answer = desk.save(label, geometry=moved)
    assert answer.status_code == 422
    assert "does not lie on the grid of its scan: places differ" in answer.json()["error"]
    small = desk.save(label[:-1], geometry=geometry_of(shape=(13, 12, 5)))
    assert small.status_code == 422
    assert "sizes differ" in small.json()["error"]
    assert desk.open()["status"] == "to do"


@pytest.mark.parametrize(
    ("content", "status"),
    [
        ({"status": "perfect"}, 400),
        ({"status": "corrected"}, 400),
        ({"status": "corrected", "label": "no base64"}, 422),
        ({"status": "corrected", "label": base64.b64encode(b"no gzip").decode()}, 422),
        ({"status": "corrected", "label": base64.b64encode(gzip.compress(b"no NIfTI")).decode()}, 422),
        ({"status": "set aside", "choices": {"99999": "radical"}}, 400),
        ({"status": "set aside", "choices": {"0": "wildly"}}, 400),
        ([], 400),
    ],
)
def test_what_makes_no_sense_is_refused_in_a_sentence(desk, content, status):
    answer = desk.post("/api/case/a/save", content)
    assert answer.status_code == status
    assert answer.json()["error"].endswith(".")
    assert desk.open()["status"] == "to do"


def test_a_class_that_there_is_not_is_refused(desk):
    label = maps()[1].copy()
    label[0, 0, 0] = 7
    answer = desk.save(label)
    assert answer.status_code == 422
    assert "no class: 7" in answer.json()["error"]


def test_every_answer_says_what_a_page_may_do(desk):
    for path in ("/", "/static/app.js", "/api/queue", "/nothing"):
        headers = desk.browser.get(path).headers
        assert headers["content-security-policy"].startswith("default-src 'self'; ")
        assert headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("turn", list(directions()))
def test_the_saved_label_is_what_was_chosen_in_every_orientation(tmp_path, turn):
    geometry = geometry_of(turn)
    write_cases(tmp_path, ["a"], geometry)
    desk = Desk(tmp_path)
    facts = desk.workshop.facts("a")
    region = desk.workshop.prepared("a").region(facts)
    choices = {number: ("radical", "conservative")[number % 2] for number in range(len(region.pieces))}
    label = region.applied(maps()[1], choices)
    label[0, 0, 0] = 2
    answer = desk.save(label, choices={str(number): choice for number, choice in choices.items()})
    assert answer.status_code == 200, answer.json()
    saved = nifti.read(tmp_path / "out/labelsTr/a.nii.gz")
    assert np.array_equal(saved.array, label)
    assert np.allclose(saved.geometry.affine, geometry.affine)
    assert answer.json()["note"]["drawn"] == {"voxels": 1, "classes": {"right": 1}, "box": [[0, 0, 0], [0, 0, 0]]}


def test_a_note_says_who_what_and_how_long(desk):
    desk.save(maps()[1], choices={"0": "radical"})
    note = json.loads((desk.root / "out/labelsTr/a.json").read_text())
    assert (note["status"], note["seconds"]) == ("corrected", 12.5)
    assert note["run"] == str((desk.root / "run").resolve())
    assert note["chosen"][0]["answer"] == "radical"
    assert note["drawn"]["voxels"] > 0  # the choice was painted over
    (correction,) = read_corrections(desk.root / "out").values()
    assert correction.images[0].path == (desk.root / "scans/a.nii.gz").resolve()


def test_scans_and_predictions_are_left_as_they_are(desk):
    before = {file: file.read_bytes() for kind in ("scans", "predictions") for file in (desk.root / kind).iterdir()}
    desk.save(maps()[3])
    assert before == {file: file.read_bytes() for file in before}


def test_a_case_goes_on_as_it_was_saved(desk):
    label = maps()[3]
    desk.save(label, choices={"0": "radical", "2": "conservative"})
    case = desk.open()
    assert (case["status"], case["seconds"]) == ("corrected", 12.5)
    assert case["choices"] == {"0": "radical", "2": "conservative"}
    sent = np.frombuffer(desk.browser.get("/api/case/a/label.bin").content, np.uint8)
    assert np.array_equal(sent.reshape(label.shape, order="F"), label)
    again = Desk(desk.root)
    assert again.open()["status"] == "corrected"


def test_a_label_that_someone_put_on_another_grid_is_not_shown(desk):
    desk.save(maps()[3])
    nifti.write(desk.root / "out/labelsTr/a.nii.gz", maps()[3], geometry_of(spacing=(2.0, 1.0, 4.0)))
    answer = desk.browser.get("/api/case/a/label.bin")
    assert answer.status_code == 422
    assert "does not lie on the grid of its scan any more" in answer.json()["error"]


def test_a_label_in_another_format_is_shown_and_kept_when_another_is_saved(desk):
    """Drawn elsewhere and put there by hand: it is no prediction, and nothing of it is lost."""
    drawn = maps()[3]
    nifti.write(desk.root / "out/labelsTr/a.nii", drawn, geometry_of())
    assert desk.open()["saved"]
    sent = np.frombuffer(desk.browser.get("/api/case/a/label.bin").content, np.uint8)
    assert np.array_equal(sent.reshape(drawn.shape, order="F"), drawn)
    assert desk.save(maps()[1]).status_code == 200
    (file,) = (correction.label for correction in read_corrections(desk.root / "out").values())
    assert file.name == "a.nii.gz"
    (kept,) = (desk.root / "out/labelsTr").glob("*.before")
    nifti_file = kept.rename(desk.root / "kept.nii")
    assert np.array_equal(nifti.read(nifti_file).array, drawn)


def test_a_label_that_is_drawn_in_part_is_not_opened(desk):
    label = maps()[3]
    label[0] = 7
    nifti.write(desk.root / "out/labelsTr/a.nii.gz", label, geometry_of())
    content = {"labels": {"background": 0, "left": 1, "right": 2, "ignore": 7}}
    (desk.root / "out/dataset.json").write_text(json.dumps(content))
    answer = desk.browser.get("/api/case/a/label.bin")
    assert answer.status_code == 422
    assert "is drawn in part, and a label is saved whole here" in answer.json()["error"]
    assert desk.save(maps()[1], "b").status_code == 200


def test_corrections_of_other_scans_of_these_names_are_refused(desk):
    desk.save(maps()[3])
    note = desk.root / "out/labelsTr/a.json"
    content = json.loads(note.read_text())
    moved = (desk.root / "scans/a.nii.gz").rename(desk.root / "moved.nii.gz")
    nifti.write(desk.root / "scans/a.nii.gz", maps(5)[0], geometry_of())
    with pytest.raises(
        InputError, match=r"a\.nii\.gz: was drawn on another scan than .*scans/a\.nii\.gz: on one that lay"
    ):
        workshop_of(desk.root)  # where the first one lay is another now
    content["images"][0]["path"] = str(moved)
    note.write_text(json.dumps(content))
    with pytest.raises(InputError, match=r"on one that lay at .*moved\.nii\.gz"):
        workshop_of(desk.root)
    (desk.root / "scans/a.nii.gz").write_bytes(moved.read_bytes())
    workshop_of(desk.root)  # a copy


def test_classes_that_mean_something_else_are_never_written_over(desk):
    desk.save(maps()[3])
    described = desk.root / "out/dataset.json"
    described.write_text(json.dumps({"labels": {"background": 0, "right": 1, "left": 2}}))
    with pytest.raises(InputError, match=r"does not number classes as the run does, and labels lie beside it"):
        workshop_of(desk.root)
    assert json.loads(described.read_text())["labels"]["right"] == 1
    described.write_text(
        json.dumps({"labels": {"background": 0, "left": 1, "ignore": 9}})
    )  # a class more is none other
    workshop_of(desk.root)
    assert json.loads(described.read_text())["labels"] == {"background": 0, "left": 1, "ignore": 9, "right": 2}


def test_what_an_earlier_version_kept_of_a_case_is_made_anew(desk, monkeypatch):
    files = desk.workshop.prepared("a")
    assert files.facts() is not None
    monkeypatch.setattr("coranet.review.prepared_case.LAYOUT", 1)
    assert files.facts() is None


def test_set_aside_keeps_the_label_and_does_not_train_on_it(desk):
    desk.save(maps()[3])
    desk.save(maps()[3], "b")
    revision = desk.open()["revision"]
    assert desk.post("/api/case/a/save", {"status": "set aside", "revision": revision}).status_code == 200
    assert (desk.root / "out/labelsTr/a.nii.gz").exists()
    assert set(read_corrections(desk.root / "out")) == {"b"}


def test_two_windows_are_told_and_the_later_save_is_not_lost(desk):
    first, second = desk.open(), desk.open()
    assert (first["others"], second["others"]) == (0, 1)
    assert desk.post("/api/case/a/alive", {"ticket": first["ticket"]}).json()["others"] == 1
    assert desk.save(maps()[3], revision=first["revision"]).status_code == 200
    late = desk.save(maps()[2], revision=second["revision"])
    assert late.status_code == 409
    assert "another window" in late.json()["error"]
    assert np.array_equal(nifti.read(desk.root / "out/labelsTr/a.nii.gz").array, maps()[3])
    assert desk.save(maps()[2], revision=second["revision"], anyway=True).status_code == 200
    desk.post("/api/case/a/alive", {"ticket": first["ticket"], "closed": True})
    third = desk.post("/api/case/a/alive", {"ticket": second["ticket"]}).json()["others"]
    assert third == desk.open()["others"] - 1


def test_the_queue_has_the_worst_first(desk):
    rows = desk.browser.get("/api/queue").json()["cases"]
    shares = [row["share"] for row in rows]
    assert shares == sorted(shares, reverse=True)
    table = "case,class,expected_dice,low,high,millilitres,flags\n"
    table += "b,all,0.4,0.2,0.6,1,missing; odd size\nb,left,0.1,0,1,1,\na,all,0.9,0.8,1,1,\nc,all,0.0,0,0.1,1,\n"
    (desk.root / "predictions" / CASES).write_text(table)
    rows = desk.browser.get("/api/queue").json()["cases"]
    assert [row["name"] for row in rows] == ["c", "b", "a"]
    assert rows[1]["expected"] == {"expected_dice": 0.4, "low": 0.2, "high": 0.6, "flags": ["missing", "odd size"]}


def test_a_broken_scan_is_listed_and_does_not_block(tmp_path):
    write_cases(tmp_path, ["a", "b", "c"])
    (tmp_path / "scans/a.nii.gz").write_bytes(b"no scan")
    (tmp_path / "predictions/b.nii.gz").unlink()
    rows = {row["name"]: row for row in Desk(tmp_path).browser.get("/api/queue").json()["cases"]}
    assert "not gzip-compressed" in rows["a"]["problem"]
    assert "has no prediction" in rows["b"]["problem"]
    assert rows["c"]["ready"]


def test_a_fault_of_ours_in_one_case_does_not_end_the_work_on_others(tmp_path, monkeypatch):
    write_cases(tmp_path, ["a", "b"])
    make = PreparedCase.make
    monkeypatch.setattr(PreparedCase, "make", lambda files: {}["a"] if files.case.name == "a" else make(files))
    rows = {row["name"]: row for row in Desk(tmp_path).browser.get("/api/queue").json()["cases"]}
    assert "a: could not be prepared" in rows["a"]["problem"]
    assert rows["b"]["ready"]


def test_what_a_case_needs_is_made_once(desk, monkeypatch):
    pictures = {file: file.stat().st_mtime_ns for file in (desk.root / "out/.cache").rglob("*.jpg")}
    assert len(pictures) == 3
    Desk(desk.root)
    assert pictures == {file: file.stat().st_mtime_ns for file in pictures}
    write_cases(desk.root, ["z", "a"])  # other voxels in the place of a
    Desk(desk.root)
    changed = [file.parent.name for file, time in pictures.items() if file.stat().st_mtime_ns != time]
    assert changed == ["a"]


def test_choices_of_pieces_that_are_no_more_are_not_shown(desk):
    """Predictions that were made anew cut other pieces, whose numbers say other things."""
    desk.save(maps()[3], choices={"0": "radical"})
    for file in (desk.root / "predictions").glob("b*.nii.gz"):
        file.replace(file.with_name(f"a{file.name[1:]}"))
    again = Desk(desk.root)
    assert again.open()["status"] == "corrected"
    assert again.open()["choices"] == {}
    assert again.save(maps()[2]).status_code == 200


def test_files_that_changed_under_an_open_page_are_no_conflict_of_windows(desk):
    """A page asks `Save anyway?` at 409 alone."""
    label, revision = maps()[3], desk.open()["revision"]
    facts = desk.workshop.facts("a")
    for file in (desk.root / "predictions").glob("b*.nii.gz"):
        file.replace(file.with_name(f"a{file.name[1:]}"))
    file = desk.root / "sent.nii"
    nifti.write(file, label, facts.geometry)
    text = base64.b64encode(gzip.compress(file.read_bytes())).decode()
    sent = {"status": "corrected", "label": text, "seconds": 1, "revision": revision}
    assert desk.post("/api/case/a/save", sent).status_code == 410


def test_a_folder_of_corrections_that_someone_described_is_left_so(tmp_path):
    """Its names of channels, and the value of voxels that nobody drew."""
    write_cases(tmp_path, ["a"])
    workshop_of(tmp_path)
    file = tmp_path / "out/dataset.json"
    described = json.loads(file.read_text())
    described["labels"]["ignore"] = 200
    described["channel_names"] = {"0": "CT"}
    file.write_text(json.dumps(described))
    workshop_of(tmp_path)
    assert json.loads(file.read_text()) == described
    file.write_text(json.dumps({**described, "labels": {"background": 0}}))
    workshop_of(tmp_path)
    assert "ignore" not in json.loads(file.read_text())["labels"]


def test_a_run_that_is_called_by_a_dot_can_be_trained_on(tmp_path, monkeypatch):
    (tmp_path / "mine").mkdir()
    monkeypatch.chdir(tmp_path / "mine")
    retraining = Retraining(data=tmp_path, run=Path(), corrections=tmp_path / "out")
    assert str(tmp_path / "mine-corrected1") in retraining.state()["command"]
