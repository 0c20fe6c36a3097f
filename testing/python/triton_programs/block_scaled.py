"""Block-scaled products: mxfp8, mxfp4 and nvfp4 by tcgen05, or on sm_120a by mma.sync."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton_programs.programs import Program, check, collect, generator, poisoned

PROGRAMS: list[Program] = []
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6], dtype=torch.float64)


@triton.jit
def scaled_kernel(
    a_ptr, as_ptr, b_ptr, bs_ptr, c_ptr, K,
    A: tl.constexpr, B: tl.constexpr, PACK_A: tl.constexpr, PACK_B: tl.constexpr,
    VECTOR: tl.constexpr, M: tl.constexpr, N: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    """A [M, K / PACK_A], B [N, K / PACK_B] and scales [M, K / VECTOR], [N, K / VECTOR]."""
    rm, rn = tl.arange(0, M), tl.arange(0, N)
    ka, kb = tl.arange(0, BLOCK // PACK_A), tl.arange(0, BLOCK // PACK_B)
    rs = tl.arange(0, BLOCK // VECTOR)
    acc = tl.zeros((M, N), tl.float32)
    for k in range(0, K, BLOCK):
        a = tl.load(a_ptr + rm[:, None] * (K // PACK_A) + k // PACK_A + ka)
        b = tl.load(b_ptr + rn[:, None] * (K // PACK_B) + k // PACK_B + kb)
        sa = tl.load(as_ptr + rm[:, None] * (K // VECTOR) + k // VECTOR + rs)
        sb = tl.load(bs_ptr + rn[:, None] * (K // VECTOR) + k // VECTOR + rs)
        acc = tl.dot_scaled(a, sa, A, b.T, sb, B, acc)
    tl.store(c_ptr + rm[:, None] * N + rn, acc)


def random_operand(kind: str, rows: int, k: int, seed: int):
    """Bytes, and exact values."""
    codes = torch.randint(0, 256, (rows, k), generator=generator(seed)).to(torch.uint8)
    if kind == "e2m1":
        codes %= 16
        values = E2M1[(codes % 8).long()] * (1 - 2 * (codes // 8).double())
        return codes[:, ::2] | codes[:, 1::2] << 4, values
    dtype = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}[kind]
    typed = torch.randn(rows, k, generator=generator(seed)).to(dtype)
    return typed.view(torch.uint8), typed.double()


def random_scales(vector: int, rows: int, k: int, seed: int):
    codes = torch.randint(0, 256, (rows, k // vector), generator=generator(seed))
    if vector == 16:
        typed = ((1 + codes % 8 / 8.0) * 2.0 ** (codes // 32 - 4.0)).to(torch.float8_e4m3fn)
        return typed, typed.double().repeat_interleave(16, 1)
    codes = codes % 12 + 121
    return codes.to(torch.uint8), (2.0 ** (codes.double() - 127)).repeat_interleave(32, 1)


def scaled_dot(a_kind: str, b_kind: str, vector: int, m: int, n: int, block: int):
    k = 2 * block
    a, a_exact = random_operand(a_kind, m, k, 1)
    b, b_exact = random_operand(b_kind, n, k, 2)
    sa, sa_exact = random_scales(vector, m, k, 3)
    sb, sb_exact = random_scales(vector, n, k, 4)
    c = poisoned(m, n)
    pack = [2 if kind == "e2m1" else 1 for kind in (a_kind, b_kind)]
    kernel = scaled_kernel[(1,)](a, sa, b, sb, c, k, a_kind, b_kind, *pack, vector, m, n, block)
    assert "block_scale" in kernel.asm["ptx"]
    check(c, (a_exact * sa_exact) @ (b_exact * sb_exact).T, rtol=1e-4, atol=1e-2)


@collect(PROGRAMS, ("sm_100a", "sm_120a"))
def mxfp8_dot(arch):
    scaled_dot("e4m3", "e5m2", 32, 128, 128, 128)


@collect(PROGRAMS, ("sm_100a", "sm_120a"))
def mxfp4_dot(arch):
    scaled_dot("e2m1", "e2m1", 32, 128, 64, 128)


@collect(PROGRAMS, ("sm_100a", "sm_120a"))
def nvfp4_dot(arch):
    scaled_dot("e2m1", "e2m1", 16, 128, 128, 128)


@collect(PROGRAMS, ("sm_100a", "sm_120a"))
def mixed_dot(arch):
    scaled_dot("e4m3", "e2m1", 32, 128, 256, 128)
