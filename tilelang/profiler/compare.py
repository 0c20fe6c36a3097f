"""Compares the outputs of a kernel with a reference."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def as_list(result: Any) -> list[Any]:
    """Returns the outputs of a call as a list."""
    if result is None:
        return []
    return list(result) if isinstance(result, (list, tuple)) else [result]


def assert_close(
    actual: Sequence[Any],
    expected: Sequence[Any],
    rtol: float,
    atol: float,
    max_mismatched_ratio: float = 0.0,
) -> None:
    """Checks tensors elementwise: |actual - expected| <= atol + rtol * |expected|.

    Args:
        max_mismatched_ratio: the share of elements of each tensor that may differ; never one that
            is NaN or infinite on one side only.

    Raises:
        AssertionError: names the output, how many elements differ, and the worst of them.
    """
    assert len(actual) == len(expected), f"{len(actual)} outputs, but {len(expected)} expected"
    for number, (got, want) in enumerate(zip(actual, expected, strict=True)):
        _assert_one(number, got, want, rtol, atol, max_mismatched_ratio)


def _assert_one(
    number: int, got: Any, want: Any, rtol: float, atol: float, max_mismatched_ratio: float
) -> None:
    import torch

    shapes = tuple(got.shape), tuple(want.shape)
    assert shapes[0] == shapes[1], f"output {number} has shape {shapes[0]}, expected {shapes[1]}"
    got, want = got.detach().to(torch.float64), want.detach().to(got.device, torch.float64)
    bad = ~torch.isclose(got, want, rtol=rtol, atol=atol, equal_nan=True)
    count = int(bad.sum())
    broken = int((bad & (got.isfinite() != want.isfinite())).sum())
    if broken == 0 and count <= max_mismatched_ratio * bad.numel():
        return
    difference = torch.where(bad, (got - want).abs().nan_to_num(nan=float("inf")), -1.0)
    worst = tuple(int(i) for i in torch.unravel_index(difference.argmax(), got.shape))
    raise AssertionError(
        f"output {number}: {count} of {bad.numel()} elements differ beyond rtol={rtol}, "
        f"atol={atol} ({broken} finite on one side only); the worst is at {worst}: "
        f"{float(got[worst])} instead of {float(want[worst])}"
    )


def torch_assert_close(
    tensor_a: Any,
    tensor_b: Any,
    rtol: float = 1e-2,
    atol: float = 1e-3,
    max_mismatched_ratio: float = 0.001,
    **_: Any,
) -> None:
    """Checks a tensor against a reference; see :func:`assert_close`."""
    assert_close([tensor_a], [tensor_b], rtol, atol, max_mismatched_ratio)
