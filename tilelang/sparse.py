"""Matrices of which two of each four elements are zero, as ``T.gemm_sp`` takes them."""

from __future__ import annotations

from typing import Any

import torch

from . import errors
from .ir.dtype import dtype_of

_META = {torch.int8: 8, torch.uint8: 8, torch.int16: 16, torch.int32: 32}
_GROUP_BITS = 4
#: Of matrices of 32 bits: the metadata of the first and of the second of two elements.
_FIRST, _SECOND = 0b0100, 0b1110
_CODES = {1: torch.uint8, 2: torch.int16, 4: torch.int32}


def _group(itemsize: int) -> int:
    return 2 if itemsize == 4 else 4


def _torch_dtype(dtype: Any) -> torch.dtype:
    return dtype if isinstance(dtype, torch.dtype) else getattr(torch, str(dtype_of(dtype)))


def get_e_factor(dtype: Any, meta_dtype: Any) -> int:
    """Returns the elements along K that one element of the metadata is for.

    Args:
        dtype: of the matrix, a torch dtype or one of the language.
        meta_dtype: of the metadata: int8, int16 or int32.
    """
    bits = dtype_of(str(meta_dtype).removeprefix("torch.")).bits
    itemsize = dtype_of(str(dtype).removeprefix("torch.")).bits // 8
    return bits // _GROUP_BITS * _group(itemsize)


def _is_there(values: torch.Tensor) -> torch.Tensor:
    """Returns which elements are not zero."""
    if values.dtype.itemsize > 1 or not values.dtype.is_floating_point:
        return values != 0
    return (values.view(torch.uint8) & 0x7F) != 0


def _places(there: torch.Tensor, group: int) -> torch.Tensor:
    """Returns the places of the elements to keep: existing elements first, then others."""
    place = torch.arange(group, device=there.device)
    order = torch.where(there, place, place + group).sort(-1).values % group
    return order[..., : group // 2].sort(-1).values


def compress(
    A: torch.Tensor,
    meta_dtype: Any = None,
    transposed: bool = False,
    block_k: int | None = None,
    arch: str | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the elements that are there, and metadata that say where: A and E of ``T.gemm_sp``.

    Args:
        A: (M, K); of each four elements along K at most two are not zero (of 32 bits: of each two
            at most one).
        meta_dtype: int8, uint8, int16 or int32; by default int32 where A has 8 bits, else int16.
        transposed: A is (K, M), and so is the result; E is (M, K / e) all the same.
        block_k, arch: of other layouts of the metadata; here they are the same for all.

    Returns:
        (M, K / 2) of the type of A, and (M, K / e), e elements of A to one of ``meta_dtype``.

    Raises:
        SemanticsError: a group has too many elements.
        ShapeError: K is no multiple of e.
    """
    dense = A.T if transposed else A
    rows, depth = dense.shape
    meta = _torch_dtype(meta_dtype or ("int32" if dense.dtype.itemsize == 1 else "int16"))
    each = get_e_factor(dense.dtype, meta)
    if depth % each:
        raise errors.ShapeError(
            f"compress: K = {depth} is no multiple of {each}, the elements that a {meta} is for"
        )
    group = _group(dense.dtype.itemsize)
    codes = dense.contiguous().view(_CODES[dense.dtype.itemsize]).view(rows, -1, group)
    there = _is_there(dense.contiguous()).view(rows, -1, group)
    wrong = (there.sum(-1) > group // 2).nonzero()
    if len(wrong):
        row, first = int(wrong[0, 0]), int(wrong[0, 1]) * group
        raise errors.SemanticsError(
            f"compress: elements {first} to {first + group - 1} of row {row} are not sparse: more "
            f"than {group // 2} of {group} are not zero"
        )
    places = _places(there, group)
    values = codes.gather(-1, places).view(rows, depth // 2).view(dense.dtype)
    if group == 2:
        bits = torch.where(places[..., 0] == 0, _FIRST, _SECOND)
    else:
        bits = places[..., 0] | places[..., 1] << 2
    bits = bits.view(rows, depth // each, -1).long()
    word = (bits << _GROUP_BITS * torch.arange(bits.shape[-1], device=bits.device)).sum(-1)
    if meta != torch.uint8:
        word = torch.where(word >> _META[meta] - 1 == 1, word - (1 << _META[meta]), word)
    return values.T.contiguous() if transposed else values, word.to(meta)


def decompress(A_sparse: torch.Tensor, E: torch.Tensor) -> torch.Tensor:
    """Returns the matrix (M, K) that elements (M, K / 2) and metadata stand for."""
    rows, half = A_sparse.shape
    group = _group(A_sparse.dtype.itemsize)
    count = _META[E.dtype] // _GROUP_BITS
    bits = E.long()[..., None] >> _GROUP_BITS * torch.arange(count, device=E.device) & 15
    bits = bits.view(rows, -1)
    if group == 2:
        places = (bits == _SECOND)[..., None].long()
    else:
        places = torch.stack([bits & 3, bits >> 2], -1)
    codes = A_sparse.contiguous().view(_CODES[A_sparse.dtype.itemsize])
    dense = codes.new_zeros(rows, bits.shape[1], group)
    dense.scatter_(-1, places, codes.view(rows, -1, group // 2))
    return dense.view(rows, 2 * half).view(A_sparse.dtype)


def _pruned(values: torch.Tensor, dtype: torch.dtype, transposed: bool) -> torch.Tensor:
    """``values`` (M, K) with random elements of each group set to zero."""
    group = _group(dtype.itemsize)
    chance = torch.rand(*values.shape, device=values.device).view(values.shape[0], -1, group)
    keep = chance.argsort(-1).argsort(-1) < group // 2
    sparse = (values * keep.view(values.shape)).to(dtype)
    return sparse.T.contiguous() if transposed else sparse


def _device(device: str | None) -> str:
    return device or ("cuda" if torch.cuda.is_available() else "cpu")


def randn_semi_sparse(
    M: int, K: int, dtype: Any = torch.float16, device: str | None = None, transposed: bool = False
) -> torch.Tensor:
    """Returns a matrix (M, K), or (K, M), of normal random numbers that ``compress`` takes."""
    values = torch.randn(M, K, device=_device(device))
    return _pruned(values, _torch_dtype(dtype), transposed)


def randint_semi_sparse(
    M: int, K: int, low: int, high: int, dtype: Any = torch.int8, device: str | None = None,
    transposed: bool = False,
) -> torch.Tensor:  # fmt: skip
    """Returns a matrix (M, K), or (K, M), of integers from ``low`` to below ``high``."""
    values = torch.randint(low, high, (M, K), device=_device(device))
    return _pruned(values, _torch_dtype(dtype), transposed)


__all__ = ["compress", "decompress", "get_e_factor", "randint_semi_sparse", "randn_semi_sparse"]
