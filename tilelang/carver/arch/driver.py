"""Properties of the GPU of this machine; without one, of the target that stands for it.

The target without a GPU is that of :func:`tilelang.target.resolve`: what the emulator executes.
"""

from __future__ import annotations

from typing import Any

from ... import target as targets
from ...errors import ConfigError


def _device() -> Any:
    return targets.resolve("auto")


def _torch_properties(device_id: int) -> Any:
    import torch

    if not torch.cuda.is_available():
        return None
    return torch.cuda.get_device_properties(device_id)


def get_num_sms(device_id: int = 0) -> int:
    """Returns the number of multiprocessors."""
    found = _torch_properties(device_id)
    return int(found.multi_processor_count if found else _device().sm_count)


def get_device_name(device_id: int = 0) -> str:
    """Returns the name of the GPU, or of the one that the target stands for."""
    found = _torch_properties(device_id)
    return str(found.name if found else _device().gpu_name)


get_cuda_device_name = get_device_name


def get_cuda_device_properties(device_id: int = 0) -> Any:
    """Returns torch's properties of the GPU; None without one."""
    return _torch_properties(device_id)


def get_max_dynamic_shared_size_bytes(device_id: int = 0) -> int:
    """Returns how many bytes of shared memory a block can have."""
    del device_id
    return int(_device().shared_memory_per_block)


def get_shared_memory_per_block(device_id: int = 0, format: str = "bytes") -> int:
    """Returns the shared memory that a block can have.

    Args:
        device_id: accepted; the GPU is that of the default target.
        format: "bytes", "kb" or "mb".

    Raises:
        ConfigError: another unit.
    """
    units = {"bytes": 1, "kb": 1 << 10, "mb": 1 << 20}
    if format not in units:
        raise ConfigError(f"format is one of {', '.join(units)}, not {format!r}")
    return get_max_dynamic_shared_size_bytes(device_id) // units[format]


def get_registers_per_block(device_id: int = 0) -> int:
    """Returns how many registers of 32 bits a block can have."""
    del device_id
    return int(_device().registers_per_sm)


def get_sm_version(device_id: int = 0) -> int:
    """Returns 80 for compute capability 8.0, 90 for 9.0, 100 for 10.0."""
    found = _torch_properties(device_id)
    row = _device()
    return 10 * found.major + found.minor if found else 10 * int(row.major) + int(row.minor)
