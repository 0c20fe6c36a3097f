"""Types by name, and the form of sparse matrices, as modules that programs import."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.cuda.intrinsics import sparse_layout
from tilelang.language import dtypes
from tilelang.sparse import compress, randn_semi_sparse

#: The types of matrices that ``tilelang.sparse`` makes.
SIGNED = [kind for kind in sparse_layout.GROUP_CONFIG if kind != T.uint8]


@pytest.mark.parametrize(
    "name", ["float16", "bfloat16", "float32", "float8_e4m3fn", "int8", "bool"]
)
def test_a_type_of_torch_has_a_name(name: str) -> None:
    kind = getattr(torch, name)
    assert dtypes.dtype(dtypes._TORCH_DTYPE_TO_STR[kind]) == dtypes.dtype(kind) == getattr(T, name)
    assert dtypes.dtype(kind).as_torch() is kind


def test_types_are_attributes() -> None:
    assert dtypes.float16 == T.float16 and dtypes.float8_e4m3 == T.float8_e4m3fn
    assert all(isinstance(getattr(dtypes, name), dtypes.dtype) for name in dtypes._all_dtypes)
    with pytest.raises(AttributeError, match="no attribute 'float17'"):
        _ = dtypes.float17


@pytest.mark.parametrize("kind", SIGNED, ids=str)
def test_groups_of_sparse_matrices(kind: dtypes.dtype) -> None:
    """A matrix of ``tilelang.sparse`` has as many elements in a group as the table says."""
    kept, size = sparse_layout.GROUP_CONFIG[kind]
    dense = randn_semi_sparse(16, 128, dtype=kind.as_torch())
    there = (dense.float().view(16, -1, size) != 0).sum(-1)
    assert there.max() == kept
    for meta in (torch.int16, torch.int32):
        sparse, metadata = compress(dense, meta_dtype=meta)
        assert sparse.shape == (16, 128 * kept // size)
        assert metadata.shape == (16, 128 // sparse_layout.get_e_factor(kind, meta))


@pytest.mark.parametrize(("name", "threads"), [("float16", 2), ("float32", 2), ("int8", 1)])
def test_threads_with_the_same_metadata(name: str, threads: int) -> None:
    assert sparse_layout.get_e_replicate_factor(name) == threads


def test_the_module_of_tests_is_an_attribute() -> None:
    assert tilelang.tvm.testing.main is tilelang.testing.main
