"""The notebooks of docs/notebooks run, and show kernels, layouts, findings and remarks as HTML."""

from __future__ import annotations

from pathlib import Path

import pytest
from infra.doc_pages import DOCS

nbclient = pytest.importorskip("nbclient")
pytest.importorskip("ipykernel")

NOTEBOOKS = sorted((DOCS / "notebooks").glob("*.ipynb"))
#: What the outputs of each notebook hold, by the type of the output.
SHOWN = {
    "first_kernel": [
        ("text/html", "<b>"), ("text/html", "<summary>CUDA C++</summary>"),
        ("text/html", "<svg"), ("image/svg+xml", "T31"),
    ],
    "profiling": [
        ("text/html", "<th style=\"text-align:left\">finding</th>"), ("text/html", "L2 busy"),
        ("image/svg+xml", "CTA 0 on H200"), ("text/html", "<iframe srcdoc="),
    ],
    "debugging": [("text/html", "T.warpgroup_arrive() has no effect")],
}  # fmt: skip


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs(path: Path, tmp_path: Path) -> None:
    import nbformat

    notebook = nbformat.read(path, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "outputs are not kept"
    client = nbclient.NotebookClient(
        notebook, timeout=240, kernel_name="python3", resources={"metadata": {"path": tmp_path}}
    )
    client.execute()
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    data = [output["data"] for output in outputs if "data" in output]
    for kind, text in SHOWN[path.stem]:
        assert any(text in each.get(kind, "") for each in data), (kind, text)


def test_all_notebooks_are_known() -> None:
    assert {path.stem for path in NOTEBOOKS} == set(SHOWN)
