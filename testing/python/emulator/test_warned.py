"""Warnings of a launch: one for a line of the source, however many instructions it makes."""

from __future__ import annotations

import warnings

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.emulator import Device, EmulatorWarning
from tilelang.emulator.named_tiles import at_address
from tilelang.emulator.warned import line_by_line


@T.prim_func
def unwritten(A: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128):
        s = T.alloc_shared((64, 64), "float32")  # TILE
        T.copy(s, A)  # HERE


def texts_of(call) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(w.message) for w in caught if issubclass(w.category, EmulatorWarning)]


def line_of(mark: str) -> int:
    """The line of this file that ends with a comment."""
    with open(__file__) as source:
        return next(n for n, line in enumerate(source, start=1) if line.endswith(f"# {mark}\n"))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_tile_that_was_never_written(arch: str) -> None:
    """One warning, with the tile and the line of the copy, instead of one for each instruction."""
    kernel = tilelang.compile(unwritten, target=arch, pass_configs={"tl.disable_tma_lower": True})
    (text,) = texts_of(lambda: kernel(torch.zeros(64, 64)))
    assert f"test_warned.py:{line_of('HERE')}, PTX line" in text
    tile = f"tile s (allocated in line {line_of('TILE')})"
    assert f"shared memory that nothing has written: {tile} (" in text and "0x" not in text


@T.prim_func
def operand(A: T.Tensor((64, 64), "float16"), C: T.Tensor((64, 64), "float32")):
    with T.Kernel(1, threads=128):
        given = T.alloc_shared((64, 64), "float16")
        forgotten = T.alloc_shared((64, 64), "float16")
        c = T.alloc_fragment((64, 64), "float32")
        T.copy(A, given)
        T.gemm(given, forgotten, c, clear_accum=True)  # GEMM
        T.copy(c, C)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
def test_an_operand_that_was_never_written(arch: str) -> None:
    """By ldmatrix, wgmma and tcgen05.mma: the line is that of the gemm."""
    kernel = tilelang.compile(operand, target=arch)
    (text,) = texts_of(lambda: kernel(torch.ones(64, 64).half(), torch.zeros(64, 64)))
    assert f"test_warned.py:{line_of('GEMM')}, PTX line" in text
    assert "has written: tile forgotten (allocated" in text


@T.prim_func
def one_after_the_other(A: T.Tensor((32, 64), "float32"), C: T.Tensor((2, 64, 64), "float32")):
    with T.Kernel(1, threads=128):
        small = T.alloc_shared((32, 64), "float32")
        large = T.alloc_shared((64, 64), "float32")
        for i, j in T.Parallel(32, 64):
            small[i, j] = A[i, j]
        for i, j in T.Parallel(32, 64):
            C[0, i, j] = small[31 - i, j]
        T.sync_threads()
        for i, j in T.Parallel(64, 64):
            C[1, i, j] = large[63 - i, j]  # LARGE


def test_tiles_that_share_bytes() -> None:
    """The one that the line uses."""
    kernel = tilelang.compile(one_after_the_other, target="sm_80")
    small, large = (
        tile for tile in kernel._emulation._loaded[1]["one_after_the_other_kernel"].tiles
    )
    assert small.begin == large.begin
    (text,) = texts_of(lambda: kernel(torch.ones(32, 64), torch.zeros(2, 64, 64)))
    assert f":{line_of('LARGE')}, " in text and ": tile large (" in text and "small" not in text
    both = at_address([small, large], small.begin + 4, ("other.py", 1))
    assert both == f"tile {small} or {large}"
    assert at_address([small, large], large.begin + large.bytes, ("", 0)).startswith("address 0x")


def test_static_variables_of_cuda() -> None:
    source = """
    extern "C" __global__ void add(float* out) {
      __shared__ float first[32], second[32];
      first[threadIdx.x] = 1;
      __syncthreads();
      out[threadIdx.x] = first[31 - threadIdx.x] + second[threadIdx.x];
    }"""
    kernel = Device("sm_90a").load_cuda(source)["add"]
    (text,) = texts_of(lambda: kernel.launch(1, 32, [torch.zeros(32)]))
    assert ": tile add::second (32 times)" in text


def test_kinds_kernels_and_ptx_without_lines_stay_apart() -> None:
    def warning(kind: str, kernel: str, source: int, ptx: int) -> dict[str, object]:
        return {
            "kind": kind, "kernel": kernel, "short_kernel": kernel, "source_file": "f.py",
            "source_line": source, "ptx_line": ptx, "message": kind, "count": ptx,
        }  # fmt: skip

    given = [
        warning("a", "k", 7, 1), warning("a", "k", 7, 2), warning("b", "k", 7, 3),
        warning("a", "q", 7, 4), warning("a", "k", 0, 5), warning("a", "k", 0, 6),
    ]  # fmt: skip
    assert list(line_by_line(given)) == [
        "k, f.py:7, PTX line 1 and 1 more of this line: a (3 times)",
        "k, f.py:7, PTX line 3: b (3 times)",
        "q, f.py:7, PTX line 4: a (4 times)",
        "k, PTX line 5: a (5 times)",
        "k, PTX line 6: a (6 times)",
    ]
