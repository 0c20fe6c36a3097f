"""``tilelang profile`` runs the blocks that it times, and all where results are needed."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
from cli.documents import document

import tilelang.cli.profile  # noqa: F401 - its number of launches is set

KERNELS = """
from pathlib import Path

import torch

import tilelang
import tilelang.language as T

N = 1 << 20


@tilelang.jit
def double(X):
    X: T.Tensor[[N], T.int32]
    Y = T.empty((N,), T.int32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as block:
        for i in T.Parallel(128):
            Y[block * 128 + i] = X[block * 128 + i] * 2
    return Y


@tilelang.jit
def negate(X):
    X: T.Tensor[[N], T.int32]
    Y = T.empty((N,), T.int32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as block:
        for i in T.Parallel(128):
            Y[block * 128 + i] = -X[block * 128 + i]
    return Y


@tilelang.jit
def gather(X, Y):
    X: T.Tensor[[N], T.int32]
    Y: T.Tensor[[N], T.int32]
    Z = T.empty((N,), T.int32)
    with T.Kernel(T.ceildiv(N, 128), threads=128) as block:
        for i in T.Parallel(128):
            Z[block * 128 + i] = Y[X[block * 128 + i] % N]
    return Z


def wrong(y):
    found = int((y != 2).sum())
    Path("wrong.txt").write_text(str(found))
    return found


x = torch.ones(N, dtype=torch.int32)
"""


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    # A loop that waits for a result launches as often before all blocks run.
    monkeypatch.setattr(sys.modules["tilelang.cli.profile"], "_MOST_LAUNCHES", 20)


def profiled(script: str) -> tuple[list[str], int]:
    """Returns the names of the kernels that were timed, and how many results did not exist."""
    Path("k.py").write_text(KERNELS + script)
    kernels: list[dict[str, Any]] = document("profile k.py --target sm_90a")["kernels"]
    assert all(kernel["grid_us"] > 0 for kernel in kernels)
    return [kernel["kernel"] for kernel in kernels], int(Path("wrong.txt").read_text())


def test_only_blocks_that_are_timed_run() -> None:
    names, missing = profiled("y = double(x)\nwrong(y)\nnegate(y)\n")
    assert names == ["double_kernel", "negate_kernel"]
    assert missing > 1 << 19


def test_sampled_times_are_the_times_of_whole_launches() -> None:
    Path("k.py").write_text(KERNELS + "double(x)\n")
    (sampled,) = document("profile k.py --target sm_90a")["kernels"]
    Path("k.py").write_text(KERNELS + "assert not wrong(double(x))\n")
    (whole,) = document("profile k.py --target sm_90a")["kernels"]
    assert sampled["grid_us"] == whole["grid_us"]


@pytest.mark.parametrize(
    ("script", "names"),
    [
        ("assert not wrong(double(x))\n", ["double_kernel"]),
        (  # where the program goes on depends on a result
            "while wrong(double(x)):\n    pass\nnegate(x)\n",
            ["double_kernel", "negate_kernel"],
        ),
        (  # where a kernel reads depends on a result
            "y = double(x)\nwrong(y)\ngather(y, x)\n",
            ["double_kernel", "gather_kernel"],
        ),
    ],
)
def test_all_blocks_run_where_results_are_needed(script: str, names: list[str]) -> None:
    assert profiled(script) == (names, 0)


def test_a_program_that_fails_with_all_results_is_refused() -> None:
    Path("k.py").write_text(KERNELS + "assert wrong(double(x)) == 7, 'seven'\n")
    assert "seven" in document("profile k.py --target sm_90a", 2)["error"]
    assert Path("wrong.txt").read_text() == "0"
