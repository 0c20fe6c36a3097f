"""Two 16-bit numbers that a word of 32 bits is made for: computed together, not one by one."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang
import tilelang.language as T

N = 96


class Made(NamedTuple):
    """How a word is made of another one, and how many pairs of operations with constants it takes.

    ``of`` is for the program and for NumPy; ``reference`` stands for it there, if they differ.
    """

    of: Callable[[Any], Any]
    joined: int
    reference: Callable[[Any], Any] | None = None


def chosen(w: Any) -> Any:
    """One of two words by the parity of the thread; one of these by another bit."""
    t = T.get_thread_binding()
    inner = T.if_then_else(t % 4 == 1, w & 0xFF00FF | 0x3C003C00, w << 3)
    return T.if_then_else(t % 2 == 0, w & 0x000F000F ^ 0x64086408, inner)


def chosen_by_numpy(w: Any) -> Any:
    """The same of the words of all threads."""
    t = np.arange(N)
    inner = np.where(t % 4 == 1, w & 0xFF00FF | 0x3C003C00, w << 3)
    return np.where(t % 2 == 0, w & 0x000F000F ^ 0x64086408, inner)


MADE = {
    "as it is": Made(lambda w: w, 0),
    "and, xor": Made(lambda w: w & 0x000F000F ^ 0x64086408, 1),
    "or, and": Made(lambda w: (w | 0x3C003C00) & 0x7FFF7FF1, 1),
    "xor, or": Made(lambda w: (w ^ 0x12345678) | 0x00010400, 1),
    "of the upper bits": Made(lambda w: w >> 8 & 0x000F000F ^ 0x64086408, 1),
    "one constant": Made(lambda w: w & 0x000F000F, 0),
    "two parts": Made(lambda w: w & 0x00080008 | w >> 3 & 0x0E000E00, 0),
    "sum": Made(lambda w: (w & 0x00FF00FF) + 0x3C003C00, 0),
    "chosen": Made(chosen, 2, chosen_by_numpy),
}


@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("word", ["uint32", "int32"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_bits(name: str, word: str, dtype: str, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), word), B: T.Tensor((N, 2), dtype)):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            B[t, 0:2] = T.reinterpret(getattr(T, f"{dtype}x2"), MADE[name].of(A[t]))

    a = integers(N, low=-(2**31), high=2**31)
    found = run(main, target, a.view(getattr(torch, word)), poison(N, 2, dtype=dtype))
    expected = (MADE[name].reference or MADE[name].of)(a.numpy().view(word))
    equal(found.view(torch.int32)[:, 0], torch.from_numpy(expected.astype(word).view("int32")))


@pytest.mark.parametrize("name", MADE)
def test_two_operations_with_constants_are_one(name: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((N,), "uint32"), B: T.Tensor((N, 2), "float16")):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            B[t, 0:2] = T.reinterpret(T.float16x2, MADE[name].of(A[t]))

    source = tilelang.compile(main, target="sm_90a").get_kernel_source()
    assert source.count("tl::lop3<") == 2 * MADE[name].joined  # in each half


def test_pairs_of_a_fragment_are_computed_at_once() -> None:
    """32 weights a thread, of four words: 16 operations of each kind on pairs, nothing to pack."""

    @T.prim_func
    def main(
        W: T.Tensor((128, 4), "uint32"),
        B: T.Tensor((64, 16), "float16"),
        C: T.Tensor((64, 16), "float32"),
    ):
        with T.Kernel(1, threads=128):
            words = T.alloc_shared((4, 32, 4), "uint32")
            b = T.alloc_shared((64, 16), "float16")
            a = T.alloc_fragment((64, 64), "float16")
            c = T.alloc_fragment((64, 16), "float32")
            T.copy(W, T.reshape(words, (128, 4)))
            T.copy(B, b)
            for i, j in T.Parallel(64, 32):
                word = words[i // 16, i % 8 * 4 + j % 4, j // 8] >> (
                    j // 4 % 2 * 8 + i // 8 % 2 * 4
                )
                pair = T.reinterpret(T.float16x2, word & 0x000F000F ^ 0x64086408)
                a[i, 2 * j : 2 * j + 2] = pair - T.float16(1032.0)
            T.gemm(a, b, c, clear_accum=True)
            T.copy(c, C)

    kernel = tilelang.compile(main, target="sm_90a")
    operations = re.findall(r"^\s+/\*\w+\*/\s+(?:@!?U?P\w+ )?(\w+)", kernel.get_sass(), re.M)
    assert operations.count("HADD2") == 16
    assert operations.count("LOP3") < 24
    assert "PRMT" not in operations
    codes, b = torch.randint(0, 16, (64, 64), dtype=torch.int32), normal(64, 16, dtype="float16")
    shifts = torch.arange(0, 32, 4).int()
    # rows: tile, second half, g; columns: step, second half, q, odd
    order = codes.view(4, 2, 8, 4, 2, 4, 2).permute(0, 2, 5, 3, 6, 4, 1).reshape(128, 4, 8)
    w = (order << shifts).sum(2, dtype=torch.int32).view(torch.uint32)
    c = poison(64, 16)
    kernel(w, b, c)
    close(c, (codes << 28 >> 28).double() @ b.double(), 1e-3)


def test_lanes_of_other_sizes(target: str) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((N,), "float32"), B: T.Tensor((N, 4), "int8"), C: T.Tensor((N, 2), "int16")
    ):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            B[t, 0:4] = T.reinterpret(A[t], T.int8x4)
            C[t, 0:2] = T.reinterpret(A[t], T.int16x2)

    a, bytes_of = normal(N), poison(N, 4, dtype="int8")
    halves = run(main, target, a, bytes_of, poison(N, 2, dtype="int16"))
    equal(bytes_of, a.view(torch.int8).view(N, 4))
    equal(halves, a.view(torch.int16).view(N, 2))


@pytest.mark.parametrize("number, bits", [("float16", "bfloat16"), ("bfloat16", "float16")])
def test_converted_words_are_no_halves(target: str, number: str, bits: str) -> None:
    """The bits of a word that becomes a number are those of the number."""

    @T.prim_func
    def main(A: T.Tensor((N,), "int32"), C: T.Tensor((N,), bits)):
        with T.Kernel(1, threads=N):
            t = T.get_thread_binding()
            C[t] = T.reinterpret(T.cast(A[t], number), bits)

    a = torch.arange(-40, N - 40, dtype=torch.int32)
    (c,) = (run(main, target, a, poison(N, dtype=bits)),)
    equal(c, a.to(getattr(torch, number)).view(getattr(torch, bits)))
