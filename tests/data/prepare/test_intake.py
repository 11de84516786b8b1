"""A case is read once on its way into a store, and what comes out is what looking first and preparing then would make."""

import gzip
import json
from collections import Counter
from dataclasses import replace
from functools import partial

import nibabel as nib
import numpy as np
import pytest

from coranet.data.datasets.folder import read_folder
from coranet.data.doctor import intake as intakes
from coranet.data.doctor.inspection import inspect_folder
from coranet.data.doctor.intake import Intake, take_in
from coranet.data.grid import choose_dims
from coranet.data.prepare.choices import auto_preparation
from coranet.data.prepare.partial_store import unfinished
from coranet.data.prepare.store_builder import build_store, cache_place
from coranet.data.readers import Source, nifti, source
from coranet.data.store import Store
from coranet.errors import InputError
from coranet.geometry import Geometry
from tests.dicoms import write_series

SHAPE = (12, 14, 10)


def auto(extents, channels):
    return auto_preparation(extents, channels, choose_dims(extents.shapes.median, extents.spacings.median))


def write_scans(root, spacings=((1.0, 1.0, 2.0),) * 5, channels=2, ending=".nii.gz"):
    """Cases of some channels, the first two labelled; the last is a test case."""
    for folder in ("imagesTr", "labelsTr", "imagesTs"):
        (root / folder).mkdir(parents=True)
    names = {str(number): f"T{number}" for number in range(channels)}
    description = {"channel_names": names, "labels": {"background": 0, "organ": 1}, "file_ending": ending}
    (root / "dataset.json").write_text(json.dumps(description))
    random = np.random.default_rng(0)
    for number, (x, y, z) in enumerate(spacings):
        geometry = Geometry(shape=SHAPE, affine=((x, 0, 0, 0), (0, y, 0, 0), (0, 0, z, 0), (0, 0, 0, 1.0)))
        label = np.zeros(SHAPE, np.uint8)
        label[3:8, 4:9, 2:7] = 1
        part = "Ts" if number == len(spacings) - 1 else "Tr"
        for channel in range(channels):
            image = random.normal(size=SHAPE).astype(np.float32) + 2 * label
            file = root / f"images{part}" / f"p{number}_{channel:04d}{ending}"
            np.save(file, image) if ending == ".npy" else nifti.write(file, image, geometry)
        if number < 2:
            file = root / "labelsTr" / f"p{number}{ending}"
            np.save(file, label) if ending == ".npy" else nifti.write(file, label, geometry)
    return root


def taken_in(root, cache, **changes):
    """By take_in, into a cache, all but the test case: the store, and what was said."""
    said = []
    settings = {
        "choose": lambda dataset: [case for case in dataset.cases if case.part == "Tr"],
        "prepare": auto,
        "place": partial(cache_place, cache=cache),
        "say": said.append,
        **changes,
    }
    path, dataset, remarks = take_in(Intake(root=root, **settings))
    assert dataset.name == root.name
    return Store.open(path), said, remarks


def in_turn(root, out):
    """By looking at all cases first."""
    report, dataset = inspect_folder(root), read_folder(root)
    build_store(
        dataset, [case for case in dataset.cases if case.part == "Tr"], auto(report.facts, dataset.channels), out
    )
    return Store.open(out)


def same_bytes(one, two):
    return all((one.path / file.name).read_bytes() == file.read_bytes() for file in two.path.iterdir())


@pytest.fixture
def reads(monkeypatch):
    """How often each file is read."""
    counts = Counter()
    read = Source.read
    monkeypatch.setattr(Source, "read", lambda self: counts.update([self.path.name]) or read(self))
    return counts


def test_every_file_is_read_once(tmp_path, reads):
    root = write_scans(tmp_path / "scans")
    taken_in(root, tmp_path / "cache")
    assert reads == {file.name: 1 for file in root.glob("*/*.nii.gz")}


