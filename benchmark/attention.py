"""Attention forward beside cuDNN and FlashAttention (by torch): examples/flash_attention.

    python benchmark/attention.py [--shapes 4,16,16,4096,128 4,16,2,4096,128,causal,float16]

A shape is batch, heads, heads of K and V, length and head dimension; then whether it is causal, and
float16 (it is bfloat16). As benchmark/gemm.py: normal random data, the L2 cache flushed before each
run, the GPU warmed for two seconds before anything is measured. Prints TFLOP/s of the median run,
4 * batch * heads * length^2 * dim floating-point operations (half of them when causal), and its
ratio to cuDNN in the same process. Results are checked against float64 first.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import torch
from gemm import tflops, warm_up
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import tilelang
from tilelang.profiler import do_bench

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "flash_attention"))
import attention_forward

SHAPES = [
    "4,16,16,4096,128",
    "4,16,16,4096,128,causal",
    "1,16,16,16384,128",
    "1,16,16,16384,128,causal",
    "4,16,16,4096,64",
    "4,16,16,4096,64,causal",
    "4,16,16,4096,256",
    "4,16,16,4096,256,causal",
    "4,32,4,4096,128",
    "4,32,4,4096,128,causal",
    "4,16,16,4096,128,float16",
]
#: head dimension: block_M, block_N, threads, num_stages of the schedules to choose from
TILES = {
    64: [(128, 128, 256, 2), (192, 128, 384, 2), (192, 96, 384, 3)],
    128: [(128, 128, 256, 2), (128, 112, 256, 2), (192, 80, 384, 2), (192, 64, 384, 3)],
    256: [(128, 64, 256, 2), (128, 80, 256, 2)],
}
PEERS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}


class Problem(NamedTuple):
    """Tensors are (batch, length, heads, dim)."""

    q: torch.Tensor
    k: torch.Tensor
    v: torch.Tensor
    causal: bool

    @property
    def flops(self) -> int:
        batch, length, heads, dim = self.q.shape
        return 4 * batch * heads * length**2 * dim // (2 if self.causal else 1)


def random_problem(shape: str) -> Problem:
    """Random data of a shape as the command line names it."""
    numbers, words = shape.split(",")[:5], shape.split(",")[5:]
    batch, heads, kv_heads, length, dim = map(int, numbers)
    dtype = torch.float16 if "float16" in words else torch.bfloat16
    q, k, v = (
        torch.randn(batch, length, n, dim, device="cuda").to(dtype)
        for n in (heads, kv_heads, kv_heads)
    )
    return Problem(q, k, v, "causal" in words)


def check(problem: Problem, out: torch.Tensor) -> None:
    """Compares the first and the last head of the last batch, and that all is written."""
    assert not out.isnan().any()
    groups = problem.q.shape[2] // problem.k.shape[2]
    for head in (0, problem.q.shape[2] - 1):
        q = problem.q[-1:, :, head : head + 1]
        k, v = (x[-1:, :, head // groups : head // groups + 1] for x in problem[1:3])
        want, _ = attention_forward.reference(q, k, v, problem.causal)
        error = (out[-1:, :, head : head + 1].double() - want).norm() / want.norm()
        assert error < 5e-3, f"relative error {error:.2g}"


def ours(problem: Problem, tiles: tuple[int, ...]) -> Callable[[], torch.Tensor]:
    """The kernel with these tiles, on the problem's tensors; it returns the result."""
    q, k, v, causal = problem
    batch, length, heads, dim = q.shape
    shape = attention_forward.Shape(batch, length, length, heads, k.shape[2], dim, dim)
    function = attention_forward.attention(shape, causal, str(q.dtype).split(".")[1], *tiles)
    kernel = tilelang.compile(function, pass_configs=attention_forward.PASS_CONFIGS)
    out = torch.full_like(q, float("nan"))
    lse = torch.full((batch, heads, length), float("nan"), device="cuda")

    def run() -> torch.Tensor:
        kernel(q, k, v, out, lse)
        return out

    return run


def best(problem: Problem) -> tuple[str, Callable[[], torch.Tensor]]:
    """The fastest kernel, and what it is."""
    timed = []
    for tiles in TILES[problem.q.shape[3]]:
        run = ours(problem, tiles)
        check(problem, run())
        timed.append((do_bench(run, rep=50, return_mode="median"), tiles, run))
    for milliseconds, tiles, _ in timed:
        print(f"    {tiles}: {problem.flops / milliseconds * 1e-9:.0f}")
    _, tiles, run = min(timed, key=lambda item: item[0])
    return str(tiles), run


def peer(problem: Problem, backend: SDPBackend) -> Callable[[], torch.Tensor]:
    """Attention of torch on the same tensors."""
    q, k, v = (x.transpose(1, 2) for x in problem[:3])
    shared = q.shape[1] != k.shape[1]

    def run() -> torch.Tensor:
        with sdpa_kernel(backend):
            out = scaled_dot_product_attention(q, k, v, is_causal=problem.causal, enable_gqa=shared)
        return out.transpose(1, 2)

    return run


def measure(shape: str) -> None:
    """Prints the line of one shape."""
    problem = random_problem(shape)
    square = torch.randn(2, 8192, 8192, device="cuda").bfloat16()
    warm = functools.partial(torch.mm, *square)
    warm_up(warm)
    tiles, run = best(problem)
    runs = {"tilelang": run}
    for name, backend in PEERS.items():
        try:
            run = peer(problem, backend)
            check(problem, run())
            runs[name] = run
        except RuntimeError as error:  # a peer that does not know the shape
            print(f"    {name}: {str(error).splitlines()[0]}")
    warm_up(warm)
    speeds = {name: tflops(run, problem.flops) for name, run in runs.items()}
    base = speeds.get("cuDNN", float("nan"))
    line = "  ".join(f"{name} {s:6.0f} ({s / base:.2f})" for name, s in speeds.items())
    print(f"{shape}:  {line}   {tiles}", flush=True)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="*", default=SHAPES)
    options = parser.parse_args()
    print(f"{torch.cuda.get_device_name()}, TFLOP/s (x cuDNN)")
    for shape in options.shapes:
        measure(shape)


if __name__ == "__main__":
    main()
