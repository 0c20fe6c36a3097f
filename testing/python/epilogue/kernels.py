"""A gemm with an epilogue that is written on the whole tile, and its reference in float64."""

from __future__ import annotations

from dataclasses import dataclass

import torch

import tilelang
import tilelang.language as T

WHOLE = "scale bias aux gelu residual rowmax"


@dataclass(frozen=True)
class Problem:
    """D = epilogue(A B^T); ``parts`` says what it does.

    ``staged``: D goes through a tile in shared memory. ``persistent``: two blocks take the tiles.
    """

    m: int = 128
    n: int = 256
    k: int = 64
    bm: int = 128
    bn: int = 256
    threads: int = 256
    dtype: str = "bfloat16"
    parts: str = WHOLE
    staged: bool = False
    persistent: bool = False
    stages: int = 2

    def has(self, part: str) -> bool:
        return part in self.parts.split()

    @property
    def tiles(self) -> tuple[int, int]:
        return -(-self.m // self.bm), -(-self.n // self.bn)


def gelu(x):
    return 0.5 * x * (1.0 + T.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def _epilogue(p: Problem):
    bm, bn = p.bm, p.bn

    @T.macro
    def epilogue(c, top, d, scale, bias, R, AUX, D, TOP, by, bx):
        if p.has("scale"):
            for i, j in T.Parallel(bm, bn):
                c[i, j] = c[i, j] * scale[by * bm + i]
        if p.has("bias"):
            for i, j in T.Parallel(bm, bn):
                c[i, j] += bias[bx * bn + j]
        if p.has("aux"):
            T.copy(c, AUX[by * bm, bx * bn])
        if p.has("gelu"):
            for i, j in T.Parallel(bm, bn):
                c[i, j] = gelu(c[i, j])
        if p.has("residual"):
            for i, j in T.Parallel(bm, bn):
                c[i, j] += R[by * bm + i, bx * bn + j]
        if p.staged:
            T.copy(c, d)
            T.copy(d, D[by * bm, bx * bn])
        else:
            T.copy(c, D[by * bm, bx * bn])
        if p.has("rowmax"):
            T.reduce_absmax(c, top, dim=1)
            for i in T.Parallel(bm):
                TOP[by * bm + i, bx] = top[i]

    return epilogue


def gemm(p: Problem):
    """The kernel; its parameters are those of :func:`arguments`, in order."""
    bm, bn, bk, (rows, columns) = p.bm, p.bn, 64, p.tiles
    epilogue = _epilogue(p)

    @T.prim_func
    def main(
        A: T.Tensor((p.m, p.k), "bfloat16"),
        B: T.Tensor((p.n, p.k), "bfloat16"),
        scale: T.Tensor((p.m,), "float32"),
        bias: T.Tensor((p.n,), "float32"),
        R: T.Tensor((p.m, p.n), "bfloat16"),
        AUX: T.Tensor((p.m, p.n), "float32"),
        D: T.Tensor((p.m, p.n), p.dtype),
        TOP: T.Tensor((p.m, columns), "float32"),
    ):
        with T.Kernel(
            2 if p.persistent else columns, 1 if p.persistent else rows, threads=p.threads
        ) as (bx, by):
            a = T.alloc_shared((bm, bk), "bfloat16")
            b = T.alloc_shared((bn, bk), "bfloat16")
            c = T.alloc_fragment((bm, bn), "float32")
            top = T.alloc_fragment((bm,), "float32")
            d = T.alloc_shared((bm, bn), p.dtype)
            if p.persistent:
                for ty, tx in T.Persistent((rows, columns), 2, bx):
                    T.clear(c)
                    for k in T.Pipelined(T.ceildiv(p.k, bk), num_stages=p.stages):
                        T.copy(A[ty * bm, k * bk], a)
                        T.copy(B[tx * bn, k * bk], b)
                        T.gemm(a, b, c, transpose_B=True)
                    epilogue(c, top, d, scale, bias, R, AUX, D, TOP, ty, tx)
            else:
                T.clear(c)
                for k in T.Pipelined(T.ceildiv(p.k, bk), num_stages=p.stages):
                    T.copy(A[by * bm, k * bk], a)
                    T.copy(B[bx * bn, k * bk], b)
                    T.gemm(a, b, c, transpose_B=True)
                epilogue(c, top, d, scale, bias, R, AUX, D, TOP, by, bx)

    return main


def arguments(p: Problem) -> list[torch.Tensor]:
    """Random inputs, and outputs that hold NaN."""
    torch.manual_seed(0)
    nan = float("nan")
    return [
        torch.randn(p.m, p.k).bfloat16(),
        torch.randn(p.n, p.k).bfloat16() / p.k**0.5,
        torch.rand(p.m) + 0.5,
        torch.randn(p.n),
        torch.randn(p.m, p.n).bfloat16(),
        torch.full((p.m, p.n), nan),
        torch.full((p.m, p.n), nan).to(getattr(torch, p.dtype)),
        torch.full((p.m, p.tiles[1]), nan),
    ]


def expected(p: Problem, args: list[torch.Tensor]) -> dict[str, torch.Tensor]:
    """What the outputs are in float64, by name."""
    a, b, scale, bias, residual = (x.double() for x in args[:5])
    x = a @ b.T
    if p.has("scale"):
        x = x * scale[:, None]
    if p.has("bias"):
        x = x + bias
    found = {"aux": x} if p.has("aux") else {}
    if p.has("gelu"):
        x = torch.nn.functional.gelu(x, approximate="tanh")
    if p.has("residual"):
        x = x + residual
    if p.has("rowmax"):
        found["top"] = torch.stack([tile.abs().amax(1) for tile in x.split(p.bn, 1)], 1)
    return found | {"d": x}


def run(p: Problem, target: str, columns: int | str, **configs):
    """Runs the kernel with slices of so many columns; returns it and its outputs by name."""
    kernel = tilelang.compile(
        gemm(p), target=target, pass_configs={"tl.epilogue_subtile": columns, **configs}
    )
    args = arguments(p)
    kernel(*args)
    return kernel, dict(zip(("aux", "d", "top"), args[5:], strict=True)), expected(p, args)
