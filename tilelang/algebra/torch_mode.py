"""Follows elements through operations of torch that a program calls beside its kernels."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from tilelang.errors import UserError

from .elements import BIT_TYPES, PTX_TYPES, Elements, same
from .torch_functions import call, fills, moves_elements, scaled_attention
from .torch_operations import decomposition_of, operation

if TYPE_CHECKING:
    from .mode import Algebra

#: Operations that fill tensors with random floats.
_RANDOM = {"rand", "randn", "rand_like", "randn_like", "normal", "normal_", "uniform_"}
#: Operations that return floats in another order, and their indices: further arguments by name.
_ORDERS = {"topk": ("k", "dim"), "sort": ("dim",), "kthvalue": ("k", "dim")}
#: Operations that make sparse tensors of dense ones.
_TO_SPARSE = {"to_sparse", "_to_sparse", "to_sparse_csr", "_to_sparse_csr"}
#: Operations whose results are memory that exists, as parts of sparse tensors do.
_SHARES = {"set_", "values", "_values", "crow_indices", "col_indices", "indices", "_indices"}
#: Failures of functions on elements that they are not made for.
_NOT_FOLLOWED = (UserError, TypeError, AttributeError, ValueError, IndexError, KeyError)


class TorchMode(TorchDispatchMode):
    """Carries out operations of torch on elements as well, inside of a block.

    Autograd dispatches its operations, too. The result of an operation that is not known for
    elements stands for its exact value, and its name is noted.

    Attributes:
        lost: how often an operation has lost elements, by its name.
    """

    def __init__(self, algebra: Algebra, seed: int | None = None) -> None:
        """Makes a mode; ``seed`` is that of random elements for random tensors, None for none."""
        super().__init__()
        self._algebra, self._seed, self._draws = algebra, seed, 0
        self.lost: dict[str, int] = {}

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Carries out an operation on tensors, then on their elements."""
        kwargs = kwargs or {}
        name = function.overloadpacket.__name__
        given = [each for each in tree_leaves((args, kwargs)) if _in_memory(each)]
        moves = _moves(name, given)
        followed = not fills(name) and any(self._has(each, moves) for each in given)
        followed |= name in ("mul", "div") and any(map(_is_rounded_number, args))
        if followed and (decomposed := decomposition_of(function)) is not None:
            with self:
                return decomposed(*args, **kwargs)

        def elements(value: Any) -> Any:
            wanted = _in_memory(value) and (_is_float(value) or self._has(value, moves))
            return self._algebra.read(value) if wanted else value

        arguments = tree_map(elements, (args, kwargs)) if followed else None
        storages = {each.untyped_storage().data_ptr() for each in given}
        result = function(*args, **kwargs)
        outputs = _outputs(function, args, kwargs, result, storages)
        if self._seed is not None and name in _RANDOM:
            for each in outputs:
                self._draws += 1
                self._algebra.write(each, Elements.drawn(each, self._seed, self._draws))
        elif name == "_to_copy" and outputs and not followed:
            self._cast(args[0], outputs[0])
        elif name in _TO_SPARSE and followed:
            self._write_sparse(args[0], result)
        elif outputs and name not in _SHARES:
            self._follow(function, arguments, outputs, result)
        return result

    def _cast(self, source: Any, output: Any) -> None:
        """Keeps the exact values of floats that a cast rounds, as casts are the identity."""
        self._algebra.forget(output)
        if _is_float(source) and _is_float(output) and source.itemsize > output.itemsize:
            exact = source.double()
            if _in_memory(source) and not torch.equal(exact, output.double()):
                self._algebra.write(output, Elements.of(exact))

    def _write_sparse(self, dense: Any, sparse: Any) -> None:
        """Gives the values of a sparse tensor the elements of a dense one, row by row."""
        values = sparse._values() if sparse.layout == torch.sparse_coo else sparse.values()
        kept = (dense != 0).numpy()
        if values.numel() == kept.sum():
            self._algebra.write(values, self._algebra.read(dense)[kept])

    def _has(self, tensor: Any, moves: bool) -> bool:
        followed = _is_float(tensor) or (moves and _dtype(tensor) in BIT_TYPES)
        return followed and self._algebra.has(tensor)

    def _follow(self, function: Any, arguments: Any, outputs: list[Any], result: Any) -> None:
        found: list[Any] = []
        if arguments is not None:
            try:
                given, named = arguments
                found = _applied(function, given, named, result)
            except _NOT_FOLLOWED:
                if any(map(_is_float, outputs)):
                    name = str(function.overloadpacket.__name__)
                    self.lost[name] = self.lost.get(name, 0) + 1
        moves = _moves(function.overloadpacket.__name__, outputs)
        for i, output in enumerate(outputs):
            known = found[i] if i < len(found) else None
            fits = isinstance(known, Elements) and known.values.size == output.numel()
            if isinstance(known, Elements) and fits and (_is_float(output) or moves):
                self._algebra.write(output, known)
            else:
                self._algebra.forget(output)


