"""Remarks about copies quote the program, whatever passes make of its tiles."""

from __future__ import annotations

import pytest

import tilelang
import tilelang.language as T


def _copies(kernel: tilelang.JITKernel) -> list[str]:
    return [str(each.message) for each in kernel.remarks if each.topic == "copy"]


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
def test_tiles_that_the_compiler_chooses(target):
    @T.prim_func
    def gemm(
        A: T.Tensor((4096, 4096), "bfloat16"),
        B: T.Tensor((4096, 4096), "bfloat16"),
        C: T.Tensor((4096, 4096), "bfloat16"),
    ):
        with T.Kernel(64, 64, threads=128) as (column, row):
            a = T.alloc_shared((64, 32), "bfloat16")
            b = T.alloc_shared((32, 64), "bfloat16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for step in T.Pipelined(128, num_stages=3):
                T.copy(A[row * 64, step * 32], a)
                T.copy(B[step * 32, column * 64], b)
                T.gemm(a, b, c)
            T.copy(c, C[row * 64, column * 64])

    kernel = tilelang.compile(gemm, target=target)
    assert any(each.topic == "tiles" for each in kernel.remarks)  # other tiles than written
    own = {
        "T.copy(A[row * 64:row * 64 + 64, step * 32:step * 32 + 32], a)",
        "T.copy(B[step * 32:step * 32 + 32, column * 64:column * 64 + 64], b)",
        "T.copy(c, C[row * 64:row * 64 + 64, column * 64:column * 64 + 64])",
    }
    quoted = {message.split(") ")[0] + ")" for message in _copies(kernel)}
    assert quoted and quoted <= own


def test_copies_of_one_line():
    """Python runs the line twice: each remark is about its own copy."""

    @T.prim_func
    def twice(A: T.Tensor((2, 128, 128), "float16"), B: T.Tensor((2, 128, 128), "float16")):
        with T.Kernel(1, threads=128):
            for tensor, index in ((A, 0), (A, 1)):
                tile = T.alloc_shared((128, 128), "float16")
                T.copy(tensor[index, 0, 0], tile)
                T.copy(tile, B[index, 0, 0])

    text = "\n".join(_copies(tilelang.compile(twice, target="sm_90a")))
    assert "T.copy(A[0, 0:128, 0:128]" in text and "T.copy(A[1, 0:128, 0:128]" in text
