"""Where shared memory is too little otherwise, tiles of the epilogue take the operands' bytes."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import emulator, errors

M, N, K = 128, 128, 640


def kernel(epilogue: str, threads: int, persistent: bool = False):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((N, K), "float16"),
        R: T.Tensor((M, N), "float32"),
        C: T.Tensor((2, M, N), "float32"),
    ):
        with T.Kernel(2 - persistent, threads=threads) as block:
            a = T.alloc_shared((M, 128), "float16")
            b = T.alloc_shared((N, 128), "float16")
            c = T.alloc_fragment((M, N), "float32")
            out = T.alloc_shared((M, N), "float32")
            for turn in T.serial(1 + persistent):
                T.clear(c)
                for k in T.Pipelined(K // 128, num_stages=3):
                    T.copy(A[0, k * 128], a)
                    T.copy(B[0, k * 128], b)
                    T.gemm(a, b, c, transpose_B=True)
                if epilogue == "residual":
                    for i, j in T.Parallel(M, N):
                        c[i, j] += R[i, j]
                T.copy(c, out)
                if epilogue == "reversed":
                    for i, j in T.Parallel(M, N):
                        C[block + turn, i, j] = out[M - 1 - i, j]
                else:
                    T.copy(out, C[block + turn, 0:M, 0:N])

    return main


TARGETS = ("sm_90a", "sm_100a")


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("epilogue", ["plain", "reversed", "residual"])
def test_a_tile_after_the_loop_takes_the_place_of_operands(epilogue, threads, target):
    """192 KiB of operands in flight, and 64 KiB that only the epilogue uses."""
    compiled = tilelang.compile(kernel(epilogue, threads), target=target)
    a, b = (torch.randint(-3, 4, (rows, K)).half() for rows in (M, N))
    r = torch.randint(-9, 10, (M, N)).float()
    want = a.double() @ b.double().T
    if epilogue == "residual":
        want = want + r
    if epilogue == "reversed":
        want = want.flip(0)
    for schedule in ("late", "eager", 1):
        got = torch.full((2, M, N), torch.nan)
        with emulator.options(schedule=schedule):
            compiled(a, b, r, got)
        assert torch.equal(got.double(), torch.stack([want, want]))


@pytest.mark.parametrize("target", TARGETS)
def test_a_tile_of_every_turn_has_bytes_of_its_own(target):
    """The operands of the next tile are loaded while the epilogue of this one runs."""
    with pytest.raises(errors.ResourceError, match="out: 65536 bytes"):
        tilelang.compile(
            kernel("plain", 128, persistent=True),
            target=target,
            pass_configs={"tl.epilogue_subtile": 0, "tl.keep_stages": True},
        )
