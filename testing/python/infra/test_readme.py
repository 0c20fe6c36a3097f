"""The examples of the README and of the first guide are run as they stand there."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import torch
from infra.reference_pages import ROOT, code


def run_examples(page: str, folder: Path, **names: Any) -> None:
    """Runs all Python on a page as one script; ``names`` are what its readers have already."""
    text = code(ROOT / page)
    assert text
    script = folder / "example.py"  # a kernel is read from its source: it needs a file
    script.write_text(text)
    runpy.run_path(str(script), init_globals=names)


def test_the_readme_multiplies(tmp_path: Path, capsys) -> None:
    size = 1024
    a, b = (torch.randn(size, size).bfloat16() for _ in range(2))
    c = torch.full((size, size), float("nan"), dtype=torch.bfloat16)
    run_examples("README.md", tmp_path, a=a, b=b, c=c)
    torch.testing.assert_close(c.double(), a.double() @ b.double().T, rtol=2**-8, atol=2**-6)
    assert "__global__" in capsys.readouterr().out


def test_the_first_guide_adds(tmp_path: Path, capsys) -> None:
    run_examples("docs/getting_started.md", tmp_path)  # compares with torch itself
    printed = capsys.readouterr().out
    assert "__global__" in printed and ".entry" in printed


def test_the_guide_to_eager_functions_runs(tmp_path: Path, capsys) -> None:
    run_examples("docs/eager.md", tmp_path)
    assert "A: float16[128, 64]" in capsys.readouterr().out


def test_the_guide_to_autotuning_runs(tmp_path: Path, capsys, monkeypatch) -> None:
    monkeypatch.setenv("TILELANG_CACHE_DIR", str(tmp_path))
    run_examples("docs/autotuning.md", tmp_path)
    printed = capsys.readouterr().out
    assert "of 3 candidates" in printed and "threads=256" in printed


def test_the_guide_to_the_language_runs(tmp_path: Path) -> None:
    run_examples("docs/language.md", tmp_path)  # compares with torch itself


def test_the_guide_for_programs_of_tilelang_runs(tmp_path: Path) -> None:
    run_examples("docs/migration.md", tmp_path)
