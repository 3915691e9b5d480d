"""The notebooks in docs/notebooks: they run, from nothing but this repository, and print what they show.

`UPDATE=1` runs them and writes their outputs.
"""

import os

import pytest
from conftest import ROOT
from shown import missing

pytest.importorskip("hambo")
nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")

NOTEBOOKS = sorted((ROOT / "docs/notebooks").glob("*.ipynb"))
LARGEST = 200_000  # bytes, with pictures
UPDATE = os.environ.get("UPDATE") == "1"


def printed(cell):
    """Text that a cell shows; pictures are only counted."""
    found = ""
    for output in cell.get("outputs", []):
        found += output.get("text", "") if output.output_type == "stream" else output.get("data", {}).get("text/plain", "") + "\n"
        found += "(a picture)\n" if "image/png" in output.get("data", {}) else ""
    return "\n".join(line for line in found.splitlines() if not line.startswith("<Figure"))


def test_there_are_two():
    assert [path.stem for path in NOTEBOOKS] == ["hardware", "pendulum"]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_runs_and_prints_what_it_shows(path):
    notebook = nbformat.read(path, as_version=4)
    shown = [printed(cell) for cell in notebook.cells]
    nbclient.NotebookClient(notebook, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(path.parent)}}).execute()
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)  # times of day
        if cell.cell_type == "code":
            # The old gym says so wherever it is installed, as it is for d3rlpy.
            cell.outputs = [output for output in cell.outputs if "Gym has been unmaintained" not in output.get("text", "")]
            assert all(output.get("name") != "stderr" for output in cell.outputs), printed(cell)
    if UPDATE:
        nbformat.write(notebook, path)
        return
    for cell, before in zip(notebook.cells, shown, strict=True):
        assert missing(before, printed(cell)) is None, f"{cell.source}\n--- shown\n{before}\n--- printed\n{printed(cell)}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_it_is_small_and_has_its_outputs(path):
    assert path.stat().st_size < LARGEST
    notebook = nbformat.read(path, as_version=4)
    assert all(cell.outputs or "print" not in cell.source for cell in notebook.cells if cell.cell_type == "code")
    assert any("image/png" in output.get("data", {}) for cell in notebook.cells for output in cell.get("outputs", []))
