"""Exponentials of loops with GEMMs, of which polynomials compute a part."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.transform import pipeline, run_pass

ROWS, DIM, STEPS = 128, 64, 3


def exponentials(function, *, dim=DIM, steps=STEPS, chained=False):
    """Stores a function of the scores of each tile of keys, or (``chained``) its product with K."""

    @T.prim_func
    def main(
        Q: T.Tensor((ROWS, dim), "bfloat16"),
        K: T.Tensor((steps * ROWS, dim), "bfloat16"),
        Out: T.Tensor((ROWS, steps * ROWS), "float32"),
        Sums: T.Tensor((ROWS,), "float32"),
    ):
        with T.Kernel(1, threads=128):
            q, k = (T.alloc_shared((ROWS, dim), "bfloat16") for _ in range(2))
            s = T.alloc_fragment((ROWS, ROWS), "float32")
            sums = T.alloc_fragment((ROWS,), "float32")
            if chained:
                weights = T.alloc_fragment((ROWS, ROWS), "bfloat16")
                products = T.alloc_fragment((ROWS, dim), "float32")
            T.clear(sums)
            T.copy(Q, q)
            for n in T.Pipelined(steps, num_stages=2):
                T.copy(K[n * ROWS, 0], k)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(ROWS, ROWS):
                    s[i, j] = function(s[i, j])
                T.reduce_sum(s, sums, dim=1, clear=False)  # of whole rows
                if chained:
                    T.copy(s, weights)
                    T.gemm(weights, k, products, clear_accum=True)
                    T.copy(products, Out[0:ROWS, 0:dim])
                else:
                    T.copy(s, Out[0, n * ROWS])
            T.copy(sums, Sums)

    return main


FORMS = {
    "exp2": (T.exp2, torch.exp2),
    "exp": (T.exp, torch.exp),
    "scaled": (lambda s: T.exp(s * 0.125 - 0.5), lambda s: torch.exp(s * 0.125 - 0.5)),
    "left": (lambda s: T.exp(0.125 * s), lambda s: torch.exp(s * 0.125)),
    "less": (lambda s: T.exp(s - 3), lambda s: torch.exp(s - 3)),
    "negative": (lambda s: T.exp(1.5 - s * s), lambda s: torch.exp(1.5 - s * s)),
}


def after_the_pass(function, target="sm_100a", **options):
    func = exponentials(function, **options)
    for step in pipeline():
        func = run_pass(step, func, target)
        if step == "share_exponentials":
            break
    return str(func)


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_80", "sm_120a"])
@pytest.mark.parametrize("form", FORMS)
def test_error(form: str, target: str) -> None:
    function, reference = FORMS[form]
    # One product each, which float32 holds: the scores are exact.
    q, k = (torch.zeros(rows, DIM, dtype=torch.bfloat16) for rows in (ROWS, STEPS * ROWS))
    q[:, 5], k[:, 5] = torch.randn(ROWS) * 8, torch.randn(STEPS * ROWS)
    out = torch.full((ROWS, STEPS * ROWS), torch.nan)
    kernel = tilelang.compile(exponentials(function), target=target)
    # On sm_120a exponentials take less than half as long as these GEMMs.
    assert ("tl::fast_exp2" in kernel.get_kernel_source()) == (target != "sm_120a")
    sums = torch.full((ROWS,), torch.nan)
    kernel(q, k, out, sums)
    want = reference(q.double() @ k.double().T)
    normal = (want > 2.0**-126) & (want < 2.0**127)
    assert normal.sum() > want.numel() // 2
    error = (out.double() / want - 1).abs()
    # Arguments are rounded, too.
    allowed = (want.log().abs() + 10) * (1 + 1.25) * 2.0**-24
    assert (error <= allowed)[normal].all()
    assert (out.double()[~normal] < 2.0**-125).logical_or(want[~normal] >= 2.0**127).all()


def test_factors_join_constants() -> None:
    text = after_the_pass(FORMS["scaled"][0])
    assert "0.18033688" in text and "0.72134752" in text and " 1.4426950" not in text
    assert "1.4426950" in after_the_pass(FORMS["less"][0])
    assert "exp(" not in text.replace("_exp(", "")


def test_which_exponentials_stay() -> None:
    assert "__exp2(" in after_the_pass(T.exp)
    assert "__exp2(" not in after_the_pass(T.exp, dim=1024)
    assert "__exp2(" in after_the_pass(T.exp, target="sm_90a", dim=128)
    assert "__exp2(" not in after_the_pass(T.exp, target="sm_90a", dim=1024)


def test_exponentials_outside_of_loops() -> None:
    """A function of the only gemm is an epilogue; between chained gemms it is attention."""
    assert "__exp2(" not in after_the_pass(T.exp, steps=1)
    text = after_the_pass(T.exp, steps=1, chained=True)
    assert "__exp2(" in text and "pipelined" not in text


@pytest.mark.parametrize("function", [T.exp, T.exp2])
def test_infinities_and_nan(function) -> None:
    q, k = (torch.zeros(rows, DIM, dtype=torch.bfloat16) for rows in (ROWS, STEPS * ROWS))
    k[:, 0] = 1
    q[1, 0], q[2, 0], q[3, 0], q[4, 0] = torch.inf, -torch.inf, torch.nan, 1e30
    out = torch.full((ROWS, STEPS * ROWS), 7.0)
    tilelang.compile(exponentials(function), target="sm_100a")(q, k, out, torch.empty(ROWS))
    want = torch.ones(ROWS, STEPS * ROWS)
    want[1], want[2], want[3], want[4] = torch.inf, 0, torch.nan, torch.inf
    assert torch.equal(out.nan_to_num(5.0, 3e38), want.nan_to_num(5.0, 3e38))


def scores(values):
    """Operands of whose products each score is one of the values, exactly."""
    q, k = (torch.zeros(rows, DIM, dtype=torch.bfloat16) for rows in (ROWS, STEPS * ROWS))
    q[: len(values), 0], k[:, 0] = torch.tensor(values), 1
    return q, k


def results(kernel, q, k):
    out = torch.full((ROWS, STEPS * ROWS), torch.nan)
    kernel(q, k, out, torch.empty(ROWS))
    return out


@pytest.fixture(scope="module")
def tanh_kernel():
    kernel = tilelang.compile(exponentials(T.tanh), target="sm_100a")
    assert "tl::tanh_fma" in kernel.get_kernel_source()
    return kernel


@pytest.mark.parametrize("spread", [1e-3, 1, 5, 20])
def test_error_of_tanh(spread, tanh_kernel) -> None:
    q, k = scores([])
    q[:, 3], k[:, 3] = torch.randn(ROWS) * spread, torch.randn(STEPS * ROWS)
    out = results(tanh_kernel, q, k).double()
    want = torch.tanh(q.double() @ k.double().T)
    assert (out.abs() <= 1).all()
    assert ((out - want).abs() <= want.abs() * 4.4e-7).all()


def test_ends_of_tanh(tanh_kernel) -> None:
    inf = float("inf")
    values = [0.0, -0.0, 1e-38, -1e-39, 1e-30, 9.0, -9.125, 30.0, 1e30, -3e38, inf, -inf]
    q, k = scores([*values, float("nan")])
    # 0 * inf in other columns of K would be no number.
    out = results(tanh_kernel, q, k)[: len(values) + 1, 0]
    want = torch.tanh(q[: len(out), 0].double()).float()
    assert out[-1].isnan() and torch.equal(out[:5], want[:5])
    torch.testing.assert_close(out[5:-1], want[5:-1], rtol=4.4e-7, atol=0)
    assert out[6:-1].tolist() == [-1, 1, 1, -1, 1, -1]


def test_tanh_of_fast_math() -> None:
    kernel = tilelang.compile(
        exponentials(T.tanh), target="sm_100a", pass_configs={"tl.enable_fast_math": True}
    )
    assert "tanh.approx.f32" in kernel.get_ptx() and "fma.rn.f32x2" not in kernel.get_ptx()
    q, k = scores([0.5, -3.0])
    out = results(kernel, q, k)[:2, 0]
    torch.testing.assert_close(out, q[:2, 0].float().tanh(), rtol=1e-3, atol=0)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_120a"])
def test_tanh_of_other_targets(target) -> None:
    assert "tanh_fma" not in after_the_pass(T.tanh, target=target)


@pytest.mark.parametrize("function, torchs", [(T.tanh, torch.tanh), (T.exp, torch.exp)])
def test_over_the_field(function, torchs) -> None:
    program = exponentials(lambda s: function(s * 0.125))
    kernel = tilelang.compile(program, out_idx=[2, 3], target="sm_100a")
    q, k = (torch.randn(rows, DIM).bfloat16() for rows in (ROWS, STEPS * ROWS))

    def reference(q, k):
        values = torchs(q @ k.T * 0.125)
        return values, values.sum(1)

    verdict = tilelang.algebra.check(kernel, reference, q, k)
    assert verdict.equal, str(verdict)


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_80"])
def test_a_mask_of_the_lowest_number(target):
    """0 times the lowest number is 0; times log2(e) that number would be infinite."""

    def weight(s):
        return T.exp(s * 0.125 + T.cast(s < 0, "float32") * -3.4e38)

    built = tilelang.compile(exponentials(weight), target=target)
    q, k = torch.randn(ROWS, DIM).bfloat16(), torch.randn(STEPS * ROWS, DIM).bfloat16()
    out, sums = torch.full((ROWS, STEPS * ROWS), torch.nan), torch.full((ROWS,), torch.nan)
    built(q, k, out, sums)
    scores = q.double() @ k.double().T
    want = torch.where(scores < 0, 0, torch.exp(scores * 0.125))
    torch.testing.assert_close(out.double(), want, atol=1e-4, rtol=1e-4)