class FunctionMode(TorchFunctionMode):
    """Takes functions of torch as wholes whose operations are no definition of them.

    Comparisons compare tensors with elements over the field, where torch would take a tolerance.
    Attention multiplies by the root of its scale twice.

    Attributes:
        compared: numbers of comparisons over the field, and of others.
    """

    def __init__(self, algebra: Algebra, compares: bool) -> None:
        """Makes a mode; ``compares`` says that comparisons are of elements."""
        super().__init__()
        self._algebra, self._compares = algebra, compares
        self.compared = [0, 0]

    def __torch_function__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        """Carries out a function; some in a way of its own."""
        kwargs = kwargs or {}
        name = getattr(function, "__name__", "")
        if name == "scaled_dot_product_attention":
            result = function(*args, **kwargs)
            self._attend(result, args, kwargs)
            return result
        if not self._compares or name not in ("isclose", "allclose", "equal"):
            return function(*args, **kwargs)
        pair = [each for each in args[:2] if _in_memory(each) and _is_float(each)]
        both = len(pair) == 2 and pair[0].shape == pair[1].shape
        both = both and all(self._algebra.has(each) for each in pair)
        self.compared[0 if both else 1] += 1
        if not both:
            return function(*args, **kwargs)
        equal = torch.from_numpy(same(*map(self._algebra.read, pair)))
        return equal if name == "isclose" else bool(equal.all())

    def _attend(self, result: Any, args: Any, kwargs: Any) -> None:
        def elements(value: Any) -> Any:
            followed = _in_memory(value) and _is_float(value)
            return self._algebra.read(value) if followed else value

        if self._algebra.has(result) and not kwargs.get("enable_gqa"):
            args, kwargs = tree_map(elements, (args, kwargs))
            kwargs.pop("enable_gqa", None)
            self._algebra.write(result, scaled_attention(*args, **kwargs))


@contextlib.contextmanager
def following(algebra: Algebra, seed: int | None) -> Iterator[tuple[TorchMode, FunctionMode]]:
    """Follows torch inside of a block; with a seed, compares tensors by their elements."""
    functions, follow = FunctionMode(algebra, seed is not None), TorchMode(algebra, seed)
    with functions, follow:
        yield follow, functions


def _dtype(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _is_float(tensor: Any) -> bool:
    return _dtype(tensor) in PTX_TYPES


def _moves(name: str, tensors: list[Any]) -> bool:
    """Returns whether an operation moves the bits of tensors, and the elements with them."""
    return moves_elements(name) or (name == "copy_" and len({each.dtype for each in tensors}) == 1)


def _is_rounded_number(value: Any) -> bool:
    """Returns whether a value is a number that stands for another, as 0.1 does for one tenth."""
    if not isinstance(value, float):
        return False
    return not same(Elements.constant(value), Elements.of(np.float64(value))).all()


def _in_memory(value: Any) -> bool:
    """Returns whether a value is a tensor of which elements can be known."""
    return (
        isinstance(value, torch.Tensor)
        and value.device.type == "cpu"
        and value.layout == torch.strided
        and value.untyped_storage().data_ptr() != 0
    )


def _outputs(function: Any, args: Any, kwargs: Any, result: Any, storages: set[int]) -> list[Any]:
    """Returns the tensors whose memory an operation has changed, in the order of its results."""
    schema = function._schema.arguments
    written = [
        args[i] if i < len(args) else kwargs.get(each.name)
        for i, each in enumerate(schema)
        if each.alias_info is not None and each.alias_info.is_write
    ]
    if written:
        return [each for each in written if _in_memory(each)]
    outputs = [each for each in tree_leaves(result) if _in_memory(each)]
    # Views have the elements of what they view.
    return [each for each in outputs if each.untyped_storage().data_ptr() not in storages]


def _applied(function: Any, args: Any, kwargs: Any, result: Any) -> list[Any]:
    """Returns the results of an operation on elements; ``result`` is that on tensors."""
    name = function.overloadpacket.__name__
    if name in _ORDERS:
        order = dict(zip(_ORDERS[name], args[1:], strict=False)) | kwargs
        return [args[0].along(result[1], order.get("dim", -1))]
    kwargs = {key: value for key, value in kwargs.items() if key != "out"}
    special = operation(name)
    found = special(*args, **kwargs) if special else call(function, args, kwargs, name)
    return [found] if isinstance(found, Elements) else list(found)
