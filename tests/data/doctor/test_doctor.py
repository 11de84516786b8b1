"""`coranet doctor` on whole folders: labels that lie wrong, unusual cases, odd files, and the page of pictures."""

from __future__ import annotations

import gzip
import json
import re
from base64 import b64decode
from collections.abc import Callable
from dataclasses import replace
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from coranet.cli import main
from coranet.data.alignment import AS_IT_LIES
from coranet.data.datasets.folder import read_folder
from coranet.data.doctor.checks import check_dataset
from coranet.data.doctor.inspection import Report, inspect_folder
from coranet.data.prepare.cases import Preparation
from coranet.data.prepare.store_builder import build_store
from coranet.data.problem import Problem, fatal, warning
from coranet.data.readers import Volume
from coranet.data.readers.nifti import read, write
from coranet.errors import InputError
from coranet.geometry import Geometry
from coranet.report.pictures.overlay import CaseRow, draw_row, write_overlay
from coranet.report.pictures.thumbnails import SIDE, choose_slice, histogram, part, whole
from tests.data.test_alignment import scan

SHAPE = (24, 30, 8)
GEOMETRY = Geometry(shape=SHAPE, affine=((1, 0, 0, 0), (0, 1, 0, 0), (0, 0, 3, 0), (0, 0, 0, 1)))
Change = Callable[[np.ndarray], np.ndarray]


