"""T.copy between tensor memory of different element types converts."""

from __future__ import annotations

import pytest
import torch
from sm100_kernels import TORCH, compile_sm100, poisoned

import tilelang.language as T

#: Values that every type holds exactly.
VALUES = 8


def casts(source: str, m: int, n: int, threads: int, part: slice):
    """Columns ``part`` of X in tensor memory, converted to every type."""
    width = part.stop - part.start
    types = list(TORCH)

    @T.prim_func
    def kernel(X: T.Tensor((m, n), source), Y: T.Tensor((len(types), m, width), "float32")):
        with T.Kernel(1, threads=threads):
            s = T.alloc_tmem([m, n], source)
            T.copy(X, s)
            for k, target in enumerate(types):
                t = T.alloc_tmem([m, width], target)
                T.copy(s[0:m, part], t)
                T.copy(t, Y[k, 0:m, 0:width])

    return kernel


@pytest.mark.parametrize(
    ("m", "threads", "part"),
    [
        (128, 128, slice(0, 32)),
        (64, 128, slice(0, 32)),
        (128, 256, slice(0, 32)),
        (64, 256, slice(8, 24)),
    ],
    ids=["128 rows", "64 rows", "two warpgroups", "a slice"],
)
@pytest.mark.parametrize("source", TORCH)
def test_every_pair_of_types(source, m, threads, part):
    x = torch.randint(0, VALUES, (m, 32)).to(TORCH[source])
    width = part.stop - part.start
    y = poisoned(len(TORCH) * m, width, "float32").view(len(TORCH), m, width)
    compile_sm100(casts(source, m, 32, threads, part))(x, y)
    for k, target in enumerate(TORCH):
        assert torch.equal(y[k], x[:, part].float()), f"{source} -> {target}"


@pytest.mark.parametrize(("source", "target"), [("float32", "bfloat16"), ("float32", "float16")])
def test_a_narrower_type_rounds(source, target):
    @T.prim_func
    def kernel(X: T.Tensor((128, 32), source), Y: T.Tensor((128, 32), target)):
        with T.Kernel(1, threads=128):
            s = T.alloc_tmem([128, 32], source)
            t = T.alloc_tmem([128, 32], target)
            T.copy(X, s)
            T.copy(s, t)
            T.copy(t, Y)

    x, y = torch.randn(128, 32), poisoned(128, 32, target)
    compile_sm100(kernel)(x, y)
    assert torch.equal(y, x.to(TORCH[target]))
