"""Parameters of a kernel function: tensors, pointers, symbolic dimensions."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from .. import errors
from ..ir import span
from ..ir.buffer import Buffer, make_buffer
from ..ir.dtype import dtype_of
from ..ir.expr import Call, Operand, Var, var
from .codec import narrow_type
from .narrow_view import tensor_of
from .view import View

Shape = tuple[Any, ...]


def _shape(shape: Any) -> Shape:
    return tuple(shape) if isinstance(shape, (list, tuple)) else (shape,)


class TensorType:
    """The annotation of a tensor parameter.

    Attributes:
        shape: extents: ints, symbolic dimensions, expressions of them, or names (strings).
        dtype: the element type.
        strides: in elements; empty for a contiguous tensor.
        scope: the memory it lies in; a kernel's parameters are global.
    """

    def __init__(self, shape: Any, dtype: Any, strides: Any = (), scope: str = "global") -> None:
        self.scope = scope
        self.shape = _shape(shape)
        self.narrow = narrow_type(dtype)
        self.is_of_pointers = dtype is PointerType or isinstance(dtype, PointerType)
        self.dtype: Any = self.narrow or dtype_of("int64" if self.is_of_pointers else dtype)
        if self.narrow and scope != "global":
            raise errors.UnsupportedError(
                f"a tensor of {self.narrow} must be in global memory, got scope {scope!r}",
                span=span.here(),
            )
        self.strides = _shape(strides) if strides else ()
        if self.strides and len(self.strides) != len(self.shape):
            raise errors.ShapeError(
                f"got {len(self.strides)} strides for a tensor of rank {len(self.shape)}",
                span=span.here(),
            )
        for extent in self.shape:
            check_extent(extent)

    def buffer(self, name: str, symbols: dict[str, Var]) -> Buffer | View:
        """Returns the parameter; ``symbols`` holds the dimensions given by name.

        Raises:
            ScopeError: memory that a parameter cannot lie in.
        """
        if self.scope != "global":
            raise errors.ScopeError(
                f"parameter {name} must be in global memory, got scope {self.scope!r}",
                span=span.here(),
            )
        shape = [_symbol(extent, symbols) for extent in self.shape]
        strides = [_symbol(stride, symbols) for stride in self.strides]
        if self.narrow:
            return tensor_of(name, shape, self.narrow, strides)
        # Addresses come as integers of 64 bits, with or without a sign.
        attrs = {"packed": True} if self.is_of_pointers else {}
        return make_buffer(name, self.dtype, shape, "global", strides, attrs)

    def __repr__(self) -> str:
        return f"T.Tensor({self.shape}, {self.dtype!r})"


def _symbol(extent: Any, symbols: dict[str, Var]) -> Any:
    if isinstance(extent, str):
        return symbols.setdefault(extent, var(extent, dtype_of("int32")))
    return extent


def check_extent(extent: Any) -> None:
    """Refuses what is no extent of a tensor: no integer of at least 0, nor known at run time."""
    if isinstance(extent, Operand):
        valid = getattr(extent, "dtype", dtype_of("bool")).is_integer
    elif isinstance(extent, str):
        valid = extent.isidentifier()
    else:
        valid = isinstance(extent, Integral) and not isinstance(extent, bool) and int(extent) >= 0
    if not valid:
        is_tensor = isinstance(getattr(extent, "shape", None), tuple)
        text = errors.described(extent) if is_tensor else repr(extent)
        raise errors.ShapeError(
            f"extent {text} of a tensor is not an integer of at least 0",
            span=span.here(),
            notes=[_instead_of_extent(extent, is_tensor)],
        )


def _instead_of_extent(extent: Any, is_tensor: bool) -> str:
    if is_tensor:
        return (
            "a function that returns a T.prim_func is called with sizes and types; the kernel that "
            "it gives is called with tensors"
        )
    return 'use an int, or T.dynamic("name") for a dimension known at run time'


def _on_memory(shape: Any, dtype: Any, data: Any, scope: str, strides: Any = None) -> Any:
    """A tensor at an address: of a buffer a view of its memory, else as ``T.make_tensor``."""
    from .raw.buffers import decl_buffer
    from .raw_memory import make_tensor

    if isinstance(data, Call) and data.name == "address_of":
        return decl_buffer(shape, dtype, data, strides, scope=scope)
    return make_tensor(data, shape, dtype, strides)


class _TensorFactory:
    """A contiguous tensor parameter: ``T.Tensor(shape, dtype)`` and ``T.Tensor[shape, dtype]``."""

    @errors.boundary
    def __call__(
        self, shape: Any, dtype: Any = "float32", data: Any = None, scope: str | None = None
    ) -> TensorType:
        if data is not None:
            return _on_memory(shape, dtype, data, scope or "global")
        return TensorType(shape, dtype, scope=scope or "global")

    @errors.boundary
    def __getitem__(self, item: Any) -> TensorType:
        if isinstance(item, list) or (isinstance(item, tuple) and len(item) == 1):
            return TensorType(item, "float32")
        if not (isinstance(item, tuple) and len(item) == 2):
            raise errors.UnsupportedSyntaxError(
                "T.Tensor[...] takes a shape and a type: T.Tensor[[M, N], dtype]"
            )
        return TensorType(*item)

    def __repr__(self) -> str:
        return "T.Tensor"


Tensor = _TensorFactory()


class _StridedTensorFactory:
    """A tensor parameter with explicit strides, in elements; they may be symbolic.

    ``T.StridedTensor(shape, strides, dtype)`` and ``T.StridedTensor[shape, strides, dtype]``.
    """

    @errors.boundary
    def __call__(
        self,
        shape: Any,
        strides: Any,
        dtype: Any = "float32",
        scope: str | None = None,
        *,
        data: Any = None,
    ) -> TensorType:
        if scope not in (None, "global"):
            raise errors.UnsupportedError(
                f"T.StridedTensor does not support scope={scope!r}", span=span.here()
            )
        if data is not None:
            return _on_memory(shape, dtype, data, "global", strides)
        return TensorType(shape, dtype, strides)

    def __getitem__(self, item: Any) -> TensorType:
        if not (isinstance(item, tuple) and len(item) in (2, 3)):
            raise errors.UnsupportedSyntaxError(
                "T.StridedTensor[...] takes a shape, strides and a type: "
                "T.StridedTensor[[M, N], [stride, 1], dtype]"
            )
        return self(*item)

    def __repr__(self) -> str:
        return "T.StridedTensor"


StridedTensor = _StridedTensorFactory()


@errors.boundary
def buffer_annotation(
    shape: Any, dtype: Any = "float32", data: Any = None, strides: Any = None, **rest: Any
) -> Any:
    """``T.Buffer(shape, dtype, strides=)``: the annotation of a tensor, as :func:`StridedTensor`.

    With ``data``, the address of a buffer, a view of its memory.
    """
    scope = rest.pop("scope", "global")
    if data is not None:
        return _on_memory(shape, dtype, data, scope, strides)
    given = {name: value for name, value in rest.items() if value}
    if scope != "global" or given:
        raise errors.UnsupportedError(
            f"T.Buffer supports shape, dtype and strides only, not {sorted(given) or scope!r}"
        )
    return TensorType(shape, dtype, strides or ())


class PointerType:
    """The annotation of a raw pointer parameter, and the element type of a tensor of pointers."""

    def __init__(self, dtype: Any = None, storage_scope: str = "global") -> None:
        if storage_scope != "global":
            raise errors.UnsupportedError(f"T.ptr to {storage_scope!r} memory is not supported")
        self.dtype = None if dtype is None else dtype_of(dtype)


ptr = PointerType


class _TileAnnotation:
    """The annotation of a macro's parameter that is a tile: ``T.LocalBuffer[(8,), "float32"]``."""

    def __init__(self, scope: str) -> None:
        self._scope = scope

    def __call__(self, shape: Any, dtype: Any = "float32", **_details: Any) -> TensorType:
        """As by index, with details that a macro does not need."""
        return TensorType(shape, dtype, scope=self._scope)

    def __getitem__(self, given: Any) -> TensorType:
        """A shape, or a tuple of a shape and a type."""
        has_type = isinstance(given, tuple) and len(given) == 2 and not _is_extent(given[1])
        return self(*given) if has_type else self(given)


def _is_extent(value: Any) -> bool:
    return isinstance(value, (Integral, Operand))


SharedBuffer = _TileAnnotation("shared")
FragmentBuffer = _TileAnnotation("fragment")
LocalBuffer = _TileAnnotation("local")


def dynamic(name: str, dtype: Any = "int32") -> Any:
    """Declares dimensions known at run time: ``m = T.dynamic("m")``, ``m, n = T.dynamic("m, n")``.

    Returns:
        A variable; a tuple of them for several names.

    Raises:
        DTypeError: ``dtype`` is not int32 or int64.
    """
    kind = dtype_of(dtype)
    if kind not in ("int32", "int64"):
        raise errors.DTypeError(f"a dimension must have type int32 or int64, got {kind}")
    names = name.replace(",", " ").split()
    variables = tuple(var(each, kind) for each in names)
    return variables[0] if len(variables) == 1 else variables


symbolic = dynamic
