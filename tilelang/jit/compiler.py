"""``tilelang.compile``: a ``T.prim_func`` becomes a kernel object."""

from __future__ import annotations

import functools
import logging
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from .. import target as targets
from ..errors import ArgumentError, ConfigError, boundary
from ..ir.stmt import ir_function
from ..language.outputs import OUTPUTS
from ..transform import pass_config
from ..transform.pass_context import surroundings, with_surrounding
from .compile_flags import listed, nvrtc_flags
from .kernel import JITKernel, normalize_out_idx
from .lower import LoweredKernel, lower
from .registers import with_fewest_spills

_BACKENDS = ("auto", "tvm_ffi", "nvrtc", "cython")
_logger = logging.getLogger("tilelang")


@boundary
def compile(
    func: Any,
    out_idx: Sequence[int] | int | None = None,
    execution_backend: str = "auto",
    target: Any = "auto",
    target_host: Any = None,
    verbose: bool = False,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: Sequence[str] | str | None = None,
) -> JITKernel:
    """Compiles a function for one architecture.

    Args:
        func: what ``@T.prim_func`` gives, or a ``tvm.IRModule`` of one such function.
        out_idx: indices of the tensor parameters that each call allocates and returns; negative
            ones count from the end. By default the tensors that the function returns (T.empty).
        execution_backend: accepted for compatibility; there is one way to launch.
        target: see :mod:`tilelang.target`.
        target_host: accepted for compatibility; no host code is generated.
        verbose: print the generated source.
        pass_configs: options of the compiler, see :class:`tilelang.PassConfigKey`.
        compile_flags: further options of NVRTC, or flags of nvcc; flags for host code
            leave a remark.

    Raises:
        CompileError: the kernel cannot be compiled as written.
        TargetError, ConfigError: a setting is unknown.
    """
    if execution_backend not in _BACKENDS:
        raise ConfigError(f"unknown execution backend {execution_backend!r}")
    pass_configs = with_surrounding(pass_configs)
    configs = pass_config.normalize(pass_configs)
    resolved = targets.resolve(target)
    func = _the_function(func)
    out_idx = _outputs_of(ir_function(func), out_idx)
    attrs = ir_function(func).attrs  # T.annotate_pass_configs, T.annotate_compile_flags
    configs = {**dict(attrs.get("pass_configs", {})), **configs}
    flags, unused = nvrtc_flags(
        [
            *pass_config.nvrtc_options(configs),
            *map(str, attrs.get("compile_flags", ())),
            *listed(compile_flags),
        ]
    )
    lower_with = functools.partial(
        lower, func, resolved, ignored=[*pass_config.ignored(pass_configs), *unused]
    )
    lowered = with_fewest_spills(
        lower_with(configs), lower_with, str(resolved), tuple(flags), getattr(func, "span", None)
    )
    kernel = JITKernel(
        func,
        lowered,
        resolved,
        out_idx,
        tuple(flags),
    )
    if verbose:
        _logger.warning("%r:\n%s", kernel, lowered.source)
    return kernel


def _outputs_of(func: Any, out_idx: Sequence[int] | int | None) -> Sequence[int] | int | None:
    """Returns the indices of the outputs, as given or as the function declares them.

    Raises:
        ArgumentError: it says so, and other indices are given.
    """
    returned = [int(i) for i in func.attrs.get(OUTPUTS, [])]
    if returned and out_idx not in (None, []):
        raise ArgumentError(
            f"out_idx={out_idx} for {func.name}, which returns its outputs itself",
            notes=["leave out_idx out, or declare the outputs as parameters"],
        )
    chosen = (returned or None) if out_idx is None else out_idx
    normalize_out_idx(chosen, len(func.params))
    return chosen


@boundary
def lower_to_source(
    func: Any,
    target: Any = "auto",
    target_host: Any = None,
    *,
    pass_configs: Mapping[Any, Any] | None = None,
    enable_host_codegen: bool = False,
    enable_device_compile: bool = False,
) -> LoweredKernel:
    """Runs the compiler up to CUDA C++, without NVRTC.

    :func:`compile` may compile the function with other epilogue slices, by what ptxas spills.

    Args:
        func, target, target_host, pass_configs: as for :func:`compile`.
        enable_host_codegen, enable_device_compile: accepted for compatibility; there is no host
            code, and :func:`compile` compiles that of the device.
    """
    pass_configs = with_surrounding(pass_configs)
    configs = pass_config.normalize(pass_configs)
    func = _the_function(func)
    return lower(func, targets.resolve(target), configs, pass_config.ignored(pass_configs))


def _the_function(func: Any) -> Any:
    """Returns the function to compile: a ``T.prim_func``, or the only one of a ``tvm.IRModule``.

    Raises:
        ArgumentError: it is something else.
    """
    functions = getattr(func, "functions", None)
    if isinstance(functions, Mapping):
        if len(functions) != 1:
            raise ArgumentError(
                f"the module holds {len(functions)} functions ({', '.join(functions)}); compile "
                'each of them, module["name"]'
            )
        func = next(iter(functions.values()))
    if not hasattr(ir_function(func), "params"):
        raise ArgumentError(
            f"expected a function decorated with @T.prim_func, not {type(func).__name__}"
            + ("; call the function that returns the kernel first" if callable(func) else "")
        )
    return func


def par_compile(
    funcs: Iterable[Any], num_workers: int | None = None, **options: Any
) -> list[JITKernel]:
    """Compiles several functions at once with the same options; results keep their order."""
    options = surroundings(options)  # which those of the threads are not
    with ThreadPoolExecutor(num_workers) as pool:
        return list(pool.map(lambda func: compile(func, **options), funcs))
