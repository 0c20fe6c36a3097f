"""Sparse gemms whose metadata or types do not go together, and matrices that are not sparse."""

from typing import Any

import torch
from wrong_kernels import cases, check

import tilelang
import tilelang.language as T
from tilelang.utils.sparse import compress


def sparse(kind="float16", meta="int16", shape=(64, 4), a=(64, 32), b=(64, 64), scope=None,
           target="sm_90a", **given: Any):  # fmt: skip
    """Compiles a gemm of 64 rows and K = 64 with these metadata."""

    @T.prim_func
    def main():
        with T.Kernel(1, threads=128):
            x = T.alloc_shared(a, kind)
            e = (scope or T.alloc_shared)(shape, meta)
            y = T.alloc_shared(b, kind)
            z = T.alloc_fragment((64, 64), "float64" if kind == "float64" else "float32")
            T.clear(z)
            T.gemm_sp(x, e, y, z, transpose_B=True, **given)  # WRONG

    tilelang.compile(main, target=target)


def case_metadata_of_floats():
    """DTypeError: E of T.gemm_sp must have type int8, uint8
    ... tilelang.utils.sparse.compress
    """
    sparse(meta="float32")


def case_metadata_of_another_size():
    """ShapeError: E of T.gemm_sp has shape (64, 4), but the metadata of 64 rows with K = 64 have
    shape (64, 8)
    """
    sparse(meta="uint8")


def case_metadata_in_tensor_memory():
    """ScopeError: E of T.gemm_sp must be in shared memory"""
    sparse(scope=T.alloc_tmem)


def case_turned_metadata_in_registers():
    """ScopeError: E of T.gemm_sp must be in shared memory if transpose_E=True"""
    sparse(scope=T.alloc_fragment, shape=(4, 64), transpose_E=True)


def case_whole_a():
    """ShapeError: T.gemm_sp: A has K = 128, but B has K = 64"""
    sparse(a=(64, 64), shape=(64, 8))


def case_float64():
    """LayoutError: T.gemm_sp: there is no sparse mma.sync of float64 by float64 into float64"""
    sparse(kind="float64")


def case_float8_of_ampere():
    """LayoutError: T.gemm_sp: there is no sparse mma.sync of float8_e4m3fn by float8_e4m3fn"""
    sparse(kind="float8_e4m3fn", target="sm_80")


def case_depth():
    """LayoutError: T.gemm_sp: K = 8 is no multiple of 16, what one instruction multiplies"""
    sparse(a=(64, 8), b=(64, 16), shape=(64, 1))


def case_dense_matrix():
    """SemanticsError: compress: elements 4 to 7 of row 1 are not sparse: more than 2 of 4 are not
    zero
    """
    dense = torch.zeros(2, 16)
    dense[1, 4:7] = 1
    compress(dense.half())


def case_short_rows():
    """ShapeError: compress: K = 8 is no multiple of 16, the elements that a torch.int16 is for"""
    compress(torch.zeros(2, 8).half())


@cases(globals())
def test_wrong_sparse_gemms(case) -> None:
    check(case)
