"""Exponentials and quotients whose results are rounded to 16 bits: approximate_functions."""

import pytest
import torch

import tilelang
import tilelang.language as T

TARGETS = ["sm_100a", "sm_90a", "sm_80", "sm_120a"]


def rows_of(body, rows=33, columns=200, dtype="bfloat16", out=None, threads=64):
    """Y = body(X, largest of the row, D of the row), with x in float32."""

    @T.prim_func
    def main(
        X: T.Tensor((rows, columns), dtype),
        D: T.Tensor((rows,), "float32"),
        Y: T.Tensor((rows, columns), out or dtype),
    ):
        with T.Kernel(rows, threads=threads) as row:
            x = T.alloc_fragment((columns,), "float32")
            most = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            T.reduce_max(x, most, dim=0)
            for j in T.Parallel(columns):
                x[j] = body(x[j], most[0], D[row])
            T.copy(x, Y[row, 0])

    return main


def run(kernel, x, d, out=None):
    y = torch.full(x.shape, torch.nan, dtype=out or x.dtype)
    kernel(x, d, y)
    return y


def approximates(kernel):
    return any("approximate instructions compute" in r.message for r in kernel.remarks)


BODIES = {
    "exp": (lambda x, most, d: T.exp(x - most), lambda x, most, d: (x - most).exp()),
    "exp2": (lambda x, most, d: T.exp2(x), lambda x, most, d: x.exp2()),
    "constants": (
        lambda x, most, d: T.exp(x * 0.25 - most * 0.25),
        lambda x, most, d: ((x - most) / 4).exp(),
    ),
    "shared divisor": (lambda x, most, d: x / d, lambda x, most, d: x / d),
    "own divisor": (lambda x, most, d: d / x, lambda x, most, d: d / x),
    "sigmoid": (lambda x, most, d: T.sigmoid(x), lambda x, most, d: x.sigmoid()),
    "silu": (lambda x, most, d: x / (1.0 + T.exp(-x)), lambda x, most, d: x * x.sigmoid()),
}  # fmt: skip


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize("name", BODIES)
def test_values(name, dtype, target):
    body, reference = BODIES[name]
    kernel = tilelang.compile(rows_of(body, dtype=dtype), target=target)
    assert approximates(kernel)
    x, d = 3 * torch.randn(33, 200).to(getattr(torch, dtype)), torch.rand(33) + 0.1
    x[x.abs() < 2.0**-12] = 1.0  # quotients are below the largest float16
    exact = x.double()
    want = reference(exact, exact.amax(1, keepdim=True), d.double()[:, None])
    # One rounding of the results, and a rest that is far below it.
    ulp = 2.0**-8 if dtype == "bfloat16" else 2.0**-11
    torch.testing.assert_close(
        run(kernel, x, d).double(), want, rtol=ulp * (1 + 2.0**-8), atol=1e-7
    )


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("columns", [200, 3])
def test_divisors_of_all_kinds(columns, target):
    """Also those whose reciprocal is infinite, zero or subnormal."""
    kernel = tilelang.compile(rows_of(BODIES["shared divisor"][0], columns=columns), target=target)
    d = torch.tensor([0, -0.0, torch.inf, -torch.inf, torch.nan, 1e-45, 3e38, -2.5e38, -1.5])
    d = torch.cat(
        [
            d,
            1e-38 * torch.arange(1, 9),
            torch.ldexp(torch.ones(16), torch.arange(-140, 120, 17)[:16].int()),
        ]
    )
    x = torch.randn(33, columns).bfloat16()
    x[:, 0], x[:, 1], x[::2, 2] = torch.inf, 0.0, 3e38
    got, want = run(kernel, x, d).float(), (x.double() / d.double()[:, None]).bfloat16().float()
    torch.testing.assert_close(got, want, rtol=2.0**-7, atol=2.0**-126, equal_nan=True)


def test_large_arguments():
    """The product with log2(e) is rounded, which 16 bits do not show."""
    kernel = tilelang.compile(rows_of(lambda x, most, d: T.exp(x)), target="sm_100a")
    x = torch.empty(33, 200).uniform_(-87, 88).bfloat16()
    x[:, 0], x[:, 1], x[:, 2] = -torch.inf, torch.inf, 200.0
    want = x.double().exp()
    want[:, 2] = torch.inf
    torch.testing.assert_close(
        run(kernel, x, torch.ones(33)).double(), want, rtol=2.0**-8 * 1.01, atol=2.0**-126
    )


def stored(dtype):
    return rows_of(lambda x, most, d: T.exp(x - most), out=dtype)


