"""Divisions of several elements by one number: divide_rows."""

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.algebra import check

ROWS, COLUMNS = 16, 512
CALL = "tl::divide_by"


def by_rows(quotient=lambda x, d: x / d, columns=COLUMNS, out="float32"):
    """Y = quotient(X, D) of fragments; D has an element for each row."""

    @T.prim_func
    def main(
        X: T.Tensor((ROWS, columns), "float32"),
        D: T.Tensor((ROWS,), "float32"),
        Y: T.Tensor((ROWS, columns), out),
    ):
        with T.Kernel(ROWS // 4, threads=128) as block:
            x = T.alloc_fragment((4, columns), "float32")
            y = T.alloc_fragment((4, columns), out)
            d = T.alloc_fragment((4,), "float32")
            T.copy(X[block * 4, 0], x)
            T.copy(D[block * 4], d)
            for i, j in T.Parallel(4, columns):
                y[i, j] = quotient(x[i, j], d[i])
            T.copy(y, Y[block * 4, 0])

    return main


def scaled(shape, low, high):
    """Random numbers of all exponents from ``low`` to ``high``."""
    return torch.ldexp(torch.rand(shape) + 1, torch.randint(low, high, shape))


def bits(*shape, least=-(2**31)):
    return torch.randint(least, 2**31 - 1, shape).int().view(torch.float32)


def next_to_midpoints():
    """Dividends whose quotients are next to the middle of two floats."""
    d, q = torch.rand(ROWS) + 1, torch.rand(ROWS, COLUMNS) + 1
    return ((q.double() + 2.0**-24) * d.double()[:, None]).float(), d


def with_zeros():
    x = torch.randn(ROWS, COLUMNS)
    x[:, ::3], x[:, 1::5] = 0.0, -0.0
    return x, torch.rand(ROWS) + 0.1


def with_special():
    x = torch.randn(ROWS, COLUMNS)
    x[:4, ::50], x[4:8, ::61], x[8:, ::72] = torch.inf, -torch.inf, torch.nan
    return x, scaled((ROWS,), -3, 20)


def special_divisors():
    d = torch.tensor([0, -0.0, torch.inf, -torch.inf, torch.nan, 1e-45, 3e38, -1.5])
    return torch.randn(ROWS, COLUMNS), torch.cat([d, 1e-38 * torch.arange(1, 9)])


OPERANDS = {
    "usual": lambda: (torch.randn(ROWS, COLUMNS), torch.rand(ROWS) + 0.1),
    "midpoints": next_to_midpoints,
    "zeros": with_zeros,
    "special": with_special,
    "divisors": special_divisors,
    "bits": lambda: (bits(ROWS, COLUMNS), bits(ROWS, least=0)),
    "subnormal": lambda: (scaled((ROWS, COLUMNS), -149, -95), scaled((ROWS,), -30, 30)),
    "ends": lambda: (scaled((ROWS, COLUMNS), -126, 127), scaled((ROWS,), -126, 127)),
    "small": lambda: (scaled((ROWS, COLUMNS), -104, -96), scaled((ROWS,), 10, 30)),
    "large": lambda: (scaled((ROWS, COLUMNS), 120, 127), scaled((ROWS,), -8, 2)),
}


@pytest.fixture(scope="module", params=["sm_100a", "sm_90a", "sm_80", "sm_120a"])
def kernel(request):
    compiled = tilelang.compile(by_rows(), target=request.param)
    assert CALL in compiled.get_kernel_source()
    return compiled


@pytest.mark.budget(6)
@pytest.mark.parametrize("operands", OPERANDS)
def test_bits_of_quotients(operands, kernel):
    x, d = OPERANDS[operands]()
    y = torch.full((ROWS, COLUMNS), 7.0)
    kernel(x, d, y)
    with np.errstate(all="ignore"):
        want = torch.from_numpy(x.numpy() / d.numpy()[:, None])
    assert torch.equal(y.isnan(), want.isnan())
    numbers = ~want.isnan()
    assert torch.equal(y.view(torch.int32)[numbers], want.view(torch.int32)[numbers])


@pytest.mark.parametrize(
    "quotient, reference",
    [
        (lambda x, d: x / T.sqrt(d / 3.0 + 1e-5), lambda x, d: x / (d / 3 + 1e-5).sqrt()),
        (
            lambda x, d: T.clamp(x * 2.0 / d, -1.0, 1.0) + x,
            lambda x, d: (x * 2 / d).clamp(-1, 1) + x,
        ),
        (lambda x, d: x / 3.7, lambda x, d: x / 3.7),
    ],
    ids=["root", "clamp", "constant"],
)
def test_values(quotient, reference):
    kernel = tilelang.compile(by_rows(quotient, out="bfloat16"), target="sm_100a")
    assert CALL in kernel.get_kernel_source()
    x, d = torch.randn(ROWS, COLUMNS), torch.rand(ROWS) + 0.1
    y = torch.full((ROWS, COLUMNS), torch.nan, dtype=torch.bfloat16)
    kernel(x, d, y)
    want = reference(x.double(), d.double()[:, None])
    torch.testing.assert_close(y.double(), want, rtol=4e-3, atol=1e-5)


@pytest.mark.parametrize(
    "quotient",
    [
        lambda x, d: d / x,
        lambda x, d: x / (x + d),
        lambda x, d: x / 4.0,
        lambda x, d: x / d + x / (d + 1),
        lambda x, d: T.if_then_else(x > 0, x / d, x),
    ],
    ids=["dividend", "element", "power", "two", "choice"],
)
def test_other_divisions(quotient):
    kernel = tilelang.compile(by_rows(quotient), target="sm_100a")
    assert CALL not in kernel.get_kernel_source()


def test_elements_that_others_wrote():
    """Each quotient reads the one before it."""

    @T.prim_func
    def main(A: T.Tensor((32,), "float32"), B: T.Tensor((32, 9), "float32")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            x = T.alloc_local((9,), "float32")
            x[0] = A[t]
            for i in T.unroll(8):
                x[i + 1] = x[i] / (A[t] + 2)
            for i in T.unroll(9):
                B[t, i] = x[i]

    kernel = tilelang.compile(main, target="sm_100a")
    assert CALL not in kernel.get_kernel_source()
    a, b = torch.rand(32), torch.zeros(32, 9)
    kernel(a, b)
    want = a.double()[:, None] / (a.double() + 2)[:, None] ** torch.arange(9)
    torch.testing.assert_close(b.double(), want, rtol=1e-6, atol=0)


def test_divisors_of_groups():
    """Eight consecutive registers share a divisor, and those after them have another one."""

    @T.prim_func
    def main(A: T.Tensor((32, 40), "float32"), D: T.Tensor((5,), "float32")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            x = T.alloc_local((40,), "float32")
            d = T.alloc_local((5,), "float32")
            for i in T.unroll(5):
                d[i] = D[i]
            for i in T.unroll(40):
                x[i] = A[t, i]
            for i in T.unroll(40):
                x[i] = x[i] / d[i // 8]
            for i in T.unroll(40):
                A[t, i] = x[i]

    kernel = tilelang.compile(main, target="sm_100a")
    assert CALL + "<8>" in kernel.get_kernel_source()
    a, d = torch.randn(32, 40), torch.rand(5) + 0.5
    want = a / d.repeat_interleave(8)
    kernel(a, d)
    assert torch.equal(a, want)


@pytest.mark.parametrize("columns", [1000, 1023, 129])
def test_guarded_elements(columns):
    """The threads do not divide the row evenly, so a condition guards the store."""

    @T.prim_func
    def main(
        X: T.Tensor((ROWS, columns), "float32"),
        D: T.Tensor((ROWS,), "float32"),
        W: T.Tensor((columns,), "float32"),
        Y: T.Tensor((ROWS, columns), "float32"),
    ):
        with T.Kernel(ROWS, threads=128) as row:
            x = T.alloc_fragment((1, columns), "float32")
            d = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            for i in T.Parallel(1):
                d[i] = D[row]
            for i, j in T.Parallel(1, columns):
                Y[row, j] = x[i, j] / T.sqrt(d[i]) + W[j]

    kernel = tilelang.compile(main, target="sm_100a")
    assert (CALL in kernel.get_kernel_source()) == (columns > 129)
    x, d, w = torch.randn(ROWS, columns), torch.rand(ROWS) + 0.1, torch.randn(columns)
    y = torch.full((ROWS, columns), torch.nan)
    kernel(x, d, w, y)
    want = x.numpy() / np.sqrt(d.numpy())[:, None] + w.numpy()
    assert torch.equal(y, torch.from_numpy(want))


def test_elements_past_the_end():
    """A condition keeps the loop from reading beyond its array."""

    @T.prim_func
    def main(A: T.Tensor((32, 5), "float32"), D: T.Tensor((32,), "float32")):
        with T.Kernel(1, threads=32):
            t = T.get_thread_binding()
            x = T.alloc_local((5,), "float32")
            y = T.alloc_local((8,), "float32")
            d = T.alloc_local((1,), "float32")
            d[0] = D[t]
            for i in T.unroll(5):
                x[i] = A[t, i]
            for i in T.unroll(8):
                if i < 5:
                    y[i] = x[i] / d[0]
            for i in T.unroll(5):
                A[t, i] = y[i]

    kernel = tilelang.compile(main, target="sm_100a")
    a, d = torch.randn(32, 5), torch.rand(32) + 0.5
    want = a / d[:, None]
    kernel(a, d)
    assert torch.equal(a, want)


def test_fast_math():
    kernel = tilelang.compile(
        by_rows(), target="sm_100a", pass_configs={"tl.enable_fast_math": True}
    )
    assert "div.approx" in kernel.get_ptx() or "div.full" in kernel.get_ptx()
    assert "div.rn" not in kernel.get_ptx() and "rcp.rn" not in kernel.get_ptx()


def test_over_the_field():
    kernel = tilelang.compile(by_rows(), out_idx=[2], target="sm_100a")
    x, d = with_zeros()
    verdict = check(kernel, lambda x, d: x / d[:, None], x, d)
    assert verdict.equal, str(verdict)


@pytest.mark.parametrize(("step", "repeats"), [(0, 2), (1, 1)])
def test_iterations_that_divide_one_element_again(step, repeats):
    """Each division takes the quotient of the one before."""

    @T.prim_func
    def main(X: T.Tensor((128, 8), "float32"), D: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            thread = T.get_thread_binding()
            x = T.alloc_local((8,), "float32")
            d = T.alloc_local((1,), "float32")
            d[0] = D[thread]
            for i in T.serial(8):
                x[i] = X[thread, i]
            for k in T.serial(repeats):
                for i in T.unroll(8):
                    x[k + i * step] = x[k + i * step] / d[0]
            for i in T.serial(8):
                X[thread, i] = x[i]

    x, d = torch.randn(128, 8), torch.rand(128) + 1
    want = x.clone()
    for k in range(repeats):
        for i in range(8):
            want[:, k + i * step] /= d
    tilelang.compile(main, target="sm_100a")(x, d)
    assert torch.equal(x, want)


NARROW = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0, "float16": 65504.0}


@pytest.mark.budget(6)
@pytest.mark.parametrize("target", ["sm_100a", "sm_90a"])
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("operands", [name for name in OPERANDS if name != "bits"])
def test_narrow_quotients(operands, dtype, target):
    """The bits of the exact quotient between limits, which leaves out one of two tests."""
    most = NARROW[dtype]
    program = by_rows(lambda x, d: T.cast(T.clamp(x / d, -most, most), dtype), out=dtype)
    # Tensors of float32 beside the result keep the exact division.
    kernel = tilelang.compile(
        program, target=target, pass_configs={"tl.disable_approximate_functions": True}
    )
    assert "tl::divide_narrowly" in kernel.get_kernel_source()
    x, d = OPERANDS[operands]()
    y = torch.zeros((ROWS, COLUMNS), dtype=getattr(torch, dtype))
    kernel(x, d, y)
    with np.errstate(all="ignore"):
        exact = torch.from_numpy(x.numpy() / d.numpy()[:, None])
    want = exact.clamp(-most, most).to(y.dtype)
    numbers = ~exact.isnan()
    bits = torch.int16 if dtype == "float16" else torch.int8
    assert torch.equal(y.view(bits)[numbers], want.view(bits)[numbers])
    assert y.float()[~numbers].isnan().all()


def test_what_needs_small_quotients():
    options = {"tl.disable_approximate_functions": True}
    for dtype, quotient in (
        ("float32", lambda x, d: x / d),
        ("bfloat16", lambda x, d: x / d),  # has the exponents of float32
        ("float16", lambda x, d: x / d * 1e30),
    ):
        kernel = tilelang.compile(
            by_rows(quotient, out=dtype), target="sm_100a", pass_configs=options
        )
        assert "tl::divide_by<" in kernel.get_kernel_source()
