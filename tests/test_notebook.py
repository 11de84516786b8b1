"""The notebook of the docs runs from its first cell to its last, and is kept without outputs."""

import json
from pathlib import Path

import pytest

NOTEBOOK = Path(__file__).parent.parent / "docs/notebook.ipynb"


def test_the_notebook_is_kept_without_outputs():
    cells = json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"]
    assert [cell for cell in cells if cell.get("outputs") or cell.get("execution_count")] == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Jupyter's own parts
def test_the_notebook_runs_and_shows_a_picture(tmp_path):
    client, formats = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    notebook = formats.read(NOTEBOOK, as_version=4)
    client.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", ())]
    pictures = [output.data["image/png"] for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == 1
    said = "".join(output.get("text") or output.get("data", {}).get("text/plain", "") for output in outputs)
    assert "80 steps" in said
    assert (tmp_path / "predictions/phantom_008.nii.gz").exists()
