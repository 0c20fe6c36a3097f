"""Arguments that have no meaning are refused where they stand, as errors that programs expect."""

from __future__ import annotations

from typing import Any

import pytest

import tilelang
import tilelang.language as T
from tilelang import errors

N = 64


@pytest.mark.parametrize("kind", [errors.DTypeError, errors.LayoutError, errors.SemanticsError])
def test_refusals_are_value_errors(kind: type[Exception]) -> None:
    assert issubclass(kind, ValueError)


@pytest.mark.parametrize("order", ["release", "acq_rel", "weak", None])
def test_orders_that_loads_do_not_have(order: Any) -> None:
    with pytest.raises(ValueError, match="atomic_load does not support memory_order"):

        @T.prim_func
        def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
            with T.Kernel(1, threads=N):
                B[0] = T.atomic_load(A[0], memory_order=order)


@pytest.mark.parametrize("order", ["consume", "acquire", "acq_rel", "weak"])
def test_orders_that_stores_do_not_have(order: str) -> None:
    with pytest.raises(ValueError, match="atomic_store does not support memory_order"):

        @T.prim_func
        def main(A: T.Tensor((N,), "int32")):
            with T.Kernel(1, threads=N):
                T.atomic_store(A[0], 1, memory_order=order)


@pytest.mark.parametrize(
    ("order", "name"),
    [("relaxed", ""), ("consume", "kAcquire"), ("acquire", "kAcquire"), ("seq_cst", "kSeqCst")],
)
def test_orders_of_loads(order: str, name: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            B[0] = T.atomic_load(A[0], memory_order=order)

    source = tilelang.lower(main, target="sm_90a").kernel_source
    assert f"tl::atomic_load{f'<tl::Order::{name}>' if name else ''}(A)" in source


@pytest.mark.parametrize("dtype", ["int32", "uint8", "bool", "float8_e4m3fn"])
@pytest.mark.parametrize("name", ["__sin", "__exp2", "__rsqrt"])
def test_fast_functions_of_other_types(name: str, dtype: str) -> None:
    from tilelang.tvm import tirx

    with pytest.raises(
        TypeError, match=f"{name} only supports floating-point inputs, but got {dtype}"
    ):
        getattr(T, name)(tirx.Var("value", dtype))
    assert getattr(T, name)(tirx.Var("value", "float16")).dtype == "float16"


@pytest.mark.parametrize("k_pack", [0, -1, 3, 16, True, 2.0, "2", None])
def test_packs_of_k(k_pack: Any) -> None:
    with pytest.raises(ValueError, match=f"k_pack must be an int equal to 1 or 2, got {k_pack!r}"):
        multiplied(k_pack)


def multiplied(k_pack: Any) -> Any:
    """A gemm of 64 x 64 x 64."""

    @T.prim_func
    def main(A: T.Tensor((N, N), "float16"), C: T.Tensor((N, N), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((N, N), "float16")
            c = T.alloc_fragment((N, N), "float32")
            T.copy(A, a)
            T.gemm(a, a, c, clear_accum=True, k_pack=k_pack)
            T.copy(c, C)

    return main


def test_a_pack_of_two_has_no_effect() -> None:
    remarks = tilelang.compile(multiplied(2), target="sm_80").remarks
    assert any("T.gemm: k_pack=2 has no effect" in remark.message for remark in remarks)


@pytest.mark.parametrize(
    ("batch", "message"),
    [
        (0, "batch must be >= 1, not 0"),
        (-1, "batch must be >= 1"),
        (128, "exceeds total output elements, 64"),
        (3, "must evenly divide the 64"),
    ],
)
def test_batches_of_reducers(batch: int, message: str) -> None:
    with pytest.raises(ValueError, match=message):

        @T.prim_func
        def main(A: T.Tensor((N, N), "float32"), B: T.Tensor((N,), "float32")):
            with T.Kernel(1, threads=N):
                sums = T.alloc_reducer(N, "float32", op="sum")
                T.clear(sums)
                for i, j in T.Parallel(N, N):
                    sums[i] += A[i, j]
                T.finalize_reducer(sums, batch=batch)
                T.copy(sums, B)


@pytest.mark.parametrize("batch", [0, -1, 128, 3, 2.0])
def test_batches_of_reductions(batch: Any) -> None:
    with pytest.raises(errors.ShapeError, match=r"T\.reduce: batch"):

        @T.prim_func
        def main(A: T.Tensor((64, 8), "float32")):
            with T.Kernel(1, threads=64):
                tile = T.alloc_fragment((64, 8), "float32")
                rows = T.alloc_fragment((64,), "float32")
                T.copy(A, tile)
                T.reduce_sum(tile, rows, dim=1, batch=batch)


@pytest.mark.parametrize(("dtype", "init"), [("float32", 1e39), ("float16", -70000.0)])
def test_initial_values_that_a_type_does_not_have(dtype: str, init: float) -> None:
    with pytest.raises(ValueError, match=f"exceeds maximum of {dtype}"):

        @T.prim_func
        def main(A: T.Tensor((N,), dtype)):
            with T.Kernel(1, threads=N):
                value = T.alloc_var(dtype, init=init)
                A[0] = value


def test_initial_values_that_a_type_has() -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            low = T.alloc_var("float32", init=-float("inf"))
            high = T.alloc_var("float64", init=1e300)
            A[0] = T.min(low, T.cast(high, "float32"))

    tilelang.lower(main, target="sm_90a")