def folder(root: Path, count: int = 8, change: Change = lambda label: label, geometry: Geometry = GEOMETRY) -> Path:
    """A dataset of two classes; the last case is unlabelled, the labels are changed before they are written."""
    for name in ("imagesTr", "labelsTr"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for number in range(count):
        image, label = scan(SHAPE, number)
        write(root / f"imagesTr/c{number}_0000.nii.gz", image, GEOMETRY)
        if number < count - 1:
            turned = change(label)
            write(root / f"labelsTr/c{number}.nii.gz", turned, replace(geometry, shape=turned.shape))
    labels = {"background": 0, "organ": 1, "tumour": 2}
    about = {"channel_names": {"0": "CT"}, "labels": labels, "file_ending": ".nii.gz"}
    (root / "dataset.json").write_text(json.dumps(about))
    return root


def look(root: Path) -> tuple[Report, list[CaseRow]]:
    rows: list[CaseRow] = []
    report = inspect_folder(root, on_case=lambda *case: rows.append(draw_row(*case)))
    return report, rows


def messages(report: Report) -> str:
    return "\n".join(map(str, report.problems))


def test_labels_that_lie_right(tmp_path: Path) -> None:
    report = inspect_folder(folder(tmp_path))
    assert report.problems == ()
    assert report.alignment is not None
    assert (report.alignment.turn, report.alignment.votes, report.alignment.clear) == (AS_IT_LIES, 7, True)


def test_of_a_single_label_the_doctor_says_how_little_it_is_and_what_it_shows(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["doctor", str(folder(tmp_path / "right", count=2))])
    assert caught.value.code == 0
    said = capsys.readouterr().out
    assert "WARNING: labelsTr: labels a single case, which is very little" in said
    (note,) = (line for line in said.splitlines() if line.startswith("label "))
    assert re.search(r"c0: .*amount of organ [\d.]+ mL; .*brightness of organ that of \d+ % of the scan", note)
    assert note.endswith("fits its image best as it lies")
    flipped = inspect_folder(folder(tmp_path / "flipped", count=2, change=lambda label: label[::-1]))
    assert "times better flipped along x, which in one case may be chance" in flipped.notes["c0"]
    assert inspect_folder(folder(tmp_path / "many", count=8)).notes == {}
    assert not [p for p in inspect_folder(folder(tmp_path / "two", count=3)).problems if "single case" in p.message]


def test_flipped_labels_are_a_warning_with_the_way_out(tmp_path: Path) -> None:
    report = inspect_folder(folder(tmp_path, change=lambda label: label[:, ::-1]))
    (problem,) = report.problems
    assert (problem.level, problem.file) == ("warning", "labelsTr")
    assert "fit their images better flipped along y (7 of 7 patients" in problem.message
    assert "save each as label[:, ::-1, :]" in problem.remedy
    assert not report.outliers, "where all labels are flipped, none is unlike the others"


def test_a_few_flipped_labels_are_unusual_cases(tmp_path: Path) -> None:
    folder(tmp_path, 12)
    file = tmp_path / "labelsTr/c4.nii.gz"
    write(file, scan(SHAPE, 4)[1][::-1], GEOMETRY)
    report = inspect_folder(tmp_path)
    assert report.problems == ()
    assert list(report.outliers) == ["c4"]
    assert "times better flipped along x" in report.outliers["c4"][0].text


def test_swapped_axes_are_named_and_turned_back(tmp_path: Path) -> None:
    report = inspect_folder(folder(tmp_path, change=lambda label: label.transpose(1, 0, 2)))
    assert report.fatal
    problem = report.problems[0]
    assert "sizes differ: (24, 30, 8) and (30, 24, 8)" in problem.message
    assert "It fits with x and y swapped, as 7 of 7 patients show: save label.transpose(1, 0, 2)" in problem.remedy
    alone = inspect_folder(folder(tmp_path / "alone", 2, lambda label: label.transpose(1, 0, 2))).problems[0]
    assert "axes seem to be in another order: transpose it to (24, 30, 8)" in alone.remedy


def test_only_the_header_of_the_labels_is_wrong(tmp_path: Path) -> None:
    header = replace(GEOMETRY, affine=((-1, 0, 0, 23), (0, 1, 0, 0), (0, 0, 3, 0), (0, 0, 0, 1)))
    problem = inspect_folder(folder(tmp_path, geometry=header)).problems[0]
    assert "orientations RAS and LAS" in problem.message
    assert "Voxel for voxel it fits, as 7 of 7 patients show: copy the header of the image" in problem.remedy


def test_label_values_with_gaps_are_mapped(tmp_path: Path) -> None:
    report = inspect_folder(folder(tmp_path, change=lambda label: np.array([0, 2, 5], np.uint8)[label]))
    problem = report.problems[0]
    assert "has label values 5 that dataset.json does not name" in problem.message
    assert "values 0, 2, 5: renumber them 2 -> 1 (organ), 5 -> 2 (tumour)" in problem.remedy


def test_a_spacing_that_is_not_a_number(tmp_path: Path) -> None:
    folder(tmp_path)
    file = tmp_path / "imagesTr/c0_0000.nii.gz"
    content = bytearray(gzip.decompress(file.read_bytes()))
    content[280:284] = np.float32(np.nan).tobytes()  # the first entry of the matrix from voxels to millimetres
    file.write_bytes(gzip.compress(content))
    problem = inspect_folder(tmp_path).problems[0]
    assert problem.file == "imagesTr/c0_0000.nii.gz"
    assert "no valid spacing" in problem.message


def test_links_and_names_in_any_script_and_nothing_is_written(tmp_path: Path) -> None:
    real = folder(tmp_path / "Bücher und Bilder")
    linked = tmp_path / "links"
    for file in real.rglob("*.*"):
        target = linked / file.relative_to(real).parent / file.name.replace("c", "Fall Ä")
        target.parent.mkdir(parents=True, exist_ok=True)
        target.symlink_to(file)
    (linked / "dataset.json").write_bytes((real / "dataset.json").read_bytes())
    for path in (real, *real.rglob("*")):
        path.chmod(0o555 if path.is_dir() else 0o444)
    before = sorted(tmp_path.rglob("*"))
    report, rows = look(linked)
    assert messages(report).count("dataset") <= 1
    assert [row.name for row in rows] == [f"Fall Ä{number}" for number in range(8)]
    assert sorted(tmp_path.rglob("*")) == before
    (real / "imagesTr").chmod(0o755)
    (real / "imagesTr/c3_0000.nii.gz").unlink()
    assert "Fall Ä3_0000.nii.gz: does not exist" in messages(inspect_folder(linked))


def test_unusual_cases_come_first_with_why(tmp_path: Path) -> None:
    folder(tmp_path, 12)
    image, label = scan(SHAPE, 3)
    write(tmp_path / "imagesTr/c3_0000.nii.gz", image - 20000, GEOMETRY)
    small = label * (np.indices(SHAPE)[2] == 4)
    write(tmp_path / "labelsTr/c6.nii.gz", small.astype(np.uint8), GEOMETRY)
    wide = replace(GEOMETRY, affine=((4, 0, 0, 0), (0, 1, 0, 0), (0, 0, 3, 0), (0, 0, 0, 1)))
    write(tmp_path / "imagesTr/c11_0000.nii.gz", scan(SHAPE, 11)[0], wide)
    report, rows = look(tmp_path)
    words = {case: " ".join(odd.text for odd in found) for case, found in report.outliers.items()}
    assert set(words) == {"c3", "c6", "c11"}
    assert "middle grey level" in words["c3"]
    assert "amount of organ" in words["c6"]
    assert "mL, usually" in words["c6"]
    assert "spacing along x 4 mm, usually 1 mm" in words["c11"]
    page = write_overlay(tmp_path / "out", rows, report).read_text()
    order = re.findall("<h3>(.*?)</h3>", page)
    assert order[:3] == ["c3", "c6", "c11"]  # the oddest first, but labelled ones before c11
    assert order[3:] == [f"c{number}" for number in range(12) if f"c{number}" not in words]
    assert "Worth a look: 3" in page


def test_labelled_cases_come_first_and_the_others_have_no_empty_columns(tmp_path: Path) -> None:
    folder(tmp_path)
    for number in (0, 2, 3, 5, 6):
        (tmp_path / f"labelsTr/c{number}.nii.gz").unlink()
    report, rows = look(tmp_path)
    text = write_overlay(tmp_path / "out", rows, report).read_text()
    sections = re.findall(r'<section class="(.*?)">.*?<h3>(.*?)</h3>', text)
    plain = [section for section in sections if section[0] == "case unlabelled"]
    assert [name for _, name in sections[:2]] == ["c1", "c4"]
    assert [name for _, name in plain] == ["c0", "c2", "c3", "c5", "c6", "c7"]
    assert "<div></div>" not in text


def test_the_page_needs_nothing_else_and_shows_every_case(tmp_path: Path) -> None:
    root = folder(tmp_path / "<b>scans")
    write(root / "imagesTr/c1_0000.nii.gz", 0 * scan(SHAPE, 1)[0] + 5, GEOMETRY)
    report, rows = look(root)
    page = write_overlay(tmp_path / "a/b", rows, report)
    text = page.read_text()
    assert [path.name for path in page.parent.iterdir()] == ["overlay.html"]
    assert "<b>scans" not in text
    assert "&lt;b&gt;scans: 8 cases" in text
    assert not re.findall(r'(?:src|href)="(?!data:image/jpeg;base64,)', text)
    assert "<script" not in text
    sections = re.findall(r"<section.*?</section>", text, re.DOTALL)
    assert len(sections) == 8
    unlabelled = next(section for section in sections if "<h3>c7</h3>" in section)
    assert (unlabelled.count("<img"), unlabelled.count("<polyline")) == (1, 1)
    assert "unlabelled" in unlabelled
    labelled = next(section for section in sections if "<h3>c2</h3>" in section)
    assert (labelled.count("<img"), labelled.count("<polyline")) == (3, 3)
    assert "24 × 30 × 8 voxels, RAS" in labelled
    assert "1 × 1 × 3 mm" in labelled
    assert "is 5 everywhere" in sections[0], "a case with a problem comes first"


@pytest.mark.parametrize("level", [fatal, warning])
def test_what_all_files_share_is_said_once(level: Callable[[str, str, str], Problem]) -> None:
    problems = [level(f"{i}.jpg", f"is number {i}", "Save it as PNG") for i in range(5)]
    word = problems[0].level.upper()
    lines = Report(dataset=None, problems=(*problems, warning("x", "is x", "Do")), facts=None).lines()
    more = "And 4 more like this: 1.jpg, 2.jpg, 3.jpg, 4.jpg."
    assert lines == [f"{word}: 0.jpg: is number 0. Save it as PNG. {more}", "WARNING: x: is x. Do."]


def test_masks_of_0_and_255_are_one_line_however_many_there_are(tmp_path: Path) -> None:
    root = folder(tmp_path, change=lambda label: (label > 0) * np.uint8(255))
    labels = sorted((root / "labelsTr").iterdir())
    (line, *others) = [line for line in inspect_folder(root).lines() if line.startswith("FATAL")]
    assert others == []
    assert f"And {len(labels) - 1} more like this" in line
    assert all(file.name in line for file in labels)


def test_one_mask_of_0_and_255_among_others_is_of_the_same_class(tmp_path: Path) -> None:
    root = folder(tmp_path, change=lambda label: (label > 0) * np.uint8(1))
    about = json.loads((root / "dataset.json").read_text()) | {"labels": {"background": 0, "organ": 1}}
    (root / "dataset.json").write_text(json.dumps(about))
    painted = read(root / "labelsTr/c1.nii.gz")
    write(root / "labelsTr/c1.nii.gz", painted.array * np.uint8(255), painted.geometry)
    (line,) = [line for line in inspect_folder(root).lines() if line.startswith("FATAL")]
    assert "labelsTr/c1.nii.gz" in line
    assert "Renumber it 255 -> 1 (organ)" in line


def test_of_very_many_files_the_first_are_named() -> None:
    problems = tuple(fatal(f"{i}.jpg", "is broken", "Mend it") for i in range(100))
    (line,) = Report(dataset=None, problems=problems, facts=None).lines()
    assert line.endswith(", 19.jpg, 20.jpg and 79 other files.")


def test_slices_that_are_files_of_their_own_may_be_of_one_patient(tmp_path: Path) -> None:
    for place in ("imagesTr", "labelsTr"):
        (tmp_path / place).mkdir()
    for person in "ab":
        for place in range(3):
            picture = Image.fromarray(np.random.default_rng(place).integers(0, 255, (24, 24), np.uint8))
            picture.save(tmp_path / f"imagesTr/{person}_IM{place}_0000.png")
            Image.fromarray(np.eye(24, dtype=np.uint8)).save(tmp_path / f"labelsTr/{person}_IM{place}.png")
    about = {"channel_names": {"0": "MR"}, "labels": {"background": 0, "organ": 1}, "file_ending": ".png"}
    (tmp_path / "dataset.json").write_text(json.dumps(about))
    assert "each of which counts as a patient" in messages(inspect_folder(tmp_path))
    people = {f"{person}_IM{place}": person for person in "ab" for place in range(3)}
    (tmp_path / "dataset.json").write_text(json.dumps(about | {"patients": people}))
    assert "counts as a patient" not in messages(inspect_folder(tmp_path))
    assert "counts as a patient" not in messages(inspect_folder(folder(tmp_path / "volumes")))


def test_files_without_a_spacing_are_counted(tmp_path: Path) -> None:
    report = inspect_folder(folder(tmp_path))
    assert report.dataset is not None
    assert report.facts is not None
    seen = {}
    inspect_folder(tmp_path, on_case=lambda case, images, label, classes: seen.update({case.images[0]: images[0]}))
    unplaced = {file: replace(volume, placed=False) for file, volume in seen.items()}
    (problem,) = check_dataset(report.dataset, report.facts, unplaced)
    assert "8 files that state no spacing" in problem.message


def square(shape: tuple[int, int, int] = (20, 10, 5)) -> tuple[Volume, np.ndarray]:
    """A black slab; slice 3 is bright and labelled at the right and front end of a scan whose axes point left and back."""
    image, label = np.zeros(shape, np.float32), np.zeros(shape, np.uint8)
    image[:5, :3, 3], label[:5, :3, 3] = 100, 2
    affine = ((-1.0, 0.0, 0.0, 0.0), (0.0, -2.0, 0.0, 0.0), (0.0, 0.0, 5.0, 0.0), (0.0, 0.0, 0.0, 1.0))
    return Volume(image, Geometry(shape=shape, affine=affine)), label


def pixels(content: bytes | None) -> np.ndarray:
    assert content is not None
    return np.asarray(Image.open(BytesIO(content))).astype(int)


def test_a_slice_is_shown_upright_in_its_true_proportions_with_its_label_on_it() -> None:
    volume, label = square()
    cut = choose_slice(volume, label)
    assert (cut.index, cut.count, cut.spacing) == (3, 5, (1, 2))
    picture = pixels(whole(cut))
    assert picture.shape == (SIDE, SIDE, 3)  # 20 x 1 mm by 10 x 2 mm
    bright = picture.min(axis=2) > 128
    assert bright[: SIDE // 5, : SIDE // 5].mean() > 0.7  # the patient's right is on the left
    assert not bright[SIDE // 2 :].any()
    coloured = np.ptp(picture, axis=2) > 60
    assert coloured.any()
    rows, columns = np.nonzero(coloured)
    assert rows.max() == pytest.approx(3 / 10 * SIDE, abs=3)
    assert columns.max() == pytest.approx(5 / 20 * SIDE, abs=3)
    assert not (np.ptp(pixels(part(cut, edges=False)), axis=2) > 20).any()
    assert (np.ptp(pixels(part(cut, edges=True)), axis=2) > 60).any()


def test_a_picture_an_unlabelled_scan_a_label_of_another_size_and_broken_voxels() -> None:
    volume, label = square()
    assert choose_slice(volume, None).index == 2
    assert part(choose_slice(volume, None), edges=True) is None
    assert choose_slice(volume, label[:-1]).label is None
    assert choose_slice(volume, 0 * label).index == 2
    volume.array[0, 0, 3] = np.nan
    assert pixels(whole(choose_slice(volume, label))).shape[2] == 3
    assert "polyline" in histogram(volume, label)
    assert histogram(replace(volume, array=np.full_like(volume.array, np.nan)), label) == ""
    flat, mask = square((20, 10, 4))
    flat = Volume(flat.array[:, :, 3:], replace(flat.geometry, shape=(20, 10, 1)), flat=True)
    assert choose_slice(flat, mask[:, :, 3:]).image.shape == (20, 10)


def test_the_histogram_shows_where_the_object_is_bright() -> None:
    volume, label = square()
    rest, bright = re.findall(r'points="(.*?)"', histogram(volume, label))

    def peak(points: str) -> float:
        return min((float(y), float(x)) for x, y in (point.split(",") for point in points.split()))[1]

    assert peak(rest) < SIDE / 10
    assert peak(bright) > 0.9 * SIDE


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    report, rows = look(folder(tmp_path / "scans"))
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="cannot be made"):
        write_overlay(tmp_path / "file/inside", rows, report)


def command(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    with pytest.raises(SystemExit) as exit_:
        main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return int(exit_.value.code or 0), out, err


def test_the_command(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    root = folder(tmp_path / "scans", change=lambda label: label[::-1])
    code, out, _ = command(capsys, "doctor", root, "--overlay", tmp_path / "out")
    assert code == 0
    assert "WARNING: labelsTr: holds labels that fit their images better flipped along x" in out
    assert f"Pictures: {tmp_path / 'out' / 'overlay.html'}" in out
    assert len(re.findall("<section", (tmp_path / "out/overlay.html").read_text())) == 8
    code, out, _ = command(capsys, "doctor", folder(tmp_path / "right"))
    assert code == 0
    assert "fit best as they lie, in 7 of 7 patients" in out
    code, _, err = command(capsys, "doctor", root, "--dataset", "unheard")
    assert code == 1
    assert "unheard: no such dataset. There are: folder," in err


def test_a_prepared_store_is_shown_too(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    dataset = read_folder(folder(tmp_path / "scans"))
    build_store(dataset, dataset.cases, Preparation(), tmp_path / "store")
    code, out, _ = command(capsys, "doctor", tmp_path / "store", "--overlay", tmp_path / "out")
    assert code == 0
    assert "8 cases, 7 of them labelled." in out
    assert "Ready to train, 0 warnings." in out
    assert "fit best as they lie, in 7 of 7 patients" in out
    text = (tmp_path / "out/overlay.html").read_text()
    assert re.findall("<h3>(.*?)</h3>", text) == [f"c{number}" for number in range(8)]


def test_cases_that_cannot_be_read_are_named_on_the_page(tmp_path: Path) -> None:
    folder(tmp_path)
    (tmp_path / "imagesTr/c2_0000.nii.gz").write_bytes(b"")
    report, rows = look(tmp_path)
    text = write_overlay(tmp_path / "out", rows, report).read_text()
    assert "FATAL: imagesTr/c2_0000.nii.gz: is empty" in text
    assert len(re.findall("<section", text)) == 7
    assert b64decode(re.findall(r"base64,([^\"]+)", text)[0]).startswith(b"\xff\xd8")
