"""Tensors that a program holds the addresses of."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterable
from typing import Any

#: Lower values are no addresses of the host's heap, and the emulator maps nothing there.
_LOWEST = 1 << 36
_HIGHEST = 1 << 47


def tensors_at(addresses: Iterable[int]) -> list[Any]:
    """Returns the torch tensors of the CPU in this process that contain one of the addresses.

    A GPU's kernel reaches all memory of its process by addresses that it reads. The emulator maps
    what is known; a tensor of addresses, as grouped products have it, is looked up here. Each
    memory is returned once, as a tensor of all its bytes.
    """
    wanted = sorted({each for each in addresses if _LOWEST <= each < _HIGHEST})
    torch = sys.modules.get("torch")
    if not wanted or torch is None:
        return []
    found: dict[int, Any] = {}
    with torch._C.DisableTorchFunction():
        for each in gc.get_objects():
            if not issubclass(type(each), torch.Tensor) or each.layout != torch.strided:
                continue
            if each.device.type != "cpu":
                continue
            storage = each.untyped_storage()
            try:
                begin, size = storage.data_ptr(), storage.nbytes()
            except RuntimeError:  # a tensor without memory, as tracing makes
                continue
            if begin not in found and any(begin <= at < begin + size for at in wanted):
                found[begin] = torch.empty(0, dtype=torch.uint8).set_(storage)
    return list(found.values())
