"""Conversions of all integers of 8 and 16 bits to types of 16 bits."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_80", "sm_120a"])
@pytest.mark.parametrize("to", ["bfloat16", "float16", "float32"])
@pytest.mark.parametrize("source", ["uint8", "int8", "uint16", "int16"])
def test_every_value(source, to, target):
    count = 256 if source.endswith("t8") else 65536

    @T.prim_func
    def main(A: T.Tensor((count,), source), B: T.Tensor((count,), to)):
        with T.Kernel(T.ceildiv(count, 1024), threads=128) as block:
            for i in T.Parallel(1024):
                if block * 1024 + i < count:
                    B[block * 1024 + i] = T.cast(A[block * 1024 + i], to)

    values = torch.arange(count)
    if source.startswith("int"):
        values -= count // 2
    b = torch.full((count,), torch.nan, dtype=getattr(torch, to))
    tilelang.compile(main, target=target)(values.to(getattr(torch, source)), b)
    want = values.double().to(b.dtype)
    kind = torch.int32 if to == "float32" else torch.int16
    assert torch.equal(b.view(kind), want.view(kind))  # 0 is +0
