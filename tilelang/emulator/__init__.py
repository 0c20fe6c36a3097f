"""A functional emulator of NVIDIA GPUs that executes PTX on the CPU.

device = tilelang.emulator.Device("sm_100a")
kernel = device.load_ptx(text)["kernel"]
kernel.launch(grid, block, [array, 3.0, tensor])
"""

from tilelang.emulator.arguments import Param, Pointer
from tilelang.emulator.device import Device, InstructionCount, Kernel, LaunchReport, Module
from tilelang.emulator.errors import EmulatorError, EmulatorWarning
from tilelang.emulator.launch_options import Options, Suppression, options
from tilelang.emulator.memory import Mapping
from tilelang.emulator.profiles import PROFILES, Profile, Reliance
from tilelang.emulator.reachable import reachable
from tilelang.emulator.tensor_map import Im2col, TensorMap
from tilelang.emulator.timed import Timing, TimingOptions
from tilelang.emulator.timing import compare

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
    "Suppression",
    "TensorMap",
    "Timing",
    "TimingOptions",
    "compare",
    "options",
    "reachable",
]
