"""Addresses as data: tensors at pointers, tensors of pointers, reads past the cache."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from conformance.running import close, equal, normal, poison, run

import tilelang
import tilelang.language as T
from tilelang import emulator, errors

N = 64


def reaching(target: str, *tensors: torch.Tensor) -> Any:
    """Memory that a kernel finds addresses of: a GPU reaches all of it."""
    return emulator.reachable(*tensors)


def test_a_tensor_at_a_pointer(target: str) -> None:
    @T.prim_func
    def main(A: T.ptr, B: T.ptr("float32"), m: T.int32, n: T.int32):
        with T.Kernel(m, threads=N) as bx:
            X = T.make_tensor(A, (m, n), "float32")
            Y = T.make_tensor(B, (m, n), "float32")
            for i in T.Parallel(n):
                Y[bx, i] = X[bx, i] * 2

    a, b = normal(5, 100), poison(5, 100)
    run(main, target, a, b, 5, 100)
    close(b, a * 2)


def test_a_strided_tensor_at_a_pointer(target: str) -> None:
    @T.prim_func
    def main(A: T.ptr, B: T.Tensor((8, 16), "float16")):
        with T.Kernel(1, threads=N):
            X = T.make_tensor(A, (8, 16), "float16", strides=(1, 8))
            tile = T.alloc_shared((8, 16), "float16")
            T.copy(X, tile)
            T.copy(tile, B)

    a = normal(16, 8, dtype="float16")
    close(run(main, target, a, poison(8, 16, dtype="float16")), a.T)


def test_ragged_tiles_at_a_pointer(target: str) -> None:
    @T.prim_func
    def main(A: T.ptr, B: T.ptr, n: T.int32):
        with T.Kernel(2, threads=N) as bx:
            X, Y = T.make_tensor(A, (n, 8)), T.make_tensor(B, (n, 8))
            tile = T.alloc_fragment((16, 8), "float32")
            T.copy(X[bx * 16, 0], tile)
            for i, j in T.Parallel(16, 8):
                tile[i, j] += 1
            T.copy(tile, Y[bx * 16, 0])

    a, b = normal(21, 8), poison(21, 8)
    run(main, target, a, b, 21)
    close(b, a + 1)


def test_tensors_of_pointers(target: str) -> None:
    """A group of matrices, each at an address of its own."""

    @T.prim_func
    def main(P: T.Tensor((3,), T.ptr), B: T.Tensor((3, N), "float32")):
        with T.Kernel(3, threads=N) as bx:
            X = T.make_tensor(P[bx], (N,), "float32")
            t = T.get_thread_binding()
            B[bx, t] = X[t]

    tensors = [normal(N) for _ in range(3)]
    if target == "cuda":
        tensors = [each.cuda() for each in tensors]
    table = torch.tensor([each.data_ptr() for each in tensors], dtype=torch.int64)
    b = poison(3, N)
    with reaching(target, *([] if target == "cuda" else tensors)):
        run(main, target, table, b)
    close(b, torch.stack([each.cpu() for each in tensors]))


def test_addresses_in_scalars(target: str) -> None:
    @T.prim_func
    def main(a: T.uint64, B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            X = T.make_tensor_from_addr(a, (N,), "float32")
            B[T.get_thread_binding()] = X[N - 1 - T.get_thread_binding()]

    a = normal(N).to("cuda" if target == "cuda" else "cpu")
    b = poison(N)
    with reaching(target, *([] if target == "cuda" else [a])):
        run(main, target, a.data_ptr(), b)
    close(b, a.cpu().flip(0))


def test_reads_of_what_nobody_writes(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            B[t] = T.__ldg(A[t]) + 1

    a = normal(N)
    close(run(main, target, a, poison(N)), a + 1)


def sums_of_a_table(count: int, n: int) -> Any:
    """A kernel that adds up tensors whose addresses are in a tensor."""

    @T.prim_func
    def main(table: T.Tensor((count,), T.ptr), out: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=N):
            for i in T.Parallel(n):
                out[i] = 0
            for k in T.serial(count):
                each = T.make_tensor(table[k], (n,), "float32")
                for i in T.Parallel(n):
                    out[i] += each[i]

    return main


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_live_tensors_are_reached_by_their_addresses(dtype: str) -> None:
    whole = normal(5, 100)
    parts = [whole[1], whole[3], normal(100), torch.nn.Parameter(normal(100))]
    table = torch.tensor([part.data_ptr() for part in parts]).view(getattr(torch, dtype))
    out = poison(100)
    tilelang.compile(sums_of_a_table(4, 100), target="sm_90a")(table, out)
    close(out, sum(part.detach().double() for part in parts))


def test_addresses_as_numbers() -> None:
    @T.prim_func
    def main(A: T.ptr, B: T.ptr, n: T.int32):
        X = T.make_tensor(A, (n,), "float32")
        Y = T.make_tensor(B, (n,), "float32")
        with T.Kernel(1, threads=N):
            for i in T.Parallel(n):
                Y[i] = X[i] + 1

    a, b = normal(70), poison(70)
    tilelang.compile(main, target="sm_80")(a.data_ptr(), b.data_ptr(), 70)
    equal(b, a + 1)


def test_memory_that_nothing_owns_is_named() -> None:
    numpy_owns = np.ones(100, np.float32)
    table = torch.tensor([numpy_owns.ctypes.data])
    kernel = tilelang.compile(sums_of_a_table(1, 100), target="sm_90a")
    with pytest.raises(
        errors.EmulatorError, match=r"name their memory with tilelang.emulator.reachable"
    ) as caught:
        kernel(table, poison(100))
    assert "test_pointers.py" in str(caught.value)
    out = poison(100)
    with emulator.reachable(numpy_owns):
        kernel(table, out)
    equal(out, torch.ones(100))


def test_a_tensor_that_is_none() -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            T.copy(A, B)

    with pytest.raises(errors.EmulatorError, match="its base is a null pointer: is an argument"):
        tilelang.compile(main, target="sm_80")(normal(N), None)


def test_numbers_that_are_no_addresses() -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "int64"), B: T.Tensor((N,), "int64")):
        with T.Kernel(1, threads=N):
            for i in T.Parallel(N):
                B[i] = A[i] + 1

    a = torch.randint(-(2**62), 2**62, (N,))
    a[::2] %= 2**40
    b = poison(N, dtype="int64")
    tilelang.compile(main, target="sm_90a")(a, b)
    equal(b, a + 1)


def test_a_table_of_pointers_is_a_tensor_of_int64() -> None:
    @T.prim_func
    def main(table: T.Tensor[[4], T.ptr], B: T.Tensor((4, N), "float32")):
        with T.Kernel(4, threads=N) as bx:
            B[bx, T.get_thread_binding()] = 0

    buffer = main.buffer_map[main.params[0]]
    assert buffer.dtype == "int64"
    assert buffer.shape == (4,)