VARIED = ((1.0, 1.0, 2.0), (2.0, 1.0, 2.0), (1.8, 1.2, 2.0), (1.0, 1.0, 2.0), (9.0, 9.0, 9.0))


@pytest.mark.parametrize("jobs", [1, 2])
@pytest.mark.parametrize(
    ("spacings", "ending"), [(VARIED, ".nii.gz"), (VARIED[:1] * 4, ".nii.gz"), (VARIED[:1] * 4, ".npy")]
)
def test_the_store_is_that_of_two_readings(tmp_path, spacings, ending, jobs):
    root = write_scans(tmp_path / "scans", spacings, ending=ending)
    store, _, remarks = taken_in(root, tmp_path / "cache", jobs=jobs)
    other = in_turn(root, tmp_path / "other")
    assert same_bytes(store, other)
    assert store.fingerprint == other.fingerprint
    assert any(store.preparation["spacing"]) == (spacings == VARIED)
    assert [one.case for one in remarks] == list(store.cases)
    assert not list((tmp_path / "cache").glob(".*"))


def test_a_store_that_is_there_is_not_made_again(tmp_path, reads):
    root = write_scans(tmp_path / "scans")
    first, _, _ = taken_in(root, tmp_path / "cache")
    written = (first.path / "index.json").stat().st_mtime_ns
    second, _, remarks = taken_in(root, tmp_path / "cache")
    assert (second.path, remarks) == (first.path, [])
    assert (first.path / "index.json").stat().st_mtime_ns == written
    assert set(reads.values()) == {2}


def test_headers_that_say_something_else_do_not_decide(tmp_path, monkeypatch):
    root = write_scans(tmp_path / "scans", VARIED)
    affine = ((1.0, 0, 0, 0), (0, 1.0, 0, 0), (0, 0, 1.0, 0), (0, 0, 0, 1.0))
    with monkeypatch.context() as lying:
        lying.setattr(Source, "look", lambda self: Geometry(shape=SHAPE, affine=affine))
        store, _, _ = taken_in(root, tmp_path / "cache")
    assert same_bytes(store, in_turn(root, tmp_path / "other"))
    assert not list((tmp_path / "cache").glob(".*"))


def spoil(root):
    """Four kinds of damage, one of them in the test case."""
    (root / "imagesTr/p3_0001.nii.gz").write_bytes(b"\x1f\x8bnothing")
    unnamed = nifti.read(root / "labelsTr/p1.nii.gz")
    nifti.write(root / "labelsTr/p1.nii.gz", unnamed.array * 7, unnamed.geometry)
    scan = nifti.read(root / "imagesTs/p4_0000.nii.gz")
    nifti.write(root / "imagesTs/p4_0000.nii.gz", np.where(scan.array > 3, np.nan, scan.array), scan.geometry)
    moved = replace(scan.geometry, affine=((1.0, 0, 0, 5), *scan.geometry.affine[1:]))
    nifti.write(root / "imagesTr/p2_0001.nii.gz", scan.array, moved)


@pytest.mark.parametrize("jobs", [1, 2])
def test_all_problems_are_counted_as_the_doctor_lists_them(tmp_path, jobs):
    root = write_scans(tmp_path / "scans")
    spoil(root)
    stops = [str(problem) for problem in inspect_folder(root).problems if problem.level == "fatal"]
    assert len(stops) == 4
    with pytest.raises(InputError) as refused:
        taken_in(root, tmp_path / "cache", jobs=jobs, keep=False, purpose="trained on")
    doctor = f"`coranet doctor {root}`"
    assert str(refused.value) == (
        f"{root}: cannot be trained on as it is. {stops[0]} And 3 more problems; {doctor} lists them."
    )
    assert list((tmp_path / "cache").iterdir()) == []


