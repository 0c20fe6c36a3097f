"""Arrays of elements of the algebraic mode, with the arithmetic that references need."""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np

from tilelang import _ffi
from tilelang.errors import UserError

#: Words of an element: two residues modulo primes, and two exponents.
PARTS = 4

#: The PTX types of floats by the names of their dtypes. PTX has none for a factor e8m0 alone.
PTX_TYPES = {
    "float16": "f16", "bfloat16": "bf16", "float32": "f32", "float64": "f64",
    "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2", "float8_e8m0fnu": "b8",
}  # fmt: skip

#: Those of numbers that may be the bits of floats.
BIT_TYPES = {
    "int8": "b8", "uint8": "b8", "int16": "b16", "uint16": "b16", "int32": "b32", "uint32": "b32",
    "int64": "b64", "uint64": "b64",
}  # fmt: skip

#: tanh of numbers from here on is 1 in float32.
_TANH_IS_ONE = float.fromhex("0x1.205968p+3")

#: The moduli of the words: of two residues, and of the exponents that belong to them.
MODULI = (1073652023, 1073692559, 536826011, 536846279)


def _address(array: np.ndarray) -> int:
    return int(array.ctypes.data)


def _words(shape: tuple[int, ...]) -> np.ndarray:
    return np.empty((*shape, PARTS), dtype=np.uint32)


