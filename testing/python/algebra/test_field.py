"""Elements of the field: exact arithmetic, and the identities of functions."""

import numpy as np
import pytest

from tilelang.algebra import Elements, matmul, maximum, same
from tilelang.errors import UserError


def random(*shape, seed=0, scale=1.0):
    return np.random.default_rng(seed).standard_normal(shape) * scale


def holds(a, b):
    return bool(same(Elements.of(a), Elements.of(b)).all())


def test_exact_values():
    x = np.array([0.0, 1.0, -1.5, 2.0**-1074, 3.0e300, 1 / 3, -65504.0])
    assert holds(Elements.of(x) + Elements.of(-x), np.zeros_like(x))
    assert holds(Elements.of(x[:3]) * Elements.of(np.float64(8)), x[:3] * 8)
    assert not holds(x[1:], x[:-1])


def test_sums_in_any_order():
    x = Elements.of(random(1000, scale=1e10))
    forwards = x.cumsum(0)[-1]
    assert holds(x.sum(0), forwards)
    assert not holds(x.sum(0), x[:-1].sum(0))


def test_exponentials():
    x, y = Elements.of(random(50)), Elements.of(random(50, seed=1))
    assert holds((x + y).exp2(), x.exp2() * y.exp2())
    assert holds((x + y).exp(), x.exp() * y.exp())
    assert holds((-x).exp(), x.exp().reciprocal())
    n = np.arange(-30.0, 31.0)
    assert holds(Elements.of(n).exp2(), np.exp2(n))
    assert not holds((x * y).exp2(), x.exp2() * y.exp2())


def test_logarithms():
    x = Elements.of(np.abs(random(50)) + 0.1)
    y = Elements.of(np.abs(random(50, seed=1)) + 0.1)
    assert holds((x * y).log2(), x.log2() + y.log2())
    assert holds(x.log2().exp2(), x)
    total = x.sum(0)
    assert holds((x.log2() - total.log2()).exp2(), x / total)
    assert holds((x * 5.0).exp2().log2().exp2(), (x * 5.0).exp2())


def test_roots_and_quotients():
    x = Elements.of(np.abs(random(50)) + 0.1)
    one = np.ones(50)
    assert holds(x.rsqrt() * x.rsqrt() * x, one)
    assert holds(x.sqrt() * x.sqrt(), x)
    assert holds(x * x.rsqrt(), x.sqrt())
    assert holds((x / x.sqrt()), x.sqrt())
    assert holds(x / x, one)
    # Sums of roots of numbers that are no squares do not depend on their order.
    roots = x.sqrt() + 1.0
    assert holds(roots.sum(0), roots.cumsum(0)[-1])


def test_tanh_is_a_sigmoid():
    x = Elements.of(random(50))
    assert holds(x.tanh(), (x * 2.0).sigmoid() * 2.0 - 1.0)


def test_online_softmax():
    x, v = Elements.of(random(64)), Elements.of(random(64, seed=1))
    top = x[:32].amax(0)
    weights = (x[:32] - top).exp()
    total, out = weights.sum(0), (weights * v[:32]).sum(0)
    later = maximum(top, x[32:].amax(0))
    scale = (top - later).exp()
    weights = (x[32:] - later).exp()
    total, out = total * scale + weights.sum(0), out * scale + (weights * v[32:]).sum(0)
    assert holds(out / total, (x.softmax(0) * v).sum(0))


def test_masks():
    x = random(8)
    x[3] = -np.inf
    masked = Elements.of(x).softmax(0)
    x[3] = -1e30
    assert holds(masked, Elements.of(x).softmax(0))
    assert masked.values[3] == 0 and holds(masked[3:4], np.zeros(1))


def test_constants_mean_what_they_were():
    one = Elements.of(np.float64(1))
    for value, times in ((0.1, 10.0), (np.float32(1 / 3), 3.0), (1e-5, 1e5), (1 / 768, 768.0)):
        assert holds(Elements.constant(value) * times, one), value
    scale = float(np.float32(64**-0.5 * np.log2(np.e)))
    assert holds(Elements.constant(scale) * 8.0, Elements.constant(np.log2(np.e)))
    assert holds(Elements.constant(np.log(2)) * float(np.log2(np.e)), one)
    folded = float(np.float32(np.float32(80**-0.5) * np.float32(np.log2(np.e))))
    assert holds(Elements.constant(folded), Elements.constant(80**-0.5) * float(np.log2(np.e)))


def test_products_of_matrices():
    a, b = Elements.of(random(5, 7)), Elements.of(random(7, 300, seed=1))
    expected = (a.unsqueeze(2) * b.unsqueeze(0)).sum(1)
    assert holds(matmul(a, b), expected)
    batched = matmul(Elements.of(random(3, 5, 7)), b)
    assert batched.shape == (3, 5, 300)


def test_torch_expressions():
    torch = pytest.importorskip("torch")
    x, w = random(6, 8), random(4, 8, seed=1)

    def layer(x, w):
        y = torch.nn.functional.linear(x, w).float()
        return torch.softmax(torch.where(y > 0, y, 0.5 * y), dim=-1) / 2 + torch.relu(y)

    plain = layer(torch.tensor(x), torch.tensor(w))
    elements = layer(Elements.of(x), Elements.of(w))
    np.testing.assert_allclose(elements.values, plain.numpy(), rtol=1e-5)
    with pytest.raises(UserError, match=r"does not support torch\.erf"):
        torch.erf(Elements.of(x))
    einsum = torch.einsum("bi,oi->bo", Elements.of(x), Elements.of(w))
    assert holds(einsum, matmul(Elements.of(x), Elements.of(w).T))
