"""Predicts kernels of the wheel tirx-kernels on a B200, without a GPU; run by published.py.

    VENV/bin/python benchmark/published_tirx.py KERNEL/CONFIG ... [--l2 warm]

VENV has the wheels tirx-kernels and apache-tvm besides this package; neither is a dependency of
it. The wheel's own benchmark of a workload runs: it makes the inputs, with torch's "cuda" being the
emulator, and the TVM host program encodes tensor maps and launches. Where TVM would compile for a
GPU and call its driver, the CUDA C++ goes through NVRTC to the emulator's timing model. For each
workload a line of JSON is printed: microseconds and clock of each grid, or why there are none.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import json
import os
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from typing import Any

ARCH, SMS = "sm_100a", 148
os.environ["TIRX_PREPARE_CUDA_ARCH"] = ARCH
os.environ["TIRX_PREPARE_NUM_SMS"] = str(SMS)

import numpy as np  # noqa: E402
import published_driver  # noqa: E402
import published_inputs  # noqa: E402

from tilelang.emulator import Device, TimingOptions, as_cuda  # noqa: E402
from tilelang.emulator.reachable import live_tensors  # noqa: E402
from tilelang.emulator.tensor_map import TensorMap  # noqa: E402

_MAP_BYTES = 128
_TENSOR_MAP = """struct alignas(64) CUtensorMap_st { unsigned long long words[16]; };
typedef struct CUtensorMap_st CUtensorMap;
"""
_EXTENTS = ("blockIdx", "threadIdx", "clusterCtaIdx", "preferredClusterCtaIdx")


class Predicted(Exception):
    """Ends a benchmark once its kernel has been predicted."""


class Host:
    """What TVM's host programs call instead of the CUDA driver.

    Attributes:
        grids: of the workload that runs: name, microseconds, clock and seconds of the processor.
    """

    def __init__(self, l2: str, dry: bool) -> None:
        self.device = Device(ARCH)
        self.grids: list[dict[str, Any]] = []
        self._options = TimingOptions(sampled=True, alone=True, record=False, l2=l2)
        self._maps: dict[int, Any] = {}
        self._held: list[tuple[int, int, Any]] = []
        self._timing, self._dry = False, dry

    @contextlib.contextmanager
    def timed(self) -> Iterator[None]:
        """Launches inside of the block are predicted; others do nothing."""
        self._timing = True
        try:
            yield
        finally:
            self._timing = False

    def build(self, host: Any, devices: dict[Any, Any], target: Any) -> Any:
        """Stands for TVM's way from both halves of a program to a module that runs."""
        import tvm_ffi
        from tvm.ir.transform import PassContext

        tools = sys.modules["tvm.tirx.build"]
        for goal, module in devices.items():
            source = tools.codegen_build(module, goal).inspect_source()
            loaded: list[Any] = []
            for variable, function in module.functions.items():
                tags = [str(tag) for tag in function.attrs.get("tirx.kernel_launch_params", [])]
                tvm_ffi.register_global_func(
                    variable.name_hint, self._launcher(variable.name_hint, tags, source, loaded),
                    override=True,
                )  # fmt: skip
        with PassContext(config={"tirx.disable_assert": True}):
            return tools.codegen_build(host, target)

    def _launcher(
        self, name: str, tags: list[str], source: str, loaded: list[Any]
    ) -> Callable[..., None]:
        """A packed function that launches a kernel: its arguments, then the launch's extents."""

        def launch(*values: Any) -> None:
            if not self._timing:
                return
            if not loaded:
                loaded.append(self._load(source))
            kernel = loaded[0][name]
            count = len(kernel.params)
            given, numbers = values[:count], [int(each) for each in values[count:]]
            # Some tags are no numbers of the call.
            taken = [tag for tag in tags if tag.partition(".")[0] in _EXTENTS or "dyn_sh" in tag]
            self._run(kernel, given, dict(zip(taken, numbers, strict=False)))

        return launch

    def _load(self, source: str) -> Any:
        from pathlib import Path

        import nvidia

        roots = [Path(each) for each in nvidia.__path__]
        folders = {
            str(found.parent.parent) for root in roots for found in root.glob("**/cuda/std/version")
        }
        includes = [f"-I{Path(each).parent}" for each in folders]
        # NVRTC has no cuda.h, which says how large a tensor map is.
        if "CUtensorMap" in source:
            source = _TENSOR_MAP + source
        # NVRTC 13.0 refuses both.
        if "__block_size__" in source:
            source = re.sub(r"__launch_bounds__\([^)]*\)", "", source)
        return self.device.load_cuda(source, options=["--device-int128", *includes])

    def _run(self, kernel: Any, given: Any, extents: dict[str, int]) -> None:
        def three(name: str) -> tuple[int, int, int]:
            x, y, z = (extents.get(f"{name}.{axis}", 1) for axis in "xyz")
            return x, y, z

        begin = time.process_time()
        values = [
            self._argument(param, value) for param, value in zip(kernel.params, given, strict=True)
        ]
        cluster = three("clusterCtaIdx")
        if self._dry:
            self.grids.append(
                {"kernel": kernel.name, "us": 0.0, "seconds": 0.0, "extents": extents}
            )
            return
        report = kernel.launch(
            three("blockIdx"), three("threadIdx"), values,
            cluster=None if cluster == (1, 1, 1) else cluster,
            smem=extents.get("tirx.use_dyn_shared_memory", 0), timing=self._options,
            sanitize=False, progress=False, lint=(),
        )  # fmt: skip
        timing = report.timing
        shares = dict(zip(timing.engine_name, timing.engine_share.tolist(), strict=True))
        self.grids.append({
            "kernel": kernel.name, "us": timing.grid_us, "clock": timing.power_factor,
            "dram_mb": round(timing.dram_bytes / 1e6, 2),
            "ctas": timing.ctas, "timed": timing.timed_ctas,
            "seconds": time.process_time() - begin,
            "busy": {name: round(share, 3) for name, share in shares.items() if share > 0.1},
        })  # fmt: skip

    def _argument(self, param: Any, value: Any) -> Any:
        if param.size == _MAP_BYTES:
            at = int(value.value)
            if at in self._maps:
                return self._maps[at]
            # The program has copied a map.
            return TensorMap(self.device.memory, None, ctypes.string_at(at, _MAP_BYTES))
        if hasattr(value, "value"):
            return self._address(value.value)
        return value

    def _address(self, host: int | None) -> int:
        """Maps the memory at this host address, and returns its address on the emulated GPU."""
        if not host:
            return 0
        for begin, size, mapping in self._held:
            if begin <= host < begin + size:
                return int(mapping.address) + host - begin
        for whole in live_tensors(np.array([host], np.uint64)):
            begin, size = whole.data_ptr(), whole.numel()
            self._held.append((begin, size, self.device.map(whole, name="argument")))
            return int(self._held[-1][2].address) + host - begin
        raise ValueError(f"a kernel's pointer {host:#x} is of no tensor of torch")

    def encode(self, *values: Any) -> None:
        """Stands for cuTensorMapEncodeTiled as TVM calls it."""
        address, kind, rank, base, *rest = values
        rank = int(rank)
        numbers = iter([int(each) for each in rest])
        shape, strides, box, steps = (
            [next(numbers) for _ in range(count)] for count in (rank, rank - 1, rank, rank)
        )
        interleave, swizzle, promotion, fill, *forced = numbers
        code = forced[0] if forced and forced[0] >= 0 else _data_type(str(kind))
        self._maps[int(address.value)] = self.device.encode_tiled(
            data_type=code, rank=rank, global_address=self._address(base.value),
            global_dim=shape, global_strides=strides, box_dim=box, element_strides=steps,
            interleave=interleave, swizzle=swizzle, l2_promotion=promotion, oob_fill=fill,
        )  # fmt: skip

    def driver(self) -> contextlib.ExitStack:
        """Takes the place of the driver for what does not reach it through TVM."""

        def encode(**fields: Any) -> Any:
            address = self._address(fields.pop("global_address"))
            return self.device.encode_tiled(global_address=address, **fields)

        stack = contextlib.ExitStack()
        for patch in published_driver.stand_in(encode, self._maps.__setitem__):
            stack.enter_context(patch)
        stack.enter_context(published_driver.Aligned())
        return stack

    def clear(self) -> None:
        """Forgets the workload."""
        for _, _, mapping in self._held:
            mapping.release()
        self._held.clear()
        self._maps.clear()
        self.grids = []


