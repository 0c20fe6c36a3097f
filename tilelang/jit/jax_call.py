"""Makes kernels functions of JAX, also under ``jax.jit``: foreign functions of XLA."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import tvm_ffi

from ..errors import ArgumentError, ConfigError
from ..ir.buffer import Buffer
from ..ir.evaluate import evaluate
from .torch_op import sizes

_numbers = itertools.count()


def jax_function(kernel: Any) -> Callable[..., Any]:
    """Returns a function of ``jax.Array`` that calls a kernel; see ``JITKernel.as_jax``."""
    try:
        import jax
        from jax_tvm_ffi import register_ffi_target
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"kernels as functions of JAX need the package {error.name}",
            notes=["pip install 'tilelang-sm100[jax]'"],
        ) from None
    outputs = kernel.out_idx
    if not outputs:
        raise ConfigError(
            f"kernel {kernel.name!r} returns nothing, and arrays of JAX do not change",
            notes=["compile it with out_idx"],
        )
    inputs = [param for i, param in enumerate(kernel.params) if i not in outputs]
    scalars = [str(param.name) for param in inputs if not isinstance(param, Buffer)]
    if scalars:
        raise ConfigError(
            f"kernel {kernel.name!r} takes the scalar {scalars[0]!r}: JAX passes tensors only",
            notes=["make it a constant of the kernel, or a tensor of one element"],
        )
    made = [kernel.params[i] for i in outputs]
    name = f"tilelang.{kernel.name}.{next(_numbers)}"
    function = _in_order(kernel.launcher_without_outputs(), len(inputs), outputs)
    for platform in ("cpu", "gpu"):
        register_ffi_target(name, function, platform=platform, pass_owned_tensor=True)

    def call(*arrays: Any) -> Any:
        if len(arrays) != len(inputs):
            raise ArgumentError(
                f"kernel {kernel.name!r} takes {len(inputs)} arrays, got {len(arrays)}"
            )
        values = sizes(inputs, arrays)
        results = [
            jax.ShapeDtypeStruct(
                tuple(int(evaluate(extent, values)) for extent in buffer.shape), str(buffer.dtype)
            )
            for buffer in made
        ]
        found = jax.ffi.ffi_call(name, results)(*arrays)
        return found[0] if len(found) == 1 else list(found)

    return call


def _in_order(launch: Any, count: int, outputs: list[int]) -> tvm_ffi.Function:
    """Returns the launcher with inputs first and outputs last, as XLA has them."""
    last = list(range(count, count + len(outputs)))
    if outputs == last:
        return launch
    total = count + len(outputs)
    inputs = iter(range(count))
    places = [count + outputs.index(i) if i in outputs else next(inputs) for i in range(total)]
    return tvm_ffi.convert(lambda *args: launch(*(args[place] for place in places)))