class Elements:
    """An array of floats, each with its element of the field.

    Operators, NumPy-like methods and most functions of ``torch`` work on it. Sums, products, casts
    and exponentials are exact; ``max``, ``where`` and comparisons follow the floats.

    Attributes:
        words: uint32 ``[*shape, 4]``, the elements.
        values: float64 ``[*shape]``, the floats that run alongside.
    """

    __array_priority__ = 1000

    def __init__(self, words: np.ndarray, values: np.ndarray) -> None:
        self.words = np.ascontiguousarray(words)
        self.values = np.asarray(values, dtype=np.float64)

    @classmethod
    def of(cls, values: Any) -> Elements:
        """Returns the exact values of an array of floats: NumPy, or a torch tensor on the CPU."""
        if isinstance(values, Elements):
            return values
        if hasattr(values, "detach"):
            values = values.detach().double().numpy()
        array = np.array(values, dtype=np.float64, order="C")
        words = _words(array.shape)
        _ffi.get("emulator.AlgebraEmbed")(_address(array), _address(words), array.size)
        return cls(words, array)

    @classmethod
    def drawn(cls, values: Any, seed: int, number: int = 0) -> Elements:
        """Returns random elements of the field for the floats of an array.

        Infinities and NaN have none.

        Args:
            values: the floats, as of :meth:`of`.
            seed: of the generator.
            number: tells arrays of the same seed apart.
        """
        exact = cls.of(values)
        random = np.random.Generator(np.random.Philox(key=[seed % 2**64, number]))
        words = random.integers(MODULI, size=exact.words.shape, dtype=np.uint32)
        finite = np.isfinite(exact.values)[..., None]
        return cls(np.where(finite, words, exact.words), exact.values)

    @classmethod
    def constant(cls, value: float) -> Elements:
        """Returns a number of a program's text: ``0.1`` is one tenth, and log2(e) is itself."""
        words = _words(())
        _ffi.get("emulator.AlgebraConstant")(float(value), _address(words))
        return cls(words, np.float64(value))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the array."""
        return self.values.shape

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return self.values.ndim

    @property
    def T(self) -> Elements:
        """The transposed array."""
        return self.permute(*reversed(range(self.ndim)))

    def size(self, axis: int | None = None) -> Any:
        """Returns the shape, or one extent, as torch does."""
        return self.shape if axis is None else self.shape[axis]

    def __len__(self) -> int:
        return self.shape[0]

    def __repr__(self) -> str:
        return f"Elements({self.values!r})"

    # --- arithmetic -------------------------------------------------------------------------------

    def _unary(self, name: str, values: np.ndarray) -> Elements:
        words = _words(self.shape)
        call = _ffi.get("emulator.AlgebraUnary")
        call(name, _address(self.words), _address(words), self.values.size)
        return Elements(words, values)

    def _binary(self, name: str, other: Any, values: Any) -> Elements:
        other = other if isinstance(other, Elements) else _operand(other)
        shape = np.broadcast_shapes(self.shape, other.shape)
        a, b = _expanded(self.words, shape), _expanded(other.words, shape)
        words = _words(shape)
        call = _ffi.get("emulator.AlgebraBinary")
        call(name, _address(a), _address(b), _address(words), int(np.prod(shape)))
        with np.errstate(all="ignore"):
            return Elements(words, values(self.values, other.values))._known()

    def all_known(self) -> bool:
        """Returns whether each float has an element, or is infinite or NaN."""
        unknown = (self.words[..., 0] >> 31 & self.words[..., 2] >> 31).astype(bool)
        return not (unknown & np.isfinite(self.values)).any()

    def _known(self) -> Elements:
        """Replaces elements that are unknown, after infinities, by the exact values."""
        unknown = (self.words[..., 0] >> 31 & self.words[..., 2] >> 31).astype(bool)
        unknown &= np.isfinite(self.values)
        if unknown.any():
            self.words[unknown] = Elements.of(self.values[unknown]).words
        return self

    def __add__(self, other: Any) -> Elements:
        return self._binary("add", other, np.add)

    def __sub__(self, other: Any) -> Elements:
        return self._binary("subtract", other, np.subtract)

    def __mul__(self, other: Any) -> Elements:
        return self._binary("multiply", other, np.multiply)

    def __truediv__(self, other: Any) -> Elements:
        if isinstance(other, float | int) and other != 0:
            # 1 / sqrt(80) is known as the root of a fraction, but sqrt(80) has no inverse of that.
            inverse = Elements.constant(1 / other)
            if not same(inverse, Elements.of(np.float64(np.float32(1 / other)))).all():
                return self * inverse
        return self * _operand(other).reciprocal()

    def __rsub__(self, other: Any) -> Elements:
        return _operand(other) - self

    def __rtruediv__(self, other: Any) -> Elements:
        return _operand(other) / self

    __radd__, __rmul__ = __add__, __mul__

    def __neg__(self) -> Elements:
        return self._unary("negate", -self.values)

    def __pow__(self, power: Any) -> Elements:
        if power == 0.5:
            return self.sqrt()
        if power == -0.5:
            return self.rsqrt()
        if not isinstance(power, int) or power < 1:
            raise UserError(
                f"a power of elements is 0.5, -0.5 or a positive integer, got {power!r}"
            )
        result = self
        for _ in range(power - 1):
            result = result * self
        return result

    def __matmul__(self, other: Any) -> Elements:
        return matmul(self, other)

    def abs(self) -> Elements:
        """Returns the absolute values."""
        return where(self.values < 0, -self, self)

    def reciprocal(self) -> Elements:
        """Returns 1 / x."""
        with np.errstate(all="ignore"):
            return self._unary("invert", 1 / self.values)._known()

    def exp2(self) -> Elements:
        """Returns 2^x; 0 where x is below -10000, as masks are."""
        with np.errstate(all="ignore"):
            result = self._unary("exp2", np.exp2(self.values))
        result.words[self.values < -10000] = Elements.of(np.zeros(())).words
        return result._known()

    def exp(self) -> Elements:
        """Returns e^x."""
        return (self * _LOG2_E).exp2()

    def log2(self) -> Elements:
        """Returns the logarithm to base 2."""
        with np.errstate(all="ignore"):
            return self._unary("log2", np.log2(self.values))

    def log(self) -> Elements:
        """Returns the natural logarithm."""
        return self.log2() * _LN_2

    def sqrt(self) -> Elements:
        """Returns the square roots."""
        with np.errstate(all="ignore"):
            return self._unary("sqrt", np.sqrt(self.values))

    def rsqrt(self) -> Elements:
        """Returns 1 / sqrt(x)."""
        with np.errstate(all="ignore"):
            return self._unary("rsqrt", 1 / np.sqrt(self.values))

    def tanh(self) -> Elements:
        """Returns the hyperbolic tangent; 1 or -1 where it is that in float32."""
        result = self._unary("tanh", np.tanh(self.values))
        one = np.abs(self.values) >= _TANH_IS_ONE
        result.words[one] = Elements.of(np.sign(self.values[one])).words
        return result

    def sin(self) -> Elements:
        """Returns the sine, of which no identity is known."""
        return self._unary("sine", np.sin(self.values))

    def cos(self) -> Elements:
        """Returns the cosine, of which no identity is known."""
        return self._unary("cosine", np.cos(self.values))

    def sigmoid(self) -> Elements:
        """Returns 1 / (1 + e^-x)."""
        return ((-self).exp() + 1.0).reciprocal()

    # --- comparisons, by the floats ---------------------------------------------------------------

    def _compare(self, other: Any, function: Any) -> Any:
        if hasattr(other, "detach"):
            other = Elements.of(other)
        result = function(self.values, other.values if isinstance(other, Elements) else other)
        # torch.where takes no other condition than a tensor.
        torch = sys.modules.get("torch")
        return result if torch is None else torch.from_numpy(np.asarray(result))

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, np.less)

    def __le__(self, other: Any) -> Any:
        return self._compare(other, np.less_equal)

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, np.greater)

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, np.greater_equal)

    # --- sums and extremes ------------------------------------------------------------------------

    def sum(self, dim: Any = None, keepdim: bool = False, **_: Any) -> Elements:
        """Returns the sums along ``dim``, or of all elements."""
        return self._fold(lambda a, b: a + b, dim, keepdim)

    def mean(self, dim: Any = None, keepdim: bool = False, **_: Any) -> Elements:
        """Returns the means along ``dim``, or of all elements."""
        total = self.sum(dim, keepdim)
        return total * Elements.of(np.float64(self.values.size // total.values.size)).reciprocal()

    def amax(self, dim: Any = None, keepdim: bool = False) -> Elements:
        """Returns the greatest elements along ``dim``."""
        return self._fold(maximum, dim, keepdim)

    def amin(self, dim: Any = None, keepdim: bool = False) -> Elements:
        """Returns the least elements along ``dim``."""
        return self._fold(minimum, dim, keepdim)

    def _fold(self, combine: Any, dim: Any, keepdim: bool) -> Elements:
        axes = range(self.ndim) if dim is None else (dim,) if isinstance(dim, int) else dim
        axes = sorted((axis % self.ndim for axis in axes), reverse=True)
        result = self
        for axis in axes:
            result = _folded(result, combine, axis)
        if not keepdim:
            for axis in axes:
                result = result._select((slice(None),) * axis + (0,))
        return result

    def softmax(self, dim: int = -1, **_: Any) -> Elements:
        """Returns e^x / sum(e^x) along ``dim``."""
        weights = (self - self.amax(dim, True)).exp()
        return weights / weights.sum(dim, True)

    def cumsum(self, dim: int) -> Elements:
        """Returns the running sums along ``dim``."""
        axis = dim % self.ndim
        parts: list[Elements] = []
        for i in range(self.shape[axis]):
            part = self._select((slice(None),) * axis + (slice(i, i + 1),))
            parts.append(part if not parts else parts[-1] + part)
        return concatenate(parts, axis)

    # --- shapes -----------------------------------------------------------------------------------

    def _select(self, index: Any) -> Elements:
        return Elements(self.words[index], self.values[index])

    def __getitem__(self, index: Any) -> Elements:
        index = index if isinstance(index, tuple) else (index,)
        index = tuple(i.numpy() if hasattr(i, "numpy") else i for i in index)
        words = (*index, slice(None)) if Ellipsis in [i for i in index if i is ...] else index
        return Elements(self.words[words], self.values[index])

    def along(self, indices: Any, dim: int) -> Elements:
        """Returns the elements at indices along an axis."""
        places, axis = np.asarray(indices), dim % self.ndim
        words = np.take_along_axis(self.words, places[..., None], axis)
        return Elements(words, np.take_along_axis(self.values, places, axis))

    def reshape(self, *shape: Any) -> Elements:
        """Returns the same elements in another shape."""
        shape = tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else shape
        values = self.values.reshape(shape)
        return Elements(self.words.reshape(*values.shape, PARTS), values)

    view = reshape

    def permute(self, *axes: Any) -> Elements:
        """Returns the array with its axes in another order."""
        axes = tuple(axes[0]) if len(axes) == 1 and not isinstance(axes[0], int) else axes
        order = [axis % self.ndim for axis in axes]
        return Elements(self.words.transpose(*order, self.ndim), self.values.transpose(order))

    def transpose(self, first: int, second: int) -> Elements:
        """Returns the array with two axes exchanged."""
        order = list(range(self.ndim))
        order[first], order[second] = order[second], order[first]
        return self.permute(*order)

    def t(self) -> Elements:
        """Returns the transposed matrix."""
        return self.T

    def unsqueeze(self, axis: int) -> Elements:
        """Returns the array with another axis of extent 1."""
        axis = axis % (self.ndim + 1)
        return self.reshape(*self.shape[:axis], 1, *self.shape[axis:])

    def squeeze(self, axis: int) -> Elements:
        """Returns the array without an axis of extent 1."""
        return self.reshape(*(n for i, n in enumerate(self.shape) if i != axis % self.ndim))

    def expand(self, *shape: int) -> Elements:
        """Returns the array repeated along axes of extent 1."""
        full = tuple(b if a == -1 else a for a, b in zip(shape, self.shape, strict=True))
        return Elements(_expanded(self.words, full), np.broadcast_to(self.values, full))

    # --- casts are the identity -------------------------------------------------------------------

    def _same(self, *_: Any, **__: Any) -> Elements:
        return self

    to = float = half = double = bfloat16 = contiguous = clone = astype = type = _same
    detach = cpu = _same

    def __getattr__(self, name: str) -> Any:
        """Returns the method of torch tensors of this name, for elements."""
        torch = sys.modules.get("torch")
        function = None if torch is None else getattr(torch.Tensor, name, None)
        if name.startswith("__") or not callable(function):
            raise AttributeError(f"arrays of elements have no {name!r}")
        return functools.partial(self._called, function)

    def _called(self, function: Any, *args: Any, **kwargs: Any) -> Any:
        from .torch_functions import call

        return call(function, (self, *args), kwargs)

    @classmethod
    def __torch_function__(
        cls, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Carries out functions of torch."""
        from .torch_functions import call

        return call(function, args, kwargs or {})


