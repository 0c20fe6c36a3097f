"""A driver of Triton whose GPU is the emulator."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from triton import knobs
from triton.backends.compiler import GPUTarget
from triton.backends.driver import DriverBase
from triton.backends.nvidia.compiler import get_ptxas
from triton.runtime import driver as drivers

from tilelang.emulator.device import Device
from tilelang.emulator.gpus import GPUS, find
from tilelang.emulator.triton import benchmark, machine_code
from tilelang.emulator.triton.launcher import Launcher, Program
from tilelang.runtime import resources, toolchain

if TYPE_CHECKING:
    from tilelang.emulator.triton import Emulation

_COMMON = {"max_num_regs": 65536, "warpSize": 32}
_MAX_THREADS = 1024
_MOST_REGISTERS = 255
_STREAM = 0


def capability_of(arch: str) -> int:
    """Returns Triton's number of an architecture: 90 of ``"sm_90a"``."""
    return int(arch.removeprefix("sm_").removesuffix("a"))


@functools.cache
def device_of(arch: str) -> Device:
    """Returns the device that the programs of a process share, so that modules are loaded once."""
    return Device(arch)


class _Utils:
    """Functions that Triton calls to load a program and to query the device."""

    def get_device_properties(self, device: Any) -> dict[str, int]:
        archs = {capability_of(gpu.arch): gpu.arch for gpu in GPUS}
        gpu = find(archs.get(device, _active().emulation.arch))
        return {
            "max_shared_mem": gpu.shared, "multiprocessor_count": gpu.sms,
            "sm_clock_rate": gpu.sm_khz, "mem_clock_rate": gpu.memory_khz,
            "mem_bus_width": gpu.bus_bits, **_COMMON,
        }  # fmt: skip

    def load_binary(self, name: str, binary: bytes, shared: int, device: int) -> tuple[Any, ...]:
        """Returns module, function, registers, spilled bytes, and most threads of a block.

        There is no module, for Triton would unload it by whatever driver is active then.
        """
        program = _program(binary, name)
        return None, program, program.registers or _MOST_REGISTERS, 0, _MAX_THREADS

    def unload_module(self, module: Any) -> None:
        pass

    def set_printf_fifo_size(self, size: int) -> None:
        pass

    def cuOccupancyMaxActiveClusters(self, function: Any, shared: int, ctas: int) -> int:
        """Returns the number of clusters that fit at once, with one CTA an SM."""
        return find(_active().emulation.arch).sms // ctas


@functools.cache
def _program(binary: bytes, name: str) -> Program:
    return Program(binary, name)


def _active() -> EmulatedDriver:
    active = drivers.active
    assert isinstance(active, EmulatedDriver)
    return active


class EmulatedDriver(DriverBase):
    """The active Triton driver inside :func:`tilelang.emulator.triton.emulate`.

    The number of its device is the compute capability: a kernel that is used for several
    architectures, or also on a GPU, has programs of its own for each.
    """

    launcher_cls = Launcher
    utils = _Utils()

    def __init__(self, emulation: Emulation) -> None:
        self.emulation = emulation
        self.device = device_of(emulation.arch)
        self.capability = capability_of(emulation.arch)

    @classmethod
    def is_active(cls) -> bool:
        return isinstance(drivers.active, cls)

    def map_python_to_cpp_type(self, ty: str) -> str:
        """Returns the type of C++ for a type of Triton, as its driver for CUDA has it."""
        from triton.backends.nvidia.driver import ty_to_cpp

        return ty_to_cpp(ty)

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", self.capability, 32)

    def get_current_device(self) -> int:
        from tilelang.emulator.cuda_devices import DeviceNumber

        return DeviceNumber(self.capability)

    def set_current_device(self, device: int) -> None:
        pass

    def get_current_stream(self, device: int | None = None) -> int:
        return _STREAM

    def get_device_capability(self, device: int | None = None) -> tuple[int, int]:
        return divmod(self.capability, 10)

    def get_active_torch_device(self) -> Any:
        import torch

        from tilelang.emulator.cuda_devices import active

        return torch.device("cuda", 0) if active() else torch.device("cpu")

    def get_device_interface(self) -> Any:
        from tilelang.emulator.cuda_devices import interface

        return interface(self.emulation.arch)

    def get_benchmarker(self) -> Callable[..., Any]:
        return benchmark.rank

    def get_empty_cache_for_benchmark(self) -> Any:
        """Returns None: the timing model starts with a cold cache."""

    def clear_cache(self, cache: Any) -> None:
        pass

    def allocate_default_profile_scratch(self, size: int, alignment: int, stream: Any) -> Any:
        import torch

        return torch.zeros(size, dtype=torch.uint8)

    def assemble_tensormap_to_arg(self, infos: Any, args: Sequence[Any]) -> Sequence[Any]:
        return args


# Where Triton's compiler stops ---------------------------------------------------------------


def _stop_at_ptx(backend: Any, stages: dict[str, Any], *_: Any) -> None:
    """Uses the PTX as machine code; Triton's own ptxas reports the resources."""
    arch = backend.target.arch

    def keep(ptx: str, metadata: dict[str, Any]) -> bytes:
        name = f"sm_{arch}a" if arch >= 90 else f"sm_{arch}"
        log = toolchain.verbose_assembly(ptx, name, get_ptxas(arch).path)
        usage = resources.parse(log).get(metadata["name"])
        return Program.binary(ptx, usage.registers if usage else 0)

    stages["cubin"] = keep


def _inspection(previous: Callable[..., Any] | None) -> Callable[..., Any]:
    """Hooks into Triton's compiler; the key without arguments distinguishes its programs."""

    def hook(*args: Any) -> Any:
        if not args:
            key, digest = previous() if previous else ("", "")
            return f"{key}tilelang-emulator-1", f"{digest}tilelang-emulator-1"
        if previous is not None:
            previous(*args)
        return _stop_at_ptx(*args)

    return hook


@contextlib.contextmanager
def activated(emulation: Emulation) -> Iterator[None]:
    """Makes an emulated GPU Triton's active one inside of the block."""
    driver = EmulatedDriver(emulation)
    before, hook = drivers._active, knobs.runtime.add_stages_inspection_hook
    inner = hook if not isinstance(before, EmulatedDriver) else None
    drivers.set_active(driver)
    if inner is not None or hook is None:
        knobs.runtime.add_stages_inspection_hook = _inspection(inner)
    try:
        with benchmark.replaced(), machine_code.disassembled():
            yield
    finally:
        knobs.runtime.add_stages_inspection_hook = hook
        drivers.set_active(before)
