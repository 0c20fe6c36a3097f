"""Compiling a group of configurations, each with its own outcome."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

from ..errors import boundary
from ..jit.kernel import JITKernel
from ..transform.pass_context import surroundings
from .param import CompileArgs
from .search import compile_candidate

#: Number, configuration, and either the kernel or the error.
Compiled = tuple[int, dict[str, Any], JITKernel | None, Exception | None]


@boundary
def compile_grouped_unit_tvm_ffi(
    unit_items: Sequence[tuple[int, Mapping[str, Any]]],
    compile_args: CompileArgs,
    elaborate_func: Callable[..., Any],
) -> list[Compiled]:
    """Compiles several configurations of a kernel in parallel.

    Args:
        unit_items: numbers, which are returned as they are, and configurations.
        compile_args: options for all of them.
        elaborate_func: takes the values of a configuration by name; returns a ``T.prim_func``.

    Returns:
        Number, configuration, kernel and error of each, in the order given. A configuration that
        cannot be traced or compiled has an error and no kernel; the others are compiled.
    """
    options = surroundings(compile_args.options())  # threads do not have what surrounds the call
    with ThreadPoolExecutor() as executor:
        started = [_started(executor, elaborate_func, config, options) for _, config in unit_items]
        return [
            (number, dict(config), *_outcome(future))
            for (number, config), future in zip(unit_items, started, strict=True)
        ]


def _started(
    executor: ThreadPoolExecutor,
    elaborate: Callable[..., Any],
    config: Mapping[str, Any],
    options: Mapping[str, Any],
) -> Future[JITKernel]:
    """Traces a configuration here, as its function may be of one thread, and compiles it there."""
    try:
        func = elaborate(**config)
    except Exception as error:
        failed: Future[JITKernel] = Future()
        failed.set_exception(error)
        return failed
    return executor.submit(compile_candidate, func, options)


def _outcome(future: Future[JITKernel]) -> tuple[JITKernel | None, Exception | None]:
    try:
        return future.result(), None
    except Exception as error:
        return None, error


__all__ = ["compile_grouped_unit_tvm_ffi"]
