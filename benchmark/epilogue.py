"""A gemm with a whole epilogue, on the whole tile and in slices of columns, beside a plain store.

    python benchmark/epilogue.py [--target sm_90a] [--size 4096] [--only "plain,0,staged auto"]
                                 [--shapes] [--torch] [--json FOLDER]

D = gelu(scale A B^T + bias) + R, with the value before gelu as a second output and the maximum of
each row of a tile. Prints microseconds, registers and bytes spilled: measured on a GPU, predicted
by the timing model without one. A case is how results are stored ("staged": through shared memory;
"persistent": by blocks that take several tiles; "ahead": R as well), "fast" mathematics, and the
columns of a slice (0: whole, "auto"). "-aux", "-gelu", "-R", "-top" and "-scale" leave that part of
the epilogue out, which shows what it costs.
``--shapes``: twelve shapes, half of which nothing was tuned with. ``--torch``: the same by
torch.compile, without the row maxima.
"""

from __future__ import annotations

import argparse
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import result_files
import torch

import tilelang
import tilelang.language as T
from tilelang.emulator import TimingOptions
from tilelang.profiler import do_bench

BM, BN, BK = 128, 256, 64
TUNED = [
    (4096, 4096, 4096), (8192, 8192, 8192), (4096, 1024, 4096),
    (4096, 4096, 512), (8192, 2048, 1024), (2000, 3000, 1000),
]  # fmt: skip
HELD_BACK = [
    (2048, 8192, 2048), (8192, 512, 4096), (4096, 4096, 1024),
    (16384, 1024, 768), (3000, 5000, 2056), (1000, 1000, 8192),
]  # fmt: skip
Shape = tuple[int, int, int]


@dataclass(frozen=True)
class Case:
    """How results are stored, and the columns of a slice."""

    name: str

    def has(self, word: str) -> bool:
        return word in self.name.split()

    @property
    def columns(self) -> int | str:
        last = self.name.split()[-1]
        return int(last) if last.isdigit() else "auto"


def gelu(x):
    return 0.5 * x * (1.0 + T.tanh(0.7978845608 * (x + 0.044715 * x * x * x)))


def tile_of(shape: Shape, case: Case):
    """What a block does for a tile of the result."""
    _, _, k = shape
    activation = (lambda x: x) if case.has("-gelu") else gelu

    @T.macro
    def tile(A, B, scale, bias, R, AUX, D, TOP, a, b, c, aux, d, r, top, by, bx):
        T.clear(c)
        for kk in T.Pipelined(T.ceildiv(k, BK), num_stages=3):
            T.copy(A[by * BM, kk * BK], a)
            T.copy(B[bx * BN, kk * BK], b)
            T.gemm(a, b, c, transpose_B=True)
        if not case.has("plain"):
            if not case.has("-scale"):
                for i, j in T.Parallel(BM, BN):
                    c[i, j] = c[i, j] * scale[by * BM + i] + bias[bx * BN + j]
            if case.has("staged") and not case.has("-aux"):
                T.copy(c, aux)
                T.copy(aux, AUX[by * BM, bx * BN])
            elif not case.has("-aux"):
                T.copy(c, AUX[by * BM, bx * BN])
            if case.has("-R"):
                for i, j in T.Parallel(BM, BN):
                    c[i, j] = activation(c[i, j])
            elif case.has("ahead"):
                T.copy(R[by * BM, bx * BN], r)
                for i, j in T.Parallel(BM, BN):
                    c[i, j] = activation(c[i, j]) + r[i, j]
            else:
                for i, j in T.Parallel(BM, BN):
                    c[i, j] = activation(c[i, j]) + R[by * BM + i, bx * BN + j]
            if not case.has("-top"):
                T.reduce_absmax(c, top, dim=1)
                for i in T.Parallel(BM):
                    TOP[by * BM + i, bx] = top[i]
        if case.has("staged"):
            T.copy(c, d)
            T.copy(d, D[by * BM, bx * BN])
        else:
            T.copy(c, D[by * BM, bx * BN])

    return tile


def shape_if(used: bool) -> tuple[int, int]:
    return (BM, BN) if used else (1, 1)