def _data_type(kind: str) -> int:
    """The number of an element type of TVM in the driver's enumeration; bytes for narrow floats."""
    known = {
        "uint8": 0, "int8": 0, "uint16": 1, "uint32": 2, "int32": 3, "int64": 4, "uint64": 5,
        "float16": 6, "float32": 7, "float64": 8, "bfloat16": 9,
    }  # fmt: skip
    return known.get(kind, 0)


def install(host: Host) -> None:
    """Puts the emulator in the place of the driver and of the wheel's timer."""
    import tvm.tirx.build  # noqa: F401
    import tvm_ffi
    from tirx_kernels import runner

    published_inputs.install()
    sys.modules["tvm.tirx.build"].tir_to_runtime = host.build  # type: ignore[attr-defined]
    register = tvm_ffi.register_global_func
    register("runtime.cuTensorMapEncodeTiled", host.encode, override=True)
    register("__tvm_set_device", lambda *_: None, override=True)

    def bench(functions: Any, *_: Any, prepare: Any = None, **__: Any) -> Any:
        """Predicts the package's own kernel; the references are others' libraries."""
        name = next(each for each in functions if each in ("tirx", "tir"))
        before = (prepare or {}).get(name) if isinstance(prepare, dict) else prepare
        if before is not None:
            before()
        host.grids.clear()
        with host.timed():
            functions[name]()
        raise Predicted

    runner.bench = bench
    runner.cuda_initialization_guard = lambda **_: contextlib.nullcontext()
    runner.gpu_stage_compile_guard = contextlib.nullcontext


