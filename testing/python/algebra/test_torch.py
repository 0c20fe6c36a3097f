"""Elements follow torch: functions, autograd, views and comparisons of tensors."""

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from tilelang.algebra import Algebra, Elements, check, same


@pytest.mark.parametrize("seed", range(5))
def test_drawn_elements(seed):
    """Sums of random elements do not depend on their order; one that is missing is found."""
    x = torch.randn(7, 33)
    assert check(lambda x: x.flip(1).sum(1), lambda x: x.sum(1), x, seed=seed).equal
    assert not check(lambda x: x[:, 1:].sum(1), lambda x: x.sum(1), x, seed=seed).equal
    # Equal floats are different variables.
    ones = torch.ones(4)
    assert not check(lambda x: x.roll(1), lambda x: x * 1.0, ones, seed=seed).equal
    assert check(lambda x: x.roll(1), lambda x: x * 1.0, ones, exact=[0], seed=seed).equal


def test_several_draws():
    x, out = torch.randn(50), torch.zeros(50)

    def doubled(x, out):
        out += 2 * x

    verdict = check(doubled, lambda x, out: out + x + x, x, out, outputs=[1], draws=3)
    assert verdict.equal and verdict.degree > 10**6
    assert "3 random points" in verdict.message
    assert check(doubled, lambda x, out: out + x + x, x, out, outputs=[1]).degree == 15


def test_another_tensor_of_the_same_memory_keeps_its_elements():
    algebra = Algebra()
    with algebra.mode(seed=0):
        x = torch.randn(8)
        before = algebra.read(x)
        torch.empty(0, dtype=torch.uint8).set_(x.untyped_storage())
        assert same(algebra.read(x), before).all() and algebra.has(x)


FUNCTIONS = {
    "softmax": lambda x, w: F.softmax(x, -1),
    "log_softmax": lambda x, w: F.log_softmax(x, -1),
    "layer_norm": lambda x, w: F.layer_norm(x, (8,), w[0]),
    "rms_norm": lambda x, w: F.rms_norm(x, (8,), w[0], eps=1e-6),
    "linear": lambda x, w: F.linear(x, w),
    "silu": lambda x, w: F.silu(x) * F.sigmoid(x),
    "gelu": lambda x, w: F.gelu(x, approximate="tanh"),
    "cumsum": lambda x, w: x.cumsum(1),
    "var": lambda x, w: torch.var_mean(x, 1)[0],
    "cross_entropy": lambda x, w: F.cross_entropy(x, torch.arange(6), reduction="none"),
    "einsum": lambda x, w: torch.einsum("ij,kj,kj->ik", x, w, w),
    "gather": lambda x, w: x.gather(1, torch.arange(6)[:, None]).squeeze(1) * w[0, 0],
    "stack": lambda x, w: torch.stack([x, x * 2]).repeat(2, 1, 1).tril(),
    "conv": lambda x, w: F.conv1d(x[None], torch.stack([w[:, :3]] * 6, 1), padding=1, stride=2),
    "sort": lambda x, w: x.sort(1).values[:, :3] + x.topk(3, dim=1).values,
    "masked": lambda x, w: x.masked_fill(x < 0, 0.0) + torch.where(x > 0, x, -x) + x.clamp(min=0),
    "index_add": lambda x, w: x.index_add(0, torch.tensor([1, 1, 4]), w[:3]),
    "attention": lambda x, w: F.scaled_dot_product_attention(x[None], w[None], w[None]),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name):
    """Tensors in the mode and arrays of elements give the same elements, and the right floats."""
    function = FUNCTIONS[name]
    x, w = torch.randn(6, 8), torch.randn(6, 8)
    algebra = Algebra()
    algebra.draw(x, 1, 0)
    algebra.draw(w, 1, 1)
    drawn = algebra.read(x), algebra.read(w)
    with algebra.mode() as (follow, _):
        result = function(x, w)
    assert not follow.lost
    assert algebra.has(result)
    again = algebra.read(result)
    if name not in ("conv", "cross_entropy", "index_add", "sort"):
        assert same(again, function(*drawn)).all()
    np.testing.assert_allclose(again.values, function(x.double(), w.double()).float(), rtol=1e-4)


def test_autograd():
    """Backward passes are followed: the gradient of a quadratic form."""
    x, a = torch.randn(5, requires_grad=True), torch.randn(5, 5)
    algebra = Algebra()
    algebra.draw(x.detach(), 0, 0)
    algebra.draw(a, 0, 1)
    with algebra.mode(seed=0) as (_, compare):
        (found,) = torch.autograd.grad(x @ a @ x, x)
        assert torch.allclose(found, (a + a.T) @ x.detach())
        assert not torch.allclose(found, (a + a) @ x.detach())
        with pytest.raises(AssertionError):
            torch.testing.assert_close(found, a @ x.detach())
    assert compare.compared[0] == 3


def test_memory_that_is_used_again():
    """A tensor where another one with elements has lain has none."""
    algebra = Algebra()
    with algebra.mode(seed=3):
        for _ in range(20):
            x = torch.randn(1000)
            assert algebra.has(x)
            del x
            y = torch.full((1000,), 2.0)
            assert not algebra.has(y)
            del y


def test_views_and_changes():
    algebra = Algebra()
    with algebra.mode(seed=3):
        x = torch.randn(4, 6)
        rows = x.T[1:3]
        expected = algebra.read(x).T[1:3]
        assert same(algebra.read(rows), expected).all()
        rows += 1.0
        assert same(algebra.read(x).T[1:3], expected + 1.0).all()
        x[0] = 0.0
        assert same(algebra.read(x)[0], Elements.of(np.zeros(6))).all()
        bits = x.bfloat16().view(torch.int16)[:, [2, 0]].view(torch.bfloat16)
        assert same(algebra.read(bits), algebra.read(x)[:, [2, 0]]).all()


def test_lost_operations():
    """An operation without a rule is named, and its result stands for its exact value."""
    algebra = Algebra()
    with algebra.mode(seed=0) as (follow, _):
        y = torch.erf(torch.randn(5))
    assert follow.lost == {"erf": 1}
    assert not algebra.has(y)
