"""GEMMs whose results go through a shared tile of the program, which grows with other tiles."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.target import resolve, with_sm_count

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


def test_a_serial_loop_whose_tiles_fit_once_stays_serial():
    """The rows of D are no whole vectors, so no other tiles are chosen."""
    columns, depth = 256, 128

    @T.prim_func
    def main(
        A: T.Tensor((64, 128), "uint8"),
        B: T.Tensor((256, 24), "float16"),
        D: T.Tensor((256, 24), "int8"),
        C: T.Tensor((64, 24), "float16"),
    ):
        with T.Kernel(1, threads=256):
            packed = T.alloc_shared((64, depth // 2), "uint8")
            a = T.alloc_shared((64, depth), "float16")
            b = T.alloc_shared((depth, columns), "float16")
            narrow = T.alloc_shared((depth, columns), "int8")
            d = T.alloc_shared((depth, columns), "float16")
            first = T.alloc_fragment((64, columns), "float32")
            second = T.alloc_fragment((64, columns), "float32")
            T.clear(first)
            T.clear(second)
            for k in T.serial(2):
                T.copy(A[0, k * depth // 2], packed)
                for i, j in T.Parallel(64, depth):
                    a[i, j] = T.cast(
                        (packed[i, j // 2] >> T.cast(4 * (j % 2), "uint8")) & 15, "float16"
                    )
                T.copy(B[k * depth, 0], b)
                T.copy(D[k * depth, 0], narrow)
                for i, j in T.Parallel(depth, columns):
                    d[i, j] = T.cast(narrow[i, j], "float16") * 2
                T.gemm(a, b, first)
                T.gemm(a, d, second)
            for i, j in T.Parallel(64, columns):
                first[i, j] += second[i, j]
            T.copy(first, C[0, 0])

    one = with_sm_count(resolve("sm_100a"), 1)
    kernel = tilelang.compile(main, target=one)
    assert not any("T.serial" in r.message for r in kernel.remarks)
    a = torch.randint(0, 256, (64, 128), dtype=torch.uint8)
    b, d = torch.randint(-2, 3, (256, 24)), torch.randint(-2, 3, (256, 24))
    c = torch.full((64, 24), torch.nan, dtype=torch.float16)
    kernel(a, b.half(), d.to(torch.int8), c)
    wide = torch.stack([a & 15, a >> 4], -1).reshape(64, 256).double()
    assert torch.equal(c.double(), (wide @ (b + 2 * d).double()).half().double())
