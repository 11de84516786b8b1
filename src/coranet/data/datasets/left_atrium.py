"""The left atrium challenge of 2018, as it is handed out (Xiong et al., Medical Image Analysis 2021).

    Training Set/06SR5RBREL16DQ6M8LWS/lgemri.nrrd     the scan, 0.625 mm a voxel
    Training Set/06SR5RBREL16DQ6M8LWS/laendo.nrrd     the atrium, 0 and 255
    Testing Set/...                                   test cases

UA-MT's cropped `mri_norm2.h5` files, and a folder in nnU-Net's layout, are recognised too.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from coranet.data.datasets.folder import Case, survey
from coranet.data.datasets.h5 import holds_h5, survey_h5
from coranet.data.datasets.manifest import Manifest
from coranet.data.datasets.tree import Survey, surveyed, with_manifest
from coranet.data.datasets.walk import files_below
from coranet.data.readers import Source

MANIFEST = Manifest(
    title="the left atrium challenge", patients=100, labelled=100, shape=((576, 640), (576, 640), (88, 88))
)
"""The training set; the 54 test scans come apart."""
CROPPED = replace(MANIFEST, shape=None)
"""As it is passed around."""


def survey_left_atrium(root: Path) -> Survey:
    """Every folder with a `lgemri.nrrd`."""
    if (root / "dataset.json").exists():
        return with_manifest(survey(root), CROPPED)
    if holds_h5(root):
        return survey_h5(root)
    cases = []
    for file in (file for file in files_below(root) if file.name == "lgemri.nrrd"):
        label, within = file.with_name("laendo.nrrd"), file.parent.relative_to(root).parts
        cases.append(
            Case(
                name=file.parent.name,
                images=(Source(path=file, reader="nrrd"),),
                label=Source(path=label, reader="mask", inside=(("of", "nrrd"),)) if label.is_file() else None,
                part="Ts" if any(part.lower().startswith("test") for part in within) else "Tr",
                patient=file.parent.name,
            )
        )
    layout = "file lgemri.nrrd in a folder of its own"
    return surveyed(
        root, channels=("MRI",), classes=("left atrium",), cases=cases, problems=(), layout=layout, manifest=MANIFEST
    )