@pytest.mark.parametrize(
    "program",
    [
        stored("float32"),
        stored("float8_e4m3fn"),  # a quotient may be a midpoint of two results
        rows_of(lambda x, most, d: T.floor(x / d)),
        rows_of(lambda x, most, d: T.round(T.exp(x))),
        rows_of(lambda x, most, d: T.if_then_else(x / d > 1.0, x, d)),
        rows_of(lambda x, most, d: T.cast(T.cast(x / d, "int32"), "float32")),
        rows_of(lambda x, most, d: T.cast(T.cast(T.exp(x), "float8_e4m3fn"), "float32")),
        rows_of(lambda x, most, d: T.sqrt(1.0 - x / most)),
        rows_of(lambda x, most, d: T.log(1.0 - T.exp(x - most))),
        rows_of(lambda x, most, d: T.pow(x / d, 0.5)),
        rows_of(lambda x, most, d: T.pow(-2.0, x / d)),
        rows_of(lambda x, most, d: T.pow(x, T.exp(x - most))),
        rows_of(lambda x, most, d: T.cbrt(1.0 - x / most)),
        rows_of(lambda x, most, d: 1.0 / (1.0 - x / most)),
        rows_of(lambda x, most, d: d / T.max(T.exp(x) + -1.0, 1e-6)),
        rows_of(lambda x, most, d: x / 3.7),
        rows_of(lambda x, most, d: x * d),
    ],
    ids=["float32", "float8", "floor", "round", "compared", "integers", "narrow", "root",
         "logarithm", "power", "whole power", "power of any number", "cube root", "difference",
         "sum with a negative number", "constant", "none"],
)  # fmt: skip
def test_what_stays_exact(program):
    assert not approximates(tilelang.compile(program, target="sm_100a"))


@pytest.mark.parametrize(
    "body",
    [
        lambda x, most, d: T.pow(2.0, x / d),
        lambda x, most, d: T.cbrt(T.exp(x - most)),
        lambda x, most, d: (x - most) / (1.0 + T.exp(-x)),
        lambda x, most, d: x / (d - most),
    ],
    ids=["power of a constant", "cube root", "sum", "exact difference"],
)
def test_what_keeps_away_from_limits(body):
    assert approximates(tilelang.compile(rows_of(body), target="sm_100a"))


@pytest.mark.parametrize("target", TARGETS)
def test_powers_of_negative_numbers(target):
    """The quotients are whole numbers: all powers exist."""
    kernel = tilelang.compile(
        rows_of(lambda x, most, d: T.pow(-2.0, x / d), dtype="float32", out="float16"),
        target=target,
    )
    d = torch.rand(33) * 100 + 1
    whole = torch.randint(-3, 4, (33, 200)).float()
    y = run(kernel, whole * d[:, None], d, torch.float16)
    kept = (whole * d[:, None] / d[:, None]) == whole
    assert torch.equal(y[kept].float(), (-2.0) ** whole[kept])


def test_a_difference_that_an_earlier_loop_stores():
    @T.prim_func
    def main(X: T.Tensor((8, 64), "bfloat16"), Y: T.Tensor((8, 64), "bfloat16")):
        with T.Kernel(8, threads=64) as row:
            x = T.alloc_fragment((64,), "float32")
            most = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            T.reduce_max(x, most, dim=0)
            for j in T.Parallel(64):
                x[j] = 1.0 - x[j] / most[0]
            for j in T.Parallel(64):
                x[j] = 1.0 / x[j]
            T.copy(x, Y[row, 0])

    assert not approximates(tilelang.compile(main, target="sm_100a"))


@pytest.mark.parametrize("target", TARGETS)
def test_logarithms_of_equal_numbers(target):
    """The quotient of equal numbers is 1, and the logarithm of 0 infinite."""
    program = rows_of(lambda x, most, d: T.log(1.0 - x / most), columns=64, rows=512)
    x = torch.randn(512, 64).bfloat16()
    got = run(tilelang.compile(program, target=target), x, torch.ones(512))
    want = (1 - x.float() / x.float().amax(1, keepdim=True)).log()
    torch.testing.assert_close(got.float(), want, rtol=2.0**-7, atol=1e-3)
    assert got.isinf().any(1).all()


def sums_of_rows(term, function):
    """Y = function(sum of term(X)) of each row."""

    @T.prim_func
    def main(X: T.Tensor((8, 64), "bfloat16"), Y: T.Tensor((8, 64), "bfloat16")):
        with T.Kernel(8, threads=32) as row:
            x, y = (T.alloc_fragment((1, 64), "float32") for _ in range(2))
            total = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            for i, j in T.Parallel(1, 64):
                y[i, j] = term(x[i, j])
            T.reduce_sum(y, total, dim=1)
            for i, j in T.Parallel(1, 64):
                x[i, j] = x[i, j] - function(total[i])
            T.copy(x, Y[row, 0])

    return main


