"""Vectors of a thread: ramps, wide accesses, lanes, pairs of floats, dot products of bytes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang
import tilelang.language as T
from tilelang import errors
from tilelang.tvm import tir

N = 64


def test_ramps_and_broadcasts(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((4 * N,), "float32"), B: T.Tensor((4 * N,), "float32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            B[T.Ramp(t * 4, 1, 4)] = A[T.Ramp(t * 4 + 3, -1, 4)] * T.Broadcast(T.float32(2), 4)
            B[T.ramp(t * 4, 2, 2)] = T.broadcast(T.float32(1), 2)

    a = normal(4 * N)
    expected = a.view(N, 4).flip(1) * 2
    expected[:, ::2] = 1
    equal(run(main, target, a, poison(4 * N)), expected.reshape(-1))


GLOBAL = {
    32: (T.ldg32, T.stg32),
    64: (T.ldg64, T.stg64),
    128: (T.ldg128, T.stg128),
    256: (T.ldg256, T.stg256),
}
SHARED = {32: (T.lds32, T.sts32), 64: (T.lds64, T.sts64), 128: (T.lds128, T.sts128)}


@pytest.mark.parametrize("bits", GLOBAL)
@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_wide_accesses_of_tensors(bits: int, dtype: str, target: str) -> None:
    count = bits // T.dtype(dtype).bits
    read, write = GLOBAL[bits]

    @T.prim_func
    def main(A: T.Tensor((N, count), dtype), B: T.Tensor((N, count), dtype)):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            value = read(A[t, 0:count])
            write(B[N - 1 - t, 0], value, pred=t != 5)

    a = integers(N, count, dtype=dtype)
    b = torch.zeros(N, count, dtype=a.dtype)
    run(main, target, a, b)
    expected = a.flip(0)
    expected[N - 6] = 0
    equal(b, expected)


@pytest.mark.parametrize("bits", SHARED)
def test_wide_accesses_of_shared_memory(bits: int, target: str) -> None:
    count = bits // 32
    read, write = SHARED[bits]

    @T.prim_func
    def main(A: T.Tensor((N, count), "float32"), B: T.Tensor((N, count), "float32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            S = T.alloc_shared((N, count), "float32")
            write(S[t, 0], GLOBAL[bits][0](A[t, 0]))
            T.sync_threads()
            value = T.reinterpret(read(S[N - 1 - t, 0]), "float32")
            if bits == 32:
                B[t, 0] = value
            else:
                B[t, 0:count] = value

    a = normal(N, count)
    equal(run(main, target, a, poison(N, count)), a.flip(0))


@pytest.mark.parametrize("form", ["rows", "first element", "known place"])
def test_wide_accesses_longer_than_a_row(form: str, target: str) -> None:
    """A vector of 4 elements, from rows of 2, goes on in the next row."""

    @T.prim_func
    def main(A: T.Tensor((N, 2, 2), "float32"), B: T.Tensor((N, 2, 2), "float32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            if form == "rows":
                T.stg128(B[N - 1 - t, :, :], T.ldg128(A[t, :, :]))
            elif form == "first element":
                T.stg128(B[N - 1 - t, 0, 0], T.ldg128(A[t, 0, 0]))
            elif t == 0:
                T.stg128(B[N - 1, 0, 0], T.ldg128(A[0, 0, 0]))

    a, b = normal(N, 2, 2), torch.zeros(N, 2, 2)
    run(main, target, a, b)
    expected = a.flip(0)
    if form == "known place":
        expected[: N - 1] = 0
    equal(b, expected)


def test_vectors_fill_slices_row_by_row(target: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((N, 4), "float32"),
        B: T.Tensor((N, 2, 3), "float32"),
        C: T.Tensor((4, N), "float32"),
    ):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            v = A[t, T.Ramp(0, 1, 4)]
            B[t, 0:2, 1:3] = v
            C[:, t] = v

    a, b = normal(N, 4), torch.zeros(N, 2, 3)
    c = run(main, target, a, b, poison(4, N))
    equal(b[:, :, 1:], a.view(N, 2, 2))
    equal(b[:, :, 0], torch.zeros(N, 2))
    equal(c, a.T)


def test_atomics_at_a_vector_index(target: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((N, 4), "float32"),
        V: T.Tensor((N, 4), "float32"),
        Old: T.Tensor((N, 2), "float32"),
    ):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            Old[t, 0:2] = T.atomic_addx2(
                A[t, T.Ramp(2, 1, 2)], V[t, T.Ramp(0, 1, 2)], return_prev=True
            )
            T.atomic_addx4(A[t, T.Ramp(0, 1, 4)], V[t, T.Ramp(0, 1, 4)])

    a, v, old = normal(N, 4), normal(N, 4), poison(N, 2)
    expected = a.clone()
    before = a[:, 2:].clone()
    expected[:, 2:] += v[:, :2]
    run(main, target, a, v, old)
    equal(old, before)
    close(a, (expected + v).double(), 1e-6)


def test_predicated_reads_give_zeros(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N, 4), "float32"), B: T.Tensor((N, 4), "float32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            B[t, 0:4] = T.reinterpret(T.float32x4, T.ldg128(A[t, 0:4], pred=t < 9))

    a = normal(N, 4)
    expected = torch.where(torch.arange(N)[:, None] < 9, a, 0.0)
    equal(run(main, target, a, poison(N, 4)), expected)


def test_lanes(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N, 4), "int32"), B: T.Tensor((N, 4), "int32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            v = A[t, T.Ramp(0, 1, 4)]
            w = T.Shuffle([v, v * 10], [7, 0, 5, 2])
            B[t, T.Ramp(0, 1, 4)] = T.vectorcombine(T.vectorhigh(w), T.vectorlow(-w))
            B[t, 3] = T.extract_lane(w, 0) + T.Shuffle([v], [1])

    a = integers(N, 4)
    _, x1, x2, x3 = a.unbind(1)
    expected = torch.stack([x1 * 10, x2, -x3 * 10, x3 * 10 + x1], 1)
    equal(run(main, target, a, poison(N, 4, dtype="int32")), expected)


PAIRS: dict[str, Any] = {
    "add2": (T.add2, lambda x, y: x + y),
    "sub2": (T.sub2, lambda x, y: x - y),
    "mul2": (T.mul2, lambda x, y: x * y),
    "max2": (T.max2, torch.maximum),
    "min2": (T.min2, torch.minimum),
}


@pytest.mark.parametrize("name", PAIRS)
def test_pairs(name: str, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N, 2)), B: T.Tensor((N, 2)), C: T.Tensor((N, 2))):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            x = T.reinterpret(T.ldg64(A[t, 0]), T.float32x2)
            y = B[t, T.Ramp(0, 1, 2)]
            C[t, 0:2] = PAIRS[name][0](x, y)

    a, b = normal(N, 2), normal(N, 2)
    equal(run(main, target, a, b, poison(N, 2)), PAIRS[name][1](a, b))


def test_fused_pairs_and_conversions(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N, 2), "float16"), C: T.Tensor((N, 2), "bfloat16")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            x = T.cast(A[t, T.Ramp(0, 1, 2)], T.float32x2)
            y = T.fma2(x, T.abs2(x), T.float32x2(1.0))
            C[t, 0:2] = T.bfloat16x2(y)

    a = normal(N, 2, dtype="float16")
    expected = (a.double() * a.double().abs() + 1).bfloat16()
    close(run(main, target, a, poison(N, 2, dtype="bfloat16")), expected, 2**-7)


VECTORS = [
    *(T.float16x2, T.float32x4, T.float32x8, T.float8_e4m3fnx8, T.bfloat16x2, T.bfloat16x4),
    *(T.bfloat16x8, T.bfloat16x16, T.bfloat16x32, T.bfloat16x64),
]


@pytest.mark.parametrize("vector", VECTORS, ids=str)
def test_types_of_vectors(vector: Any, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((8, vector.lanes)), B: T.Tensor((8, vector.lanes), vector.base)):
        with T.Kernel(1, threads=8):
            t = T.get_thread_binding()
            B[t, 0 : vector.lanes] = vector(A[t, T.Ramp(0, 1, vector.lanes)])

    a = normal(8, vector.lanes)
    b = run(main, target, a, poison(8, vector.lanes, dtype=str(vector.base)))
    equal(b.float(), a.to(b.dtype).float())


@pytest.mark.parametrize("lanes", [2, 4])
def test_atomic_additions_of_vectors_give_what_was_there(lanes: int, target: str) -> None:
    add = {2: T.atomic_addx2, 4: T.atomic_addx4}[lanes]

    @T.prim_func
    def main(A: T.Tensor((N, lanes)), B: T.Tensor((N, lanes)), C: T.Tensor((N, lanes))):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            C[t, 0:lanes] = add(B[t, 0], A[t, 0:lanes], return_prev=True)
            add(B[t, 0], T.Broadcast(T.float32(1), lanes))

    a, b, c = normal(N, lanes), normal(N, lanes), poison(N, lanes)
    before = b.clone()
    run(main, target, a, b, c)
    equal(c, before)
    close(b, before + a + 1)


def test_dot_products_of_bytes(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N, 8), "int8"), B: T.Tensor((N, 8), "int8"), C: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            total = T.alloc_local((1,), "int32")
            total[0] = 0
            for k in T.serial(2):
                T.dp4a(A[t, k * 4], B[t, k * 4], total[0])
            C[t] = total[0]

    a, b = (integers(N, 8, low=-128, high=128, dtype="int8") for _ in range(2))
    c = poison(N, dtype="int32")
    run(main, target, a, b, c)
    equal(c, (a.long() * b.long()).sum(1))


@T.prim_func
def named_in_a_vector(A: T.Tensor((256,), "float32"), B: T.Tensor((256,), "float32")):
    with T.Kernel(1, threads=64):
        tx = T.get_thread_binding()
        for v in T.vectorized(4):
            x = A[tx * 4 + v]
            twice = x * 2
            B[tx * 4 + v] = twice + x


def test_names_in_a_vector(target: str) -> None:
    a = normal(256)
    close(run(named_in_a_vector, target, a, poison(256)), a * 3)
    source = tilelang.lower(named_in_a_vector, target="sm_90a").kernel_source
    assert "tl::load<4>(A + tx * 4)" in source and "tl::store(B + tx * 4" in source


@pytest.mark.parametrize(("dtype", "count"), [("float32", 4), ("float16", 8), ("int8", 3)])
def test_slices_of_a_row_are_assigned(dtype: str, count: int, target: str) -> None:
    """Assigns a slice from another one, also of the same row, and from a scalar."""

    @T.prim_func
    def main(A: T.Tensor((N, 2 * count + 1), dtype), B: T.Tensor((N, 2 * count + 1), dtype)):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            own = T.alloc_local((2 * count + 1,), dtype)
            first = A[t, 0:count]
            own[0:count] = first
            own[count : 2 * count + 1] = 7
            own[1 : count + 1] = own[0:count]
            B[N - 1 - t, 0:count] = own[1 : count + 1]
            B[N - 1 - t, count : 2 * count + 1] = own[count : 2 * count + 1]

    a = integers(N, 2 * count + 1, dtype=dtype)
    b = run(main, target, a, poison(N, 2 * count + 1, dtype=dtype))
    expected = torch.full_like(a, 7)
    expected[:, : count + 1] = a[:, [*range(count), count - 1]]
    equal(b, expected.flip(0))


def test_variables_of_vector_types_are_vectors() -> None:
    x = tir.Var("x", "float16x2")
    assert [str(lane) for lane in x] == ["x_0", "x_1"]
    assert x.dtype == "float16"
    total = T.add2(x, x)
    assert total.dtype == "float16"
    assert tir.Var("y", "int8x4")[3].dtype == "int8"


@pytest.mark.parametrize("function", [T.add2, T.sub2, T.mul2, T.max2, T.min2])
def test_pairs_of_different_types_are_refused(function: Any) -> None:
    x, y = tir.Var("x", "float16x2"), tir.Var("y", "bfloat16x2")
    with pytest.raises(errors.DTypeError, match="vectors of the same dtype"):
        function(x, y)
    with pytest.raises(errors.DTypeError, match="vectors of the same dtype"):
        T.fma2(x, x, y)


@pytest.mark.parametrize(
    ("vector", "lane", "error", "text"),
    [
        ("scalar", 0, errors.DTypeError, "expects a vector expression, got `scalar`"),
        ("pair", "n", errors.DTypeError, "must be a compile-time integer, got `n`"),
        ("pair", 2, errors.BoundsError, "lane 2 is out of bounds of a vector of 2 lanes"),
        ("pair", -1, errors.BoundsError, "lane -1 is out of bounds of a vector of 2 lanes"),
    ],
)
def test_lanes_that_no_vector_has(vector: str, lane: Any, error: Any, text: str) -> None:
    operand = tir.Var(vector, "float16x2" if vector == "pair" else "float16")
    with pytest.raises(error, match=text):
        T.extract_lane(operand, tir.Var(lane, "int32") if isinstance(lane, str) else lane)
