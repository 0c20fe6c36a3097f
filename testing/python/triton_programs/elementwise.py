"""Programs that compute each element by itself."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from triton.language.extra import libdevice
from triton_programs.programs import Program, check, collect, generator, poisoned, randn

PROGRAMS: list[Program] = []
program = collect(PROGRAMS)


@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    x = tl.load(x_ptr + at, mask=inside)
    y = tl.load(y_ptr + at, mask=inside)
    tl.store(out_ptr + at, x + y, mask=inside)


@program
def vector_add(arch):
    n = 1003
    x, y, out = randn(n), randn(n, seed=1), poisoned(n)
    add_kernel[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, out, n, BLOCK=256)
    assert torch.equal(out, x + y)


@program
def strided_views(arch):
    """Views that begin inside of an allocation, and tensors that need gradients."""
    base = randn(3, 500).requires_grad_()
    x, y = base[1, 3:403], base[2, 50:450]
    out = poisoned(1000)
    add_kernel[(2,)](x, y, out[500:], 400, BLOCK=256)
    check(out[500:900], (x.double() + y.double()).detach())
    assert out[:500].isnan().all() and out[900:].isnan().all()


@triton.autotune(
    configs=[triton.Config({"BLOCK": b}, num_warps=w) for b, w in ((64, 1), (256, 4), (512, 8))],
    key=["n"],
)
@triton.heuristics({"EVEN": lambda args: args["n"] % args["BLOCK"] == 0})
@triton.jit
def axpy_kernel(x_ptr, y_ptr, alpha, n, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if EVEN:
        tl.store(y_ptr + at, alpha * tl.load(x_ptr + at))
    else:
        tl.store(y_ptr + at, alpha * tl.load(x_ptr + at, mask=at < n), mask=at < n)


@program
def autotuned_axpy(arch):
    for n in (1024, 1000):
        x, y = randn(n), poisoned(n)
        axpy_kernel[lambda meta: (triton.cdiv(meta["n"], meta["BLOCK"]),)](x, y, 0.5, n)
        assert torch.equal(y, 0.5 * x)
    times = axpy_kernel.configs_timings.values()
    assert len(times) == 3 and all(0 < each[0] < 1 for each in times), times


@triton.jit
def gelu(x):
    inner = 0.7978845608 * (x + 0.044715 * x * x * x)
    return 0.5 * x * (1 + libdevice.tanh(inner))


@triton.jit
def glu_kernel(x_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    at = tl.arange(0, BLOCK)
    inside = at < columns
    gate = tl.load(x_ptr + row * 2 * columns + at, mask=inside).to(tl.float32)
    value = tl.load(x_ptr + row * 2 * columns + columns + at, mask=inside).to(tl.float32)
    result = gelu(gate) * value
    tl.store(out_ptr + row * columns + at, result.to(out_ptr.dtype.element_ty), mask=inside)


@program
def gated_gelu(arch):
    """A function of libdevice, and types that are converted."""
    x, out = randn(5, 200, dtype=torch.bfloat16), poisoned(5, 100, dtype=torch.bfloat16)
    glu_kernel[(5,)](x, out, 100, BLOCK=128)
    gate, value = x.double().chunk(2, -1)
    check(out, torch.nn.functional.gelu(gate, approximate="tanh") * value)


@triton.jit
def dropout_kernel(x_ptr, out_ptr, n, p, seed, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    keep = tl.rand(seed, at) > p
    x = tl.load(x_ptr + at, mask=inside)
    tl.store(out_ptr + at, tl.where(keep, x / (1 - p), 0.0), mask=inside)


def philox(seed: int, counter: torch.Tensor) -> torch.Tensor:
    """The first word of Philox 4x32 with ten rounds (Salmon et al., 2011), counters in word 0."""
    low = 0xFFFFFFFF
    c0, c1, c2, c3 = [c.long() for c in (counter, *[torch.zeros_like(counter)] * 3)]
    k0, k1 = seed & low, seed >> 32
    for _ in range(10):
        a, b = 0xD2511F53 * c0, 0xCD9E8D57 * c2
        # Products of 32 bits do not fit a signed 64-bit integer: the high word is put together.
        c0, c1, c2, c3 = (
            _high(0xCD9E8D57, c2) ^ c1 ^ k0, b & low, _high(0xD2511F53, c0) ^ c3 ^ k1, a & low,
        )  # fmt: skip
        k0, k1 = (k0 + 0x9E3779B9) & low, (k1 + 0xBB67AE85) & low
    return c0


def _high(constant: int, values: torch.Tensor) -> torch.Tensor:
    return torch.tensor([constant * int(v) >> 32 for v in values])


@program
def seeded_dropout(arch):
    n, p, seed = 300, 0.4, 123
    x, out = randn(n), poisoned(n)
    dropout_kernel[(3,)](x, out, n, p, seed, BLOCK=128)
    word = philox(seed, torch.arange(n))
    signed = torch.where(word >= 1 << 31, word - (1 << 32), word)
    uniform = torch.where(signed < 0, -signed - 1, signed).double() * 4.6566127342e-10
    check(out, torch.where(uniform > p, x.double() / (1 - p), 0.0))


@triton.jit
def round_kernel(x_ptr, out_ptr, n, KIND: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=0.0)
    tl.store(out_ptr + at, x.to(KIND).to(tl.float32), mask=at < n)


@program
def rounding_to_float8(arch):
    kinds = [(tl.float8e5, torch.float8_e5m2)]
    if arch != "sm_80":
        kinds.append((tl.float8e4nv, torch.float8_e4m3fn))
    for kind, dtype in kinds:
        x, out = randn(500), poisoned(500)
        round_kernel[(1,)](x, out, 500, KIND=kind, BLOCK=512)
        assert torch.equal(out, x.to(dtype).float())


@triton.jit
def gather_kernel(x_ptr, index_ptr, out_ptr, n, width, BLOCK: tl.constexpr):
    row = tl.load(index_ptr + tl.program_id(0))
    at = tl.arange(0, BLOCK)
    value = tl.load(x_ptr + row * width + at, mask=at < width)
    tl.store(out_ptr + tl.program_id(0) * width + at, value, mask=at < width)


@program
def embedding(arch):
    table, out = randn(50, 77, dtype=torch.float16), poisoned(9, 77, dtype=torch.float16)
    index = torch.randint(0, 50, (9,), generator=generator())
    gather_kernel[(9,)](table, index, out, 9, 77, BLOCK=128)
    assert torch.equal(out, table[index])


@triton.jit
def bits_kernel(x_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at)
    y = tl.umulhi(x.to(tl.uint32, bitcast=True), 0x9E3779B9).to(tl.int32, bitcast=True)
    tl.store(out_ptr + at, ((y << 3) ^ (x >> 5)) % 1009 + libdevice.popc(x))


@program
def integer_hash(arch):
    x = torch.randint(-(2**31), 2**31, (256,), generator=generator()).int()
    out = poisoned(256, dtype=torch.int32)
    bits_kernel[(1,)](x, out, BLOCK=256)

    def one(v: int) -> int:
        word = v & 0xFFFFFFFF
        high = word * 0x9E3779B9 >> 32
        mixed = ((high << 3) & 0xFFFFFFFF) ^ ((v >> 5) & 0xFFFFFFFF)
        mixed -= (mixed >> 31) << 32
        return (abs(mixed) % 1009) * (1 if mixed >= 0 else -1) + word.bit_count()

    assert out.tolist() == [one(v) for v in x.tolist()]


@triton.jit
def rope_kernel(x_ptr, cos_ptr, sin_ptr, out_ptr, HALF: tl.constexpr, HEADS: tl.constexpr):
    position = tl.program_id(0)
    at = tl.arange(0, HALF)
    cos, sin = tl.load(cos_ptr + position * HALF + at), tl.load(sin_ptr + position * HALF + at)
    for head in tl.static_range(HEADS):
        base = (position * HEADS + head) * 2 * HALF
        a, b = tl.load(x_ptr + base + at), tl.load(x_ptr + base + HALF + at)
        tl.store(out_ptr + base + at, a * cos - b * sin)
        tl.store(out_ptr + base + HALF + at, b * cos + a * sin)


@program
def rotary_embedding(arch):
    s, heads, half = 6, 3, 32
    x, out = randn(s, heads, 2 * half), poisoned(s, heads, 2 * half)
    angle = torch.outer(torch.arange(s).double(), 10000 ** -(torch.arange(half).double() / half))
    cos, sin = angle.cos(), angle.sin()
    rope_kernel[(s,)](x, cos.float(), sin.float(), out, HALF=half, HEADS=heads)
    a, b = x.double().chunk(2, -1)
    c, d = cos[:, None], sin[:, None]
    check(out, torch.cat([a * c - b * d, b * c + a * d], -1), atol=1e-6)


@triton.jit
def transpose_kernel(x_ptr, out_ptr, rows, columns, BLOCK: tl.constexpr):
    r = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    c = tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + r[:, None] * columns + c, mask=(r[:, None] < rows) & (c < columns))
    turned = out_ptr + c[:, None] * rows + r
    tl.store(turned, x.T, mask=(c[:, None] < columns) & (r < rows))


@program
def transpose(arch):
    x, out = randn(70, 45, dtype=torch.float16), poisoned(45, 70, dtype=torch.float16)
    transpose_kernel[(3, 2)](x, out, 70, 45, BLOCK=32)
    assert torch.equal(out, x.T)


@triton.jit
def interleave_kernel(a_ptr, b_ptr, out_ptr, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    both = tl.interleave(tl.load(a_ptr + at), tl.load(b_ptr + at))
    left, right = tl.split(tl.reshape(both, (BLOCK, 2)))
    tl.store(out_ptr + tl.arange(0, 2 * BLOCK), both)
    tl.store(out_ptr + 2 * BLOCK + at, tl.flip(left, dim=0) - right)


@program
def joins_and_splits(arch):
    a, b, out = randn(128), randn(128, seed=1), poisoned(384)
    interleave_kernel[(1,)](a, b, out, BLOCK=128)
    assert torch.equal(out[:256], torch.stack([a, b], -1).flatten())
    assert torch.equal(out[256:], a.flip(0) - b)
