"""mypy and pyright accept the examples and files of a user, with the settings of the reference."""

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

KERNELS = """
import torch

import tilelang
import tilelang.language as T
from tilelang import nodes


@tilelang.jit
def softmax(A, scale: float = 1.0):
    M, N = T.const("M, N")
    A: T.Tensor[[M, N], T.float32]
    B = T.empty((M, N), T.float32)
    with T.Kernel(T.ceildiv(M, 4), threads=128) as bx:
        x = T.alloc_fragment((4, N), T.float32)
        top = T.alloc_fragment((4,), "float32")
        T.copy(A[bx * 4, 0], x, annotations={T.WSID: "load"})
        T.reduce_max(x, top, dim=1)
        for i, j in T.Parallel(4, N):
            x[i, j] = T.exp2((x[i, j] - top[i]) * T.float32(scale)) + T.infinity("float32") * 0
        T.copy(x, B[bx * 4, 0])
    return B


@T.macro
def doubled(x):
    return x * 2


@T.prim_func
def main(A: T.Tensor((64, 64), "float16"), n: T.int32, B: T.Tensor((64, 64), "float16")) -> None:
    with T.Kernel(1, 2, threads=128) as (bx, by):
        s = T.alloc_shared((64, 64), "float16")
        total = T.alloc_var("float32", init=0.0)
        T.copy(A, s)
        for k in T.serial(4):
            total += T.cast(s[k, 0], "float32")
            if k < n and bx == 0:
                total = doubled(total) + 1.0
        t = T.get_thread_binding()
        old = T.atomic_add(B[0, 0], s[t, 0], return_prev=True)
        B[by, t] = T.max(T.shfl_sync(total, 0), 0.0) + T.if_then_else(t < 3, s[0, t], old)
        T.gemm(s[0:32, :], s, B[0:32, :], transpose_B=True)


def calls() -> None:
    kernel = tilelang.compile(main, target="sm_90a", out_idx=[-1])
    print(kernel.get_kernel_source(), kernel(torch.zeros(64, 64).half(), 3))
    print(softmax(torch.zeros(4, 4)))
    body = main.body
    assert isinstance(body, nodes.KernelLaunch)
    print([extent.dtype for extent in body.grid])
"""

WRONG_CALLS = """
import tilelang.language as T
from tilelang import nodes

def walk(loop: nodes.For) -> None:
    T.copy(loop, loop, to=3)
    T.exp(1, 2)
    print(loop.extents)
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


@pytest.mark.nightly  # pyright reads the same files at each change
@pytest.mark.slow
def test_mypy_accepts_what_is_right(project: Path) -> None:
    pytest.importorskip("mypy")
    (project / "stub_kernels.py").write_text(KERNELS)
    (project / "stub_calls.py").write_text(WRONG_CALLS)
    errors = _errors(project, "mypy", "--check-untyped-defs", "--scripts-are-modules")
    of_stubs = [line for line in errors if line.startswith("stub_")]
    _assert_only_what_is_wrong([line for line in errors if line not in of_stubs])
    said = [(line.split(":")[0], line.split("error: ")[1].split("  [")[0]) for line in of_stubs]
    assert said == [
        ("stub_calls.py", 'Unexpected keyword argument "to" for "copy"'),
        ("stub_calls.py", 'Too many arguments for "exp"'),
        ("stub_calls.py", '"For" has no attribute "extents"; maybe "extent"?'),
    ]


def test_pyright_accepts_what_is_right(project: Path) -> None:
    pytest.importorskip("pyright")
    _assert_only_what_is_wrong(_errors(project, "pyright"))
