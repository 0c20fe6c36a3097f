"""What tcgen05.ld loads has no value before tcgen05.wait::ld; nothing in the PTX uses it before."""

from __future__ import annotations

import re

import pytest
import torch
from sm100_kernels import TORCH, compile_sm100, poisoned

import tilelang.language as T

REGISTER = re.compile(r"%\w+")


def early_uses(ptx: str) -> tuple[int, list[str]]:
    """The number of loads, and the instructions that name a loaded register before the wait."""
    loads, early, pending = 0, [], set()
    for line in ptx.splitlines():
        text = line.split("//")[0].strip()
        if text.startswith("tcgen05.ld"):
            loads += 1
            pending |= set(REGISTER.findall(text[text.index("{") : text.index("}")]))
        elif text.startswith("tcgen05.wait::ld"):
            pending = set()
        elif pending & set(REGISTER.findall(text)):
            early.append(text)
    assert not pending, "a load without a wait"
    return loads, early


def loaded_as_float(m: int, n: int, dtype: str, threads: int):
    @T.prim_func
    def kernel(X: T.Tensor((m, n), dtype), Y: T.Tensor((m, n), "float32")):
        with T.Kernel(1, threads=threads):
            t = T.alloc_tmem([m, n], dtype)
            g = T.alloc_fragment((m, n), "float32")
            T.copy(X, t)
            T.copy(t, g)
            T.copy(g, Y)

    return kernel


@pytest.mark.parametrize("dtype", TORCH)
@pytest.mark.parametrize(
    ("m", "n", "threads"),
    [(64, 8, 128), (64, 8, 384), (64, 16, 256), (128, 8, 256), (128, 24, 128), (128, 80, 128)],
)
def test_no_use_before_the_wait(m, n, dtype, threads):
    kernel = compile_sm100(loaded_as_float(m, n, dtype, threads))
    loads, early = early_uses(kernel.get_ptx())
    assert loads > 0 and early == []
    x, y = torch.randint(0, 8, (m, n)).to(TORCH[dtype]), poisoned(m, n, "float32")
    kernel(x, y)
    assert torch.equal(y, x.float())


@pytest.mark.may_spill(
    "the fragment is indexed by a value known at run time: it is in local memory"
)
@pytest.mark.parametrize("dtype", ["float32", "int8"])
def test_an_array_in_local_memory(dtype):
    """The stores to local memory wait as well."""

    @T.prim_func
    def kernel(X: T.Tensor((128, 32), dtype), K: T.int32, Y: T.Tensor((128, 4), dtype)):
        with T.Kernel(1, threads=128):
            t = T.alloc_tmem([128, 32], dtype)
            f = T.alloc_fragment((128, 32), dtype)
            T.copy(X, t)
            T.copy(t, f)
            for k in T.serial(K):
                for i in T.Parallel(128):
                    Y[i, k] = f[i, k * 8]

    compiled = compile_sm100(kernel)
    loads, early = early_uses(compiled.get_ptx())
    assert loads > 0 and early == []
    x, y = torch.randint(0, 8, (128, 32)).to(TORCH[dtype]), poisoned(128, 4, dtype)
    compiled(x, 4, y)
    assert torch.equal(y, x[:, ::8])
