"""`coranet review` as a command: predictions of its own, refusals in a sentence, the viewer by its checksum, a long day."""

import base64
import gzip
import os
import signal
import socket
import subprocess
import sys
import tarfile
import threading
from pathlib import Path

import numpy as np
import pytest

from coranet.data.readers import nifti
from coranet.engine.prediction.trained import Trained
from coranet.errors import InputError
from coranet.evaluation.quality import read_qualities
from coranet.review import desk
from coranet.review.desk import ReviewRequest, serve
from coranet.review.viewer import VIEWER, fetch
from coranet.runs.machine.device import find_device
from tests.review.browser import Script, reviewing
from tests.review.reviewed import maps, workshop_of, write_cases


@pytest.fixture
def request_of(finished, scans, tmp_path, monkeypatch):
    monkeypatch.setattr(desk, "STATIC", tmp_path)
    (tmp_path / VIEWER.name).touch()
    return lambda **changes: ReviewRequest(
        **{"run": finished, "scans": scans / "imagesTs", "out": tmp_path / "out", "no_browser": True, **changes}
    )


def test_scans_are_predicted_with_their_masks_and_those_that_are_finished_are_not_again(finished, scans, request_of):
    request = request_of(device="cpu")
    workshop = desk._workshop(request, Trained.load(finished, find_device("cpu")).run)
    workshop.work(threading.Event())
    assert workshop.problems == {}
    made = sorted(file.name for file in workshop.predictions.iterdir())
    assert {f"phantom_007{end}.nii.gz" for end in ("", "_uncertain", "_conservative", "_radical")} <= set(made)
    assert {row["name"]: "flags" in row["expected"] for row in workshop.queue()} == dict.fromkeys(workshop.cases, True)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Trained, "predict_volumes", lambda *given, **named: pytest.fail("predicted once more"))
        workshop.work(threading.Event())
    (workshop.predictions / "phantom_007.nii.gz").unlink()  # killed before the end
    workshop.work(threading.Event())
    assert sorted(file.name for file in workshop.predictions.iterdir()) == made


def test_what_cannot_be_used_is_said_in_a_sentence(request_of, scans, tmp_path):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        with pytest.raises(InputError, match=r"--port \d+: cannot be used"):
            serve(request_of(port=other.getsockname()[1]), lambda message: None)
    with pytest.raises(InputError, match="nowhere: does not exist"):
        serve(request_of(predictions=tmp_path / "nowhere"), lambda message: None)
    before = (scans / "dataset.json").read_bytes()
    with pytest.raises(InputError, match="is a dataset, whose labels are not to be touched"):
        serve(request_of(out=scans), lambda message: None)
    assert (scans / "dataset.json").read_bytes() == before
    with pytest.raises(InputError, match="imagesTs: holds the scans themselves"):
        serve(request_of(out=scans / "imagesTs"), lambda message: None)
    (tmp_path / VIEWER.name).unlink()
    with pytest.raises(InputError, match="The viewer is not there"):
        serve(request_of(), lambda message: None)


def test_without_the_extra_one_sentence_says_what_to_install():
    code = "import sys; sys.modules['uvicorn'] = None; from coranet.cli import main; main('review a b --out c'.split())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "coranet: coranet review needs two more packages: pip install 'coranet[review]'.\n"


def test_a_viewer_that_is_whole_is_not_loaded_again_and_another_is_refused(tmp_path, monkeypatch):
    def pack(words, cwd, **_):
        (tmp_path / "index.js").write_bytes(b"not the viewer")
        with tarfile.open(f"{cwd}/some.tgz", "w:gz") as archive:
            archive.add(tmp_path / "index.js", VIEWER.member)
        return subprocess.CompletedProcess(words, 0, "", "")

    monkeypatch.setattr(subprocess, "run", pack)
    monkeypatch.setattr("coranet.review.viewer._npm", lambda: ["npm"])
    with pytest.raises(ValueError, match="is not the file it should be"):
        fetch(tmp_path)
    assert not (tmp_path / VIEWER.name).exists()


def memory_of(pid):
    """Bytes that a process holds."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_two_hundred_cases_in_a_row_with_a_kill_in_the_middle(finished, tmp_path):
    names = [f"case{number:03d}" for number in range(200)]
    write_cases(tmp_path, names, shape=(64, 64, 24))
    words = (finished, tmp_path / "scans", "--predictions", tmp_path / "predictions", "--out", tmp_path / "out")
    geometry = nifti.read(tmp_path / "scans/case000.nii.gz").geometry
    nifti.write(tmp_path / "label.nii", maps(7, (64, 64, 24))[3], geometry)
    label = base64.b64encode(gzip.compress((tmp_path / "label.nii").read_bytes())).decode()
    saved, sizes = [], []
    for part in (names[:90], names[90:]):
        with reviewing(*words, cache=tmp_path) as (address, process):
            script = Script(address)
            script.wait()
            for name in part:
                for file in ("image0.nii", "prediction.bin", "region.bin", "label.bin", "thumbnail.jpg"):
                    assert script.get(f"/api/case/{name}/{file}")
                script.save(name, label)
                saved.append(name)
                sizes.append(memory_of(process.pid))
            process.send_signal(signal.SIGKILL)
            process.wait()
    workshop = workshop_of(tmp_path, classes=Trained.load(finished, find_device("cpu")).classes)
    for name in saved:
        assert workshop.corrections.note(name)["status"] == "corrected"
        assert np.array_equal(nifti.read(workshop.corrections.label(name)).array, maps(7, (64, 64, 24))[3])
    assert sizes[85] < sizes[20] + 30 * 2**20
    assert sizes[195] < sizes[110] + 30 * 2**20


def test_cases_that_were_finished_before_stay_in_the_list(finished, scans, request_of, tmp_path):
    """Where the one that is new comes first of all."""
    pool = tmp_path / "pool"
    pool.mkdir()
    for name in ("phantom_007", "phantom_008"):
        (pool / f"{name}_0000.nii.gz").write_bytes((scans / f"imagesTs/{name}_0000.nii.gz").read_bytes())
    trained = Trained.load(finished, find_device("cpu"))
    for new in (None, "a_new_one"):
        if new:
            (pool / f"{new}_0000.nii.gz").write_bytes((pool / "phantom_007_0000.nii.gz").read_bytes())
        workshop = desk._workshop(request_of(device="cpu", scans=pool), trained.run)
        workshop.work(threading.Event())
        listed = {row.case for row in read_qualities(workshop.predictions)}
        assert listed == set(workshop.cases)
