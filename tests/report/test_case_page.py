"""One page of predictions: worst first, as a radiologist holds them, and without any other file."""

from io import BytesIO

import numpy as np
import pytest
from PIL import Image

from coranet.cli import main
from coranet.data.readers import Volume, source
from coranet.data.readers.nifti import write
from coranet.errors import InputError
from coranet.evaluation.quality import Quality, write_qualities
from coranet.geometry import Geometry
from coranet.report.case_page import PAGE, write_case_page
from coranet.report.pictures.thumbnails import UprightSlice, choose_slice, whole

AFFINES = {
    "RAS": ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 4.0, 0.0), (0.0, 0.0, 0.0, 1.0)),
    "LPS": ((-1.0, 0.0, 0.0, 19.0), (0.0, -1.0, 0.0, 19.0), (0.0, 0.0, 4.0, 0.0), (0.0, 0.0, 0.0, 1.0)),
}


def patient(axes):
    """Bright at the patient's right and front, in a file of these axes."""
    array = np.zeros((20, 20, 3), np.float32)
    array[14:, 14:] = 1
    if axes == "LPS":
        array = array[::-1, ::-1]
    return Volume(np.ascontiguousarray(array), Geometry(shape=(20, 20, 3), affine=AFFINES[axes]))


def pixels(cut):
    return np.asarray(Image.open(BytesIO(whole(cut))).convert("RGB")).astype(int)


@pytest.mark.parametrize("axes", AFFINES)
def test_the_patient_s_right_is_on_the_left_and_front_is_up(axes):
    shown = pixels(choose_slice(patient(axes), None))
    assert shown[10, 10].mean() > 200
    assert shown[10, -10].mean() < 50
    assert shown[-10, 10].mean() < 50


def test_what_is_uncertain_is_red_and_edges_stay():
    label = np.zeros((20, 20), np.uint8)
    label[5:15, 5:15] = 1
    doubt = np.zeros((20, 20), bool)
    doubt[:4] = True
    cut = UprightSlice(
        image=np.linspace(0, 0.1, 400, dtype=np.float32).reshape(20, 20),
        label=label,
        spacing=(1.0, 1.0),
        index=0,
        count=1,
        uncertain=doubt,
    )
    shown = pixels(cut)
    red, rest = shown[:, -35:], shown[60:140, 60:140]
    assert (red[..., 0] - red[..., 2]).mean() > 60
    assert abs(rest[..., 0] - rest[..., 2]).mean() < 30


@pytest.fixture
def predicted(tmp_path):
    for case, found in (("good", 5), ("bad", 1)):
        volume = patient("RAS")
        label, region = np.zeros((20, 20, 3), np.uint8), np.zeros((20, 20, 3), np.uint8)
        label[5 : 5 + found, 5:10, 1], region[2:4, 2:4, 2] = 1, 1
        for name, array in (("", label), ("_uncertain", region), ("_0000", volume.array)):
            folder = tmp_path / ("scans" if name == "_0000" else "p")
            folder.mkdir(exist_ok=True)
            write(folder / f"{case}{name}.nii.gz", array, volume.geometry)
    rows = [
        Quality(case="bad", class_name="all", expected=0.3, low=0.1, high=0.5, millilitres=1.0, flags=("odd size",)),
        Quality(
            case="bad", class_name="<b>heart</b>", expected=0.3, low=0.1, high=0.5, millilitres=1.0, flags=("odd size",)
        ),
        Quality(case="good", class_name="all", expected=0.9, low=0.8, high=1.0, millilitres=5.0),
    ]
    write_qualities(tmp_path / "p", rows)
    return tmp_path


def test_the_page_is_one_file_with_the_worst_first(predicted):
    images = {case: source(predicted / f"scans/{case}_0000.nii.gz") for case in ("good", "bad")}
    page = write_case_page(predicted / "p" / PAGE, predicted / "p", images, {1: "heart"})
    text = page.read_text()
    assert text.index("<h3>bad</h3>") < text.index("<h3>good</h3>")
    assert "expected Dice 0.30 (0.10 to 0.50); odd size: &lt;b&gt;heart&lt;/b&gt;" in text
    assert "<b>heart" not in text
    assert text.count("data:image/jpeg;base64,") == 6
    assert "slice 3: most uncertain" in text
    assert 'src="http' not in text
    assert "<script" not in text


def test_a_scan_that_is_gone_leaves_its_words(predicted):
    gone = {"bad": source(predicted / "scans/bad_0000.nii.gz")}
    (predicted / "scans/bad_0000.nii.gz").unlink()
    text = write_case_page(predicted / "p" / PAGE, predicted / "p", gone, {1: "heart"}).read_text()
    assert "<h3>good</h3>" in text
    assert "data:image" not in text
    with pytest.raises(InputError, match=r"cases\.csv"):
        write_case_page(predicted / PAGE, predicted / "scans", {}, {1: "heart"})


def test_without_a_fit_the_page_says_why_a_case_comes_first(predicted):
    rows = [
        Quality(case=case, class_name=name, millilitres=0.05) for case in ("bad", "good") for name in ("all", "heart")
    ]
    write_qualities(predicted / "p", rows)
    images = {"bad": source(predicted / "scans/bad_0000.nii.gz")}
    text = write_case_page(predicted / "p" / PAGE, predicted / "p", images, {1: "heart"}).read_text()
    assert "What is uncertain is 80 % of what was found" in text  # 4 voxels of 5
    assert "Nothing stands out." in text  # of the one whose scan is not there
    assert text.count("heart: 0.05 mL") == 2
    file = predicted / "p/bad.nii.gz"
    write(file, np.zeros((20, 20, 3), np.uint8), patient("RAS").geometry)
    text = write_case_page(predicted / "p" / PAGE, predicted / "p", images, {1: "heart"}).read_text()
    assert "Nothing was found." in text


def test_a_scan_that_states_no_spacing_has_no_millilitres(tmp_path):
    Image.fromarray(np.arange(400, dtype=np.uint8).reshape(20, 20)).save(tmp_path / "a.png")
    write_qualities(tmp_path, [Quality(case="a", class_name=name, millilitres=0.852) for name in ("all", "heart")])
    text = write_case_page(tmp_path / PAGE, tmp_path, {"a": source(tmp_path / "a.png")}, {1: "heart"}).read_text()
    assert "heart: 852 voxels" in text
    assert "mL" not in text


def test_predict_writes_it_and_report_shows_it(finished, scans, tmp_path, capsys):
    out = tmp_path / "p"
    words = ["predict", finished, scans / "imagesTs", "--out", out, "--page", "--device", "cpu"]
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    assert stop.value.code == 0
    assert "phantom_008" in (out / PAGE).read_text()
    words = ["report", finished, "--predictions", out, "--images", scans / "imagesTs", "--out", tmp_path / "r"]
    with pytest.raises(SystemExit) as stop:
        main([str(word) for word in words])
    assert stop.value.code == 0
    assert "worst first</h2>" in (tmp_path / "r/report.html").read_text()
    capsys.readouterr()
