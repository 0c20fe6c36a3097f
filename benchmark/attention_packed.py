"""Attention of packed sequences beside torch's: examples/flash_attention/attention_varlen.py.

    python benchmark/attention_packed.py [--cases 16,16,128,32,4096 16,4,128,32,4096,causal]
                                         [--json FOLDER]

A case is heads, heads of K and V, head dimension, number of sequences and the most tokens that one
has; then whether it is causal. Lengths are uniform between 1 and the most. The peers are torch's:
FlashAttention 2 (torch.nn.attention.varlen) and cuDNN on nested tensors, where it takes them. All
else is as in benchmark/attention.py; operations are those of each sequence, ratios those to flash.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import in_turns
import result_files
import torch
from ahead import compile_ahead
from attention import warm
from attention_varlen import PASS_CONFIGS, Shape, attention_varlen, offsets, reference_varlen
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.attention.varlen import varlen_attn
from torch.nn.functional import scaled_dot_product_attention

import tilelang

CASES = [
    "16,16,128,32,4096",
    "16,16,128,32,4096,causal",
    "16,4,128,32,4096,causal",
    "16,16,64,32,4096,causal",
]
#: head dimension: block_M, block_N, threads, num_stages of the schedules to choose from
TILES = {
    64: [(192, 128, 384, 2), (256, 64, 512, 2), (128, 128, 256, 2)],
    128: [(192, 80, 384, 2), (128, 128, 256, 2)],
}


class Case(NamedTuple):
    """What the command line calls a case."""

    heads: int
    kv_heads: int
    dim: int
    lengths: tuple[int, ...]
    causal: bool

    @classmethod
    def parse(cls, text: str) -> Case:
        """From the command line."""
        heads, kv_heads, dim, count, most = map(int, text.split(",")[:5])
        generator = torch.Generator().manual_seed(0)
        lengths = torch.randint(1, most + 1, (count,), generator=generator)
        return cls(heads, kv_heads, dim, tuple(lengths.tolist()), "causal" in text)

    @property
    def flops(self) -> int:
        squares = sum(length**2 for length in self.lengths)
        return 4 * self.heads * self.dim * squares // (2 if self.causal else 1)

    def tensors(self) -> list[torch.Tensor]:
        """Random Q, K and V (tokens, heads, dim)."""
        heads = (self.heads, self.kv_heads, self.kv_heads)
        return [torch.randn(sum(self.lengths), n, self.dim).cuda().bfloat16() for n in heads]


class Schedule(NamedTuple):
    """One kernel of a case."""

    case: Case
    tiles: tuple[int, int, int, int]
    lazy: bool

    def compile(self) -> tilelang.JITKernel:
        case, tokens = self.case, sum(self.case.lengths)
        heads = (case.heads, case.kv_heads)
        shape = Shape(len(case.lengths), tokens, tokens, *heads, case.dim, case.dim)
        function = attention_varlen(
            shape, max(case.lengths), case.causal, "bfloat16", *self.tiles, lazy=self.lazy
        )
        return tilelang.compile(function, pass_configs=PASS_CONFIGS)


def schedules(case: Case) -> list[Schedule]:
    """The kernels to choose from."""
    return [Schedule(case, t, lazy) for lazy in (False, True) for t in TILES[case.dim]]


def peers(case: Case, inputs: list[torch.Tensor]) -> dict[str, Callable[[], torch.Tensor]]:
    """What torch has for it."""
    ends, longest = offsets(case.lengths, "cuda"), max(case.lengths)
    gqa = case.heads != case.kv_heads

    def flash() -> torch.Tensor:
        window = (-1, 0) if case.causal else (-1, -1)
        options = {"enable_gqa": True} if gqa else {}  # not every version of torch has it
        return varlen_attn(*inputs, ends, ends, longest, longest, window_size=window, **options)

    jagged = torch.nested.nested_tensor_from_jagged
    nested = [jagged(x, ends, max_seqlen=longest).transpose(1, 2) for x in inputs]

    def cudnn() -> torch.Tensor:
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            out = scaled_dot_product_attention(*nested, is_causal=case.causal, enable_gqa=gqa)
        return out.transpose(1, 2).values()

    return {"flash": flash, "cuDNN": cudnn}


def runner(kernel: Callable[..., None], case: Case, inputs: list[torch.Tensor]):
    """The kernel on these tensors; it returns the result."""
    ends = offsets(case.lengths, "cuda")
    out = torch.full_like(inputs[0], float("nan"))
    lse = torch.full((case.heads, out.shape[0]), float("nan"), device="cuda")

    def run() -> torch.Tensor:
        kernel(*inputs, ends, ends, out, lse)
        return out

    return run


def check(case: Case, inputs: list[torch.Tensor], out: torch.Tensor) -> None:
    """Compares the first and the last sequence, and that all is written."""
    assert not out.isnan().any()
    for rows in (slice(0, case.lengths[0]), slice(sum(case.lengths[:-1]), None)):
        own = [x[rows] for x in inputs]
        ends = offsets([own[0].shape[0]])
        want, _ = reference_varlen(*own, ends, ends, case.causal)
        error = (out[rows].double() - want).norm() / want.norm()
        assert error < 5e-3, f"relative error {error:.2g}"


def measure(text: str, table: result_files.Table) -> None:
    """Prints the line of one case, and adds it to the table."""
    case = Case.parse(text)
    inputs = case.tensors()
    runs: dict[str, Callable[[], torch.Tensor]] = {}
    for name, run in peers(case, inputs).items():
        try:
            check(case, inputs, run())
            runs[name] = run
        except (
            RuntimeError,
            TypeError,
            AssertionError,
        ) as error:  # a peer that does not know the case
            print(f"    {name}: {str(error).splitlines()[0]}")
    warm()
    for lazy in (False, True):
        candidates = {}
        for schedule in schedules(case):
            if schedule.lazy == lazy:
                run = runner(schedule.compile(), case, inputs)
                check(case, inputs, run())
                candidates[str(schedule.tiles)] = run
        tiles = in_turns.fastest(candidates)
        runs["lazy" if lazy else "tilelang"] = candidates[tiles]
        print(f"    lazy={lazy}: {tiles}")
    speeds = in_turns.tflops(runs, case.flops)
    base = speeds.get("flash", float("nan"))
    line = "  ".join(f"{name} {s:6.0f} ({s / base:.2f})" for name, s in speeds.items())
    print(f"{text}:  {line}", flush=True)
    heads = f", {case.heads} heads ({case.kv_heads} of K and V)" * (case.heads != case.kv_heads)
    ratios = [
        result_files.ratio(speeds[name], base) if name in speeds else ""
        for name in ("tilelang", "lazy", "cuDNN")
    ]
    table.add(f"{case.dim}{heads}{', causal' * case.causal}", f"{base:.0f}", *ratios)


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cases", nargs="*", default=CASES)
    result_files.add_option(parser)
    options = parser.parse_args()
    cases = [Case.parse(text) for text in options.cases]
    compile_ahead(Schedule.compile, [s for case in cases for s in schedules(case)])
    print(f"{torch.cuda.get_device_name()}, TFLOP/s (x flash)")
    peers = ("FlashAttention 2", "this compiler", "lazy", "cuDNN (nested tensors)")
    table = result_files.Table("packed_sequences", ("head dimension", *peers))
    for text in options.cases:
        measure(text, table)
    table.save(options.json)


if __name__ == "__main__":
    main()
