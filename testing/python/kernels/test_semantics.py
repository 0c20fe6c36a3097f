"""What the language means, one feature a kernel, against torch or Python."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

import tilelang
import tilelang.language as T

N = 256


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def compile_for(func: Any, device: str) -> Any:
    return tilelang.compile(func, target="auto" if device == "cuda" else "sm_90a")


def elementwise(function: Any, dtype: str, out_dtype: str | None = None) -> Any:
    out_dtype = out_dtype or dtype

    @T.prim_func
    def kernel(A: T.Tensor((N,), dtype), B: T.Tensor((N,), out_dtype)):
        with T.Kernel(2, threads=64) as bx:
            for i in T.Parallel(128):
                B[bx * 128 + i] = function(A[bx * 128 + i])

    return kernel


MATH = {
    "exp": (T.exp, torch.exp),
    "exp2": (T.exp2, torch.exp2),
    "log": (lambda x: T.log(T.abs(x) + 0.5), lambda x: torch.log(x.abs() + 0.5)),
    "log2": (lambda x: T.log2(T.abs(x) + 0.5), lambda x: torch.log2(x.abs() + 0.5)),
    "sqrt": (lambda x: T.sqrt(T.abs(x)), lambda x: x.abs().sqrt()),
    "rsqrt": (lambda x: T.rsqrt(T.abs(x) + 0.25), lambda x: (x.abs() + 0.25).rsqrt()),
    "tanh": (T.tanh, torch.tanh),
    "sin": (T.sin, torch.sin),
    "cos": (T.cos, torch.cos),
    "abs": (T.abs, torch.abs),
    "floor": (T.floor, torch.floor),
    "ceil": (T.ceil, torch.ceil),
    "max": (lambda x: T.max(x, 0.3), lambda x: x.clamp(min=0.3)),
    "min": (lambda x: T.min(x, 0.3), lambda x: x.clamp(max=0.3)),
    "sigmoid": (T.sigmoid, torch.sigmoid),
    "erf": (T.erf, torch.erf),
}


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
@pytest.mark.parametrize("name", list(MATH))
def test_math(device: str, name: str, dtype: str) -> None:
    ours, reference = MATH[name]
    kernel = compile_for(elementwise(ours, dtype), device)
    a = torch.randn(N, dtype=torch.float64).to(getattr(torch, dtype)).to(device)
    b = torch.full_like(a, math.nan)
    kernel(a, b)
    tolerance = {"float64": 1e-12, "float32": 1e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype]
    torch.testing.assert_close(b.double(), reference(a.double()), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["exp", "log", "sin", "cos"])
def test_fast_math_forms(device: str, name: str) -> None:
    fast = getattr(T, f"__{name}")
    kernel = compile_for(elementwise(lambda x: fast(T.abs(x) + 0.5), "float32"), device)
    a = torch.randn(N).to(device)
    b = torch.full_like(a, math.nan)
    kernel(a, b)
    expected = getattr(torch, name)(a.double().abs() + 0.5)
    torch.testing.assert_close(b.double(), expected, rtol=1e-4, atol=1e-4)


INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]


def integers(dtype: str, device: str, low: int = -100, high: int = 100) -> torch.Tensor:
    if dtype.startswith("u"):
        low, high = 0, 200
    values = torch.randint(low, high, (N,), dtype=torch.int64)
    return values.to(getattr(torch, dtype)).to(device)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integer_arithmetic(device: str, dtype: str) -> None:
    def function(x: Any) -> Any:
        return (x * 3 + 7) // 5 - x % 4

    kernel = compile_for(elementwise(function, dtype, "int64"), device)
    a = integers(dtype, device, -20, 20)
    if dtype.startswith("u"):
        a = integers("uint8", "cpu").clamp(max=40).to(getattr(torch, dtype)).to(device)
    b = torch.full((N,), 77, dtype=torch.int64, device=device)
    kernel(a, b)
    x = a.to(torch.int64)
    expected = torch.div(x * 3 + 7, 5, rounding_mode="floor") - x % 4
    bits = int(dtype.lstrip("uint"))
    if dtype.startswith("u") and bits < 64:
        expected %= 1 << bits
    assert torch.equal(b, expected)


@pytest.mark.parametrize("source", [*INTEGERS, "bool", "float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(
    "target", ["int8", "int32", "uint8", "int64", "float16", "float32", "bool"]
)
def test_casts(device: str, source: str, target: str) -> None:
    kernel = compile_for(elementwise(lambda x: T.cast(x, target), source, target), device)
    if source == "bool":
        a = torch.randint(0, 2, (N,)).bool().to(device)
    elif source.startswith(("int", "uint")):
        a = integers(source, device, 0, 100)
    else:
        a = (torch.rand(N) * 100).to(getattr(torch, source)).to(device)
    b = torch.zeros(N, dtype=getattr(torch, target), device=device)
    kernel(a, b)
    assert torch.equal(b, a.to(getattr(torch, target)))


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_float8_rounds_to_nearest_and_widens_exactly(device: str, dtype: str) -> None:
    narrow = compile_for(elementwise(lambda x: x, "float32", dtype), device)
    a = (torch.randn(N) * 20).to(device)
    b = torch.zeros(N, dtype=getattr(torch, dtype), device=device)
    narrow(a, b)
    assert torch.equal(b.float(), a.to(getattr(torch, dtype)).float())
    wide = compile_for(elementwise(lambda x: x, dtype, "float32"), device)
    c = torch.zeros(N, device=device)
    wide(b, c)
    assert torch.equal(c, b.float())


def test_bit_cast(device: str) -> None:
    kernel = compile_for(
        elementwise(lambda x: T.reinterpret(x, "int32") ^ 5, "float32", "int32"), device
    )
    a = torch.randn(N).to(device)
    b = torch.zeros(N, dtype=torch.int32, device=device)
    kernel(a, b)
    assert torch.equal(b, a.view(torch.int32) ^ 5)


def test_control_flow(device: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((N,), "int32"), B: T.Tensor((N,), "int32")):
        with T.Kernel(1, threads=N):
            tid = T.get_thread_binding()
            value = T.alloc_var("int32", init=0)
            value = A[tid]
            steps = T.alloc_var("int32", init=0)
            while value != 1:
                if value % 2 == 0:
                    value = value // 2
                    steps = steps + 1
                else:
                    value = 3 * value + 1
                    steps += 1
                if steps >= 60:
                    break
            if tid % 3 == 0:
                B[tid] = steps
            elif tid % 3 == 1:
                B[tid] = -steps
            else:
                B[tid] = steps * 1000 if steps > 10 else T.if_then_else(steps > 5, 7, 9)

    run = compile_for(kernel, device)
    a = torch.randint(1, 200, (N,), dtype=torch.int32)
    b = torch.full((N,), -1, dtype=torch.int32, device=device)
    run(a.to(device), b)

    def collatz(value: int, tid: int) -> int:
        steps = 0
        while value != 1 and steps < 60:
            value = value // 2 if value % 2 == 0 else 3 * value + 1
            steps += 1
        if tid % 3 == 0:
            return steps
        if tid % 3 == 1:
            return -steps
        return steps * 1000 if steps > 10 else 7 if steps > 5 else 9

    assert b.tolist() == [collatz(v, t) for t, v in enumerate(a.tolist())]


def test_loops(device: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
        with T.Kernel(1, threads=32):
            tid = T.get_thread_binding()
            acc = T.alloc_local((2,), "float32")
            for i in T.unroll(2):
                acc[i] = 0.0
            for k in T.serial(1, 10, 3):
                for i in T.unroll(2):
                    acc[i] = acc[i] + A[(tid * 2 + i + k) % 64]
            for i in T.vectorized(2):
                B[tid * 2 + i] = acc[i]

    run = compile_for(kernel, device)
    a = torch.randn(64).to(device)
    b = torch.full_like(a, math.nan)
    run(a, b)
    index = torch.arange(64, device=device)
    expected = sum(a[(index + k) % 64].double() for k in (1, 4, 7))
    torch.testing.assert_close(b.double(), expected, rtol=1e-6, atol=1e-6)


def test_fragments_of_two_layouts_meet(device: str) -> None:
    """A transposed assignment between fragments moves elements between threads."""

    @T.prim_func
    def kernel(A: T.Tensor((32, 48), "float32"), B: T.Tensor((48, 32), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_fragment((32, 48), "float32")
            b = T.alloc_fragment((48, 32), "float32")
            T.copy(A, a)
            T.copy(B, b)
            for i, j in T.Parallel(48, 32):
                b[i, j] = b[i, j] + a[j, i] * 2.0
            T.copy(b, B)

    run = compile_for(kernel, device)
    a, b = torch.randn(32, 48).to(device), torch.randn(48, 32).to(device)
    expected = b.double() + a.double().T * 2
    run(a, b)
    torch.testing.assert_close(b.double(), expected, rtol=1e-6, atol=1e-6)


def test_swizzled_blocks_cover_the_grid(device: str) -> None:
    @T.prim_func
    def kernel(B: T.Tensor((24, 40), "int32")):
        with T.Kernel(5, 3, threads=64) as (bx, by):
            T.use_swizzle(panel_size=2)
            for i, j in T.Parallel(8, 8):
                B[by * 8 + i, bx * 8 + j] = (by * 8 + i) * 40 + bx * 8 + j

    run = compile_for(kernel, device)
    b = torch.full((24, 40), -1, dtype=torch.int32, device=device)
    run(b)
    assert torch.equal(b.cpu().flatten(), torch.arange(24 * 40, dtype=torch.int32))


def test_three_dimensional_tiles(device: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, 10, 24), "float16"), B: T.Tensor((4, 24), "float16")):
        with T.Kernel(4, threads=64) as b:
            tile = T.alloc_shared((10, 24), "float16")
            total = T.alloc_fragment((24,), "float32")
            T.copy(A[b, 0, 0], tile)
            for j in T.Parallel(24):
                total[j] = 0.0
            for i in T.serial(10):
                for j in T.Parallel(24):
                    total[j] += T.cast(tile[i, j], "float32")
            T.copy(total, B[b, 0])

    run = compile_for(kernel, device)
    a = torch.randn(4, 10, 24).half().to(device)
    b = torch.full((4, 24), math.nan, dtype=torch.float16, device=device)
    run(a, b)
    torch.testing.assert_close(b.double(), a.double().sum(1), rtol=4e-3, atol=4e-3)


def test_reduction_of_shared_memory(device: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((16, 64), "float32"), B: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((16, 64), "float32")
            out = T.alloc_shared((16,), "float32")
            T.copy(A, tile)
            T.reduce_sum(tile, out, dim=1)
            T.copy(out, B)

    run = compile_for(kernel, device)
    a = torch.randn(16, 64).to(device)
    b = torch.full((16,), math.nan, device=device)
    run(a, b)
    torch.testing.assert_close(b.double(), a.double().sum(1), rtol=1e-5, atol=1e-5)


def test_warp_shuffles_and_votes(device: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((64,), "int32"), B: T.Tensor((64,), "int32")):
        with T.Kernel(1, threads=64):
            tid = T.get_thread_binding()
            value = A[tid]
            B[tid] = T.shfl_xor(value, 3) * 2 + T.if_then_else(T.any_sync(value > 90), 1, 0)

    run = compile_for(kernel, device)
    a = torch.randint(0, 93, (64,), dtype=torch.int32)
    b = torch.zeros(64, dtype=torch.int32, device=device)
    run(a.to(device), b)
    index = torch.arange(64)
    votes = (a.view(2, 32) > 90).any(1).repeat_interleave(32)
    assert torch.equal(b.cpu(), a[index ^ 3] * 2 + votes.int())


@pytest.mark.parametrize("dtype", ["float16", "float32", "int32"])
@pytest.mark.parametrize("shift", [1, 2, 5])
def test_shifted_accesses_stay_aligned(device: str, dtype: str, shift: int) -> None:
    """Consecutive elements that begin anywhere, beside others that begin at a multiple of 16."""

    @T.prim_func
    def kernel(
        A: T.Tensor((N + shift,), dtype),
        B: T.Tensor((N,), dtype),
        C: T.Tensor((N + shift,), dtype),
    ):
        with T.Kernel(1, threads=32):
            tile = T.alloc_shared((N + shift,), dtype)
            for i in T.Parallel(N):
                tile[i + shift] = A[i + shift] * 2
            for i in T.Parallel(N):
                B[i] = tile[i + shift] + A[i]
            for i in T.Parallel(N):
                C[i + shift] = A[i]

    a = torch.randint(-20, 20, (N + shift,)).to(getattr(torch, dtype)).to(device)
    b, c = torch.full_like(a[:N], 77), torch.full_like(a, 77)
    compile_for(kernel, device)(a, b, c)
    assert torch.equal(b, a[shift:] * 2 + a[:N])
    assert torch.equal(c[shift:], a[:N])
    assert (c[:shift] == 77).all()


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16", "int32", "int64"])
def test_atomic_extrema_of_both_signs(device: str, dtype: str) -> None:
    @T.prim_func
    def kernel(A: T.Tensor((4, N), dtype), low: T.Tensor((N,), dtype), high: T.Tensor((N,), dtype)):
        with T.Kernel(4, threads=64) as bx:
            for i in T.Parallel(N):
                T.atomic_min(low[i], A[bx, i])
                T.atomic_max(high[i], A[bx, i])

    values = (torch.randn(6, N) * 50).to(getattr(torch, dtype)).to(device)
    a, low, high = values[:4].clone(), values[4].clone(), values[5].clone()
    compile_for(kernel, device)(a, low, high)
    assert torch.equal(low, torch.minimum(values[:4].amin(0), values[4]))
    assert torch.equal(high, torch.maximum(values[:4].amax(0), values[5]))


def test_dependent_iterations_are_refused() -> None:
    """Iterations run in no order: one must not read what another writes."""

    @T.prim_func
    def shift(A: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=32):
            s = T.alloc_shared((N,), "float32")
            T.copy(A, s)
            T.copy(s[1:201], s[0:200])
            T.copy(s, A)

    with pytest.raises(tilelang.errors.SemanticsError, match=r"reads element \(1\) of s"):
        compile_for(shift, "cpu")


def test_what_is_no_kernel_is_refused() -> None:
    with pytest.raises(
        tilelang.errors.ArgumentError, match=r"decorated with @T.prim_func, not NoneType"
    ):
        tilelang.compile(None)


def test_tensor_memory_needs_blackwell() -> None:
    @T.prim_func
    def kernel(A: T.Tensor((128, 32), "float32")):
        with T.Kernel(1, threads=128):
            t = T.alloc_tmem([128, 32], "float32")
            f = T.alloc_fragment((128, 32), "float32")
            T.copy(A, f)
            T.copy(f, t)
            T.copy(t, f)
            T.copy(f, A)

    with pytest.raises(tilelang.errors.TargetError, match="sm_90a has no tensor memory"):
        tilelang.compile(kernel, target="sm_90a")


@pytest.mark.parametrize("shape", [(3, 5, 8), (4, 5, 9), (4, 3, 33), (2, 6, 40)])
@pytest.mark.parametrize("dim", [0, 1, 2])
def test_reductions_of_three_dimensions(device: str, shape: tuple[int, ...], dim: int) -> None:
    rest = tuple(n for d, n in enumerate(shape) if d != dim)

    @T.prim_func
    def kernel(A: T.Tensor(shape, "float32"), B: T.Tensor(rest, "float32")):
        with T.Kernel(1, threads=64):
            tile = T.alloc_fragment(shape, "float32")
            out = T.alloc_fragment(rest, "float32")
            T.copy(A, tile)
            T.reduce_sum(tile, out, dim=dim)
            T.copy(out, B)

    run = compile_for(kernel, device)
    a = torch.randn(shape).to(device)
    b = torch.full(rest, math.nan, device=device)
    run(a, b)
    torch.testing.assert_close(b.double(), a.double().sum(dim), rtol=1e-5, atol=1e-5)


def test_iterations_whose_inner_loops_begin_elsewhere_write_elements_of_their_own(device) -> None:
    """Rows of a sparse matrix: `p` runs over others in each iteration of T.Parallel."""

    @T.prim_func
    def kernel(
        ends: T.Tensor((9,), "int32"),
        A: T.Tensor((8, 8), "float32"),
        rows: T.Tensor((20,), "int32"),
        B: T.Tensor((64,), "float32"),
    ):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(8):
                for p in T.serial(ends[i], ends[i + 1]):
                    rows[p] = i
            for i in T.Parallel(8):
                for j in T.serial(i * 8, i * 8 + 8):
                    B[j] = A[i, j - i * 8]

    ends = torch.tensor([0, 3, 3, 4, 9, 10, 15, 15, 20], dtype=torch.int32)
    a, b = torch.randn(8, 8), torch.full((64,), math.nan)
    given = [x.to(device) for x in (ends, a, torch.full((20,), -1, dtype=torch.int32), b)]
    compile_for(kernel, device)(*given)
    want = torch.repeat_interleave(torch.arange(8), ends.diff().long()).int()
    assert torch.equal(given[2].cpu(), want)
    assert torch.equal(given[3].cpu(), a.flatten())