def _operand(value: Any) -> Elements:
    if isinstance(value, Elements):
        return value
    if isinstance(value, float | int):
        return Elements.constant(value)
    return Elements.of(value)


def _expanded(words: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    return np.ascontiguousarray(np.broadcast_to(words, (*shape, PARTS)))


def _folded(array: Elements, combine: Any, axis: int) -> Elements:
    """Returns the array with its halves along the axis combined until one is left."""
    before = (slice(None),) * axis
    while (extent := array.shape[axis]) > 1:
        half = extent // 2
        low = array._select((*before, slice(0, half)))
        high = array._select((*before, slice(half, 2 * half)))
        rest = array._select((*before, slice(2 * half, extent)))
        joined = combine(low, high)
        array = concatenate([joined, rest], axis) if extent % 2 else joined
    return array


def concatenate(parts: Any, axis: int = 0) -> Elements:
    """Returns the arrays one after the other along an axis."""
    parts = [_operand(part) for part in parts]
    axis = axis % parts[0].ndim
    return Elements(
        np.concatenate([part.words for part in parts], axis),
        np.concatenate([part.values for part in parts], axis),
    )


def where(condition: Any, yes: Any, no: Any) -> Elements:
    """Returns elements of ``yes`` where the condition holds, else of ``no``."""
    condition = condition.numpy() if hasattr(condition, "numpy") else np.asarray(condition)
    yes, no = _operand(yes), _operand(no)
    shape = np.broadcast_shapes(condition.shape, yes.shape, no.shape)
    condition = np.broadcast_to(condition.astype(bool), shape)
    words = np.where(condition[..., None], _expanded(yes.words, shape), _expanded(no.words, shape))
    return Elements(words, np.where(condition, yes.values, no.values))


def _extreme(a: Any, b: Any, further: Any) -> Elements:
    a, b = _operand(a), _operand(b)
    shape = np.broadcast_shapes(a.shape, b.shape)
    first, second = _expanded(a.words, shape), _expanded(b.words, shape)
    before = np.empty(shape, dtype=np.uint8)
    call = _ffi.get("emulator.AlgebraBefore")
    call(_address(first), _address(second), _address(before), before.size)
    # Of equal floats the same element is taken in any order.
    takes = further(a.values, b.values) | ((a.values == b.values) & before.astype(bool))
    return where(takes, a, b)


def maximum(a: Any, b: Any) -> Elements:
    """Returns the greater of two elements, by the floats."""
    return _extreme(a, b, np.greater)


def minimum(a: Any, b: Any) -> Elements:
    """Returns the lesser of two elements, by the floats."""
    return _extreme(a, b, np.less)


def matmul(a: Any, b: Any) -> Elements:
    """Returns the products of matrices ``[..., m, k]`` and ``[..., k, n]``."""
    a, b = _operand(a), _operand(b)
    if a.ndim == 1 or b.ndim == 1:
        wide = matmul(a.unsqueeze(0) if a.ndim == 1 else a, b.unsqueeze(-1) if b.ndim == 1 else b)
        wide = wide.squeeze(-1) if b.ndim == 1 else wide
        return wide.squeeze(-1 if b.ndim != 1 and wide.ndim == 1 else 0) if a.ndim == 1 else wide
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    (m, k), n = a.shape[-2:], b.shape[-1]
    left = _expanded(a.words, (*batch, m, k)).reshape(-1, m, k, PARTS)
    right = _expanded(b.words, (*batch, k, n)).reshape(-1, k, n, PARTS)
    words = _words((len(left), m, n))
    call = _ffi.get("emulator.AlgebraProduct")
    for i in range(len(left)):
        call(_address(left[i]), _address(right[i]), _address(words[i]), m, n, k)
    with np.errstate(all="ignore"):
        values = np.matmul(a.values, b.values)
    return Elements(words.reshape(*batch, m, n, PARTS), values)._known()


def same(a: Elements, b: Elements) -> np.ndarray:
    """Returns where two arrays stand for the same numbers; infinities and NaN are compared too.

    Raises:
        UserError: the shapes differ.
    """
    if a.shape != b.shape:
        raise UserError(f"the shapes {a.shape} and {b.shape} differ")
    result = np.empty(a.shape, dtype=np.uint8)
    call = _ffi.get("emulator.AlgebraSame")
    call(_address(a.words), _address(b.words), _address(result), result.size)
    special = ~np.isfinite(a.values) | ~np.isfinite(b.values)
    alike = (a.values == b.values) | (np.isnan(a.values) & np.isnan(b.values))
    return np.where(special, alike, result.astype(bool))


_LOG2_E, _LN_2 = float(np.log2(np.e)), float(np.log(2))
