"""Measures the cases of timing_cases.py on a GPU.

    python benchmark/timing_measure.py build FOLDER             # needs no GPU
    python benchmark/timing_measure.py measure FOLDER --save kernels.json [--only TEXT]

The GPU is warmed for two seconds, and by each kernel for 0.15 s more. Then, fifteen times: the L2
cache is flushed by writing 256 MB, and the kernel runs. ``event_us`` is the median time between
events around the kernel, ``us`` of what CUPTI says of the kernel alone, ``warm_us`` the time of a
run without flushes in a row of runs, and ``mhz`` the mean clock of an SM in such a row of 0.15 s: a
warp beside the kernels compares it with the global timer. (NVML tells more: up to 12 % for kernels
that use the tensor core. A probe after a kernel reads another clock than the kernel has inside.)
"""

from __future__ import annotations

import argparse
import ctypes
import json
import math
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from timing_cases import Case, Foreign, cases, fitted
from timing_recorded import record

_FLUSH_BYTES = 256 << 20
_RUNS = 15
_DTYPES = {
    "f32": torch.float32, "f64": torch.float64, "bf16": torch.bfloat16, "f16": torch.float16,
    "e4m3": torch.float8_e4m3fn, "s8": torch.int8, "s32": torch.int32,
}  # fmt: skip


def tensors(args: tuple[Any, ...], device: str) -> list[Any]:
    """The arguments of a case: see timing_cases.py."""
    result: list[Any] = []
    for arg in args:
        if not isinstance(arg, str):
            result.append(arg)
            continue
        kind, extents = arg[:-1].split("[")
        shape = [int(x) for x in extents.split(",")]
        dtype = _DTYPES[kind]
        if kind == "s32" and result:
            result.append(torch.randint(0, result[0].shape[0], shape, dtype=dtype, device=device))
        elif dtype in (torch.int8, torch.int32):
            result.append(torch.randint(-9, 10, shape, dtype=dtype, device=device))
        else:
            wide = torch.float64 if kind == "f64" else torch.float32
            result.append(torch.randn(shape, dtype=wide, device=device).to(dtype))
    return result


class Driver:
    """Launches machine code through the CUDA driver, on the current stream of torch."""

    def __init__(self) -> None:
        from cuda.bindings import driver

        self._driver = driver
        torch.cuda.init()
        torch.zeros(1, device="cuda")

    def _check(self, result: Any) -> Any:
        status, *values = result
        if status != self._driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"the CUDA driver says {status.name}")
        return values[0] if values else None

    def warp(self, ptx: str, values: list[ctypes._SimpleCData], stream: int) -> None:
        """Runs one warp of a program ``probe`` on a stream."""
        driver = self._driver
        module = self._check(driver.cuModuleLoadData(ptx.encode() + b"\0"))
        function = self._check(driver.cuModuleGetFunction(module, b"probe"))
        pointers = (ctypes.c_void_p * len(values))(*(ctypes.addressof(x) for x in values))
        self._check(driver.cuLaunchKernel(
            function, 1, 1, 1, 32, 1, 1, 0, stream, ctypes.addressof(pointers), 0
        ))  # fmt: skip

    def function(self, kernel: Foreign, args: list[Any]) -> Callable[[], None]:
        """What launches a kernel on arguments; they stay alive with it."""
        driver = self._driver
        module = self._check(driver.cuModuleLoadData(kernel.cubin))
        function = self._check(driver.cuModuleGetFunction(module, kernel.entry.encode()))
        if kernel.smem > 48 << 10:
            attribute = driver.CUfunction_attribute
            self._check(driver.cuFuncSetAttribute(
                function, attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, kernel.smem
            ))  # fmt: skip
        cells: list[Any] = []
        for arg in args:
            if isinstance(arg, torch.Tensor):
                cells.append(ctypes.c_uint64(arg.data_ptr()))
            elif isinstance(arg, float):
                cells.append(ctypes.c_float(arg))
            else:
                cells.append(ctypes.c_int64(arg))
        pointers = (ctypes.c_void_p * len(cells))(*(ctypes.addressof(cell) for cell in cells))
        grid = (*kernel.grid, 1, 1)[:3]
        stream = torch.cuda.current_stream().cuda_stream

        def run(alive: tuple[Any, ...] = (args, cells)) -> None:
            self._check(driver.cuLaunchKernel(
                function, *grid, kernel.threads, 1, 1, kernel.smem, stream,
                ctypes.addressof(pointers), 0,
            ))  # fmt: skip

        return run


def build(folder: Path) -> None:
    """Compiles the kernels: those of others to be launched, ours to be predicted as they are."""
    folder.mkdir(parents=True, exist_ok=True)
    for case in cases():
        made = case.make()
        if isinstance(made, Foreign):
            made.save(folder / case.stem)
        else:
            record(made, tensors(case.args, "cpu")).save(folder / case.stem)


def launcher(case: Case, folder: Path, driver: Driver) -> Callable[[], Any]:
    """What runs a case on new random arguments."""
    stem = folder / case.stem
    if stem.with_suffix(".json").exists():
        kernel = Foreign.load(stem)
        arguments = tensors(kernel.args, "cuda")
        run = driver.function(kernel, arguments)
        check_product(case, run, arguments)
        return run
    kernel = case.make()
    arguments = tensors(case.args, "cuda")
    return lambda: kernel(*arguments)


