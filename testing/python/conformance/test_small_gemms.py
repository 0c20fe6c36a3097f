"""Products of tiles that tensor cores have no shape for: by the threads, with a remark."""

from __future__ import annotations

from typing import Any

import pytest
from conformance.running import equal, integers, poison, run

import tilelang
import tilelang.language as T


def product(m: int, n: int, k: int, dtype: str, result: str, transposed: tuple[bool, bool]) -> Any:
    of_a = (k, m) if transposed[0] else (m, k)
    of_b = (n, k) if transposed[1] else (k, n)

    @T.prim_func
    def main(A: T.Tensor(of_a, dtype), B: T.Tensor(of_b, dtype), C: T.Tensor((m, n), result)):
        with T.Kernel(1, threads=128):
            a, b = T.alloc_shared(of_a, dtype), T.alloc_shared(of_b, dtype)
            c = T.alloc_fragment((m, n), result)
            T.copy(A, a)
            T.copy(B, b)
            T.fill(c, 3)
            T.gemm(a, b, c, transpose_A=transposed[0], transpose_B=transposed[1])
            T.copy(c, C)

    return main


def check(shape: tuple[int, int, int], dtype: str, result: str, target: str, *flags: bool) -> Any:
    m, n, k = shape
    transposed = tuple(flags) or (False, False)
    a, b = (integers(*of, low=-4, high=5, dtype=dtype) for of in ((m, k), (k, n)))
    given = [x.T.contiguous() if flag else x for x, flag in zip((a, b), transposed, strict=True)]
    func = product(m, n, k, dtype, result, transposed)
    equal(run(func, target, *given, poison(m, n, dtype=result)), a.double() @ b.double() + 3)
    if target != "cuda":
        return [str(r.message) for r in tilelang.compile(func, target=target).remarks]
    return []


TYPES = [("float16", "float32"), ("float64", "float64"), ("int8", "int32"), ("float32", "float32")]


@pytest.mark.parametrize(("dtype", "result"), [*TYPES, ("bfloat16", "float32")])
@pytest.mark.parametrize("shape", [(1, 64, 64), (5, 24, 40), (3, 1, 7)])
def test_shapes_without_an_instruction(
    shape: tuple[int, int, int], dtype: str, result: str, target: str
) -> None:
    remarks = check(shape, dtype, result, target)
    assert target == "cuda" or any("done by threads, without tensor cores" in r for r in remarks)


@pytest.mark.parametrize(
    ("dtype", "result"),
    [("int32", "int32"), ("int16", "int32"), ("int64", "int64"), ("float16", "float64")],
)
def test_types_without_an_instruction(dtype: str, result: str, target: str) -> None:
    remarks = check((32, 32, 64), dtype, result, target, False, True)
    assert target == "cuda" or any("done by threads, without tensor cores" in r for r in remarks)


@pytest.mark.parametrize(("dtype", "result"), TYPES)
@pytest.mark.parametrize("shape", [(16, 64, 32), (32, 32, 64)])
def test_small_shapes_of_instructions(
    shape: tuple[int, int, int], dtype: str, result: str, target: str
) -> None:
    remarks = check(shape, dtype, result, target)
    assert not any("done by threads, without tensor cores" in r for r in remarks)


@pytest.mark.parametrize("flags", [(True, False), (False, True), (True, True)])
def test_transposed_operands(flags: tuple[bool, bool], target: str) -> None:
    check((5, 12, 20), "float16", "float32", target, *flags)


@pytest.mark.parametrize("clear", [True, False])
def test_a_sum_over_steps_of_a_pipeline(clear: bool, target: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((3, 100), "float16"), B: T.Tensor((100, 24), "float16"), C: T.Tensor((3, 24))
    ):
        with T.Kernel(1, threads=64):
            a, b = T.alloc_shared((3, 20), "float16"), T.alloc_shared((20, 24), "float16")
            c = T.alloc_fragment((3, 24), "float32")
            T.clear(c)
            for k in T.Pipelined(5, num_stages=2):
                T.copy(A[0, k * 20], a)
                T.copy(B[k * 20, 0], b)
                T.gemm(a, b, c, clear_accum=(k == 2) if clear else False)
            T.copy(c, C)

    a, b = integers(3, 100, low=-4, high=5, dtype="float16"), integers(100, 24, dtype="float16")
    first = 40 if clear else 0
    expected = a[:, first:].double() @ b[first:].double()
    equal(run(main, target, a, b, poison(3, 24)), expected)


@pytest.mark.parametrize("m", [16, 64])
@pytest.mark.parametrize("of_b", [False, True])
def test_operands_in_fragments(m: int, of_b: bool, target: str) -> None:
    """K = 8 is too little for an instruction; threads read the fragments in shared memory."""

    @T.prim_func
    def main(
        A: T.Tensor((m, 24), "float16"),
        B: T.Tensor((24, 32), "float16"),
        C: T.Tensor((m, 32), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_fragment((m, 8), "float16")
            b = T.alloc_fragment((8, 32), "float16") if of_b else T.alloc_shared((8, 32), "float16")
            c = T.alloc_fragment((m, 32), "float32")
            T.clear(c)
            for k in T.serial(3):
                T.copy(A[0, k * 8], a)
                T.copy(B[k * 8, 0], b)
                T.gemm(a, b, c)
            T.copy(c, C)

    a, b = (integers(*of, low=-4, high=5, dtype="float16") for of in ((m, 24), (24, 32)))
    equal(run(main, target, a, b, poison(m, 32)), a.double() @ b.double())