@pytest.mark.parametrize(("keep", "names"), [(True, ["p0", "p1", "p2", "p3"]), (False, ["p0", "p1"])])
def test_others_are_prepared_beside_a_broken_case_where_they_are_kept(tmp_path, monkeypatch, keep, names):
    root = write_scans(tmp_path / "scans")
    good = (root / "labelsTr/p1.nii.gz").read_bytes()
    spoil_label = nifti.read(root / "labelsTr/p1.nii.gz")
    nifti.write(root / "labelsTr/p1.nii.gz", spoil_label.array * 7, spoil_label.geometry)
    made = []
    make = intakes.make_piece
    monkeypatch.setattr(
        intakes, "make_piece", lambda task, *volumes: made.append(task.case.name) or make(task, *volumes)
    )
    there = {"place": lambda dataset, cases, settings: tmp_path / "store"}
    with pytest.raises(InputError, match="cannot be prepared as it is"):
        taken_in(root, tmp_path / "cache", keep=keep, **there)
    assert made == names
    assert not (tmp_path / "store").exists()
    assert unfinished(tmp_path / "store").exists() == keep
    (root / "labelsTr/p1.nii.gz").write_bytes(good)
    store, _, remarks = taken_in(root, tmp_path / "cache", **there)
    assert [one.resumed for one in remarks] == [keep, False, keep, keep]
    assert same_bytes(store, in_turn(root, tmp_path / "other"))


def test_a_case_that_only_preparing_refuses_is_named(tmp_path):
    root = write_scans(tmp_path / "scans", channels=1)
    empty = nifti.read(root / "labelsTr/p1.nii.gz")
    nifti.write(root / "labelsTr/p1.nii.gz", empty.array * 0, empty.geometry)
    for name in ("p2", "p3"):
        nifti.write(root / f"labelsTr/{name}.nii.gz", empty.array, empty.geometry)
    with pytest.raises(InputError, match=r"p1\.nii\.gz: is all background, so there is nothing to crop to"):
        taken_in(root, tmp_path / "c", prepare=lambda extents, channels: replace(auto(extents, channels), crop="label"))


def headers(folder):
    """NIfTI of all kinds of headers, and what of each is meant."""
    random, affine = np.random.default_rng(0), np.diag([2.0, 3.0, 4.0, 1.0])
    shapes = {"flat": (5, 6), "plain": (5, 6, 7), "one": (5, 6, 7, 1), "frames": (5, 6, 7, 3)}
    for kind, image in (("1", nib.Nifti1Image), ("2", nib.Nifti2Image)):
        for name, shape in shapes.items():
            made = image(random.integers(0, 99, shape).astype(np.int16), affine)
            (folder / f"{name}{kind}.nii").write_bytes(made.to_bytes())
            (folder / f"{name}{kind}.nii.gz").write_bytes(gzip.compress(made.to_bytes()))
    wrong = nib.Nifti1Image(np.zeros((5, 6, 7), np.uint8), np.eye(4))
    wrong.header.set_zooms((2, 2, 5))
    wrong.header.extensions.append(nib.nifti1.Nifti1Extension("comment", b"x" * 900))
    (folder / "zooms.nii").write_bytes(wrong.to_bytes())
    return [source(file, *([("frame", 1)] if "frames" in file.name else [])) for file in sorted(folder.iterdir())]


def test_a_header_says_where_a_scan_lies(tmp_path):
    write_series(
        tmp_path / "series", random_scan := np.random.default_rng(0).integers(0, 99, (6, 5, 4)).astype(np.int16)
    )
    assert random_scan.shape == (6, 5, 4)
    (tmp_path / "nifti").mkdir()
    found = [*headers(tmp_path / "nifti"), source(tmp_path / "series")]
    assert len(found) == 18
    for scan in found:
        assert scan.has_header
        assert scan.look() == scan.read().geometry


@pytest.mark.parametrize(
    "content",
    [b"", b"\x1f\x8bnothing", gzip.compress(b"short"), gzip.compress(bytes(600)), None],
    ids=["empty", "no gzip", "short", "zeros", "absent"],
)
def test_a_header_that_cannot_be_made_out_is_refused(tmp_path, content):
    file = tmp_path / "scan.nii.gz"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(InputError, match=r"scan\.nii\.gz"):
        source(file).look()
