"""Inputs that workloads of tirx-kernels make with other libraries: of the right shapes, all zero.

The wheel's workloads quantise their operands with DeepGEMM or FlashInfer, which need a GPU. What a
GEMM takes does not depend on the values, so these stand for the functions that are called; anything
else of those libraries is still missing, and the workload is listed with the reason.
"""

from __future__ import annotations

import sys
import types
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from typing import Any
from unittest.mock import MagicMock

import torch


def ceil_div(a: int, b: int) -> int:
    """The quotient, rounded up."""
    return -(-a // b)


def align(a: int, b: int) -> int:
    """The next multiple of ``b``."""
    return ceil_div(a, b) * b


def _zeros(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.uint8, device="cuda").view(dtype) if (
        dtype.itemsize == 1
    ) else torch.zeros(shape, dtype=dtype, device="cuda")  # fmt: skip


def _token(x: torch.Tensor, *_: Any, gran_k: int = 128, **__: Any) -> tuple[Any, Any]:
    """A row's values of 8 bits, and a scale for each ``gran_k`` of them."""
    rows, depth = x.shape[-2:]
    lead = tuple(x.shape[:-2])
    return (
        _zeros(*lead, rows, depth, dtype=torch.float8_e4m3fn),
        torch.ones(*lead, rows, ceil_div(depth, gran_k), device="cuda"),
    )


def _token_fp4(
    x: torch.Tensor, *_: Any, gran_k: int = 128, use_packed_ue8m0: bool = False, **__: Any
) -> tuple[Any, Any]:
    """Returns such inputs with two values of 4 bits in each byte."""
    rows, depth = x.shape[-2:]
    lead = tuple(x.shape[:-2])
    values, scales = _zeros(*lead, rows, depth // 2, dtype=torch.int8), ceil_div(depth, gran_k)
    if use_packed_ue8m0:  # four to an int32
        return values, torch.zeros(
            *lead, rows, ceil_div(scales, 4), dtype=torch.int32, device="cuda"
        )
    return values, torch.ones(*lead, rows, scales, device="cuda")


def _back_from_fp4(values: torch.Tensor, *_: Any, **__: Any) -> torch.Tensor:
    """The numbers that such inputs stand for."""
    return torch.zeros(*values.shape[:-1], 2 * values.shape[-1], device="cuda")


def _block(x: torch.Tensor, *_: Any, gran_k: int = 128, **__: Any) -> tuple[Any, Any]:
    """Values of 8 bits, and a scale for each block of ``gran_k`` squared."""
    rows, depth = x.shape[-2:]
    return (
        _zeros(*x.shape, dtype=torch.float8_e4m3fn),
        torch.ones(*x.shape[:-2], ceil_div(rows, gran_k), ceil_div(depth, gran_k), device="cuda"),
    )


def _channel(x: torch.Tensor, *_: Any, gran_k: int = 128, **__: Any) -> tuple[Any, Any]:
    """Values of 8 bits, and a scale for each ``gran_k`` rows of a column."""
    rows, columns = x.shape
    return (
        _zeros(rows, columns, dtype=torch.float8_e4m3fn),
        torch.ones(ceil_div(rows, gran_k), columns, device="cuda"),
    )


def _required_layout(
    sf: torch.Tensor,
    mn: int,
    k: int,
    recipe: Any,
    num_groups: int | None = None,
    *_: Any,
    **__: Any,
) -> torch.Tensor:
    """Scales of four to an int32, the rows adjacent, columns of a multiple of 16 bytes."""
    words = ceil_div(ceil_div(k, recipe[-1]), 4)
    rows = align(mn, 4)
    groups = num_groups or (sf.shape[0] if sf.dim() == 3 else 0)
    if groups:
        made = torch.zeros(groups, words, rows, dtype=torch.int32, device="cuda")
        return made.transpose(1, 2)[:, :mn]
    return torch.zeros(words, rows, dtype=torch.int32, device="cuda").t()[:mn]


def _nvfp4(x: torch.Tensor, *_: Any, **__: Any) -> tuple[Any, Any]:
    """Two values of 4 bits in a byte, and a scale of 8 bits for 16 of them, in tiles of 128 x 4."""
    rows, depth = x.shape
    return (
        _zeros(rows, depth // 2, dtype=torch.uint8),
        _zeros(align(rows, 128), align(depth // 16, 4), dtype=torch.uint8),
    )


def _rows_fp8(x: torch.Tensor, dims: Any, *_: Any, **__: Any) -> tuple[Any, Any]:
    """Values of 8 bits, and a scale for each index of ``dims``."""
    scales = torch.ones([x.shape[dim] for dim in dims], device="cuda")
    return _zeros(*x.shape, dtype=torch.float8_e4m3fn), scales


def _split(context: torch.Tensor, page: int, sms: int, *_: Any, **__: Any) -> torch.Tensor:
    """Returns where each multiprocessor begins: a request, and the pieces of 256 keys before it."""
    pieces = [ceil_div(int(each), 256) for each in context.reshape(context.shape[0], -1)[:, -1]]
    each, more = divmod(sum(pieces), sms)
    starts = []
    for sm in range(sms + 1):
        left, request = sm * each + min(sm, more), 0
        while request < len(pieces) and left >= pieces[request]:
            left -= pieces[request]
            request += 1
        starts.append([request, left])
    return torch.tensor(starts, dtype=torch.int32, device="cuda")


def _attention(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *_: Any, **__: Any) -> Any:
    """Results of a forward pass, in the layout batch, query, head, and logarithms of sums."""
    batch, queries, heads = q.shape[:3]
    sums = torch.zeros(batch, heads, queries, device="cuda")
    return torch.zeros(*q.shape[:3], v.shape[-1], dtype=q.dtype, device="cuda"), sums


class _Absent(MetaPathFinder, Loader):
    """Modules of reference implementations, which are imported and not called."""

    names = ("cutlass", "fla", "cudnn", "flash_attn", "flash_mla", "sglang", "flashinfer")

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Takes what has not been found elsewhere."""
        known = fullname.partition(".")[0] in self.names
        return ModuleSpec(fullname, self, is_package=True) if known else None

    def create_module(self, spec: ModuleSpec) -> Any:
        """A module every name of which exists."""
        module = MagicMock(name=spec.name)
        module.__path__, module.__name__ = [], spec.name
        module._flash_attn_fwd = _attention
        return module

    def exec_module(self, module: Any) -> None:
        """There is nothing to execute."""


class _Layouts:
    """FlashInfer's names of layouts of scales."""

    layout_128x4, layout_8x4, layout_linear = range(3)


def install() -> None:
    """Makes the modules importable where they are not installed."""
    math_module = types.ModuleType("deep_gemm.utils.math")
    for name, value in {
        "ceil_div": ceil_div, "align": align, "per_token_cast_to_fp8": _token,
        "per_token_cast_to_fp4": _token_fp4, "per_block_cast_to_fp8": _block,
        "per_channel_cast_to_fp8": _channel, "per_custom_dims_cast_to_fp8": _rows_fp8,
        "cast_back_from_fp4": _back_from_fp4,
    }.items():  # fmt: skip
        setattr(math_module, name, value)
    gemm = types.ModuleType("deep_gemm")
    gemm.utils = types.ModuleType("deep_gemm.utils")  # type: ignore[attr-defined]
    vars(gemm.utils).update(vars(math_module))
    gemm.utils.math = math_module
    gemm.transform_sf_into_required_layout = _required_layout  # type: ignore[attr-defined]
    gemm.get_paged_mqa_logits_metadata = _split  # type: ignore[attr-defined]
    for name in ("set_mk_alignment_for_contiguous_layout", "fp8_fp4_mqa_logits",
                 "fp8_fp4_paged_mqa_logits", "tf32_hc_prenorm_gemm"):  # fmt: skip
        setattr(gemm, name, lambda *_, **__: None)
    infer = types.ModuleType("flashinfer")
    infer.__path__ = []
    infer.nvfp4_quantize = _nvfp4  # type: ignore[attr-defined]
    infer.SfLayout = _Layouts  # type: ignore[attr-defined]
    modules = {
        "deep_gemm": gemm, "deep_gemm.utils": gemm.utils, "deep_gemm.utils.math": math_module,
        "flashinfer": infer,
    }  # fmt: skip
    for name, module in modules.items():
        sys.modules.setdefault(name, module)
    sys.meta_path.append(_Absent())
