"""What is needed at run time may be used with Apache-2.0; what is not needed there may be anything."""

import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"


@pytest.fixture
def licences(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(BENCHMARKS), *sys.path])
    import licences

    yield licences
    sys.modules.pop("licences", None)


def part(name, *found):
    return {"bom-ref": name, "name": name, "version": "1", "licenses": list(found)}


@pytest.mark.parametrize(
    ("entry", "fits"),
    [
        ({"license": {"id": "MIT"}}, True),
        ({"license": {"name": "License :: OSI Approved :: BSD License"}}, True),
        ({"expression": "BSD-3-Clause AND 0BSD AND GPL-3.0-or-later WITH GCC-exception-3.1"}, True),
        ({"expression": "GPL-2.0-only OR MIT"}, True),
        ({"license": {"name": "GNU Lesser General Public License v2.1"}}, True),
        ({"license": {"id": "LGPL-2.1-only"}}, True),
        ({"license": {"id": "GPL-3.0-only"}}, False),
        ({"license": {"id": "AGPL-3.0-or-later"}}, False),
        ({"license": {"name": "License :: OSI Approved :: GNU General Public License (GPL)"}}, False),
        ({"expression": "MIT AND GPL-3.0-only"}, False),
        ({"license": {"name": "CC-BY-NC-4.0"}}, False),
        ({"license": {"name": "UNKNOWN"}}, False),
        (None, False),
    ],
)
def test_which_licences_fit(licences, entry, fits):
    (package,) = licences.read_packages({"components": [part("a", *([entry] if entry else []))]})
    assert package.fits == fits


def test_extras_and_other_systems_are_not_needed(licences):
    requires = {
        "a-b": ["c", "d; extra == 'test'", "e; sys_platform == 'never'"],
        "c": ["a-b"],
        "f": ["g; extra == 'more'"],
    }
    assert licences.closure(["A.b>=1", "f"], lambda name: requires.get(name, [])) == {"a-b", "c", "f"}
    assert licences.closure(["f", "F[more]"], lambda name: requires.get(name, [])) == {"f", "g"}


@pytest.mark.parametrize(("needed", "status"), [("numpy", 0), ("numpy>=1 ; python_version < '3'", 0), ("medpy", 1)])
def test_a_licence_that_does_not_fit_fails_at_run_time_alone(licences, monkeypatch, capsys, tmp_path, needed, status):
    monkeypatch.setattr(licences.importlib.metadata, "requires", lambda name: [])
    (tmp_path / "pyproject.toml").write_text(f'[project]\ndependencies = ["{needed}"]\n')
    bill = {"components": [part("NumPy", {"license": {"id": "MIT"}}), part("MedPy", {"license": {"id": "GPL-3.0"}})]}
    (tmp_path / "sbom.json").write_text(json.dumps(bill))
    assert licences.main(tmp_path / "sbom.json", tmp_path / "pyproject.toml") == status
    captured = capsys.readouterr()
    assert ("MedPy 1: GPL-3.0 (not needed at run time)" in captured.out) == (status == 0)
    assert ("MedPy 1: GPL-3.0. This does not go with Apache-2.0" in captured.err) == (status == 1)
