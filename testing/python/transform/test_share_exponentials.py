"""Exponentials of loops with GEMMs, of which polynomials compute a part."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.transform import pipeline, run_pass

ROWS, DIM, STEPS = 128, 64, 3


def exponentials(function, *, dim=DIM):
    """Stores a function of the scores of each tile of keys."""

    @T.prim_func
    def main(
        Q: T.Tensor((ROWS, dim), "bfloat16"),
        K: T.Tensor((STEPS * ROWS, dim), "bfloat16"),
        Out: T.Tensor((ROWS, STEPS * ROWS), "float32"),
        Sums: T.Tensor((ROWS,), "float32"),
    ):
        with T.Kernel(1, threads=128):
            q, k = (T.alloc_shared((ROWS, dim), "bfloat16") for _ in range(2))
            s = T.alloc_fragment((ROWS, ROWS), "float32")
            sums = T.alloc_fragment((ROWS,), "float32")
            T.clear(sums)
            T.copy(Q, q)
            for n in T.Pipelined(STEPS, num_stages=2):
                T.copy(K[n * ROWS, 0], k)
                T.gemm(q, k, s, transpose_B=True, clear_accum=True)
                for i, j in T.Parallel(ROWS, ROWS):
                    s[i, j] = function(s[i, j])
                T.reduce_sum(s, sums, dim=1, clear=False)  # of whole rows
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


@pytest.mark.parametrize("form", FORMS)
def test_error(form: str) -> None:
    function, reference = FORMS[form]
    # One product each, which float32 holds: the scores are exact.
    q, k = (torch.zeros(rows, DIM, dtype=torch.bfloat16) for rows in (ROWS, STEPS * ROWS))
    q[:, 5], k[:, 5] = torch.randn(ROWS) * 8, torch.randn(STEPS * ROWS)
    out = torch.full((ROWS, STEPS * ROWS), torch.nan)
    kernel = tilelang.compile(exponentials(function), target="sm_100a")
    assert "ex2.approx.ftz" in kernel.get_ptx()
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
    assert "__exp2(" not in after_the_pass(T.exp, target="sm_90a")
    assert "__exp2(" not in after_the_pass(T.exp, dim=1024)


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
