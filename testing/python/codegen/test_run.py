"""Generated code computes what it says: run on the emulator, compared with torch and NumPy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from thread_ir import Buf, Kernel, call, codegen, evaluate, expr, if_, loop, nvrtc, seq, var

from tilelang.emulator import Device

FLOATS = ["float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"]
INTS = ["int8", "int16", "int32", "int64", "uint8"]
N = 2048


def values(dtype: str, seed: int = 0) -> torch.Tensor:
    """N values: every magnitude that the type has, ties, zeros, infinities, NaN."""
    rng = np.random.default_rng(seed)
    if dtype not in FLOATS:
        info = torch.iinfo(getattr(torch, dtype))
        array = rng.integers(info.min, info.max, N, endpoint=True, dtype=dtype)
        array[:4] = [info.min, info.max, 0, 1]
        # Numbers that lie just beside a tie of a narrower float.
        near = (1 << rng.integers(0, info.bits - 1, 512)) + rng.integers(-1, 2, 512)
        array[4:516] = near.astype(dtype)
        return torch.from_numpy(array)
    numbers = rng.standard_normal(N) * np.exp2(rng.integers(-30, 20, N))
    numbers[:6] = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.0]
    numbers[6:600] = 1 + rng.integers(0, 2**12, 594) * 2.0**-12  # ties of the narrow types
    numbers[600:900] = rng.integers(-600, 600, 300) * 2.0**-24
    return torch.from_numpy(numbers).to(getattr(torch, dtype))


def run(func, arch: str, *tensors: torch.Tensor) -> None:
    compiled = codegen(func, arch)
    kernel = compiled.kernels[0]
    ptx = nvrtc(str(compiled.lined_source), arch)
    raw = [t.view(torch.uint8).numpy() for t in tensors]
    Device(arch).load_ptx(ptx)[str(kernel.name)].launch(
        N // 128, 128, raw, smem=int(kernel.dyn_smem_bytes)
    )


def expected(source: torch.Tensor, target: str) -> torch.Tensor:
    if target.startswith("float8"):
        largest = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}[target]
        source = source.to(torch.float64).clamp(-largest, largest)
    return rounded(source, target)


def rounded(source: torch.Tensor, target: str) -> torch.Tensor:
    """``source`` rounded once, to nearest even, from its exact value."""
    if target in ("float32", "float64"):
        return source.to(getattr(torch, target))
    bits, least = {
        "float16": (11, -24),
        "bfloat16": (8, -133),
        "float8_e4m3fn": (4, -9),
        "float8_e5m2": (3, -16),
    }[target]
    out = []
    for x in source.tolist():
        if x == 0 or x != x or abs(x) == float("inf"):
            out.append(float(x))
            continue
        mantissa, exponent = (int(x), 0) if isinstance(x, int) else exact(x)
        sign, mantissa = (-1 if mantissa < 0 else 1), abs(mantissa)
        drop = max(mantissa.bit_length() - bits, least - exponent, 0)
        kept, rest = mantissa >> drop, mantissa & ((1 << drop) - 1)
        half = (1 << drop) >> 1
        kept += drop > 0 and (rest > half or (rest == half and kept & 1))
        out.append(sign * float(kept) * 2.0 ** (exponent + drop))
    return torch.tensor(out, dtype=torch.float64).to(getattr(torch, target))


def exact(x: float) -> tuple[int, int]:
    numerator, denominator = x.as_integer_ratio()
    return numerator, 1 - denominator.bit_length()


def assert_same(actual: torch.Tensor, wanted: torch.Tensor) -> None:
    torch.testing.assert_close(
        actual.to(torch.float64), wanted.to(torch.float64), rtol=0, atol=0, equal_nan=True
    )


def convert(source: str, target: str):
    k = Kernel(name="convert", grid=N // 128)
    a, b = k.param("A", source, N), k.param("B", target, N)
    i = k.bx * 128 + k.tx
    return k.func(b.put(i, a[i].cast(target)))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("target", FLOATS)
@pytest.mark.parametrize("source", FLOATS + INTS)
def test_conversions_round_once(source: str, target: str, arch: str) -> None:
    if source == target:
        pytest.skip("no conversion")
    a = values(source)
    b = (
        torch.full((N,), 77, dtype=torch.uint8)
        .repeat_interleave(torch.empty(0, dtype=getattr(torch, target)).element_size())
        .view(getattr(torch, target))
    )
    run(convert(source, target), arch, a, b)
    assert_same(b, expected(a, target))


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("op", ["+", "-", "*", "/", "min", "max"])
def test_arithmetic_of_16_bits_rounds_once(op: str, dtype: str, arch: str) -> None:
    k = Kernel(name="arithmetic", grid=N // 128)
    a, b, c = (k.param(n, dtype, N) for n in "ABC")
    i = k.bx * 128 + k.tx
    x, y = values(dtype, 1), values(dtype, 2)
    x[:6], y[:6] = 1.5, -2.5
    out = torch.full_like(x, 5.0)
    run(k.func(c.put(i, a[i].op(op, b[i]))), arch, x, y, out)
    wide = {
        "+": torch.add,
        "-": torch.sub,
        "*": torch.mul,
        "/": torch.div,
        "min": torch.minimum,
        "max": torch.maximum,
    }[op](x.double(), y.double())
    assert_same(out, rounded(wide, dtype))


CONSTANTS = [0.1, -1.5, 65504.0, 65520.0, 1e-7, 6e-8, 2.9e-8, -3.0e38, 1 / 3, 2049.0, 1e-41]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_constants_of_16_bits(dtype: str) -> None:
    k = Kernel(name="constants", grid=N // 128)
    c = k.param("C", dtype, N)
    out = torch.full((N,), 3.0, dtype=getattr(torch, dtype))
    run(k.func(*[c.put(i, x) for i, x in enumerate(CONSTANTS)]), "sm_90a", out)
    assert_same(out[: len(CONSTANTS)], torch.tensor(CONSTANTS, dtype=torch.float64).to(out.dtype))


def test_floor_division_of_negative_numbers() -> None:
    k = Kernel(name="divide", grid=N // 128)
    a, q, r = (k.param(n, "int32", N) for n in "AQR")
    i = k.bx * 128 + k.tx
    j = var("j")
    body = []
    divisors = [3, 8, -5, 7]
    for n, d in enumerate(divisors):
        at = i * 0 + n * 512 + k.tx + k.bx % 4 * 128
        body += [q.put(at, a[at] // d), r.put(at, a[at] % d)]
    x = values("int32")
    x[:512] = torch.arange(-256, 256)
    quotient, remainder = torch.zeros_like(x), torch.zeros_like(x)
    run(k.func(loop(j, 1, seq(*body))), "sm_90a", x, quotient, remainder)
    d = torch.tensor(divisors).repeat_interleave(512).numpy()
    assert (quotient.numpy() == np.floor_divide(x.numpy(), d)).all()
    assert (remainder.numpy() == np.mod(x.numpy(), d)).all()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16", "int32", "int64"])
@pytest.mark.parametrize("name", ["atomic_add", "atomic_max", "atomic_min"])
def test_atomics_in_shared_memory(name: str, dtype: str) -> None:
    k = Kernel(name="atomic", grid=N // 128)
    a, out = k.param("A", dtype, N), k.param("Out", dtype, N // 128)
    s = Buf("total", dtype, 1, "shared.dyn")
    i = k.bx * 128 + k.tx
    start = {"atomic_add": 0, "atomic_max": -100, "atomic_min": 100}[name]
    first = k.tx.eq(0)
    func = k.func(
        s.alloc(),
        if_(first, s.put(0, expr(start, dtype))),
        evaluate(call(dtype, name, s.at(0), a[i])),
        if_(first, out.put(k.bx, s[0])),
    )
    x = torch.randint(-9, 10, (N,), generator=torch.Generator().manual_seed(1)).to(
        getattr(torch, dtype)
    )
    total = torch.zeros(N // 128, dtype=x.dtype)
    run(func, "sm_90a", x, total)
    rows = x.double().view(-1, 128)
    reduce = {"atomic_add": rows.sum, "atomic_max": rows.amax, "atomic_min": rows.amin}[name]
    assert_same(total, reduce(1))
