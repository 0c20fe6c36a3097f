"""mypy and pyright accept the examples and a file of a user, with the settings of the reference."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from infra.doc_pages import DOCS, ROOT, blocks

USER = """
import torch

import tilelang
import tilelang.language as T
from tilelang import nodes


@tilelang.jit
def scale(X, factor: T.float32):
    N = T.const("N")
    X: T.Tensor[[N], T.float32]
    Y = T.empty((N,), T.float32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as block:
        tile = T.alloc_shared((128,), T.float32)
        reveal_type(tile)
        T.copy(X[block * 128], tile)
        for i in T.Parallel(128):
            tile[i] *= factor
        T.copy(tile, Y[block * 128])
    return Y


@tilelang.jit(target="sm_90a")
def copied(N: int, dtype: str = "float32") -> nodes.Func:
    @T.prim_func
    def main(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype)):
        with T.Kernel(T.ceildiv(N, 128), threads=128) as block:
            T.copy(A[block * 128], B[block * 128])

    return main


reveal_type(scale)
kernel = copied(64)
reveal_type(kernel)
print(kernel.get_ptx(), scale(torch.randn(64), 2.0))
""".lstrip()

WRONG = """\
import tilelang.language as T
from user import copied

copied("64")
copied(64).get_ptxx()
T.alloc_shared((64,), "float32").shap
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project of a user with the settings that the reference shows, and our examples."""
    (settings,) = blocks(DOCS / "reference" / "index.md", "toml")
    paths = [str(ROOT), *(path for path in sys.path if path.endswith("site-packages"))]
    (tmp_path / "pyproject.toml").write_text(f"{settings}extraPaths = {json.dumps(paths)}\n")
    (tmp_path / "user.py").write_text(USER)
    (tmp_path / "wrong.py").write_text(WRONG)
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _errors(project: Path, *command: str) -> list[str]:
    """What a checker says of all files, in the order of their lines; both call an error so."""
    files = sorted(str(path.relative_to(project)) for path in project.rglob("*.py"))
    assert len(files) > 30
    line = [sys.executable, "-m", *command, *files]
    done = subprocess.run(line, capture_output=True, text=True, check=False)
    said = [line for line in done.stdout.splitlines() if "error: " in line]
    return [line.strip().removeprefix(f"{project}/") for line in said] + done.stderr.splitlines()


def _assert_only_what_is_wrong(errors: list[str]) -> None:
    wanted = {"4": "Argument", "5": "get_ptxx", "6": "shap"}
    found = {line.split(":")[1]: line for line in errors if line.startswith("wrong.py:")}
    assert len(errors) == len(found) == len(wanted), "\n".join(errors)
    for number, text in wanted.items():
        assert text in found[number]


@pytest.mark.slow
def test_mypy_accepts_what_is_right(project: Path) -> None:
    pytest.importorskip("mypy")
    _assert_only_what_is_wrong(
        _errors(project, "mypy", "--check-untyped-defs", "--scripts-are-modules")
    )


def test_pyright_accepts_what_is_right(project: Path) -> None:
    pytest.importorskip("pyright")
    _assert_only_what_is_wrong(_errors(project, "pyright"))
