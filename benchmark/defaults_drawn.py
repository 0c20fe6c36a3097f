"""GEMMs as a user first writes them, on shapes that a seed draws, beside the fastest of torch.

    python benchmark/defaults_drawn.py --seed 2041 [--shapes 9] [--rounds 3] [--save FILE]
                                       [--json FOLDER]

The kernels are plain tiles of 128 x 128 x 64 with three stages and 128 threads. M, N and K are
multiples of 8, drawn evenly by their logarithms from 16 to 16384; a shape whose matrices take more
than 2 GB is drawn again. Each shape is measured in the storage orders NN, NT and TN, and in order
NN with three epilogues: GELU (in its tanh form), a bias with ReLU, and a residual that is added.
Torch's time is the shortest of its ways to write the same: a product and a function of it, cuBLAS'
own epilogue (``torch._addmm_activation``), or a product that is added to the residual.

A ratio is torch's time over the kernel's. Who makes a rule of the compiler on one of these shapes
draws by another seed.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import in_turns
import result_files
import torch
from ahead import compile_ahead
from defaults import mean
from gemm_kernels import tiled_gemm
from gemm_problems import KINDS, random_matrix, random_problem

import tilelang
import tilelang.language as T

Shape = tuple[int, int, int]
ORDERS = ("NN", "NT", "TN")
#: epilogues by their names in the table
EPILOGUES = {"gelu": "GELU", "bias_relu": "bias + ReLU", "residual": "residual"}
LARGEST_BYTES = 2 << 30


def drawn_shapes(seed: int, count: int) -> list[Shape]:
    """Returns (M, N, K), multiples of 8 from 16 to 16384."""
    draw = random.Random(seed)
    shapes: list[Shape] = []
    while len(shapes) < count:
        m, n, k = (
            8 * round(math.exp(draw.uniform(math.log(16), math.log(16384))) / 8) for _ in "MNK"
        )
        if 2 * (m * n + m * k + n * k) <= LARGEST_BYTES:
            shapes.append((m, n, k))
    return shapes


@tilelang.jit
def gemm_with_epilogue(M, N, K, epilogue):
    """C (M, N) = f(A (M, K) B (K, N)) in bfloat16, with a bias (N,) and a residual (M, N)."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "bfloat16"),
        B: T.Tensor((K, N), "bfloat16"),
        bias: T.Tensor((N,), "bfloat16"),
        R: T.Tensor((M, N), "bfloat16"),
        C: T.Tensor((M, N), "bfloat16"),
    ):
        with T.Kernel(T.ceildiv(N, 128), T.ceildiv(M, 128), threads=128) as (bx, by):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 128), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(K, 64), num_stages=3):
                T.copy(A[by * 128, k * 64], a)
                T.copy(B[k * 64, bx * 128], b)
                T.gemm(a, b, c)
            for i, j in T.Parallel(128, 128):
                if epilogue == "gelu":
                    inner = 0.7978845608 * (c[i, j] + 0.044715 * c[i, j] * c[i, j] * c[i, j])
                    c[i, j] = 0.5 * c[i, j] * (1.0 + T.tanh(inner))
                elif epilogue == "bias_relu":
                    c[i, j] = T.max(c[i, j] + bias[bx * 128 + j], 0.0)
                else:
                    c[i, j] = c[i, j] + R[by * 128 + i, bx * 128 + j]
            T.copy(c, C[by * 128, bx * 128])

    return main


Job = tuple[Shape, str]


def kernel(job: Job) -> Any:
    """Compiles the kernel of a shape in an order of storage or with an epilogue."""
    shape, name = job
    if name in EPILOGUES:
        return gemm_with_epilogue(*shape, name)
    return tiled_gemm(*shape, 128, 128, None, 128, 3, 0, order=name, staged=False)


def plain_times(shape: Shape, order: str, rounds: int) -> tuple[float, float]:
    """Returns milliseconds of torch and of the kernel, for a GEMM alone."""
    problem = random_problem(KINDS["bfloat16"], order, shape)
    ours = functools.partial(kernel((shape, order)), problem.a, problem.b, problem.c)
    problem.check(ours)
    times = in_turns.milliseconds({"torch": problem.library(), "ours": ours}, rounds)
    return times["torch"], times["ours"]


def epilogue_times(shape: Shape, epilogue: str, rounds: int) -> tuple[float, float]:
    """Returns milliseconds of torch's fastest way and of the kernel, with an epilogue."""
    m, n, k = shape
    a, b, r, c = (random_matrix(*s, torch.bfloat16) for s in ((m, k), (k, n), (m, n), (m, n)))
    bias = random_matrix(1, n, torch.bfloat16)[0]
    gelu = functools.partial(torch.nn.functional.gelu, approximate="tanh")
    zero = torch.zeros_like(bias)
    ways: dict[str, list[Callable[[], torch.Tensor]]] = {
        "gelu": [
            lambda: gelu(a @ b),
            lambda: torch._addmm_activation(zero, a, b, use_gelu=True),
        ],
        "bias_relu": [
            lambda: torch.relu(torch.addmm(bias, a, b)),
            lambda: torch._addmm_activation(bias, a, b),
        ],
        "residual": [lambda: torch.addmm(r, a, b), lambda: torch.mm(a, b).add_(r)],
    }
    ours = functools.partial(kernel((shape, epilogue)), a, b, bias, r, c)
    c.fill_(float("nan"))
    ours()
    want = ways[epilogue][0]().float()
    error = ((c.float() - want).norm() / want.norm()).item()
    assert error < 1e-2, f"{shape} {epilogue}: relative error {error:.2g}"
    runs = {f"torch {i}": way for i, way in enumerate(ways[epilogue])} | {"ours": ours}
    times = in_turns.milliseconds(runs, rounds)
    mine = times.pop("ours")
    return min(times.values()), mine


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--shapes", type=int, default=9)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--save", type=Path)
    result_files.add_option(parser)
    options = parser.parse_args()
    shapes = drawn_shapes(options.seed, options.shapes)
    names = [*ORDERS, *EPILOGUES]
    compile_ahead(kernel, [(shape, name) for shape in shapes for name in names])
    print(f"{torch.cuda.get_device_name()}, seed {options.seed}")
    ratios: dict[str, list[float]] = {name: [] for name in names}
    saved = []
    table = result_files.Table("drawn_gemm", ("M x N x K", *ORDERS, *EPILOGUES.values()))
    for shape in shapes:
        for name in names:
            times = (epilogue_times if name in EPILOGUES else plain_times)(
                shape, name, options.rounds
            )
            ratios[name].append(times[0] / times[1])
            saved.append({"shape": shape, "name": name, "torch_ms": times[0], "ms": times[1]})
        line = "  ".join(f"{name} {ratios[name][-1]:5.2f}" for name in names)
        print(f"{shape!s:22} {line}", flush=True)
        table.add(" x ".join(map(str, shape)), *(f"{ratios[name][-1]:.2f}" for name in names))
        if options.save:
            options.save.write_text(json.dumps(saved, indent=1))
    print(f"{'geometric mean':22}", "  ".join(f"{n} {mean(r):>5}" for n, r in ratios.items()))
    table.add("geometric mean", *(mean(ratios[name]) for name in names))
    table.save(options.json)


if __name__ == "__main__":
    main()
