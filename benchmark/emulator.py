"""Speed of the emulator: lane-instructions per second by class of instruction, whole kernels.

Usage: python benchmark/emulator.py [--threads N] [--timing [--only TEXT]]

``--timing`` prints how many times as long launches take that are timed, without and with the
timeline: processor time of the median of interleaved runs on one thread. Loops run without the
checks of ordering, whole kernels with them.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

import tilelang
from tilelang.emulator import Device, InstructionCount, LaunchReport, TimingOptions, options

sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "gemm_sm100"))

from attention import attention
from gemm_tcgen5mma import gemm_ss

_ITERATIONS = 2000
#: CTAs and threads of launches that are timed. They execute the same: one CTA is in detail.
_TIMED_GRIDS = ((16, 128), (2, 128), (2, 512), (1, 128), (1, 512))
_TIMED_ROUNDS = 5
_KERNEL = """.version 9.0
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 P) {{
 .reg .b32 %r<40>; .reg .f32 %f<40>; .reg .b64 %d<20>; .reg .pred %p<9>; .reg .b16 %h<9>;
 .shared .align 16 .b8 sm[4096];
 mov.u32 %r0, %tid.x; mov.u32 %r1, 0; cvt.rn.f32.u32 %f0, %r0; mov.f32 %f1, 0f3F800001;
 mov.f32 %f2, 0f3F000000; mov.u32 %r5, 3; mov.u32 %r6, 7; mov.f32 %f4, %f0; mov.f32 %f5, %f0;
 mov.b32 %r20, 0x3F903F80; mov.b32 %r21, 0x3F7F3F7E; mov.b32 %r22, 0x3C003B80;
 ld.param.u64 %d0, [P]; mul.wide.u32 %d1, %r0, 4; add.s64 %d2, %d0, %d1;
 mov.u32 %r11, %ctaid.x; mul.wide.u32 %d1, %r11, 512; add.s64 %d2, %d2, %d1;
 and.b32 %r9, %r0, 127; shl.b32 %r9, %r9, 2; mov.u32 %r10, sm; add.u32 %r9, %r9, %r10;
 st.shared.u32 [%r9], %r0; bar.sync 0;
L:
 {body}
 add.u32 %r1, %r1, 1; setp.lt.u32 %p0, %r1, {iterations}; @%p0 bra L;
 st.global.f32 [%d2], %f4; st.global.u32 [%d2], %r5; ret;
}}"""
_BODIES = {
    "integer": "add.u32 %r5,%r5,%r6; xor.b32 %r6,%r5,%r0; mad.lo.u32 %r5,%r6,%r5,%r0;"
    "shl.b32 %r7,%r5,3; and.b32 %r6,%r7,%r6; sub.u32 %r5,%r5,%r7;" * 3,
    "integer, 64 bit": "mul.wide.s32 %d5,%r5,%r6; add.s64 %d6,%d5,%d6; shl.b64 %d7,%d6,3;" * 4,
    "integer division": "div.u32 %r5,%r6,%r0;" * 6,
    "f32": "fma.rn.f32 %f4,%f4,%f1,%f2; fma.rn.f32 %f5,%f5,%f1,%f2; mul.f32 %f4,%f4,%f2;"
    "add.f32 %f5,%f5,%f1; sub.f32 %f6,%f5,%f2;" * 3,
    "f32x2": "fma.rn.f32x2 %d5,%d6,%d7,%d5; mul.rn.f32x2 %d6,%d6,%d7;" * 4,
    "bf16x2": "fma.rn.bf16x2 %r20,%r20,%r21,%r22; mul.bf16x2 %r23,%r20,%r22;" * 4,
    "ex2": "ex2.approx.ftz.f32 %f4,%f2;" * 6,
    "compare, select": "setp.gt.u32 %p1,%r5,%r6; selp.b32 %r5,%r6,%r0,%p1; @%p1 add.u32 %r6,%r6,1;"
    * 4,
    "convert": "cvt.rn.bf16x2.f32 %r5,%f4,%f5; cvt.s64.s32 %d5,%r5; cvt.u32.u64 %r6,%d5;"
    "cvt.rn.f16.f32 %h1,%f4; cvt.f32.f16 %f5,%h1;" * 3,
    "shuffle": "shfl.sync.bfly.b32 %r5,%r5,1,31,-1;" * 6,
    "global load": "ld.global.f32 %f4,[%d2]; ld.global.u32 %r5,[%d2];" * 6,
    "global store": "st.global.f32 [%d2],%f4;" * 6,
    "shared load": "ld.shared.u32 %r5,[%r9];" * 6,
    "shared store": "st.shared.u32 [%r9],%r5;" * 6,
    "divergence": "and.b32 %r7,%r0,1; setp.eq.u32 %p1,%r7,0; @%p1 bra A; add.u32 %r5,%r5,1; bra B;"
    "A: add.u32 %r6,%r6,1; B:",
}


def _whole_kernel(name: str, function, inputs: list[torch.Tensor], expected: torch.Tensor) -> None:
    """Compiles ``function(*inputs, result)``, runs it, checks it, and prints its counts.

    Raises AssertionError if a result differs by more than two units of bf16's last place, relative
    to the largest.
    """
    kernel = tilelang.compile(function, target="sm_100a")
    result = torch.full(expected.shape, float("nan"), dtype=torch.bfloat16)
    kernel(*inputs, result)
    error = (result.double() - expected).abs().max() / expected.abs().max()
    assert error <= 2**-7, f"{name}: relative error {error:.2g}"
    report = kernel.last_launch
    print(f"\n{name}: {report.seconds:.2f} s")
    _by_class(report)


def _by_class(report: LaunchReport) -> None:
    print(f"{'class':20} {'k instr':>10} {'k lane-instr':>13} {'k lane-instr/s':>15}")
    total = InstructionCount(report.instructions, report.lane_instructions)
    rows = sorted(report.by_class.items(), key=lambda row: -row[1].lane_instructions)
    for label, count in (*rows, ("all", total)):
        lanes = count.lane_instructions / 1e3
        rate = lanes / report.seconds
        print(f"{label:20} {count.instructions / 1e3:10.1f} {lanes:13.1f} {rate:15.0f}")


def _whole_kernels() -> None:
    torch.manual_seed(0)
    a, b = (torch.randn(1024, 1024).bfloat16() for _ in range(2))
    product = a.double() @ b.double().T
    gemm = gemm_ss(1024, 1024, 1024, 128, 128, 64, "bfloat16", "bfloat16", "float32")
    _whole_kernel("GEMM 1024 x 1024 x 1024, bf16", gemm, [a, b], product)
    q, k, v = (torch.randn(1024, 128).bfloat16() for _ in range(3))
    weights = torch.softmax(q.double() @ k.double().T / 128**0.5, dim=-1)
    head = attention(1024, 1024, 128, 128, 128, "bfloat16", "bfloat16")
    _whole_kernel("attention, 1 head, 1024 x 128", head, [q, k, v], weights @ v.double())


_TIMED_MODES = {"off": False, "timed": TimingOptions(record=False), "timeline": TimingOptions()}


def _timed_row(launch: Callable[[Any], object]) -> str:
    """Milliseconds of ``launch(timing)`` without timing, and how many times as long with it."""
    times: dict[str, list[float]] = {mode: [] for mode in _TIMED_MODES}
    for _ in range(_TIMED_ROUNDS):
        for mode, timing in _TIMED_MODES.items():
            start = time.process_time()
            launch(timing)
            times[mode].append(time.process_time() - start)
    off, timed, timeline = (statistics.median(each) for each in times.values())
    return f"{off * 1e3:8.1f} {timed / off:6.2f} {timeline / off:9.2f}"


def _timed_launches(only: str) -> None:
    """Prints what timing costs in grids of which one CTA is timed in detail: a part or all."""
    device = Device("sm_100a")
    print(f"{'class':18} {'CTAs':>5} {'threads':>8} {'off, ms':>8} {'timed':>6} {'timeline':>9}")
    for name, body in _BODIES.items():
        if only not in name:
            continue
        kernel = device.load_ptx(_KERNEL.format(body=body, iterations=_ITERATIONS))["k"]
        for ctas, threads in _TIMED_GRIDS:
            data = [np.zeros((ctas - 1) * 128 + threads, np.float32)]
            launch = partial(kernel.launch, ctas, threads, data, threads=1, sanitize=False)
            row = _timed_row(lambda timing, launch=launch: launch(timing=timing))
            print(f"{name:18} {ctas:5} {threads:8} {row}", flush=True)


def _timed_kernels(only: str) -> None:
    """The same of whole kernels for sm_100a, with the checks of ordering."""
    bf16 = "bfloat16"
    kernels = {
        f"GEMM {m} x {n} x {k}": (gemm_ss(m, n, k, 128, 128, 64, bf16, bf16, "float32"),
                                  (m * n) // 128**2, [(m, k), (n, k), (m, n)])
        for m, n, k in ((512, 512, 512), (128, 128, 512))
    } | {
        f"attention {q} x {k}": (attention(q, k, 128, 128, 128, bf16, bf16), q // 128,
                                 [(q, 128), (k, 128), (k, 128), (q, 128)])
        for q, k in ((512, 512), (128, 512))
    }  # fmt: skip
    for name, (function, ctas, shapes) in kernels.items():
        if only not in name:
            continue
        kernel = tilelang.compile(function, target="sm_100a")
        tensors = [torch.randn(shape).bfloat16() for shape in shapes]

        def launch(timing: Any, kernel: Any = kernel, tensors: list = tensors) -> None:
            with options(timing=timing, threads=1):
                kernel(*tensors)

        print(f"{name:20} {ctas:3} {128:8} {_timed_row(launch)}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--timing", action="store_true")
    parser.add_argument("--only", default="", help="part of the classes that --timing measures")
    arguments = parser.parse_args()
    if arguments.timing:
        _timed_launches(arguments.only)
        return _timed_kernels(arguments.only)
    threads = arguments.threads
    device = Device("sm_100a")
    data = np.zeros(16 * 128, np.float32)
    print(f"{'class':18} {'M lane-instr/s':>15} {'ns/warp-instr':>14}")
    for name, body in _BODIES.items():
        kernel = device.load_ptx(_KERNEL.format(body=body, iterations=_ITERATIONS))["k"]
        report = kernel.launch(16, 128, [data], threads=threads)
        rate = report.lane_instructions / report.seconds / 1e6
        each = report.seconds / report.instructions * 1e9
        print(f"{name:18} {rate:15.0f} {each:14.1f}", flush=True)
    _whole_kernels()


if __name__ == "__main__":
    main()
