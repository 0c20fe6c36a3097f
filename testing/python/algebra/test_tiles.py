"""Kernels of all tile sizes and targets have the same elements as each other."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from algebra.test_kernels import TARGETS, attention, gemm, softmax

import tilelang
import tilelang.language as T
from tilelang.algebra import Algebra, Elements, same


def elements(program: Any, target: str, inputs: list[torch.Tensor]) -> Elements:
    """Returns the elements of the result of a kernel, for inputs with drawn elements."""
    kernel = tilelang.compile(program, out_idx=[-1], target=target)
    algebra = Algebra()
    for number, value in enumerate(inputs):
        algebra.draw(value, 7, number)
    with algebra.mode(sanitize=False):
        return algebra.read(kernel(*inputs))


def norm(rows: int, columns: int, block: int, threads: int) -> Any:
    """Divides by the root of the mean square, which blocks of columns add up."""

    @T.prim_func
    def main(x: T.Tensor((rows, columns), "float32"), y: T.Tensor((rows, columns), "float32")):
        with T.Kernel(rows, threads=threads) as row:
            tile = T.alloc_fragment((block,), "float32")
            squares = T.alloc_fragment((block,), "float32")
            part = T.alloc_fragment((1,), "float32")
            total = T.alloc_fragment((1,), "float32")
            T.clear(total)
            for k in T.serial(columns // block):
                T.copy(x[row, k * block : (k + 1) * block], tile)
                for j in T.Parallel(block):
                    squares[j] = tile[j] * tile[j]
                T.reduce_sum(squares, part, dim=0)
                total[0] = total[0] + part[0]
            for k in T.serial(columns // block):
                T.copy(x[row, k * block : (k + 1) * block], tile)
                for j in T.Parallel(block):
                    y[row, k * block + j] = tile[j] / T.sqrt(total[0] / columns + 1e-6)

    return main


def _gemms() -> Iterator[Any]:
    for tile in [(64, 64, 16), (128, 64, 32), (64, 128, 64), (128, 128, 32)]:
        yield gemm(128, 128, 128, *tile)


def _randn(*shape: int, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(shape).to(dtype)


FAMILIES: dict[str, tuple[Callable[[], list[torch.Tensor]], Callable[[], Iterator[Any]]]] = {
    "gemm": (
        lambda: [_randn(128, 128, dtype=torch.float16) for _ in range(2)],
        _gemms,
    ),
    "attention": (
        lambda: [_randn(1, 128, 64, dtype=torch.bfloat16) for _ in range(3)],
        lambda: (attention(1, 128, 64, block, causal=True) for block in (32, 64, 128)),
    ),
    "norm": (
        lambda: [_randn(4, 256)],
        lambda: (norm(4, 256, *each) for each in [(32, 32), (64, 64), (256, 128)]),
    ),
    "softmax": (lambda: [_randn(32, 96)], lambda: iter([softmax(32, 96), softmax(32, 96, 0.5)])),
}  # fmt: skip


@pytest.mark.parametrize("family", FAMILIES)
def test_tiles_and_targets_agree(family: str) -> None:
    make, programs = FAMILIES[family]
    inputs, first = make(), None
    for program in programs():
        for target in TARGETS:
            found = elements(program, target, inputs)
            first = found if first is None else first
            assert same(found, first).all(), f"{family} on {target}"


def test_other_sizes_of_a_step_differ() -> None:
    """The elements of a result that lacks a step are others."""
    inputs = [_randn(64, 96, dtype=torch.float16), _randn(96, 64, dtype=torch.float16)]
    whole = elements(gemm(64, 64, 96, 64, 64, 32), "sm_100a", inputs)
    part = elements(gemm(64, 64, 96, 64, 64, 32, steps=2), "sm_100a", inputs)
    assert not same(whole, part).any()
