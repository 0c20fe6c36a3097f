"""Element types: names that can be called to convert a value.

A :class:`DType` is a string (``"float16"``), so it can be used wherever a name of a type is
expected and compares equal to it.
"""

from __future__ import annotations

import difflib
import sys
from typing import Any

from .. import _ffi, errors
from .extensions import extensions

tvm_ffi = _ffi.tvm_ffi

SUPPORTED = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"),
)
ALIASES = {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int32",
    "uint": "uint32",
    "short": "int16",
    "long": "int64",
    "boolean": "bool",
    "float8_e4m3": "float8_e4m3fn",
    "bool_": "bool",
    # The tensor core reads 19 bits of each float32.
    "tfloat32": "float32",
}
# What other languages call them.
SHORT = {
    "fp8": "float8_e4m3fn",
    "fp16": "float16",
    "f16": "float16",
    "bf16": "bfloat16",
    "fp32": "float32",
    "f32": "float32",
    "fp64": "float64",
    "f64": "float64",
    "i32": "int32",
    "i64": "int64",
    "u32": "uint32",
}
# Types of the language that no supported target computes with yet.
KNOWN_UNSUPPORTED = (
    *("int4", "uint4", "uint1", "float8_e8m0fnu"),
    *("float8_e3m4", "float8_e4m3b11fnuz", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
    *("float4_e2m1fnx2", "float4_e2m1_unpacked"),
)


class DType(tvm_ffi.dtype):
    """The type of a scalar or of a buffer's elements; ``T.float32(x)`` converts ``x``.

    Attributes:
        is_float, is_bool: what its name says.
        is_integer: signed or unsigned; bool is not an integer.
        is_signed: of an integer.
        integer_range: the least and the greatest value of an integer type.
    """

    __slots__ = ("integer_range", "is_bool", "is_float", "is_integer", "is_signed")
    integer_range: tuple[int, int]
    is_bool: bool
    is_float: bool
    is_integer: bool
    is_signed: bool

    def __new__(cls, dtype: Any) -> DType:
        """Returns the type that ``dtype`` names, see :func:`dtype_of`, or a narrow type."""
        return extensions.narrow_type(dtype) or dtype_of(dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return intern, (str(self),)

    @classmethod
    def _make(cls, name: str) -> DType:
        self = super().__new__(cls, name)
        assert isinstance(self, DType)
        self.is_float = name.startswith(("float", "bfloat"))
        self.is_bool = name == "bool"
        self.is_integer = name.startswith(("int", "uint"))
        self.is_signed = name.startswith("int")
        bits = self.bits
        signed = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if bits else (0, 0)
        self.integer_range = signed if self.is_signed else (0, (1 << bits) - 1)
        return self

    def __call__(self, value: Any = None, *, is_size_var: bool = False) -> Any:
        """Returns ``value`` converted to this type; a number becomes a constant.

        Without a value, a variable for extents: ``n = T.int32()`` before ``T.match_buffer``.
        """
        from .expr import cast

        del is_size_var
        if value is not None:
            return cast(value, self)
        return extensions.extent_variable(self)

    def __repr__(self) -> str:
        return f"T.{self!s}"

    def as_torch(self) -> Any:
        """Returns the ``torch.dtype`` of the same values.

        Raises:
            DTypeError: torch has none.
        """
        import torch

        found = getattr(torch, str(self), None)
        if not isinstance(found, torch.dtype):
            raise errors.DTypeError(f"torch has no type {self!s}")
        return found

    @property
    def bytes(self) -> int:
        return (self.bits + 7) // 8


# Greatest finite values, from the formats' definitions: (2 - 2^-fraction) * 2^bias.
GREATEST = {
    "float16": 65504.0,
    "bfloat16": (2 - 2.0**-7) * 2.0**127,
    "float32": (2 - 2.0**-23) * 2.0**127,
    "float64": (2 - 2.0**-52) * 2.0**1023,
    "float8_e4m3fn": 448.0,
    "float8_e5m2": 57344.0,
}

_INTERNED: dict[str, DType] = {name: DType._make(name) for name in (*SUPPORTED, "handle", "void")}

FLOAT32, INT32, INT64 = (_INTERNED[name] for name in ("float32", "int32", "int64"))
UINT32, UINT64 = _INTERNED["uint32"], _INTERNED["uint64"]
BOOL, HANDLE, VOID = _INTERNED["bool"], _INTERNED["handle"], _INTERNED["void"]


def intern(raw: str) -> DType:
    """Returns the type that the core names ``raw``."""
    found = _INTERNED.get(raw)
    if found is None:
        found = _INTERNED[str(raw)] = VOID if raw == "" else DType._make(raw)
    return found


def _name_of(dtype: Any) -> str:
    if isinstance(dtype, str):
        return dtype
    for python, name in ((bool, "bool"), (int, "int32"), (float, "float32")):
        if dtype is python:
            return name
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(dtype, torch.dtype):
        return str(dtype).removeprefix("torch.")
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(dtype, (numpy.dtype, type)):
        return numpy.dtype(dtype).name
    raise errors.DTypeError(
        f"{dtype!r} is not a data type",
        span=_here(),
        notes=['use T.float16, "float16", torch.float16 or a numpy dtype'],
    )


def dtype_of(dtype: Any) -> DType:
    """Returns the type that ``dtype`` names.

    Args:
        dtype: a :class:`DType`, a name, a torch or numpy dtype, or ``bool``, ``int``, ``float``.

    Raises:
        DTypeError: it is no data type.
        UnsupportedError: a type of TileLang that no target of this version has.
    """
    if type(dtype) is DType:
        return dtype
    name = _name_of(dtype).removeprefix("torch.")
    name = ALIASES.get(name, name)
    if name in _INTERNED:
        return _INTERNED[name]
    if name in KNOWN_UNSUPPORTED or _is_vector(name):
        raise errors.UnsupportedError(
            f"data type {name} is not supported",
            span=_here(),
            notes=[f"supported: {', '.join(SUPPORTED)}"],
        )
    meant = SHORT.get(name) or next(
        iter(difflib.get_close_matches(name, (*SUPPORTED, *ALIASES), n=1)), None
    )
    hint = f"did you mean {meant}?" if meant else f"known types: {', '.join(SUPPORTED)}"
    raise errors.DTypeError(f"unknown data type {name!r}", span=_here(), notes=[hint])


def _here() -> errors.Span | None:
    from . import span

    return span.here()


def _is_vector(name: str) -> bool:
    base, _, lanes = name.rpartition("x")
    return base in SUPPORTED and lanes.isdigit()