def kernel(shape: Shape, case: Case, threads: int, sms: int):
    (m, n, k), dtype = shape, "bfloat16"
    rows, columns = -(-m // BM), -(-n // BN)
    persistent = case.has("persistent")
    tile = tile_of(shape, case)

    @T.prim_func
    def main(
        A: T.Tensor((m, k), dtype),
        B: T.Tensor((n, k), dtype),
        scale: T.Tensor((m,), "float32"),
        bias: T.Tensor((n,), "float32"),
        R: T.Tensor((m, n), dtype),
        AUX: T.Tensor((m, n), dtype),
        D: T.Tensor((m, n), dtype),
        TOP: T.Tensor((m, columns), "float32"),
    ):
        with T.Kernel(
            sms if persistent else columns, 1 if persistent else rows, threads=threads
        ) as (bx, by):
            a, b = T.alloc_shared((BM, BK), dtype), T.alloc_shared((BN, BK), dtype)
            c, top = T.alloc_fragment((BM, BN), "float32"), T.alloc_fragment((BM,), "float32")
            aux = T.alloc_shared(shape_if(case.has("staged")), dtype)
            d = T.alloc_shared(shape_if(case.has("staged")), dtype)
            r = T.alloc_shared(shape_if(case.has("ahead")), dtype)
            if persistent:
                for ty, tx in T.Persistent((rows, columns), sms, bx):
                    tile(A, B, scale, bias, R, AUX, D, TOP, a, b, c, aux, d, r, top, ty, tx)
            else:
                tile(A, B, scale, bias, R, AUX, D, TOP, a, b, c, aux, d, r, top, by, bx)

    return main


def arguments(shape: Shape, device: str) -> list[torch.Tensor]:
    torch.manual_seed(0)
    m, n, k = shape
    a, b, r = (torch.randn(x, y, device=device).bfloat16() for x, y in ((m, k), (n, k), (m, n)))
    scale, bias = torch.rand(m, device=device), torch.randn(n, device=device)
    aux, d = torch.empty_like(r), torch.empty_like(r)
    return [a, b, scale, bias, r, aux, d, torch.empty(m, -(-n // BN), device=device)]


def by_torch(a, b, scale, bias, r):
    x = (a @ b.T).float() * scale[:, None] + bias
    return x.bfloat16(), (torch.nn.functional.gelu(x, approximate="tanh") + r).bfloat16()


def microseconds(run, args) -> float:
    if torch.cuda.is_available():
        return 1e3 * do_bench(lambda: run(*args), return_mode="median")
    report = run.profile(*args, timing=TimingOptions(sampled=True, record=False))
    return sum(each.timing.grid_us for each in report.grids)


def compiled(shape: Shape, case: Case, options: argparse.Namespace):
    """The kernel; nothing where its tiles do not fit."""
    function = kernel(shape, case, options.threads, 132 if options.target == "sm_90a" else 148)
    configs = {"tl.epilogue_subtile": case.columns, "tl.enable_fast_math": case.has("fast")}
    try:
        return tilelang.compile(function, target=options.target, pass_configs=configs)
    except tilelang.errors.ResourceError:
        return None


def one_shape(shape: Shape, cases: list[Case], options: argparse.Namespace) -> None:
    args = arguments(shape, "cuda" if torch.cuda.is_available() else "cpu")
    times: dict[str, str] = {}
    for case in cases:
        if run := compiled(shape, case, options):
            us = microseconds(run, args)
            times[case.name] = f"{us:.1f}"
            print(f"{case.name:24} {us:7.1f} us  {run.n_regs} registers, {run.n_spills} B spilled")
        else:
            print(f"{case.name:24} does not fit")
    if options.torch:
        run = torch.compile(by_torch)
        us = 1e3 * do_bench(lambda: run(*args[:5]), return_mode="median")
        print(f"{'torch':24} {us:7.1f} us")
        times["torch.compile, without the maxima"] = f"{us:.1f}"
    table = result_files.Table("epilogues", tuple(times))
    table.add(*times.values())
    table.save(options.json, options.device)


def all_shapes(cases: list[Case], options: argparse.Namespace) -> None:
    print(f"{'':26}" + "".join(f"{case.name:>19}" for case in cases))
    table = result_files.Table("epilogue_shapes", ("M x N x K", *(case.name for case in cases)))
    with ThreadPoolExecutor() as pool:
        shapes = TUNED + HELD_BACK
        asked = [
            [pool.submit(compiled, shape, case, options) for case in cases] for shape in shapes
        ]
        for shape, row in zip(shapes, asked, strict=True):
            args = arguments(shape, "cuda" if torch.cuda.is_available() else "cpu")
            runs = [each.result() for each in row]
            times = [f"{microseconds(run, args):.1f}" if run else "-" for run in runs]
            half = "tuned" if shape in TUNED else "held back"
            name = "x".join(map(str, shape))
            print(f"{half:10}{name:16}" + "".join(f"{time:>19}" for time in times), flush=True)
            title = " x ".join(map(str, shape))
            table.add(title if half == "tuned" else f"{half}: {title}", *times)
    table.save(options.json, options.device)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--size", type=int, default=4096)
    parser.add_argument("--threads", type=int, default=256)
    parser.add_argument("--only", default="plain,0,auto,32,64,staged auto,staged 32,staged 64")
    parser.add_argument("--shapes", action="store_true")
    parser.add_argument("--torch", action="store_true")
    result_files.add_option(parser)
    options = parser.parse_args()
    measured = torch.cuda.is_available()
    options.device = None if measured else f"the timing model, {options.target}"
    cases = [Case(name) for name in options.only.split(",")]
    if options.shapes:
        all_shapes(cases, options)
    else:
        one_shape((options.size,) * 3, cases, options)


if __name__ == "__main__":
    main()
