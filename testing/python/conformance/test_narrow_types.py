"""4-bit types and exponents of 8 bits: tensors, tiles, conversions, gemms."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conformance.running import close, equal, integers, normal, poison, run

import tilelang
import tilelang.language as T

M, N, K = 64, 64, 64
# The values of float4_e2m1fn by their codes (OCP Microscaling Formats, table 5).
E2M1 = torch.tensor([0.0, 0.5, 1, 1.5, 2, 3, 4, 6])
E2M1 = torch.cat([E2M1, -E2M1])


def packed(codes: torch.Tensor) -> torch.Tensor:
    """Two codes of 4 bits in a byte, the first in the low bits."""
    codes = codes.to(torch.uint8) & 15
    return codes[..., 0::2] | codes[..., 1::2] << 4


def multiplied(dtype: str, result: str) -> Any:
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((N, K), dtype), C: T.Tensor((M, N), result)):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, K), dtype)
            b = T.alloc_shared((N, K), dtype)
            c = T.alloc_fragment((M, N), result)
            T.copy(A, a)
            T.copy(B[0, 0], b)
            T.clear(c)
            T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C)

    return main


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_gemm_of_four_bit_integers(dtype: str, target: str) -> None:
    low = -8 if dtype == "int4" else 0
    a, b = (integers(n, K, low=low, high=low + 16, dtype="int8") for n in (M, N))
    c = poison(M, N, dtype="int32")
    run(multiplied(dtype, "int32"), target, packed(a), packed(b), c)
    equal(c, a.long() @ b.long().T)


def test_gemm_of_four_bit_floats(target: str) -> None:
    a, b = (integers(n, K, low=0, high=16, dtype="uint8") for n in (M, N))
    c = poison(M, N)
    run(multiplied("float4_e2m1fn", "float32"), target, packed(a), packed(b), c)
    close(c, E2M1[a.long()].double() @ E2M1[b.long()].double().T)


def test_four_bit_floats_are_rounded(target: str) -> None:
    """To the nearest of the sixteen values, ties to the even code, beyond them the greatest."""

    @T.prim_func
    def main(A: T.Tensor((M, 256), "float32"), B: T.Tensor((M, 256), T.float4_e2m1fn)):
        with T.Kernel(M // 16, threads=128) as bx:
            x = T.alloc_fragment((16, 256), T.float4_e2m1fn)
            for i, j in T.Parallel(16, 256):
                x[i, j] = A[bx * 16 + i, j]
            T.copy(x, B[bx * 16, 0])

    a = normal(M, 256) * 3
    a[0, :33] = torch.arange(-16, 17) / 4  # the ties
    a[1, :2] = torch.tensor([torch.inf, -100.0])
    b = run(main, target, a, poison(M, 128, dtype="uint8"))
    distance = (a.clamp(-6, 6)[..., None].double() - E2M1.double()).abs()
    best = distance.min(-1, keepdim=True).values
    codes = torch.stack([b & 15, b >> 4], -1).view(M, 256).long()
    assert (distance.gather(-1, codes[..., None]) == best).all()
    ties = (distance == best).sum(-1) > 1
    ties &= E2M1[codes] != 0
    assert ties.any() and (codes[ties] % 2 == 0).all()
    assert ((codes >> 3) == a.signbit().long()).all()


def test_four_bit_integers_in_arithmetic(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((M, K), "int4"), S: T.Tensor((M,), "float32"), B: T.Tensor((M, K))):
        with T.Kernel(M // 8, threads=64) as bx:
            for i, j in T.Parallel(8, K):
                B[bx * 8 + i, j] = T.cast(A[bx * 8 + i, j], "float32") * S[bx * 8 + i]

    a, s = integers(M, K, low=-8, high=8, dtype="int8"), normal(M)
    b = run(main, target, packed(a), s, poison(M, K))
    close(b, a.double() * s.double()[:, None])


def test_four_bit_elements_of_other_tensors(target: str) -> None:
    """A tensor of 4-bit elements is one of bytes, whatever the type of the bytes."""

    @T.prim_func
    def main(A: T.Tensor((M, K), "uint4"), B: T.Tensor((M, K), "uint4")):
        with T.Kernel(1, threads=64):
            x = T.alloc_shared((M, K), "uint4")
            T.copy(A, x)
            for i, j in T.Parallel(M, K):
                x[i, j] = 15 - x[i, j]
            T.copy(x, B)

    a = integers(M, K, low=0, high=16, dtype="uint8")
    b = poison(M, K // 2, dtype="int8")
    run(main, target, packed(a).view(torch.int8), b)
    equal(b.view(torch.uint8), packed(15 - a))


def test_ragged_tiles_of_four_bit_elements(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((20, 24), "int4"), B: T.Tensor((32, 32), "int32")):
        with T.Kernel(1, threads=64):
            x = T.alloc_shared((32, 32), "int4")
            T.copy(A[4, 8], x)
            for i, j in T.Parallel(32, 32):
                B[i, j] = x[i, j]

    a = integers(20, 24, low=-8, high=8, dtype="int8")
    expected = torch.zeros(32, 32, dtype=torch.int32)
    expected[:16, :16] = a[4:, 8:]
    b = poison(32, 32, dtype="int32")
    run(main, target, packed(a), b)
    equal(b, expected)


def test_exponents_are_read(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((256,), T.float8_e8m0fnu), B: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(256):
                B[i] = A[i]

    a = torch.arange(256, dtype=torch.uint8)
    b = run(main, target, a, torch.zeros(256))
    expected = a.view(torch.float8_e8m0fnu).float()
    torch.testing.assert_close(b, expected, rtol=0, atol=0, equal_nan=True)


def test_exponents_are_written(target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((512,), "float32"), B: T.Tensor((512,), "float8_e8m0fnu")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(512):
                B[i] = T.fabs(A[i])

    a = normal(512) * torch.exp2(torch.randint(-60, 60, (512,)).float())
    a[:4] = torch.tensor([1.5, 3.0, 2.0**127, 0.75])
    b = torch.zeros(512, dtype=torch.float8_e8m0fnu)
    run(main, target, a, b)
    assert torch.equal(b.view(torch.uint8), a.abs().to(torch.float8_e8m0fnu).view(torch.uint8))


_FNUZ = [torch.float8_e4m3fnuz, torch.float8_e5m2fnuz]


@pytest.mark.parametrize("dtype", _FNUZ, ids=["float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_floats_with_one_zero_are_read(dtype: torch.dtype, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((256,), dtype), B: T.Tensor((256,), "float32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(256):
                B[i] = A[i]

    a = torch.arange(256, dtype=torch.uint8)
    b = run(main, target, a, torch.zeros(256))
    torch.testing.assert_close(b, a.view(dtype).float(), rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("dtype", _FNUZ, ids=["float8_e4m3fnuz", "float8_e5m2fnuz"])
def test_floats_with_one_zero_are_written(dtype: torch.dtype, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((2048,), "float32"), B: T.Tensor((2048,), dtype)):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(2048):
                B[i] = A[i]

    values = torch.arange(256, dtype=torch.uint8).view(dtype).float()
    values = values[values.isfinite()]
    greatest = values.max()
    halves = (values.sort().values[1:] + values.sort().values[:-1]) / 2  # ties
    random = normal(2048) * torch.exp2(torch.randint(-22, 6, (2048,)).float())
    a = torch.cat([values, halves, torch.tensor([-0.0, torch.nan]), random])[:2048]
    a = a.where(~(a.abs() > greatest), greatest)
    b = torch.zeros(2048, dtype=dtype)
    run(main, target, a, b)
    assert torch.equal(b.view(torch.uint8), a.to(dtype).view(torch.uint8))
    beyond = torch.full((2048,), torch.inf)
    beyond[::2] = -2 * greatest
    run(main, target, beyond, b)
    assert b.float()[:2].tolist() == [-greatest, greatest]


def test_scaled_blocks(target: str) -> None:
    """Microscaling: 4-bit elements, an exponent for 32 of them, put together before the gemm."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float4_e2m1fn"),
        S: T.Tensor((M, K // 32), "float8_e8m0fnu"),
        B: T.Tensor((K, N), "bfloat16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, K), "bfloat16")
            b = T.alloc_shared((K, N), "bfloat16")
            c = T.alloc_fragment((M, N), "float32")
            for i, j in T.Parallel(M, K):
                a[i, j] = T.cast(A[i, j], "float32") * S[i, j // 32]
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c)
            T.copy(c, C)

    codes = integers(M, K, low=0, high=16, dtype="uint8")
    scales = torch.exp2(torch.randint(-3, 4, (M, K // 32)).float())
    b = normal(K, N, dtype="bfloat16")
    c = poison(M, N)
    run(main, target, packed(codes), scales.to(torch.float8_e8m0fnu), b, c)
    a = E2M1[codes.long()].double() * scales.double().repeat_interleave(32, 1)
    close(c, a @ b.double(), 1e-3)


def test_tensors_of_tensor_floats(target: str) -> None:
    """tfloat32 is float32 of which the tensor core reads 19 bits."""

    @T.prim_func
    def main(A: T.Tensor((M, K), T.tfloat32), B: T.Tensor((K, N), "tfloat32"), C: T.Tensor((M, N))):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((M, K), T.tfloat32)
            b = T.alloc_shared((K, N), T.tfloat32)
            c = T.alloc_fragment((M, N), "float32")
            T.copy(A, a)
            T.copy(B, b)
            T.clear(c)
            T.gemm(a, b, c)
            T.copy(c, C)

    a, b = normal(M, K), normal(K, N)
    torch.testing.assert_close(run(main, target, a, b, poison(M, N)), a @ b, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("dtype", ["uint16", "int16", "uint8", "int8"])
def test_shifts_beyond_a_narrow_type(target: str, dtype: str) -> None:
    """As in C: the operand becomes an int32 first."""

    @T.prim_func
    def main(A: T.Tensor((64,), dtype), B: T.Tensor((64,), "int32"), C: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                B[i] = A[i] << 20
                C[i] = A[i] >> 16

    a = torch.randint(-(2**15), 2**15, (64,)).to(getattr(torch, dtype))
    b, c = (torch.full((64,), 77, dtype=torch.int32) for _ in range(2))
    run(main, target, a, b, c)
    equal(b, a.int() << 20)
    equal(c, a.int() >> 16)


@pytest.mark.parametrize("dtype", ["uint16", "int16", "uint8", "int8"])
def test_shifts_that_are_widened(target: str, dtype: str) -> None:
    """A shift keeps its bits until the conversion, as in C. A variable of the type drops them."""

    @T.prim_func
    def main(
        A: T.Tensor((64,), dtype),
        B: T.Tensor((64,), "int32"),
        C: T.Tensor((64,), "int64"),
        D: T.Tensor((64,), "int32"),
    ):
        with T.Kernel(1, threads=64):
            for i in T.Parallel(64):
                kept = T.alloc_var(dtype)
                B[i] = T.cast(A[i] << 5, "int32")
                C[i] = (A[i] << 7) | (A[i] & 3)
                kept = A[i] << 5
                D[i] = kept

    a = torch.randint(-(2**15), 2**15, (64,)).to(getattr(torch, dtype))
    b, c, d = poison(64, dtype="int32"), poison(64, dtype="int64"), poison(64, dtype="int32")
    run(main, target, a, b, c, d)
    equal(b, a.int() << 5)
    equal(c, (a.int() << 7 | a.int() & 3).long())
    equal(d, (a.int() << 5).to(a.dtype).int())


def test_four_bit_outputs(target: str) -> None:
    """T.empty of a narrow type: the caller gets the bytes."""

    @tilelang.jit(target="auto" if target == "cuda" else target)
    def quantized(A, rows=16):
        M = T.dynamic("M")
        A: T.Tensor[(M, K), T.float32]
        B = T.empty((M, K), T.float4_e2m1fn)
        with T.Kernel(T.ceildiv(M, rows), threads=64) as block:
            tile = T.alloc_fragment((rows, K), T.float4_e2m1fn)
            for i, j in T.Parallel(rows, K):
                tile[i, j] = A[block * rows + i, j]
            T.copy(tile, B[block * rows, 0])
        return B

    codes = torch.randint(0, 16, (M, K))
    a = E2M1[codes].to("cuda" if target == "cuda" else "cpu")
    found = quantized(a)
    assert found.dtype == torch.uint8
    values = torch.stack([E2M1[found.cpu().long() & 15], E2M1[found.cpu().long() >> 4]], -1)
    equal(values.reshape(M, K), a.cpu())


@pytest.mark.parametrize("name", ["int4", "uint4", "float4_e2m1fn", "float8_e8m0fnu"])
def test_types_by_their_names(name: str, target: str) -> None:
    """T.dtype finds narrow types by their names and as types of torch."""
    dtype = T.dtype(name)
    assert (dtype, dtype.bytes) == (getattr(T, name), 1)
    known = getattr(torch, "float4_e2m1fn_x2" if "float4" in name else name, None)
    assert known is None or T.dtype(known) == name

    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((M, K), dtype)):
        with T.Kernel(1, threads=64):
            x = T.alloc_shared((M, K), dtype)
            T.copy(A, x)
            T.copy(x, B)

    width = K * dtype.bits // 8
    a = integers(M, width, low=0, high=250, dtype="uint8")
    equal(run(main, target, a, poison(M, width, dtype="uint8")), a)
