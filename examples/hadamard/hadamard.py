"""Y = X H / sqrt(n) with the Hadamard matrix H of n rows: the rotation before quantizing.

H is never there. In step s of log2(n), elements whose indices differ in bit s become their sum and
their difference. A block has a row, and each thread 8 neighbours of it: so three steps stay within
a thread, five are exchanges within a warp (shuffles), and the rest go through shared memory.

    python hadamard.py [--rows 50] [--n 1024] [--dtype bfloat16] [--target sm_90a] [--device cpu]
"""

from __future__ import annotations

import math

import torch

import tilelang.language as T
from tilelang.tools.example import Case, Example, Option

SHAPES = ((131072, 256), (65536, 1024), (32768, 4096), (16384, 8192), (1000, 2048))

#: elements of a thread
EACH = 8


@T.macro
def combine(own, other, upper):
    """``own`` becomes the sum, or in the upper of two threads what the other has minus it."""
    for i in T.unroll(EACH):
        own[i] = other[i] + T.if_then_else(upper, -own[i], own[i])


def hadamard(rows, n, dtype):
    """Returns Y of X, both (rows, n) of ``dtype``, as a prim_func; n is a power of two from 256."""
    threads, scale = n // EACH, 1 / math.sqrt(n)

    @T.prim_func
    def hadamard(X: T.Tensor((rows, n), dtype), Y: T.Tensor((rows, n), dtype)):
        with T.Kernel(rows, threads=threads) as row:
            own, other = (T.alloc_local((EACH,), "float32") for _ in range(2))
            exchange = T.alloc_shared((EACH, threads), "float32")  # without bank conflicts
            t = T.get_thread_binding()

            for i in T.vectorized(EACH):
                own[i] = X[row, t * EACH + i]
            for bit in (1, 2, 4):
                for i in T.unroll(EACH):
                    other[i] = own[i ^ bit]
                for i in T.unroll(EACH):
                    own[i] = other[i] + (-own[i] if i & bit else own[i])
            for lane in (1, 2, 4, 8, 16):
                for i in T.unroll(EACH):
                    other[i] = T.shfl_xor(own[i], lane)
                combine(own, other, (t & lane) != 0)
            for step in range(5, threads.bit_length() - 1):
                for i in T.unroll(EACH):
                    exchange[i, t] = own[i]
                T.sync_threads()
                for i in T.unroll(EACH):
                    other[i] = exchange[i, t ^ (1 << step)]
                T.sync_threads()
                combine(own, other, (t & (1 << step)) != 0)
            for i in T.vectorized(EACH):
                Y[row, t * EACH + i] = own[i] * scale

    return hadamard


def matrix(n, device):
    """Returns H in float64, by Sylvester's construction."""
    h = torch.ones(1, 1, dtype=torch.float64, device=device)
    while len(h) < n:
        h = torch.cat([torch.cat([h, h], 1), torch.cat([h, -h], 1)])
    return h


def main():
    """Runs the kernel, checks it, and on a GPU compares its speed with torch."""
    example = Example(
        __doc__,
        rows=Option("rows of X", 50, 32768),
        n=Option("columns of X", 1024, 4096, choices=tuple(1 << bit for bit in range(8, 14))),
        dtype=Option("element type", "bfloat16", choices=("float16", "bfloat16", "float32")),
    )
    args = example.args

    def case(rows, n):
        kernel = example.compile(hadamard(rows, n, args.dtype))
        x = example.normal(rows, n, dtype=args.dtype)
        y = example.output(rows, n, dtype=args.dtype)
        dense = (matrix(n, args.device) / math.sqrt(n)).to(x.dtype)
        peers = {"torch, gemm": lambda: x @ dense}
        return Case(lambda: kernel(x, y), peers, 2 * x.nbytes), (x, y)

    line, (x, y) = case(args.rows, args.n)
    line.run()
    example.check("Y", y, x.double() @ (matrix(args.n, args.device) / math.sqrt(args.n)))
    example.speed(line.run, line.peers, line.moved)
    example.table(SHAPES, lambda *shape: case(*shape)[0])


if __name__ == "__main__":
    main()
