"""Makes kernels custom operators of torch, which ``torch.compile`` takes into its graphs."""

from __future__ import annotations

import itertools
import operator
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..errors import ConfigError
from ..ir.buffer import Buffer
from ..ir.dtype import DType
from ..ir.evaluate import evaluate, solve, variables
from ..ir.expr import Var
from ..target import Target

_numbers = itertools.count()
_SCALARS = {"bool": "bool", "int": "SymInt", "float": "float"}


def is_compiling() -> bool:
    """Returns whether torch.compile is tracing the caller."""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_compiling()


def register_types() -> None:
    """Makes versions of torch that do not take our element types for constants do so."""
    torch = sys.modules.get("torch")
    pytree: Any = getattr(getattr(torch, "utils", None), "_pytree", None)
    if hasattr(pytree, "register_constant") and not pytree.is_constant_class(DType):
        pytree.register_constant(DType)


def fresh_name(name: str) -> str:
    """Returns a name that no other operator of our namespace has."""
    return f"{name}_{next(_numbers)}"


def call(name: str, args: Sequence[Any]) -> Any:
    """Calls an operator of our namespace, in a form that torch.compile can trace."""
    import torch

    return getattr(torch.ops.tilelang, name)(*args)


def device(name: str) -> Any:
    """Returns torch's device of a name."""
    import torch

    return torch.device(name)


def description(arg: Any) -> Any:
    """Describes an argument of an eager kernel by Python constants, also while traced.

    Returns:
        None for None; (shape, strides, dtype, device) of a tensor; the type's name of a scalar.
    """
    if arg is None:
        return None
    if not hasattr(arg, "stride"):
        return type(arg).__name__
    # operator.index makes torch.compile take a symbolic size for the number that it is now.
    shape = tuple([operator.index(extent) for extent in arg.shape])
    strides = None if arg.is_contiguous() else tuple([operator.index(n) for n in arg.stride()])
    return shape, strides, str(arg.dtype).replace("torch.", ""), str(arg.device)


def listed(result: Any) -> Any:
    """Returns several outputs as a list, as kernels do."""
    return list(result) if isinstance(result, tuple) else result


def schema_of(params: Sequence[tuple[str, str]], mutated: Iterable[str], outputs: int) -> str:
    """Returns the schema of an operator.

    Args:
        params: name and kind of each parameter: "Tensor", "bool", "SymInt" or "float".
        mutated: the tensors that are written to.
        outputs: how many tensors it returns.
    """
    changed = set(mutated)
    parts = [
        f"Tensor(a{i}!) {name}" if name in changed else f"{kind} {name}"
        for i, (name, kind) in enumerate(params)
    ]
    returned = "Tensor" if outputs == 1 else "(" + ", ".join(["Tensor"] * outputs) + ")"
    return f"({', '.join(parts)}) -> {returned}"


def scalar_kind(dtype: Any) -> str:
    """Returns the name of a scalar type of the language in the schema of torch."""
    if dtype.is_float:
        return _SCALARS["float"]
    return _SCALARS["bool"] if dtype.is_bool else _SCALARS["int"]


def make(name: str, schema: str, run: Callable[..., Any], fake: Callable[..., list[Any]]) -> Any:
    """Registers an operator.

    Args:
        name: ``"namespace::name"``.
        schema: see :func:`schema_of`.
        run: returns None, a tensor or a sequence of tensors.
        fake: returns a list of tensors like those, without computing them.

    Returns:
        The operator, to be called with the parameters of the schema.

    Raises:
        ConfigError: the name has no namespace.
    """
    import torch

    if name.count("::") != 1:
        raise ConfigError(f"{name!r} is no name of an operator", notes=['write "namespace::name"'])

    def in_form(result: Any) -> Any:
        if result is None:
            return None
        items = list(result) if isinstance(result, (list, tuple)) else [result]
        return items[0] if len(items) == 1 else tuple(items)

    mutated = [part.split()[-1] for part in schema[1:].split(") ->")[0].split(", ") if "!" in part]
    registered = torch.library.custom_op(
        name, lambda *args: in_form(run(*args)), mutates_args=mutated, schema=schema
    )
    registered.register_fake(lambda *args: in_form(fake(*args) or None))
    return registered


def kernel_op(kernel: Any, name: str) -> Any:
    """Registers a compiled kernel; see ``JITKernel.as_torch_op``."""
    outputs = kernel.out_idx or []
    inputs = [param for i, param in enumerate(kernel.params) if i not in outputs]
    params = [
        (str(p.name), "Tensor" if isinstance(p, Buffer) else scalar_kind(p.dtype)) for p in inputs
    ]
    written = {str(buffer.name) for buffer in kernel.spec.written}
    mutated = [name for name, kind in params if kind == "Tensor" and name in written]
    made = [kernel.params[i] for i in outputs]
    schema = schema_of(params, mutated, len(made))
    return make(name, schema, kernel, lambda *args: outputs_like(inputs, made, args, kernel.target))


def outputs_like(
    inputs: Sequence[Any], outputs: Sequence[Buffer], args: Sequence[Any], target: Target
) -> list[Any]:
    """Returns tensors of the shapes and types of outputs, without values.

    Args:
        inputs: parameters of the kernel that are passed.
        outputs: its parameters that are allocated.
        args: of a call; their sizes may be symbolic.
        target: what the kernel is compiled for.
    """
    import torch

    from ..runtime.placement import placeholder

    tensors = [arg for arg in args if isinstance(arg, torch.Tensor)]
    device = tensors[0].device if tensors else placeholder(target).device
    values = sizes(inputs, args)
    return [
        torch.empty(
            [evaluate(extent, values) for extent in buffer.shape],
            dtype=buffer.dtype.as_torch(),
            device=device,
        )
        for buffer in outputs
    ]


def sizes(inputs: Sequence[Any], args: Sequence[Any]) -> Mapping[Var, Any]:
    """Returns the values of scalars and symbolic dimensions in a call of tensors with ``shape``."""
    values: dict[Var, Any] = {}
    known: list[tuple[Any, Any]] = []
    for param, arg in zip(inputs, args, strict=True):
        if isinstance(param, Buffer):
            known += zip(param.shape, arg.shape, strict=True)
            if param.strides:
                known += zip(param.strides, arg.stride(), strict=False)
        else:
            values[param] = arg
    for extent, size in known:
        if isinstance(extent, Var):
            values.setdefault(extent, size)
    for extent, size in known * len(known):  # sums and products, which may need each other
        missing = [v for v in variables(extent) if v not in values]
        if len(missing) == 1:
            found = solve(extent, missing[0], int(size), {v: int(n) for v, n in values.items()})
            if found is not None:
                values[missing[0]] = found
    return values
