"""Memory whose elements are vectors: tiles and variables of T.bfloat16x2 and the like."""

from __future__ import annotations

import pytest
from conformance.running import equal, integers, normal, poison, run

import tilelang.language as T
from tilelang import errors

PAIRS, THREADS = 3, 64


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32", "int8"])
@pytest.mark.parametrize("lanes", [2, 4])
def test_a_private_tile_of_vectors(dtype: str, lanes: int, target: str) -> None:
    vector = getattr(T, f"{dtype}x{lanes}")
    shape, order = (THREADS, PAIRS, lanes), list(range(lanes))

    @T.prim_func
    def main(A: T.Tensor(shape, dtype), B: T.Tensor(shape, dtype), C: T.Tensor(shape, dtype)):
        with T.Kernel(1, threads=THREADS):
            t = T.get_thread_binding()
            tile = T.alloc_local((PAIRS,), vector)
            for i in T.serial(PAIRS):
                items = [A[t, i, n] for n in order]
                tile[PAIRS - 1 - i] = vector(*items)
            flat = T.view(tile, (PAIRS * lanes,), dtype)
            for i in T.unroll(PAIRS):
                for n in order:
                    B[t, i, n] = T.extract_lane(tile[i], n)
                    C[t, i, n] = flat[i * lanes + n]

    a = integers(*shape, dtype=dtype) if dtype == "int8" else normal(*shape, dtype=dtype)
    b, c = poison(*shape, dtype=dtype), poison(*shape, dtype=dtype)
    run(main, target, a, b, c)
    equal(b, a.flip(1))
    equal(c, a.flip(1))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "float32"])
def test_a_mutable_vector(dtype: str, target: str) -> None:
    """The greatest magnitude of each column of pairs, kept in a variable."""
    vector, shape = getattr(T, f"{dtype}x2"), (THREADS, PAIRS, 2)

    @T.prim_func
    def main(A: T.Tensor(shape, dtype), B: T.Tensor((THREADS, 2), dtype)):
        with T.Kernel(1, threads=THREADS):
            t = T.get_thread_binding()
            most = T.alloc_var(vector, init=0.0)
            pair = T.alloc_var(vector)
            for i in T.serial(PAIRS):
                pair = vector(A[t, i, 0], A[t, i, 1])
                most = T.max2(most, T.abs2(pair))
            if t % 2 == 1:
                most = vector(-1.0)
            B[t, 0] = T.extract_lane(most, 0)
            B[t, 1] = T.extract_lane(most, 1)

    a = normal(*shape, dtype=dtype)
    expected = a.abs().amax(1)
    expected[1::2] = -1
    equal(run(main, target, a, poison(THREADS, 2, dtype=dtype)), expected)


def test_a_shared_tile_of_vectors(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((2 * THREADS,), "float16"), B: T.Tensor((2 * THREADS,), "float16")):
        with T.Kernel(1, threads=THREADS):
            t = T.get_thread_binding()
            tile = T.alloc_shared((2, THREADS // 2), T.float16x2)
            tile[t % 2, t // 2] = T.float16x2(A[2 * t], A[2 * t + 1])
            T.sync_threads()
            found = tile[(t + 1) % 2, THREADS // 2 - 1 - t // 2]
            B[2 * t] = T.extract_lane(found, 0)
            B[2 * t + 1] = T.extract_lane(found, 1)

    a = normal(2 * THREADS, dtype="float16")
    pairs = a.view(THREADS // 2, 2, 2)
    equal(run(main, target, a, poison(2 * THREADS, dtype="float16")), pairs.flip(0, 1).reshape(-1))


def test_a_slice_of_vectors_is_refused() -> None:
    with pytest.raises(errors.ShapeError, match="is indexed by 1 numbers"):

        @T.prim_func
        def main(A: T.Tensor((4,), "float16")):
            with T.Kernel(1, threads=32):
                tile = T.alloc_local((4,), T.float16x2)
                tile[0:2] = T.float16x2(A[0], A[1])


def test_a_number_of_scalars_that_is_none_of_lanes_is_refused() -> None:
    with pytest.raises(errors.SemanticsError, match="cannot convert 3 lanes to float16x2"):
        T.float16x2(1.0, 2.0, 3.0)
