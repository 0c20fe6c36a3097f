"""The tolerance of a verdict: what correct roundings may do, and what they may not."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn.functional import layer_norm, scaled_dot_product_attention

from tilelang.profiler.judge import Comparison, NotJudged, judge

BF16, FP8 = torch.bfloat16, torch.float8_e4m3fn


def verdict(kernel: Callable, reference: Callable, *inputs: Any, ptx: str = "", **how: Any) -> str:
    """What is wrong with the results of a function; "" if nothing is."""
    torch.manual_seed(0)
    result = kernel(*(each.clone() for each in inputs))
    actual = list(result) if isinstance(result, tuple) else [result]
    try:
        judge(Comparison(actual, list(inputs), lambda x: reference(*x), **how), ptx)
    except AssertionError as error:
        return str(error)
    return ""


def normal(*shape: int, dtype: torch.dtype = torch.float32, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return a.float() @ b.float()


def truncated(x: torch.Tensor) -> torch.Tensor:
    """As a tensor core reads float32: without 13 bits of the fraction."""
    return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)


@pytest.mark.parametrize("k", [64, 1024, 16384])
@pytest.mark.parametrize("dtype", [torch.float16, BF16, FP8])
def test_products(k: int, dtype: torch.dtype) -> None:
    """Sums that cancel, with inputs of few bits."""
    a, b = normal(32, k, dtype=dtype), normal(k, 48, dtype=dtype, seed=1)
    assert not verdict(product, product, a, b)
    assert not verdict(lambda a, b: product(a, b).to(BF16), product, a, b)
    assert verdict(lambda a, b: 1.02 * product(a, b), product, a, b)
    assert verdict(lambda a, b: product(a[:, : k // 2], b[: k // 2]), product, a, b)
    assert verdict(lambda a, b: 0 * product(a, b), product, a, b)


@pytest.mark.parametrize("k", [64, 4096])
def test_products_of_float32(k: int) -> None:
    """Tf32 is right only where the PTX has it, and bfloat16 never."""
    a, b = normal(32, k), normal(k, 48, seed=1)
    in_tf32 = lambda a, b: truncated(a) @ truncated(b)  # noqa: E731
    in_order = lambda a, b: (a[:, :, None] * b).cumsum(1)[:, -1]  # noqa: E731
    assert not verdict(in_tf32, product, a, b, ptx="mma.sync.m16n8k8.f32.tf32.tf32.f32")
    assert verdict(in_tf32, product, a, b)
    assert not verdict(in_order, product, a, b)
    assert verdict(lambda a, b: product(a.to(BF16), b.to(BF16)), product, a, b)


@pytest.mark.parametrize("dtype", [torch.float16, BF16])
@pytest.mark.parametrize("scale", [0.125, 1.0])
def test_attention(dtype: torch.dtype, scale: float) -> None:
    q, k, v = (normal(2, 64, 64, dtype=dtype, seed=i) for i in range(3))

    def attention(q: Any, k: Any, v: Any, factor: float = 1.0) -> Any:
        p = torch.softmax(scale * q.float() @ k.float().mT, -1)
        return (factor * p.to(dtype).float() @ v.float()).to(dtype)

    def reference(q: Any, k: Any, v: Any) -> Any:
        return scaled_dot_product_attention(q, k, v, scale=scale)

    assert not verdict(attention, reference, q, k, v)
    assert verdict(lambda *x: attention(*x, factor=0.97), reference, q, k, v)
    assert verdict(lambda q, k, v: attention(q, k, v.flip(1)), reference, q, k, v)


def test_an_input_that_is_scaled_wrongly_is_named() -> None:
    q, k, v = (normal(2, 256, 64, dtype=BF16, seed=i) for i in range(3))
    attention = lambda q, k, v: scaled_dot_product_attention(q, k, v, scale=0.125)  # noqa: E731
    wrong = lambda q, k, v: scaled_dot_product_attention(q, k, v, scale=0.126)  # noqa: E731
    assert not verdict(attention, attention, q, k, v)
    message = verdict(wrong, attention, q, k, v)
    assert re.fullmatch(r"output 0 is as if input [01] were 1\.00[78]\d* times as large", message)


def test_attention_in_float32_with_large_scores() -> None:
    for seed in range(8):
        q, k, v = (normal(2, 128, 128, seed=3 * seed + i) for i in range(3))

        def attention(q: Any, k: Any, v: Any) -> Any:
            scores = 0.44 * (q @ k.mT)
            p = torch.exp(scores - scores.amax(-1, True))
            return p @ v / p.sum(-1, True)

        reference = lambda q, k, v: scaled_dot_product_attention(q, k, v, scale=0.44)  # noqa: E731
        assert not verdict(attention, reference, q, k, v)


def test_roundings_to_8_bits_may_take_the_other_neighbour() -> None:
    x = normal(64, 256, dtype=BF16)
    scale = lambda x: x.float().abs().amax(-1, True) / 448  # noqa: E731
    right = lambda x: ((x / scale(x)).to(FP8).float() * scale(x)).to(BF16)  # noqa: E731
    other = lambda x: ((x * (1 / scale(x))).to(FP8).float() * scale(x)).to(BF16)  # noqa: E731
    floors = lambda x: ((x / scale(x) * 0.96).to(FP8).float() * scale(x)).to(BF16)  # noqa: E731
    assert not verdict(other, right, x)
    assert verdict(floors, right, x)


def test_values_that_are_all_small() -> None:
    x = normal(4, 4096)
    for reference in (
        lambda x: torch.softmax(x, -1), lambda x: x * 1e-5, lambda x: x.sign() / x.numel(),
        lambda x: x * 1e-30,
    ):  # fmt: skip
        assert not verdict(reference, reference, x)
        assert "elements differ" in verdict(lambda x: 0 * x, reference, x)


def test_every_output_has_a_tolerance_of_its_own() -> None:
    x = normal(64, 64)
    right = lambda x: (x.to(FP8), x.abs().amax(-1), x.argmax(-1))  # noqa: E731
    assert not verdict(right, right, x)
    for number, change in ((1, lambda y: 1.001 * y), (2, lambda y: y + (y == y[0]))):
        wrong = lambda x: tuple(  # noqa: E731
            change(y) if i == number else y  # noqa: B023
            for i, y in enumerate(right(x))
        )
        assert verdict(wrong, right, x).startswith(f"output {number}")


def test_integers_may_follow_the_roundings_of_floats() -> None:
    x = normal(64, 256)
    right = lambda x: (x / (x.abs().amax() / 127)).round().to(torch.int8)  # noqa: E731
    other = lambda x: (x * (127 / x.abs().amax())).round().to(torch.int8)  # noqa: E731
    assert not verdict(other, right, x)
    assert verdict(lambda x: right(x) + (x > 2).to(torch.int8), right, x)
    n = torch.arange(1000)
    assert verdict(lambda n: n * 3 + (n == 999), lambda n: n * 3, n)


def test_normalization() -> None:
    x = normal(16, 512)
    right = lambda x: layer_norm(x, x.shape[-1:])  # noqa: E731
    by_squares = lambda x: (  # noqa: E731
        (x - x.mean(-1, True)) * ((x * x).mean(-1, True) - x.mean(-1, True) ** 2 + 1e-5).rsqrt()
    )
    assert not verdict(by_squares, right, x)
    assert verdict(lambda x: layer_norm(x, x.shape[-1:], eps=1e-3), right, x)


def test_nan_and_infinities_stand_where_the_reference_has_them() -> None:
    x = normal(8, 100)
    x[2, 3], x[4, 5] = float("nan"), float("inf")
    assert not verdict(lambda x: 2 * x, lambda x: 2 * x, x)
    for change in (lambda x: x.nan_to_num(0.0), lambda x: x.nan_to_num(posinf=1.0),
                   lambda x: x.where(x < 1, -x)):  # fmt: skip
        assert "elements differ" in verdict(change, lambda x: x, x)
    hidden = lambda x: torch.where(x > 0, x, 0.0)  # noqa: E731
    assert verdict(hidden, torch.relu, x) and not verdict(hidden, torch.relu, x, special=True)
    spoilt = lambda x: x + 0 * x[2, 3]  # noqa: E731
    assert "elements differ" in verdict(spoilt, lambda x: x, x, special=True)


def test_values_beyond_the_range_of_the_output() -> None:
    x = normal(1000) * 1e5
    assert not verdict(lambda x: x.half(), lambda x: x, x)  # infinite
    assert not verdict(lambda x: x.clamp(-65504, 65504).half(), lambda x: x, x)
    assert verdict(lambda x: x.abs().half(), lambda x: x, x)
    # The reference alone overflows on its way.
    naive = lambda x: (x.exp() - 1) / (x.exp() + 1)  # noqa: E731
    assert not verdict(lambda x: torch.tanh(x / 2), naive, x / 1000)


def test_shapes_and_numbers_of_outputs() -> None:
    x = normal(8, 8)
    assert "has shape" in verdict(lambda x: x[:4], lambda x: x, x)
    assert "outputs" in verdict(lambda x: (x, x), lambda x: x, x)
    assert not verdict(lambda x: x[:0], lambda x: x[:0], x)


def test_the_dtype_of_the_reference_may_bind() -> None:
    x = normal(100)
    assert not verdict(lambda x: x.to(BF16), lambda x: x, x)
    assert verdict(lambda x: x.to(BF16), lambda x: x, x, exact_dtype=True)


def test_what_is_only_rounding_cannot_be_judged() -> None:
    x = normal(64, 64)
    noise = lambda x: torch.softmax(x, -1).sum(-1) - 1  # noqa: E731
    with pytest.raises(NotJudged):
        verdict(lambda x: noise(x) + 1e-7, noise, x)


def test_references_that_cannot_run_in_float64() -> None:
    x = normal(64, 64, dtype=BF16)

    def halves(x: torch.Tensor) -> torch.Tensor:
        assert x.dtype == BF16
        return (x.view(torch.int16) << 1 >> 1).view(BF16) * 2

    assert not verdict(lambda x: 2 * x, lambda x: (x.view(torch.int16)).view(BF16) * 2, x)
    assert verdict(lambda x: 2 * x, halves, x)  # the sign is lost
