"""Headers that C++ of a program includes: of CUDA's C++ library, of its own, and missing ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors
from tilelang.runtime import nvrtc

N = 128
THREADS = 64

TILE_SUM = """
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
__device__ float total(float x) {
  auto tile = cooperative_groups::tiled_partition<16>(cooperative_groups::this_thread_block());
  return cooperative_groups::reduce(tile, x, cooperative_groups::plus<float>());
}
"""
STANDARD = """
#include <cuda/std/array>
#include <cuda/std/limits>
__device__ float total(float x) {
  cuda::std::array<float, 3> parts{x, 2 * x, cuda::std::numeric_limits<float>::max()};
  return parts[0] + parts[1];
}
"""
BLOCK_SUM = """
#include <cub/block/block_reduce.cuh>
__device__ float total(float x) {
  using Reduce = cub::BlockReduce<float, 64>;
  __shared__ typename Reduce::TempStorage storage;
  float sum = Reduce(storage).Sum(x);
  __shared__ float all;
  if (threadIdx.x == 0) all = sum;
  __syncthreads();
  return all;
}
"""


def kernel(source: str, **options):
    @T.prim_func
    def totals(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(N // THREADS, threads=THREADS, prelude=source) as bx:
            t = T.get_thread_binding()
            B[bx * THREADS + t] = T.call_extern("float32", "total", A[bx * THREADS + t])

    return tilelang.compile(totals, out_idx=-1, **options)


def sums(x: torch.Tensor, group: int) -> torch.Tensor:
    return x.double().view(-1, group).sum(1).repeat_interleave(group).float()


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("source", [TILE_SUM, STANDARD, BLOCK_SUM])
def test_headers_of_the_library_come_along(source: str, target: str) -> None:
    x = torch.randn(N)
    expected = {TILE_SUM: sums(x, 16), STANDARD: 3 * x, BLOCK_SUM: sums(x, THREADS)}[source]
    torch.testing.assert_close(kernel(source, target=target)(x), expected)


@pytest.mark.parametrize("header", ["cooperative_groups.h", "cuda/std/array", "cub/cub.cuh"])
def test_without_the_library_its_wheel_is_named(header, monkeypatch, tmp_path) -> None:
    real = nvrtc.cuda_include()
    bare = tmp_path / "include"
    bare.mkdir()
    for entry in real.iterdir():  # all but the library
        if entry.name not in ("cccl", "nv", "cuda", "cub", "thrust"):
            (bare / entry.name).symlink_to(entry)
    monkeypatch.setattr(nvrtc, "cuda_include", lambda: bare)
    monkeypatch.setenv("TILELANG_DISABLE_CACHE", "1")
    with pytest.raises(errors.CompileError, match=r"no header '.*' was found") as caught:
        kernel(f"#include <{header}>\n__device__ float total(float x);", target="sm_100a")
    assert "pip install 'nvidia-cuda-cccl" in str(caught.value)


def test_any_other_missing_header_is_the_programs_too(tmp_path: Path) -> None:
    source = '#include "mine/total.h"\n'
    with pytest.raises(errors.CompileError, match=r"no header 'mine/total.h' was found") as caught:
        kernel(source, target="sm_100a")
    assert "-I<folder>" in str(caught.value)
    (tmp_path / "mine").mkdir()
    header = tmp_path / "mine" / "total.h"
    header.write_text("__device__ inline float total(float x) { return x + one; }\n")
    with pytest.raises(errors.CompileError, match=r"a header does not compile: .*mine/total\.h"):
        kernel(source, target="sm_100a", compile_flags=[f"-I{tmp_path}"])
    header.write_text("__device__ inline float total(float x) { return x + 1; }\n")
    x = torch.randn(N)
    found = kernel(source, target="sm_100a", compile_flags=[f"-I{tmp_path}"])(x)
    torch.testing.assert_close(found, x + 1)
