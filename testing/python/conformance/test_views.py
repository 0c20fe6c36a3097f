"""Views: T.view and T.reshape of every memory, in tile operators and element by element."""

from __future__ import annotations

import pytest
import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang.language as T

N = 64


def test_reshaped_tiles(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N, N), "float32"), B: T.Tensor((2, N, 32), "float32")):
        with T.Kernel(1, threads=128):
            S = T.alloc_shared((N, N), "float32")
            T.copy(A, S)
            R = T.reshape(S, (2, N, 32))
            T.copy(R, B)

    a = normal(N, N)
    equal(run(main, target, a, poison(2, N, 32)), a.view(2, N, 32))


def test_a_part_of_a_reshaped_tile_is_an_operand_of_gemm(target: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((2, N, N), "float16"),
        B: T.Tensor((N, N), "float16"),
        C: T.Tensor((N, N), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((2 * N, N), "float16")
            b = T.alloc_shared((N, N), "float16")
            c = T.alloc_fragment((N, N), "float32")
            T.copy(A, T.reshape(a, (2, N, N)))
            T.copy(B, b)
            T.clear(c)
            for k in range(2):
                T.gemm(T.reshape(a, (2, N, N))[k, :, :], b, c)
            T.copy(c, C)

    a, b = normal(2, N, N, dtype="float16"), normal(N, N, dtype="float16")
    close(run(main, target, a, b, poison(N, N)), a.double().sum(0) @ b.double(), 1e-3)


@pytest.mark.parametrize(
    ("source", "dtype"),
    [("float32", "int32"), ("float32", "float16"), ("int8", "int32"), ("uint64", "uint16")],
)
def test_elements_of_another_type(source: str, dtype: str, target: str) -> None:
    count = 256 * T.dtype(source).bits // T.dtype(dtype).bits

    @T.prim_func
    def main(A: T.Tensor((256,), source), B: T.Tensor((count,), dtype)):
        with T.Kernel(1, threads=64):
            V = T.view(A, dtype=dtype)
            for i in T.Parallel(count):
                B[i] = V[i]

    a = integers(256, low=0, high=2**7, dtype="int64").to(getattr(torch, source))
    raw = poison(count, dtype="uint8").to(getattr(torch, dtype))
    run(main, target, a, raw)
    equal(raw.view(torch.uint8), a.view(torch.uint8))


def test_wide_elements_are_written_to_narrow_memory(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), B: T.Tensor((4 * N,), "uint8")):
        with T.Kernel(1, threads=N):
            V = T.view(B, (N,), "int32")
            t = T.get_thread_binding()
            V[t] = A[t]

    a = integers(N, low=-(2**31), high=2**31, dtype="int64").int()
    b = run(main, target, a, poison(4 * N, dtype="uint8"))
    equal(b.view(torch.int32), a)


def test_narrow_elements_of_an_array_of_a_thread(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N, 8), "float16"), B: T.Tensor((N, 4), "uint32")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            words = T.alloc_local((4,), "uint32")
            halves = T.view(words, (8,), "float16")
            for i in T.serial(8):
                halves[i] = A[t, i] * T.float16(2)
            for i in T.serial(4):
                B[t, i] = words[i]

    a = normal(N, 8, dtype="float16")
    b = poison(N, 4, dtype="int32").view(torch.uint32)
    run(main, target, a, b)
    equal(b.view(torch.float16), a * 2)


def test_views_of_fragments(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N, 8, 8), "float32"), B: T.Tensor((N, 64), "float32")):
        with T.Kernel(1, threads=64):
            x = T.alloc_fragment((N, 64), "float32")
            T.copy(A, T.reshape(x, (N, 8, 8)))
            T.copy(x, B)

    a = normal(N, 8, 8)
    equal(run(main, target, a, poison(N, 64)), a.view(N, 64))


def test_ragged_views_read_zeros(target: str) -> None:
    """A tile at the edge of a view ends there, not at the edge of the memory below."""

    @T.prim_func
    def main(A: T.Tensor((20 * 24,), "float32"), B: T.Tensor((2, 32, 32), "float32")):
        with T.Kernel(2, threads=64) as bx:
            V = T.view(A, (20, 24))
            x = T.alloc_shared((32, 32), "float32")
            T.copy(V[bx * 16, 8], x)
            T.copy(x, B[bx, 0, 0])

    a = normal(20 * 24)
    expected = torch.zeros(2, 32, 32)
    expected[0, :20, :16] = a.view(20, 24)[:, 8:]
    expected[1, :4, :16] = a.view(20, 24)[16:, 8:]
    equal(run(main, target, a, poison(2, 32, 32)), expected)


def test_views_are_filled(target: str) -> None:
    @T.prim_func
    def main(B: T.Tensor((4, N), "float32")):
        with T.Kernel(1, threads=N):
            V = T.view(B, (2, 2 * N))
            T.clear(V)
            T.fill(V[1, N : 2 * N], 3)
            T.atomic_add(V[0, N + T.get_thread_binding()], 2)

    expected = torch.tensor([0.0, 2, 0, 3])[:, None].expand(4, N)
    equal(run(main, target, poison(4, N)), expected)


@pytest.mark.parametrize("scope", [T.alloc_fragment, T.alloc_shared], ids=["fragment", "shared"])
def test_reductions_of_parts_of_rows(scope, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((48, 40), "float32"), B: T.Tensor((48, 5), "float32")):
        with T.Kernel(1, threads=96):
            tile = scope((48, 40), "float32")
            total = T.alloc_fragment((48, 5), "float32")
            T.copy(A, tile)
            parts = T.reshape(tile, (48, 5, 8))
            for i, n, j in T.Parallel(48, 5, 8):
                parts[i, n, j] = T.max(parts[i, n, j], 0) * (n + 1)
            T.reduce_sum(parts, total, dim=-1)
            T.copy(total, B)

    a = normal(48, 40)
    expected = (a.double().relu().view(48, 5, 8) * torch.arange(1, 6).view(5, 1)).sum(2)
    close(run(main, target, a, poison(48, 5)), expected)


@pytest.mark.parametrize("transposed", [False, True])
def test_bytes_as_operands(transposed: bool, target: str) -> None:
    """Views that are no boxes of their memory become operands of T.gemm in tiles of their own."""

    @T.prim_func
    def main(
        A: T.Tensor((1, 64 * 32 * 2), "uint8"),
        B: T.Tensor((32, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            memory = T.alloc_shared((1, 64 * 32 * 2), "uint8")
            b, c = T.alloc_shared((32, 64), "float16"), T.alloc_fragment((64, 64), "float32")
            T.copy(A, memory)
            T.copy(B, b)
            a = T.view(memory, (32, 64) if transposed else (64, 32), "float16")
            T.gemm(a, b, c, transpose_A=transposed, clear_accum=True)
            T.copy(c, C)

    a = torch.randint(-4, 5, (32, 64) if transposed else (64, 32)).half()
    b = torch.randint(-4, 5, (32, 64)).half()
    c = run(main, target, a.view(torch.uint8).view(1, -1), b, poison(64, 64))
    equal(c, (a.T if transposed else a).float() @ b.float())
