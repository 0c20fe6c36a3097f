"""Reductions by atomics whose result nobody reads do not couple CTAs: some of them are timed."""

from __future__ import annotations

import pytest

import tilelang
import tilelang.language as T

CTAS = 1024


def kernel(kind: str):
    @T.prim_func
    def main(
        X: T.Tensor((CTAS * 128,), "float32"),
        out: T.Tensor((2,), "float32"),
        n: T.Tensor((1,), "int32"),
        last: T.Tensor((CTAS,), "int32"),
    ):
        with T.Kernel(CTAS, threads=128) as b:
            t = T.get_thread_binding()
            if kind == "max":
                T.atomic_max(out[0], X[b * 128 + t])
            elif kind == "add":
                T.atomic_add(out[1], X[b * 128 + t])
            elif kind == "integers":
                T.atomic_add(n[0], 1)
            elif t == 0:
                last[b] = T.atomic_add(n[0], 1, return_prev=True)

    return tilelang.compile(main, target="sm_90a")


@pytest.mark.parametrize("kind", ["max", "add", "integers", "used"])
def test_how_many_are_timed(kind: str) -> None:
    timing = kernel(kind).profile().timing
    assert timing.ctas == CTAS
    assert (timing.timed_ctas == CTAS) == (kind == "used")