def check_product(case: Case, run: Callable[[], Any], arguments: list[Any]) -> None:
    """Compares the result of a foreign matrix product with torch's."""
    if not case.kind.startswith(("gemm", "matmul")):
        return
    a, b, c = arguments[:3]
    c.fill_(float("nan"))
    run()
    want = a[:256].double() @ (b if "SIMT" in case.kind else b.T).double()
    error = (c[:256].double() - want).norm() / want.norm()
    assert error < 5e-3, f"relative error {error:.2g}"
    assert not c.isnan().any()


#: Waits for so many nanoseconds; stores how many cycles and nanoseconds that were.
_METER = """.version 8.0
.target sm_90
.address_size 64
.visible .entry probe(.param .u64 out, .param .u64 most)
{
    .reg .pred %again;
    .reg .b64 %d<8>;
    ld.param.u64 %d0, [out];
    ld.param.u64 %d1, [most];
    mov.u64 %d2, %globaltimer;
    mov.u64 %d3, %clock64;
AGAIN:
    nanosleep.u32 20000;
    mov.u64 %d4, %globaltimer;
    sub.u64 %d4, %d4, %d2;
    setp.lt.u64 %again, %d4, %d1;
    @%again bra AGAIN;
    mov.u64 %d5, %clock64;
    sub.u64 %d5, %d5, %d3;
    st.global.v2.u64 [%d0], {%d5, %d4};
    ret;
}
"""
_METERED = 0.15  # seconds


class Bench:
    """Measures functions that launch one kernel each."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._beside = torch.cuda.Stream()
        self._clocks = torch.zeros(2, dtype=torch.int64, device="cuda")
        self._flushed = torch.empty(_FLUSH_BYTES // 4, dtype=torch.int32, device="cuda")

    def measure(self, run: Callable[[], Any]) -> dict[str, float]:
        """The numbers of one case."""
        run()
        torch.cuda.synchronize()
        warm = self._row(run, 3)
        warm = self._row(run, max(3, min(1000, math.ceil(0.15e6 / warm))))
        times = [self._once(run) for _ in range(_RUNS)]
        result = {"event_us": statistics.median(times), "warm_us": warm,
                  "least_event_us": min(times), "mhz": self._clock(run, warm)}  # fmt: skip
        return result | self._by_profiler(run)

    def _row(self, run: Callable[[], Any], count: int) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(count):
            run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3 / count

    def _clock(self, run: Callable[[], Any], microseconds: float) -> float:
        count = math.ceil(1.5 * _METERED * 1e6 / microseconds)
        self._row(run, count)
        self._driver.warp(
            _METER,
            [ctypes.c_uint64(self._clocks.data_ptr()), ctypes.c_uint64(int(_METERED * 1e9))],
            self._beside.cuda_stream,
        )
        self._row(run, count)
        torch.cuda.synchronize()
        cycles, nanoseconds = self._clocks.tolist()
        return cycles / nanoseconds * 1e3

    def _once(self, run: Callable[[], Any]) -> float:
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self._flushed.zero_()
        start.record()
        run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e3

    def _by_profiler(self, run: Callable[[], Any]) -> dict[str, float]:
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
            for _ in range(7):
                self._flushed.zero_()
                run()
            torch.cuda.synchronize()
        own = [
            event.device_time for event in profile.events()
            if "elementwise" not in event.name and "Memset" not in event.name
            and "fill" not in event.name.lower() and event.device_time > 0
        ]  # fmt: skip
        return {"us": statistics.median(own), "least_us": min(own)} if own else {}


def measure(folder: Path, only: str, save: str | None) -> None:
    """Measures and prints all cases."""
    driver = Driver()
    bench, rows, own = Bench(driver), [], fitted()
    square = torch.randn(2, 8192, 8192, device="cuda").bfloat16()
    end = time.monotonic() + 2
    while time.monotonic() < end:
        torch.mm(*square)
        torch.cuda.synchronize()
    for case in (case for case in cases() if only in case.name):
        try:
            numbers = bench.measure(launcher(case, folder, driver))
        except Exception as error:  # one kernel that fails is not to end all others
            print(f"{case.name}: {type(error).__name__} {error}", flush=True)
            continue
        rows.append({"name": case.name, "kind": case.kind, "fitted": case.name in own,
                     "flops": case.flops, "bytes": case.bytes, **numbers})  # fmt: skip
        us = numbers.get("us", numbers["event_us"])
        print(f"{case.name:56} {us:9.2f} us  events {numbers['event_us']:9.2f}  "
              f"warm {numbers['warm_us']:9.2f}  "
              f"{case.flops / us / 1e6:7.1f} TFLOP/s {case.bytes / us / 1e6:6.2f} TB/s",
              flush=True)  # fmt: skip
        torch.cuda.empty_cache()
    if save:
        document = {"gpu": torch.cuda.get_device_name(), "rows": rows}
        Path(save).write_text(json.dumps(document, indent=1))


def main() -> None:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("action", choices=("build", "measure"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--save")
    options = parser.parse_args()
    if options.action == "build":
        build(options.folder)
    else:
        measure(options.folder, options.only, options.save)


if __name__ == "__main__":
    main()