def predict(name: str, host: Host) -> dict[str, Any]:
    """Returns what is known of one workload: its grids, or what went wrong."""
    from tirx_kernels import runner
    from tirx_kernels.registry import load_kernel

    kernel, _, label = name.partition("/")
    begin = time.monotonic()
    row: dict[str, Any] = {"name": name}
    try:
        module = load_kernel(kernel)
        known = [*getattr(module, "BENCH_CONFIGS", []), *module.CONFIGS]
        config = next(each for each in known if each["label"] == label)
        prepared = runner.prepare_kernel_bench(
            kernel, config, module=module, require_cuda_uninitialized=False
        )
        try:
            prepared.benchmark.run_gpu()
            row["error"] = "its benchmark measured nothing"
        except Predicted:
            pass
        if not host.grids:
            row["error"] = "no kernel was launched"
        row["grids"] = list(host.grids)
        row["us"] = sum(grid["us"] for grid in host.grids)
        row["seconds"] = round(sum(grid["seconds"] for grid in host.grids), 2)
    except BaseException as error:  # the next workload may do
        if isinstance(error, KeyboardInterrupt):
            raise
        lines = str(error).strip().splitlines() or [""]
        said = next((line for line in lines if "error" in line), lines[0])
        row["error"] = f"{type(error).__name__}: {said[:300]}"
        if os.environ.get("PUBLISHED_TRACE"):
            traceback.print_exc()
    finally:
        host.clear()
    row["wall"] = round(time.monotonic() - begin, 1)
    return row


def main() -> None:
    """Prints a line for each workload."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="+")
    parser.add_argument("--l2", default="cold")
    parser.add_argument("--dry", action="store_true", help="prepare all, predict nothing")
    options = parser.parse_args()
    with as_cuda(ARCH):
        host = Host(options.l2, options.dry)
        install(host)
        with host.driver():
            for name in options.names:
                print("ROW " + json.dumps(predict(name, host)), flush=True)


if __name__ == "__main__":
    main()
