"""Stands for the CUDA driver and its allocator where workloads of tirx-kernels call them."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode

_WORDS, _ALIGNED = 16, 512


class Aligned(TorchFunctionMode):
    """Moves new tensors to where an allocator of a GPU would place them: at multiples of 512."""

    def __torch_function__(
        self, func: Any, kinds: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if type(result) is not torch.Tensor or result.layout != torch.strided:
            return result
        own = result.untyped_storage()
        size = own.nbytes()
        whole = result.is_contiguous() and size == result.numel() * result.element_size()
        if not size or not whole or own.data_ptr() % _ALIGNED == 0 or result.requires_grad:
            return result
        if any(
            isinstance(each, torch.Tensor) and each.untyped_storage().data_ptr() == own.data_ptr()
            for each in (*args, *(kwargs or {}).values())
        ):
            return result
        raw = torch.empty(size + _ALIGNED, dtype=torch.uint8, device=result.device)
        begin = -raw.data_ptr() % _ALIGNED
        moved = raw[begin : begin + size].view(result.dtype).view(result.shape)
        if getattr(func, "__name__", "") not in ("empty", "empty_like"):
            moved.copy_(result)
        return moved


def _number(value: Any) -> int:
    return int(getattr(value, "value", value))


def stand_in(
    encode: Callable[..., Any], keep: Callable[[int, Any], None]
) -> tuple[mock._patch[Any], mock._patch[Any]]:
    """Returns patches for ``ctypes.CDLL("libcuda.so.1")`` and for cuda.bindings.

    Args:
        encode: makes a tensor map of the fields of ``cuTensorMapEncodeTiled``.
        keep: notes at which address of the host a tensor map has been asked for.
    """
    from cuda.bindings import driver as bindings

    def fields(kind: Any, rank: Any, base: Any, *rest: Any) -> Any:
        count = _number(rank)
        shape, strides, box, steps = ([_number(each) for each in list(part)] for part in rest[:4])
        interleave, swizzle, promotion, fill = (_number(each) for each in rest[4:8])
        return encode(
            data_type=_number(kind), rank=count, global_address=_number(base), global_dim=shape,
            global_strides=strides, box_dim=box, element_strides=steps, interleave=interleave,
            swizzle=swizzle, l2_promotion=promotion, oob_fill=fill,
        )  # fmt: skip

    def of_ctypes(address: Any, *rest: Any) -> int:
        keep(_number(address), fields(*rest))
        return 0

    def of_bindings(*values: Any) -> Any:
        encoded = fields(*values).encoded
        words = [int.from_bytes(encoded[8 * i : 8 * i + 8], "little") for i in range(_WORDS)]
        return bindings.CUresult.CUDA_SUCCESS, SimpleNamespace(opaque=words)

    def initialise(*_: Any) -> int:
        return 0

    library = SimpleNamespace(cuInit=initialise, cuTensorMapEncodeTiled=of_ctypes)
    load = ctypes.CDLL

    def cdll(name: Any, *rest: Any, **more: Any) -> Any:
        return library if "libcuda.so" in str(name) else load(name, *rest, **more)

    return (
        mock.patch.object(ctypes, "CDLL", cdll),
        mock.patch.object(bindings, "cuTensorMapEncodeTiled", of_bindings),
    )
