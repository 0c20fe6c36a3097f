"""Arguments as users pass them: scalars in any form, and tensors that no kernel can take.

Kernels on GPUs and launches of the emulator share these rules.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from typing import Any

from ..errors import ArgumentError, TileLangError

_SHRUNK = (
    "reaches beyond its storage, which was resized",
    "resize the storage to what the tensor's shape needs, or pass a tensor with its own memory",
)
_NEGATED = (
    "is a view that negates or conjugates, so its memory holds other values",
    "pass `.resolve_conj().resolve_neg()`",
)


def plain_scalars(args: Sequence[Any], positions: Iterable[int]) -> Sequence[Any]:
    """Returns the arguments with Python numbers where 0-d tensors and NumPy scalars stood.

    The value of a tensor on a GPU is waited for.

    Args:
        args: of a call.
        positions: those of scalar parameters.
    """
    result: list[Any] | None = None
    for position in positions:
        if position >= len(args) or type(args[position]) in (int, float, bool):
            continue
        value = args[position]
        if getattr(value, "shape", None) == () and hasattr(value, "item"):
            result = result or list(args)
            result[position] = value.item()
    return args if result is None else result


def may_be_negated(args: Sequence[Any], positions: Sequence[int]) -> bool:
    """Whether one of the arguments may be a view whose memory holds the negatives of its values.

    Such are imaginary parts of conjugates in torch, and what it hands over does not tell them. To
    ask a tensor itself takes as long as the rest of a launch; that it is no view is known at once.

    Args:
        args: of a call.
        positions: those of tensors whose type occurs in complex numbers.
    """
    try:
        for position in positions:
            if args[position]._base is not None:
                return True
    except (AttributeError, IndexError):  # an array of another library, or too few arguments
        return True
    return False


def may_be_shrunk(args: Sequence[Any], positions: Sequence[int]) -> bool:
    """Whether the storage of one of the arguments may be smaller than what its shape reaches.

    Of a view, whose offset counts too, :func:`check_storage` knows.

    Args:
        args: of a call.
        positions: those of tensors.
    """
    for position in positions:
        try:
            arg = args[position]
            if arg.untyped_storage().nbytes() < arg.nbytes or arg._base is not None:
                return True
        except (AttributeError, IndexError, RuntimeError):  # of another library, or none at all
            continue
    return False


def check_storage(args: Sequence[Any], names: Sequence[str]) -> None:
    """Refuses torch tensors whose elements lie outside of their storage, which can be resized.

    Raises:
        ArgumentError: an argument is such a tensor.
    """
    for name, arg in zip(names, args, strict=False):
        if _is_torch(arg) and _reaches_beyond(arg):
            what, advice = _SHRUNK
            raise ArgumentError(f"argument {name!r} {what}", notes=[advice])


def _reaches_beyond(tensor: Any) -> bool:
    """Returns whether a dense torch tensor has elements outside of its storage."""
    if tensor.numel() == 0:
        return False
    reach = sum((n - 1) * step for n, step in zip(tensor.shape, tensor.stride(), strict=True))
    end = (tensor.storage_offset() + reach + 1) * tensor.element_size()
    return bool(end > tensor.untyped_storage().nbytes())


def check_signs(args: Sequence[Any], names: Sequence[str]) -> None:
    """Refuses torch tensors whose memory holds the negatives of their values.

    Raises:
        ArgumentError: an argument is such a view.
    """
    for name, arg in zip(names, args, strict=False):
        if _is_negated(arg):
            what, advice = _NEGATED
            raise ArgumentError(f"argument {name!r} {what}", notes=[advice])


def _is_torch(arg: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(arg, torch.Tensor)


def _is_negated(arg: Any) -> bool:
    return _is_torch(arg) and arg.is_neg()


def describe(arg: Any) -> tuple[tuple[int, ...] | None, tuple[int, ...] | None, str]:
    """Returns shape, strides and type of an argument.

    Returns:
        The shape, None for a scalar or an address; the strides in elements, None for a contiguous
        tensor; the name of the element type, or of the scalar's Python type.
    """
    if not hasattr(arg, "__dlpack__"):
        return None, None, type(arg).__name__
    shape = tuple(int(extent) for extent in arg.shape)
    dtype = str(arg.dtype).removeprefix("torch.")
    if hasattr(arg, "stride"):
        return shape, None if arg.is_contiguous() else tuple(arg.stride()), dtype
    strides = getattr(arg, "strides", None)
    if strides is None or arg.size == 0:
        return shape, None, dtype
    return shape, tuple(each // arg.itemsize for each in strides), dtype


def explain(error: Exception, names: Sequence[str], args: Sequence[Any]) -> Exception:
    """Returns what to raise for ``error``, which ended a call with these arguments.

    Libraries refuse to export some tensors, each with an error of its own: an ArgumentError that
    names the argument takes its place. Other errors stay as they are.
    """
    if isinstance(error, TileLangError):
        return error
    for name, arg in zip(names, args, strict=False):
        found = problem(arg) or _not_exported(arg)
        if found:
            return ArgumentError(f"argument {name!r} {found[0]}", notes=[found[1]])
    return error


def problem(arg: Any) -> tuple[str, str] | None:
    """Returns why no kernel can take an array, and what to pass instead; None if one can.

    A NumPy array holds numbers, or structures of them, in the machine's byte order. A torch tensor
    is dense, and its memory holds its values.
    """
    return _torch_problem(arg) or _numpy_problem(arg)


def _torch_problem(arg: Any) -> tuple[str, str] | None:
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(arg, torch.Tensor):
        return None
    if arg.device.type == "meta":
        return "is on the meta device: it has a shape, but no data", "pass a tensor with memory"
    if arg.is_quantized:
        return (
            f"is quantized ({arg.dtype})",
            "pass its integers (`.int_repr()`) and its scale, or `.dequantize()`",
        )
    if arg.is_nested:
        return "is a nested tensor", "pass its values and offsets as tensors of their own"
    if arg.layout != torch.strided:
        layout = str(arg.layout).removeprefix("torch.").strip("_")
        return f"is no dense tensor: its layout is {layout}", "pass `.to_dense()`"
    if arg.is_conj() or arg.is_neg():
        return _NEGATED
    return _SHRUNK if _reaches_beyond(arg) else None


def _numpy_problem(arg: Any) -> tuple[str, str] | None:
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(arg, numpy.ndarray):
        return None
    if not _holds_numbers(arg.dtype):
        return f"has dtype {arg.dtype}", "kernels take arrays of numbers"
    if not arg.dtype.isnative:
        return (
            f"has dtype {arg.dtype}, in the other byte order",
            "pass `.astype(x.dtype.newbyteorder('='))`",
        )
    return None


def _holds_numbers(dtype: Any) -> bool:
    if dtype.fields:
        return all(_holds_numbers(field) for field, *_ in dtype.fields.values())
    # Kind V: the floating-point types that NumPy itself lacks (ml_dtypes), or plain bytes.
    return not dtype.hasobject and dtype.base.kind in "biufcV"


def _not_exported(arg: Any) -> tuple[str, str] | None:
    """Returns the problem of an array that the emulator takes and NumPy does not export."""
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(arg, numpy.ndarray):
        return None
    if arg.dtype.kind == "V":
        return f"has dtype {arg.dtype}", "compiled kernels take arrays of numbers"
    if not arg.flags.writeable:
        return (
            "is a read-only array, and a kernel may write to its arguments",
            "pass a copy, or set `.flags.writeable = True`",
        )
    return None
