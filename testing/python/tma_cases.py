"""What the tests of tensor copies share: kernels, data, and counting copies."""

from __future__ import annotations

import re
from typing import Any

import torch

import tilelang
import tilelang.language as T

TARGETS = ["sm_90a", "sm_100a"]
DTYPES = [
    "float16",
    "bfloat16",
    "float32",
    "float64",
    "int8",
    "uint8",
    "int16",
    "int32",
    "int64",
    "float8_e4m3fn",
    "float8_e5m2",
]
LOAD = "cp.async.bulk.tensor.{}d.shared::cluster.global"
STORE = "cp.async.bulk.tensor.{}d.global.shared::cta"


def random_bits(shape: tuple[int, ...], dtype: str, seed: int = 0) -> torch.Tensor:
    """Returns a tensor of random finite values; every element differs from zero."""
    generator = torch.Generator().manual_seed(seed)
    values = torch.randint(1, 100, shape, generator=generator)
    return values.to(getattr(torch, dtype))


def poisoned(shape: tuple[int, ...], dtype: str) -> torch.Tensor:
    return torch.full(shape, 77, dtype=torch.int64).to(getattr(torch, dtype))


def raw(tensor: torch.Tensor) -> torch.Tensor:
    """Returns the bytes, which compare for every dtype."""
    return tensor.contiguous().view(torch.uint8)


def assert_same(actual: torch.Tensor, expected: torch.Tensor) -> None:
    assert actual.shape == expected.shape
    assert torch.equal(raw(actual), raw(expected))


def compiled(
    func: Any, target: str, *, loads: int = 0, stores: int = 0, rank: int = 2, **configs: Any
) -> Any:
    """Compiles a kernel and checks how many tensor copies it has.

    They are counted in the source: in PTX there are more where loops are unrolled.
    """
    kernel = tilelang.compile(func, target=target, pass_configs=configs)
    source, ptx = kernel.get_kernel_source(), kernel.get_ptx()
    assert len(re.findall(r"tl::tma_load[<(]", source)) == loads, source
    assert len(re.findall(r"tl::tma_store[<(]", source)) == stores, source
    found = set(re.findall(r"cp\.async\.bulk\.tensor\.\S+?(?=\.tile)", ptx))
    expected = {LOAD.format(rank)} if loads else set()
    assert found == (expected | {STORE.format(rank)} if stores else expected)
    return kernel


def through_shared(
    m: Any, n: int, block_m: int, block_n: int, dtype: str, threads: int = 128, **options: Any
) -> Any:
    """Returns a kernel that copies A to B tile by tile through shared memory."""

    @T.prim_func
    def kernel(A: T.Tensor((m, n), dtype), B: T.Tensor((m, n), dtype)):
        with T.Kernel(T.ceildiv(n, block_n), T.ceildiv(m, block_m), threads=threads) as (bx, by):
            tile = T.alloc_shared((block_m, block_n), dtype)
            T.copy(A[by * block_m, bx * block_n], tile, **options)
            T.copy(tile, B[by * block_m, bx * block_n], **options)

    return kernel


def check_through(kernel: Any, shape: tuple[int, ...], dtype: str) -> None:
    source, result = random_bits(shape, dtype), poisoned(shape, dtype)
    kernel(source, result)
    assert_same(result, source)
