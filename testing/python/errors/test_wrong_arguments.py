"""Arguments of T.gemm and T.annotate_layout that are none."""

from __future__ import annotations

import pytest

import tilelang.language as T
from tilelang import errors


def traced(use):
    """A kernel in which ``use(a, b, c, f)`` uses shared tiles, tensor memory and a fragment."""

    @T.prim_func
    def kernel(A: T.Tensor((128, 64), "bfloat16")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 64), "bfloat16")
            c = T.alloc_tmem((128, 64), "float32")
            f = T.alloc_fragment((128, 64), "float32")
            use(a, b, c, f)

    return kernel


LAYOUT = T.Layout((128, 64), lambda i, j: i * 64 + j)
FRAGMENT = T.Fragment((128, 64), forward_fn=lambda i, j: (i, j))
USES = {
    "clear text": (
        lambda a, b, c, f: T.gemm(a, b, c, clear_accum="yes"),
        "SemanticsError",
        "clear_accum of T.gemm is `yes`",
    ),
    "clear number": (
        lambda a, b, c, f: T.gemm(a, b, c, clear_accum=1.5),
        "SemanticsError",
        "a bool or a condition",
    ),
    "policy": (
        lambda a, b, c, f: T.gemm(a, b, c, policy=7),
        "SemanticsError",
        "one of T.GemmWarpPolicy.Square",
    ),
    "transpose": (
        lambda a, b, c, f: T.gemm(a, b, c, transpose_B="no"),
        "SemanticsError",
        "True or False",
    ),
    "wg_wait": (
        lambda a, b, c, f: T.gemm(a, b, c, wg_wait=-2),
        "SemanticsError",
        "wgmma groups, or -1",
    ),
    "no mbar": (
        lambda a, b, c, f: T.tcgen05_gemm(a, b, c),
        "SemanticsError",
        "needs mbar=",
    ),
    "tmem": (
        lambda a, b, c, f: T.annotate_layout({c: FRAGMENT}),
        "LayoutError",
        "takes a T.Layout, not a Fragment",
    ),
    "shared": (
        lambda a, b, c, f: T.annotate_layout({a: FRAGMENT}),
        "LayoutError",
        "takes a T.Layout, not a Fragment",
    ),
    "fragment": (
        lambda a, b, c, f: T.annotate_layout({f: LAYOUT}),
        "LayoutError",
        "takes a T.Fragment, not a Layout",
    ),
}


@pytest.mark.parametrize("name", USES)
def test_refused(name):
    use, kind, message = USES[name]
    with pytest.raises(getattr(errors, kind)) as caught:
        traced(use)
    text = str(caught.value)
    assert message in text
    assert "test_wrong_arguments.py" in text and "^" in text
