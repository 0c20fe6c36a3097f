"""float6_e2m3fn and float6_e3m2fn: tensors, tiles, padded tiles, conversions, memory of a call."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from conformance.running import close, normal, poison, run
from conformance.small_floats import pack, unpack, values

import tilelang.language as T

TYPES = pytest.mark.parametrize("dtype", ["float6_e2m3fn", "float6_e3m2fn"])
M, K = 48, 96


def codes_of(*shape: int) -> torch.Tensor:
    return torch.randint(0, 64, shape)


@TYPES
@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
def test_elements_are_read(dtype: str, kind: str, target: str) -> None:
    @T.prim_func
    def main(A: T.Tensor((M, K), dtype), B: T.Tensor((M, K), kind)):
        with T.Kernel(M // 16, threads=128) as bx:
            for i, j in T.Parallel(16, K):
                B[bx * 16 + i, j] = A[bx * 16 + i, j]

    codes = codes_of(M, K)
    b = run(main, target, pack(codes, 6), poison(M, K, dtype=kind))
    assert torch.equal(b.double(), values(dtype)[codes])


@TYPES
@pytest.mark.parametrize("kind", ["float32", "float16", "bfloat16"])
def test_values_are_rounded(dtype: str, kind: str, target: str) -> None:
    """To the nearest, of two as near the even code; beyond all, and NaN, the greatest."""

    @T.prim_func
    def main(A: T.Tensor((M, K), kind), B: T.Tensor((M, K), dtype)):
        with T.Kernel(M // 16, threads=128) as bx:
            x = T.alloc_fragment((16, K), dtype)
            for i, j in T.Parallel(16, K):
                x[i, j] = A[bx * 16 + i, j]
            T.copy(x, B[bx * 16, 0])

    table = values(dtype)
    greatest = table.max()
    sizes = table[:32].unique()
    halves = (sizes[1:] + sizes[:-1]) / 2
    special = torch.cat([halves, -halves, torch.tensor([-0.0, torch.nan, torch.inf, -torch.inf])])
    a = normal(M * K, dtype=kind) * torch.exp2(torch.randint(-6, 6, (M * K,)).to(normal(1).dtype))
    a = a.to(getattr(torch, kind))
    a[: len(special)] = special.to(a.dtype)
    a = a.reshape(M, K)
    b = run(main, target, a, poison(M, K * 6 // 8, dtype="uint8"))
    codes, wide = unpack(b, 6), a.double()
    wide = torch.where(wide.isnan(), greatest, wide).clamp(-greatest, greatest)
    distance = (wide[..., None] - table).abs()
    best = distance.min(-1, keepdim=True).values
    assert (distance.gather(-1, codes[..., None]) == best).all()
    ties = ((distance == best).sum(-1) > 1) & (table[codes] != 0)
    assert ties.any() and (codes[ties] % 2 == 0).all()
    assert torch.equal(codes >> 5, (a.signbit() & ~a.isnan()).long())


@TYPES
def test_ragged_tiles(dtype: str, target: str) -> None:
    """A tile that begins within three bytes and reaches beyond its tensor."""

    @T.prim_func
    def main(A: T.Tensor((20, 24), dtype), B: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=64):
            x = T.alloc_shared((32, 32), dtype)
            T.copy(A[3, 5], x)
            T.copy(x, B)

    codes = codes_of(20, 24)
    expected = torch.zeros(32, 32, dtype=torch.float64)
    expected[:17, :19] = values(dtype)[codes[3:, 5:]]
    b = run(main, target, pack(codes, 6), poison(32, 32))
    assert torch.equal(b.double(), expected)


@pytest.mark.parametrize("dtype", ["float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"])
@pytest.mark.parametrize("shape", [(32, 128), (24, 48)])
def test_padded_tiles(dtype: str, shape: tuple[int, int], target: str) -> None:
    """Bytes come from a tensor and go to another; threads read and write between."""
    rows, columns = shape

    @T.prim_func
    def main(A: T.Tensor(shape, dtype), B: T.Tensor(shape, "float32"), C: T.Tensor(shape, dtype),
             D: T.Tensor(shape, dtype)):  # fmt: skip
        with T.Kernel(1, threads=64):
            x = T.alloc_shared(shape, dtype, padded=True)
            y = T.alloc_shared(shape, dtype, padded=True)
            z = T.alloc_fragment(shape, dtype)
            T.copy(A, x)
            T.copy(x, z)
            T.copy(z, B)
            for i, j in T.Parallel(rows, columns):
                z[i, j] = z[i, j] * -0.5
            T.copy(z, y)
            T.copy(x, C)
            T.copy(y, D)

    bits = 4 if dtype.startswith("float4") else 6
    codes = torch.randint(0, 2**bits, shape)
    a, table = pack(codes, bits), values(dtype)
    b, c, d = poison(*shape), torch.zeros_like(a), torch.zeros_like(a)
    run(main, target, a, b, c, d)
    assert torch.equal(b.double(), table[codes])
    assert torch.equal(c, a)
    half = table[unpack(d, bits)] - table[codes] * -0.5
    assert half.abs().max() <= (2.0**-4 if bits == 6 else 0.5)


@TYPES
def test_padded_tiles_of_an_offset(dtype: str, target: str) -> None:
    """Rows of a larger tensor, from a column that begins no unit of 16."""

    @T.prim_func
    def main(A: T.Tensor((40, 96), dtype), B: T.Tensor((32, 32), "float32")):
        with T.Kernel(1, threads=64):
            x = T.alloc_shared((32, 32), dtype, padded=True)
            z = T.alloc_fragment((32, 32), dtype)
            T.copy(A[4:36, 20:52], x)
            T.copy(x, z)
            T.copy(z, B)

    codes = codes_of(40, 96)
    b = run(main, target, pack(codes, 6), poison(32, 32))
    assert torch.equal(b.double(), values(dtype)[codes[4:36, 20:52]])


def quantised(dtype: str, m: int, k: int) -> Any:
    """Rows in blocks of 32 with a power of two each (OCP MX): elements and exponents."""
    greatest = float(values(dtype).max())

    @T.prim_func
    def main(
        A: T.Tensor((m, k), "float32"),
        Q: T.Tensor((m, k), dtype),
        S: T.Tensor((m, k // 32), T.float8_e8m0fnu),
    ):
        with T.Kernel(T.ceildiv(m, 16), threads=128) as bx:
            x = T.alloc_fragment((16, k // 32, 32), "float32")
            q = T.alloc_fragment((16, k), dtype)
            most = T.alloc_fragment((16, k // 32), "float32")
            for i, j, e in T.Parallel(16, k // 32, 32):
                x[i, j, e] = A[bx * 16 + i, j * 32 + e]
            T.reduce_absmax(x, most, dim=2)
            for i, j in T.Parallel(16, k // 32):
                most[i, j] = T.ceil(T.log2(T.max(most[i, j], 2.0**-100) / greatest))
                S[bx * 16 + i, j] = T.exp2(most[i, j])
            for i, j in T.Parallel(16, k):
                q[i, j] = A[bx * 16 + i, j] * T.exp2(-most[i, j // 32])
            T.copy(q, Q[bx * 16, 0])

    return main


@TYPES
def test_quantisation_in_plain_source(dtype: str, target: str) -> None:
    m, k = 40, 64
    a = normal(m, k) * torch.exp2(torch.randint(-9, 9, (m, 1)).float())
    q = torch.zeros(m, k * 6 // 8, dtype=torch.uint8)
    s = torch.zeros(m, k // 32, dtype=torch.float8_e8m0fnu)
    run(quantised(dtype, m, k), target, a, q, s)
    blocks = a.double().unflatten(1, (-1, 32))
    table = values(dtype)
    exponent = torch.ceil(torch.log2(blocks.abs().amax(2) / table.max()))
    assert torch.equal(s.double(), torch.exp2(exponent))
    wide = blocks / torch.exp2(exponent)[..., None]
    distance = (wide[..., None] - table).abs().min(-1).values
    got = table[unpack(q, 6)].unflatten(1, (-1, 32))
    assert torch.equal((got - wide).abs(), distance)


@pytest.mark.parametrize("dtype", ["float6_e3m2fn", "float4_e2m1fn", "float8_e8m0fnu", "int4"])
def test_memory_of_a_call(dtype: str, target: str) -> None:
    """One kernel packs, the next reads."""

    @T.prim_func
    def main(A: T.Tensor((M, K), "float32"), B: T.Tensor((M, K), "float32")):
        packed = T.alloc_global((M, K), dtype)
        with T.Kernel(M // 16, threads=64) as bx:
            x = T.alloc_fragment((16, K), dtype)
            for i, j in T.Parallel(16, K):
                x[i, j] = A[bx * 16 + i, j]
            T.copy(x, packed[bx * 16, 0])
        with T.Kernel(M // 16, threads=64) as bx:
            for i, j in T.Parallel(16, K):
                B[bx * 16 + i, j] = packed[bx * 16 + i, j]

    if dtype == "int4":
        a = torch.randint(-8, 8, (M, K)).float()
    elif dtype == "float8_e8m0fnu":
        a = torch.exp2(torch.randint(-20, 20, (M, K)).float())
    else:
        table = values(dtype).float()
        a = table[torch.randint(0, len(table), (M, K))]
    close(run(main, target, a, poison(M, K)), a.double(), 0)
