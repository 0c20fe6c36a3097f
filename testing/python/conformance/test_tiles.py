"""Tile operators: copies, reductions, transposition, scratch memory, atomic operations of tiles."""

from __future__ import annotations

from functools import reduce
from typing import Any

import pytest
import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang
import tilelang.language as T

M, N = 48, 64

BITWISE = {
    "reduce_bitand": (T.reduce_bitand, torch.bitwise_and),
    "reduce_bitor": (T.reduce_bitor, torch.bitwise_or),
    "reduce_bitxor": (T.reduce_bitxor, torch.bitwise_xor),
}


@pytest.mark.parametrize("name", BITWISE)
def test_bitwise_reductions(name: str, target: str) -> None:
    function, reference = BITWISE[name]

    @T.prim_func
    def main(A: T.Tensor((M, N), "int32"), B: T.Tensor((M,), "int32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((M, N), "int32")
            r = T.alloc_fragment((M,), "int32")
            T.copy(A, x)
            function(x, r, dim=1)
            T.copy(r, B)

    a = integers(M, N, low=-(2**30), high=2**30)
    expected = reduce(reference, a.unbind(1))
    equal(run(main, target, a, poison(M, dtype="int32")), expected)


@pytest.mark.parametrize(
    ("dtype", "into"),
    [("bool", "bool"), ("float16", "int32"), ("float64", "bool"), ("int8", "float32")],
)
def test_whether_elements_are_not_zero(dtype: str, into: str, target: str) -> None:
    """Of a fragment along both dimensions, of a tensor, and beside what a result holds."""

    @T.prim_func
    def main(
        A: T.Tensor((M, N + 1), dtype),
        rows: T.Tensor((4, M), into),
        columns: T.Tensor((2, N + 1), into),
        whole: T.Tensor((2, 1), into),
    ):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((M, N + 1), dtype)
            r = T.alloc_fragment((M,), into)
            c = T.alloc_fragment((N + 1,), into)
            T.copy(A, x)
            T.reduce_any(x, r, dim=1)
            T.copy(r, rows[0, :])
            T.reduce_all(x, r, dim=1, clear=False)
            T.copy(r, rows[1, :])
            T.reduce_any(A, r, dim=1)
            T.copy(r, rows[2, :])
            T.reduce_all(A, r, dim=1)
            T.copy(r, rows[3, :])
            T.reduce_any(x, c, dim=0)
            T.copy(c, columns[0, :])
            T.reduce_all(x, c, dim=0)
            T.copy(c, columns[1, :])
            T.reduce_any(A, whole[0, :], dim=(0, 1))
            T.reduce_all(A, whole[1, :], dim=(0, 1))

    a = torch.rand(M, N + 1).gt(0.02).to(getattr(torch, dtype))
    a[3], a[5] = 0, 1
    if dtype == "float64":
        a *= 1e-300  # 0 as a float32
    some, every = a.ne(0).any(1), a.ne(0).all(1)
    results = [poison(*shape, dtype=into) for shape in ((4, M), (2, N + 1), (2, 1))]
    run(main, target, a, *results)
    kind = getattr(torch, into)
    equal(results[0], torch.stack([some, every, some, every]).to(kind))
    equal(results[1], torch.stack([a.ne(0).any(0), a.ne(0).all(0)]).to(kind))
    equal(results[2], torch.tensor([[1], [0]]).to(kind))


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int32", "float64"])
def test_products_of_rows(dtype: str, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((M, N + 1), dtype), B: T.Tensor((3, M), dtype)):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((M, N + 1), dtype)
            r = T.alloc_fragment((M,), dtype)
            T.copy(A, x)
            T.reduce_prod(x, r, dim=1)
            T.copy(r, B[0, :])
            T.reduce_prod(x, r, dim=1, clear=False)
            T.copy(r, B[1, :])
            T.reduce_prod(A, r, dim=1)
            T.copy(r, B[2, :])

    a = torch.rand(M, N + 1).mul(0.1).add(0.95).to(getattr(torch, dtype))
    if dtype == "int32":
        a = integers(M, N + 1, low=-3, high=4)
    expected = (a if dtype == "int32" else a.double()).prod(1)
    if dtype == "int32":
        expected = expected.int()  # products wrap
    got = run(main, target, a, poison(3, M, dtype=dtype))
    tolerance = {"bfloat16": 2e-2, "float32": 1e-5, "float64": 1e-12}.get(dtype, 0)
    wanted = torch.stack([expected, expected * expected, expected]).to(got.dtype)
    torch.testing.assert_close(got.cpu(), wanted, rtol=tolerance, atol=0)


def test_a_product_of_a_tensor_is_along_one_dimension() -> None:
    with pytest.raises(tilelang.errors.UnsupportedError, match="is for one dimension"):

        @T.prim_func
        def main(A: T.Tensor((M, N)), B: T.Tensor((1,))):
            with T.Kernel(1, threads=128):
                T.reduce_prod(A, B, dim=(0, 1))


@pytest.mark.parametrize("propagate", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("least", [True, False])
def test_extrema_of_rows_with_nan(least: bool, dtype: str, propagate: bool, target: str) -> None:
    """With nan_propagate a row with NaN gives NaN; otherwise NaN elements do not count."""
    function = T.reduce_min if least else T.reduce_max

    @T.prim_func
    def main(A: T.Tensor((M, N), dtype), B: T.Tensor((M,), dtype)):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((M, N), dtype)
            r = T.alloc_fragment((M,), dtype)
            T.copy(A, x)
            function(x, r, dim=1, nan_propagate=propagate)
            T.copy(r, B)

    a = normal(M, N, dtype=dtype)
    rows = torch.arange(0, M, 3)
    a[rows, torch.randint(0, N, (len(rows),))] = torch.nan
    got = run(main, target, a, poison(M, dtype=dtype))
    none = torch.inf if least else -torch.inf
    seen = a if propagate else a.masked_fill(a.isnan(), none)
    expected = seen.amin(1) if least else seen.amax(1)
    torch.testing.assert_close(got, expected, rtol=0, atol=0, equal_nan=True)


def test_sum_of_absolute_values(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((M, N), "float32")
            r = T.alloc_fragment((N,), "float32")
            T.copy(A, x)
            T.reduce_abssum(x, r, dim=0)
            T.copy(r, B)

    a = normal(M, N)
    close(run(main, target, a, poison(N)), a.double().abs().sum(0))


def test_transpose(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((M, N), "float16"), B: T.Tensor((N, M), "float16")):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((M, N), "float16")
            y = T.alloc_shared((N, M), "float16")
            T.copy(A, x)
            T.transpose(x, y)
            T.copy(y, B)

    a = normal(M, N, dtype="float16")
    equal(run(main, target, a, poison(N, M, dtype="float16")), a.T)


@T.macro
def doubled(tile: T.SharedBuffer((M, N), "float32"), out: T.FragmentBuffer((M, N), "float32")):
    for i, j in T.Parallel(M, N):
        out[i, j] = tile[i, j] * 2


def test_macros_of_tiles(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((M, N), "float32")
            y = T.alloc_fragment((M, N), "float32")
            T.copy(A, x)
            doubled(x, y)
            T.copy(y, B)

    a = normal(M, N)
    close(run(main, target, a, poison(M, N)), a * 2)


def test_scratch_memory_between_launches(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4, N), "float32"), B: T.Tensor((N,), "float32")):
        W = T.alloc_global((4, N), "float32")
        with T.Kernel(4, threads=N) as bx:
            t = T.get_thread_binding()
            W[bx, t] = A[bx, t] * 2
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            total = T.alloc_var("float32", init=0)
            for k in T.Serial(4):
                total = total + W[k, t]
            B[t] = total

    a = normal(4, N)
    close(run(main, target, a, poison(N)), a.double().sum(0) * 2)


def test_loops(target: str) -> None:
    @T.prim_func
    def main(B: T.Tensor((4, N), "int32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            for i in T.Unroll(4):
                B[i, t] = 0
            for i, j in T.grid(4, 3):
                B[i, t] += i * 10 + j
            for i in T.Serial(1, 4, 2):
                B[i, t] -= 1
            for k in T.Vectorized(4):
                B[k, t] *= 2

    row = [2 * (30 * i + 3 - i % 2) for i in range(4)]
    equal(run(main, target, poison(4, N, dtype="int32")), torch.tensor(row)[:, None].expand(4, N))


@pytest.mark.parametrize("dtype", ["float32", "int32"])
def test_atomic_addition_of_neighbours(dtype: str, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N, 4), dtype), B: T.Tensor((8,), dtype)):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            x = T.alloc_local((4,), dtype)
            for i in T.vectorized(4):
                x[i] = A[t, i]
            T.atomic_addx4(B[0], x[0])
            T.atomic_addx2(B[4], x[2])

    a = integers(N, 4, dtype=dtype)
    b = torch.zeros(8, dtype=a.dtype)
    run(main, target, a, b)
    total = a.sum(0)
    equal(b, torch.cat([total, total[2:], torch.zeros(2)]))


def test_atomic_addition_of_neighbours_in_shared_memory(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((M, N), "float32"), B: T.Tensor((M, N), "float32")):
        with T.Kernel(2, threads=96) as block:
            tile = T.alloc_fragment((M, N), "float32")
            shared = T.alloc_shared((M, N), "float32")
            T.copy(A, tile)
            for i, j in T.Parallel(M, N):
                tile[i, j] *= block + 1
            T.copy(tile, shared)
            for i, j in T.Parallel(M, N // 2):
                T.atomic_addx2(B[i, j * 2], shared[i, j * 2])

    a, b = normal(M, N), torch.zeros(M, N)
    close(run(main, target, a, b), a.double() * 3)


def test_turns_counted_in_fragments_of_one_element(target: str) -> None:
    turns, blocks = 7, 3

    @T.prim_func
    def main(A: T.Tensor((turns, M, N), "float32"), B: T.Tensor((turns, M, N), "float32")):
        with T.Kernel(blocks, threads=64) as block:
            turn = T.alloc_fragment((1,), "int32")
            last = T.alloc_fragment((1,), "int32")
            tile = T.alloc_shared((M, N), "float32")
            turn[0] = block * turns // blocks
            last[0] = (block + 1) * turns // blocks
            while turn[0] < last[0]:
                T.copy(A[turn[0], :, :], tile)
                for i, j in T.Parallel(M, N):
                    B[turn[0], i, j] = tile[i, N - 1 - j]
                turn[0] += 1

    a = normal(turns, M, N)
    equal(run(main, target, a, poison(turns, M, N)), a.flip(2))


def test_addresses(target: str) -> None:
    source = """
    __device__ void sum_of(const float* from, float* to) { *to = from[0] + from[1]; }
    """

    @T.prim_func
    def main(A: T.Tensor((N, 2), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N, prelude=source):
            t = T.get_thread_binding()
            T.call_extern(
                "void",
                "sum_of",
                T.access_ptr(A[t, 0], "r", 2),
                T.access_ptr(B, "w", offset=t),
            )

    a = normal(N, 2)
    close(run(main, target, a, poison(N)), a.double().sum(1))


def test_a_pointer_for_c_code(target: str) -> None:
    source = "__device__ void put(void* to, int i, float x) { static_cast<float*>(to)[i] = x; }"

    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.ptr):
        with T.Kernel(1, threads=N, prelude=source):
            t = T.get_thread_binding()
            T.call_extern("void", "put", B, t, A[t] + 1)

    a = normal(N)
    close(run(main, target, a, poison(N)), a + 1)


def of_shape(shape: Any, dtype: str, dim: int, reverse: bool) -> Any:
    @T.prim_func
    def main(A: T.Tensor(shape, dtype), B: T.Tensor(shape, dtype)):
        with T.Kernel(1, threads=64):
            x = T.alloc_shared(shape, dtype)
            T.copy(A, x)
            T.cumsum(x, dim=dim, reverse=reverse)
            T.copy(x, B)

    return main


@pytest.mark.parametrize(("dim", "reverse"), [(0, False), (1, False), (1, True)])
def test_prefix_sums(dim: int, reverse: bool, target: str) -> None:
    a = integers(13, 37)
    actual = run(
        of_shape((13, 37), "int32", dim, reverse), target, a, poison(13, 37, dtype="int32")
    )
    expected = a.flip(dim).cumsum(dim).flip(dim) if reverse else a.cumsum(dim)
    equal(actual, expected)
