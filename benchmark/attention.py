"""Attention beside cuDNN and FlashAttention 2 (by torch): examples/flash_attention.

    python benchmark/attention.py [--shapes 4,16,16,4096,128 4,16,2,4096,128,causal,float16]
                                  [--backward 4,16,16,4096,128] [--json FOLDER]

A shape is batch, heads, heads of K and V, length and head dimension; then whether it is causal, and
float16 (it is bfloat16). As benchmark/gemm.py: normal random data, the L2 cache flushed before each
run, the GPU warmed for two seconds before the first one. Prints TFLOP/s of the median run,
4 * batch * heads * length^2 * dim floating-point operations (half of them when causal; backward 2.5
times as many), and its ratio to cuDNN in the same process; "lazy" is the option of that name.
Results are checked against float64 first, gradients against cuDNN's.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import in_turns
import result_files
import torch
from ahead import compile_ahead
from gemm import warm_up
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import scaled_dot_product_attention

import tilelang

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "flash_attention"))
import attention_backward
import attention_backward_added
import attention_forward
import attention_persistent

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
BACKWARD = [shape for shape in SHAPES if shape.split(",")[4] != "256" and "float16" not in shape]
#: head dimension: block_M, block_N, threads, num_stages of the schedules to choose from
TILES = {64: [(256, 64, 512, 2)], 128: [], 256: [(128, 64, 256, 2), (128, 80, 256, 2)]}
#: the same of blocks with one tile after another
PERSISTENT = {
    64: [(192, 128, 384, 2)],
    128: [(192, 80, 384, 2), (128, 128, 256, 2)],
    256: [],
}
#: gradients whose parts are added up in memory, and those without atomic operations
BACKWARD_KERNELS = {
    "tilelang": attention_backward_added.Backward,
    "deterministic": attention_backward.Backward,
}
PEERS = {"cuDNN": SDPBackend.CUDNN_ATTENTION, "flash": SDPBackend.FLASH_ATTENTION}
#: heads that run side by side, and bytes of their K and V
SIDE_BY_SIDE, SIDE_BY_SIDE_BYTES = 8, 32 << 20


class Case(NamedTuple):
    """What the command line calls a shape."""

    batch: int
    heads: int
    kv_heads: int
    length: int
    dim: int
    causal: bool
    dtype: str

    @classmethod
    def parse(cls, text: str) -> Case:
        """From the command line."""
        numbers, words = text.split(",")[:5], text.split(",")[5:]
        dtype = "float16" if "float16" in words else "bfloat16"
        return cls(*map(int, numbers), "causal" in words, dtype)

    @property
    def title(self) -> str:
        """The name of the shape in a table."""
        shared = f" ({self.kv_heads} of K and V)" if self.kv_heads != self.heads else ""
        sizes = f"{self.batch}, {self.heads}{shared}, {self.length}, {self.dim}"
        return f"{sizes}{', causal' * self.causal}{', float16' * (self.dtype == 'float16')}"

    @property
    def shape(self) -> attention_forward.Shape:
        return attention_forward.Shape(
            self.batch, self.length, self.length, self.heads, self.kv_heads, self.dim, self.dim
        )

    @property
    def flops(self) -> int:
        full = 4 * self.batch * self.heads * self.length**2 * self.dim
        return full // (2 if self.causal else 1)

    @property
    def group(self) -> int:
        """Heads whose K and V fit in the L2 cache together, where blocks differ in their work."""
        if not self.causal:
            return 1
        group = math.gcd(self.heads, SIDE_BY_SIDE)
        bytes_of_head = self.length * self.dim * 4 * self.kv_heads // self.heads
        while group > 1 and group * bytes_of_head > SIDE_BY_SIDE_BYTES:
            group //= 2
        return group

    def tensors(self) -> list[torch.Tensor]:
        """Random Q, K and V (batch, length, heads, dim)."""
        sizes = [(self.batch, self.length, n, self.dim) for n in
                 (self.heads, self.kv_heads, self.kv_heads)]  # fmt: skip
        return [torch.randn(size, device="cuda").to(getattr(torch, self.dtype)) for size in sizes]


class Schedule(NamedTuple):
    """One kernel of a case."""

    case: Case
    tiles: tuple[int, int, int, int]
    lazy: bool
    persistent: bool

    @property
    def name(self) -> str:
        return f"{self.tiles}{', persistent' * self.persistent}"

    def compile(self) -> tilelang.JITKernel:
        module = attention_persistent if self.persistent else attention_forward
        function = module.attention(
            self.case.shape, self.case.causal, self.case.dtype, *self.tiles,
            lazy=self.lazy, group=self.case.group,
        )  # fmt: skip
        return tilelang.compile(function, pass_configs=attention_forward.PASS_CONFIGS)

    def tables(self) -> list[torch.Tensor]:
        """What the kernel takes between its inputs and its results."""
        if not self.persistent:
            return []
        sizes = *self.tiles[:2], self.case.group
        return attention_persistent.share_out(
            self.case.shape, self.case.causal, *sizes, device="cuda"
        )

    def runner(self, inputs: list[torch.Tensor]) -> Callable[[], torch.Tensor]:
        """The kernel on these tensors; it returns the result."""
        q = inputs[0]
        kernel, tables, out = self.compile(), self.tables(), torch.full_like(q, float("nan"))
        lse = torch.full((q.shape[0], q.shape[2], q.shape[1]), float("nan"), device="cuda")

        def run() -> torch.Tensor:
            kernel(*inputs, *tables, out, lse)
            return out

        return run


def schedules(case: Case) -> list[Schedule]:
    """The kernels to choose from."""
    return [
        Schedule(case, tiles, lazy, persistent)
        for lazy in (False, True)
        for persistent, of_dim in ((False, TILES), (True, PERSISTENT))
        for tiles in of_dim[case.dim]
    ]


def check(case: Case, inputs: list[torch.Tensor], out: torch.Tensor) -> None:
    """Compares the last queries of the first and the last head, and that all is written."""
    assert not out.isnan().any()
    q, k, v = inputs
    for head in (0, case.heads - 1):
        own = head * case.kv_heads // case.heads
        rows = q[-1:, -256:, head : head + 1]
        want, _ = attention_forward.reference(
            rows, k[-1:, :, own : own + 1], v[-1:, :, own : own + 1], case.causal
        )
        error = (out[-1:, -256:, head : head + 1].double() - want).norm() / want.norm()
        assert error < 5e-3, f"relative error {error:.2g}"


def best(case: Case, inputs: list[torch.Tensor], lazy: bool) -> Callable[[], torch.Tensor]:
    """The fastest kernel."""
    runs = {}
    for schedule in schedules(case):
        if schedule.lazy == lazy:
            run = schedule.runner(inputs)
            check(case, inputs, run())
            runs[schedule.name] = run
    name = in_turns.fastest(runs)
    print(f"    lazy={lazy}: {name}")
    return runs[name]


def peer(case: Case, inputs: list[torch.Tensor], backend: SDPBackend, gradients: bool = False):
    """Attention of torch on the same tensors, or what computes its gradients from a random one."""
    q, k, v = (x.transpose(1, 2).detach().requires_grad_(gradients) for x in inputs)
    gqa = case.heads != case.kv_heads

    def run() -> torch.Tensor:
        with sdpa_kernel(backend):
            out = scaled_dot_product_attention(q, k, v, is_causal=case.causal, enable_gqa=gqa)
        return out.transpose(1, 2)

    if not gradients:
        return run
    out = run()
    return lambda d_out: torch.autograd.grad(out, (q, k, v), d_out, retain_graph=True)


#: the columns of each table after the name of a shape: headings, and the functions
COLUMNS = {
    "forward": {"cuDNN": "cuDNN", "this compiler": "tilelang", "lazy": "lazy",
                "FlashAttention 2": "flash"},
    "backward": {"cuDNN": "cuDNN", "added": "tilelang", "without atomics": "deterministic",
                 "FlashAttention 2": "flash"},
}  # fmt: skip


def report(
    text: str, runs: dict[str, Callable[[], object]], flops: int, table: result_files.Table
) -> None:
    """Prints the line of a shape, and adds it to the table."""
    speeds = in_turns.tflops(runs, flops)
    base = speeds.get("cuDNN", float("nan"))
    line = "  ".join(f"{name} {s:6.0f} ({s / base:.2f})" for name, s in speeds.items())
    print(f"{text}:  {line}", flush=True)
    cells = [f"{base:.0f}" if "cuDNN" in speeds else ""]
    for name in list(COLUMNS[table.columns[0]].values())[1:]:
        cells.append(result_files.ratio(speeds[name], base) if name in speeds else "")
    table.add(Case.parse(text.removeprefix("backward ")).title, *cells)


def measure(text: str, table: result_files.Table) -> None:
    """Prints the line of one shape, and adds it to the table."""
    case = Case.parse(text)
    inputs = case.tensors()
    runs: dict[str, Callable[[], object]] = {}
    for name, backend in PEERS.items():
        try:
            run = peer(case, inputs, backend)
            check(case, inputs, run())
            runs[name] = run
        except RuntimeError as error:  # a peer that does not know the shape
            print(f"    {name}: {str(error).splitlines()[0]}")
    runs["tilelang"], runs["lazy"] = (best(case, inputs, lazy) for lazy in (False, True))
    report(text, runs, case.flops, table)


def backward(job: tuple[str, str]) -> attention_backward.Backward:
    """The kernels of the gradients of a shape, of those of this name."""
    case = Case.parse(job[1])
    return BACKWARD_KERNELS[job[0]](case.shape, case.causal, case.dtype)


def forward(case: Case) -> tilelang.JITKernel:
    """A kernel for what gradients are computed from."""
    tiles = attention_forward.default_tiles("sm_90a", case.dim)
    function = attention_forward.attention(case.shape, case.causal, case.dtype, **tiles)
    return tilelang.compile(function, pass_configs=attention_forward.PASS_CONFIGS)


def measure_backward(text: str, table: result_files.Table) -> None:
    """Prints the line of the gradients of one shape, and adds it to the table."""
    case = Case.parse(text)
    inputs = case.tensors()
    d_out = torch.randn_like(inputs[0])
    out, lse = torch.empty_like(d_out), torch.empty(case.batch, case.heads, case.length).cuda()
    forward(case)(*inputs, out, lse)
    runs = {
        name: functools.partial(peer(case, inputs, backend, True), d_out)
        for name, backend in PEERS.items()
    }
    want = runs["cuDNN"]()
    for name in BACKWARD_KERNELS:
        gradients = [torch.full_like(x, float("nan")) for x in inputs]
        kernels = backward((name, text))
        passed_on = kernels.workspace("cuda")
        runs[name] = functools.partial(
            kernels.launch, *inputs, out, d_out, lse, passed_on, gradients
        )
        runs[name]()
        for got, exact in zip(gradients, want, strict=True):
            error = (got - exact.transpose(1, 2)).double().norm() / exact.double().norm()
            assert error < 1e-2, f"relative error {error:.2g}"
    report(f"backward {text}", runs, case.flops * 5 // 2, table)


def warm() -> None:
    """Keeps the tensor cores busy as benchmark/gemm.py does."""
    square = torch.randn(2, 8192, 8192, device="cuda").bfloat16()
    warm_up(functools.partial(torch.mm, *square))


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--shapes", nargs="*", default=SHAPES)
    parser.add_argument("--backward", nargs="*", default=BACKWARD)
    result_files.add_option(parser)
    options = parser.parse_args()
    cases = [Case.parse(text) for text in options.shapes]
    compile_ahead(Schedule.compile, [s for case in cases for s in schedules(case)])
    compile_ahead(
        backward, [(name, text) for name in BACKWARD_KERNELS for text in options.backward]
    )
    print(f"{torch.cuda.get_device_name()}, TFLOP/s (x cuDNN)")
    warm()
    table = result_files.Table("attention", ("forward", *COLUMNS["forward"]))
    gradients = result_files.Table("attention_gradients", ("backward", *COLUMNS["backward"]))
    for shape in options.shapes:
        measure(shape, table)
    for shape in options.backward:
        measure_backward(shape, gradients)
    table.save(options.json)
    gradients.save(options.json)


if __name__ == "__main__":
    main()