@pytest.mark.parametrize(
    ("term", "function", "approximated"),
    [
        (T.exp, T.log, True),
        (lambda x: T.exp(x) * T.exp(x) + 0.5, lambda s: T.rsqrt(s / 64 + 1e-5), True),
        (lambda x: T.exp(x) * T.exp(x), lambda s: T.sqrt(s), True),
        (lambda x: T.exp(x) * T.exp(x), lambda s: T.log(s), False),
        (T.exp, lambda s: T.log(s - 1.0), False),
        (lambda x: T.exp(x) - 1.0, T.sqrt, False),
    ],
)
def test_sums_that_are_never_negative(term, function, approximated):
    kernel = tilelang.compile(sums_of_rows(term, function), target="sm_100a")
    assert approximates(kernel) == approximated


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("factor", [0.9, 0.25])
def test_masks_times_a_factor(factor, target):
    """The lowest finite number times the factor and log2(e) would be infinite."""
    program = rows_of(lambda x, most, d: T.exp(x * factor - most * factor), dtype="float32",
                      out="bfloat16")  # fmt: skip
    x = torch.randn(33, 200)
    x[3], x[4, 100:] = (torch.finfo(torch.float32).min,) * 2
    kernel = tilelang.compile(program, target=target)
    assert approximates(kernel)
    got = run(kernel, x, torch.ones(33), out=torch.bfloat16)
    want = ((x - x.amax(1, keepdim=True)) * factor).exp()
    torch.testing.assert_close(got.float(), want, rtol=2.0**-7, atol=1e-7)


def named(x, most, d):
    highest = most
    difference = x - highest
    return T.exp(difference)


@pytest.mark.parametrize(
    ("body", "flushes"),
    [
        (lambda x, most, d: T.exp(x - most), True),
        (named, True),
        (lambda x, most, d: T.exp((x - most) * 0.5), True),
        (lambda x, most, d: T.exp2(x * 0.5 - most * 0.5), True),
        (lambda x, most, d: 1.0 / (1.0 + T.exp(-x)), True),
        (lambda x, most, d: T.exp(x * 0.5), False),
        (lambda x, most, d: T.exp(x - 1.0), False),
    ],
)
def test_which_exponentials_may_be_zero(body, flushes):
    ptx = tilelang.compile(rows_of(body), target="sm_100a").get_ptx()
    assert ("ex2.approx.ftz.f32" in ptx) == flushes
    assert ("ex2.approx.f32" in ptx) != flushes


def test_norms_in_place_are_approximated():
    """The root is taken of exact sums, before the quotients overwrite what they are sums of."""

    @T.prim_func
    def main(X: T.Tensor((8, 64), "bfloat16"), Y: T.Tensor((8, 64), "bfloat16")):
        with T.Kernel(8, threads=32) as row:
            x, square = (T.alloc_fragment((1, 64), "float32") for _ in range(2))
            root = T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            for i, j in T.Parallel(1, 64):
                square[i, j] = x[i, j] * x[i, j]
            T.reduce_sum(square, root, dim=1)
            for i in T.Parallel(1):
                root[i] = T.sqrt(root[i] / 64 - 1e-3)
            for i, j in T.Parallel(1, 64):
                x[i, j] /= root[i]
            T.copy(x, Y[row, 0])

    assert approximates(tilelang.compile(main, target="sm_100a"))


@pytest.mark.parametrize("target", TARGETS)
def test_rows_of_small_exponentials(target):
    """All exponentials of a row are below 2^-126: their sum is not zero."""

    @T.prim_func
    def main(X: T.Tensor((8, 64), "float32"), Y: T.Tensor((8, 64), "bfloat16")):
        with T.Kernel(8, threads=32) as row:
            x, total = T.alloc_fragment((1, 64), "float32"), T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            for i, j in T.Parallel(1, 64):
                x[i, j] = T.exp(x[i, j])
            T.reduce_sum(x, total, dim=1)
            for i, j in T.Parallel(1, 64):
                x[i, j] /= total[i]
            T.copy(x, Y[row, 0])

    kernel = tilelang.compile(main, target=target)
    assert approximates(kernel)
    x = torch.randn(8, 64) / 2 - 90
    y = torch.full((8, 64), torch.nan, dtype=torch.bfloat16)
    kernel(x, y)
    torch.testing.assert_close(y.float(), x.softmax(1), rtol=1e-2, atol=1e-4)


def test_statistics_of_rows_stay_exact():
    """A float32 result beside those of 16 bits shows every bit."""

    @T.prim_func
    def main(X: T.Tensor((8, 64), "float16"), S: T.Tensor((8,), "float32"),
             Y: T.Tensor((8, 64), "float16")):  # fmt: skip
        with T.Kernel(8, threads=32) as row:
            x, total = T.alloc_fragment((1, 64), "float32"), T.alloc_fragment((1,), "float32")
            T.copy(X[row, 0], x)
            for i, j in T.Parallel(1, 64):
                x[i, j] = T.exp(x[i, j])
            T.reduce_sum(x, total, dim=1)
            T.copy(total, S[row])
            T.copy(x, Y[row, 0])

    assert not approximates(tilelang.compile(main, target="sm_100a"))


def test_the_option_turns_it_off():
    program = rows_of(lambda x, most, d: T.exp(x) / d)
    options = {"tl.disable_approximate_functions": True}
    exact = tilelang.compile(program, target="sm_90a", pass_configs=options)
    assert not approximates(exact)
    assert "expf(" in exact.get_kernel_source()
    assert "expf(" not in tilelang.compile(program, target="sm_90a").get_kernel_source()
