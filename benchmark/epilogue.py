"""A gemm with a whole epilogue, on the whole tile and in slices of columns, beside a plain store.

    python benchmark/epilogue.py [--target sm_90a] [--size 4096] [--only plain,0,32] [--torch]

D = gelu(scale A B^T + bias) + R, with the value before gelu as a second output and the maximum of
each row of a tile. Prints microseconds, registers and bytes spilled: measured on a GPU, predicted
by the timing model without one. ``--torch``: the same by torch.compile, without the row maxima.
"""

from __future__ import annotations

import argparse

import torch

import tilelang
import tilelang.language as T
from tilelang.emulator import TimingOptions
from tilelang.profiler import do_bench

BK = 64


def gelu(x):
    return 0.5 * x * (1.0 + T.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def kernel(size: int, plain: bool, staged: bool, threads: int, bm: int = 128, bn: int = 256):
    n, dtype = size, "bfloat16"

    @T.prim_func
    def main(
        A: T.Tensor((n, n), dtype),
        B: T.Tensor((n, n), dtype),
        scale: T.Tensor((n,), "float32"),
        bias: T.Tensor((n,), "float32"),
        R: T.Tensor((n, n), dtype),
        AUX: T.Tensor((n, n), dtype),
        D: T.Tensor((n, n), dtype),
        TOP: T.Tensor((n, n // bn), "float32"),
    ):
        with T.Kernel(n // bn, n // bm, threads=threads) as (bx, by):
            a, b = T.alloc_shared((bm, BK), dtype), T.alloc_shared((bn, BK), dtype)
            c, top = T.alloc_fragment((bm, bn), "float32"), T.alloc_fragment((bm,), "float32")
            aux, d = T.alloc_shared((bm, bn), dtype), T.alloc_shared((bm, bn), dtype)
            T.clear(c)
            for k in T.Pipelined(n // BK, num_stages=3):
                T.copy(A[by * bm, k * BK], a)
                T.copy(B[bx * bn, k * BK], b)
                T.gemm(a, b, c, transpose_B=True)
            if not plain:
                for i, j in T.Parallel(bm, bn):
                    c[i, j] = c[i, j] * scale[by * bm + i] + bias[bx * bn + j]
                if staged:
                    T.copy(c, aux)
                    T.copy(aux, AUX[by * bm, bx * bn])
                else:
                    T.copy(c, AUX[by * bm, bx * bn])
                for i, j in T.Parallel(bm, bn):
                    c[i, j] = gelu(c[i, j]) + R[by * bm + i, bx * bn + j]
                T.reduce_absmax(c, top, dim=1)
                for i in T.Parallel(bm):
                    TOP[by * bm + i, bx] = top[i]
            if staged:
                T.copy(c, d)
                T.copy(d, D[by * bm, bx * bn])
            else:
                T.copy(c, D[by * bm, bx * bn])

    return main


def arguments(n: int, device: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    a, b, r = (torch.randn(n, n, device=device).bfloat16() for _ in range(3))
    scale, bias = torch.rand(n, device=device), torch.randn(n, device=device)
    aux, d = torch.empty_like(r), torch.empty_like(r)
    return [a, b, scale, bias, r, aux, d, torch.empty(n, n // 256, device=device)]


def by_torch(a, b, scale, bias, r):
    x = (a @ b.T).float() * scale[:, None] + bias
    return x.bfloat16(), (torch.nn.functional.gelu(x, approximate="tanh") + r).bfloat16()


def microseconds(run, args) -> float:
    if torch.cuda.is_available():
        return 1e3 * do_bench(lambda: run(*args), return_mode="median")
    report = run.profile(*args, timing=TimingOptions(sampled=True, record=False))
    return sum(each.timing.grid_us for each in report.grids)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=256)
    parser.add_argument("--only", default="plain,0,32,64,128,staged 32,staged 64")
    parser.add_argument("--torch", action="store_true")
    options = parser.parse_args()
    args = arguments(options.size, "cuda" if torch.cuda.is_available() else "cpu")
    for case in options.only.split(","):
        columns = 0 if case == "plain" else int(case.split()[-1])
        function = kernel(options.size, case == "plain", "staged" in case, options.threads)
        compiled = tilelang.compile(
            function, target=options.target, pass_configs={"tl.epilogue_subtile": columns}
        )
        us = microseconds(compiled, args)
        print(f"{case:10} {us:7.1f} us  {compiled.n_regs} registers, {compiled.n_spills} B spilled")
    if options.torch:
        compiled = torch.compile(by_torch)
        us = 1e3 * do_bench(lambda: compiled(*args[:5]), return_mode="median")
        print(f"{'torch':10} {us:7.1f} us")


if __name__ == "__main__":
    main()
