"""A functional emulator of NVIDIA GPUs that executes PTX on the CPU.

device = tilelang.emulator.Device("sm_100a")
kernel = device.load_ptx(text)["kernel"]
kernel.launch(grid, block, [array, 3.0, tensor])
"""

from typing import TYPE_CHECKING, Any

from tilelang.emulator.arguments import Param, Pointer
from tilelang.emulator.device import (
    Device,
    InstructionCount,
    Kernel,
    LaunchReport,
    Module,
    Stream,
)
from tilelang.emulator.errors import EmulatorError, EmulatorWarning
from tilelang.emulator.launch_options import Options, Suppression, options
from tilelang.emulator.memory import Mapping
from tilelang.emulator.profiles import PROFILES, Profile, Reliance
from tilelang.emulator.reachable import reachable
from tilelang.emulator.tensor_map import Im2col, TensorMap
from tilelang.emulator.timed import Timing, TimingOptions
from tilelang.emulator.timing import compare

if TYPE_CHECKING:
    from tilelang.emulator.cuda_devices import as_cuda


def __getattr__(name: str) -> Any:
    if name == "as_cuda":  # it needs torch
        from tilelang.emulator.cuda_devices import as_cuda

        return as_cuda
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


__all__ = [
    "PROFILES",
    "Device",
    "EmulatorError",
    "EmulatorWarning",
    "Im2col",
    "InstructionCount",
    "Kernel",
    "LaunchReport",
    "Mapping",
    "Module",
    "Options",
    "Param",
    "Pointer",
    "Profile",
    "Reliance",
    "Stream",
    "Suppression",
    "TensorMap",
    "Timing",
    "TimingOptions",
    "as_cuda",
    "compare",
    "options",
    "reachable",
]
