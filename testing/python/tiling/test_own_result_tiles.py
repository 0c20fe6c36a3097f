"""GEMMs whose results go through a shared tile of the program, which grows with other tiles."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

M = T.dynamic("M")


def program(rows, columns, depth):
    @T.prim_func
    def main(
        A: T.Tensor((rows, depth), "bfloat16"),
        B: T.Tensor((columns, depth), "bfloat16"),
        C: T.Tensor((rows, columns), "float32"),
    ):
        with T.Kernel(T.ceildiv(columns, 64), T.ceildiv(rows, 128), threads=256) as (bx, by):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_fragment((128, 64), "float32")
            result = T.alloc_shared((128, 64), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(depth, 64), num_stages=2):
                T.copy(A[by * 128, k * 64], a)
                T.copy(B[bx * 64, k * 64], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, result)
            T.copy(result, C[by * 128, bx * 64])

    return main


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("rows", [M, 4096], ids=str)
def test_wider_tiles_leave_room_for_the_result(target, rows):
    tilelang.lower(program(rows, 4096, 4096), target=target)


def test_the_tiles_of_the_program_are_what_is_left():
    lowered = tilelang.lower(program(M, 4096, 4096), target="sm_100a")
    said = [r.message for r in lowered.remarks if "the tiles of the program: with" in r.message]
    assert len(said) == 1
    kernel = tilelang.compile(program(M, 200, 136), target="sm_100a")
    a, b = torch.randint(-3, 4, (300, 136)).bfloat16(), torch.randint(-3, 4, (200, 136)).bfloat16()
    c = torch.full((300, 200), torch.nan)
    kernel(a, b, c)
    assert torch.equal(c, a.float() @ b.float().T)


def test_a_tile_that_never_fits_is_refused_as_the_program_says():
    @T.prim_func
    def main(A: T.Tensor((512, 512), "float32"), B: T.Tensor((512, 512), "float32")):
        with T.Kernel(1, threads=128):
            whole = T.alloc_shared((512, 512), "float32")
            T.copy(A, whole)
            T.copy(whole, B)

    with pytest.raises(tilelang.errors.ResourceError, match="1048576"):
        tilelang.lower(main, target="sm_100a")
