"""``@tilelang.jit``: functions that return a ``T.prim_func``, or whose body is a kernel."""

from __future__ import annotations

import functools
import inspect
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from types import FrameType, FunctionType
from typing import Any, Generic, ParamSpec, Protocol, overload

from .. import target as targets
from ..errors import ConfigError, boundary
from ..ir.stmt import Func, ir_function
from ..transform.pass_context import PassContext
from . import compiler
from .eager import EagerFunction
from .freeze import freeze
from .kernel import JITKernel
from .style import is_eager, runtime_types

Parameters = ParamSpec("Parameters")


class JITFunction(Generic[Parameters]):
    """A function that builds a kernel from Python parameters.

    Calling it returns the kernel for these parameters, the same object for equal parameters.

    Attributes:
        signature: of the function.
        func: the function itself.
    """

    def __init__(self, function: Callable[..., Any], options: Mapping[str, Any]) -> None:
        functools.update_wrapper(self, function)
        self.func = function
        self.signature = inspect.signature(function)
        self._options = dict(options)
        self._kernels: dict[Any, JITKernel] = {}
        self._lock = threading.RLock()

    @boundary
    def __call__(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> JITKernel:
        """Returns the kernel for the given parameters, compiled at their first appearance."""
        key = self._key(args, kwargs)
        kernel = self._kernels.get(key)
        if kernel is not None:
            return kernel
        with self._lock:
            if key not in self._kernels:
                self._kernels[key] = self._compile(args, kwargs)
            return self._kernels[key]

    def __reduce__(self) -> str:
        # By name, as functions: pickle looks it up in the module.
        return self.func.__qualname__

    def __copy__(self) -> JITFunction[Parameters]:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> JITFunction[Parameters]:
        return self

    def compile(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> JITKernel:
        """Does what calling the function does."""
        return self(*args, **kwargs)

    def describe(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
        """Returns the ``T.prim_func`` for parameters, and the options to compile it with."""
        return self.func(*args, **kwargs), dict(self._options)

    @boundary
    def get_tir(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> Any:
        """Returns the ``T.prim_func`` for the given parameters, without compiling it."""
        return self.func(*args, **kwargs)

    def get_kernel_source(self, *args: Parameters.args, **kwargs: Parameters.kwargs) -> str:
        """Returns the generated CUDA C++ for the given parameters."""
        return self(*args, **kwargs).get_kernel_source()

    def par_compile(
        self, configs: Iterable[Any], num_workers: int | None = None
    ) -> list[JITKernel]:
        """Compiles for several sets of parameters at once, each a tuple or a mapping."""
        funcs = [self._apply(self.func, config) for config in configs]
        kernels = compiler.par_compile(funcs, num_workers, **self._options)
        for config, kernel in zip(configs, kernels, strict=True):
            args, kwargs = self._apply(lambda *a, **k: (a, k), config)
            self._kernels.setdefault(self._key(args, kwargs), kernel)
        return kernels

    def _key(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Returns a key for the parameters and for the context of the call."""
        return (
            freeze((args, kwargs)),
            *map(str, targets.entered()),
            freeze(PassContext.current().config),
        )

    def _apply(self, function: Callable[..., Any], config: Any) -> Any:
        return function(**config) if isinstance(config, Mapping) else function(*config)

    def _compile(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> JITKernel:
        func = self.func(*args, **kwargs)
        if not hasattr(ir_function(func), "params"):
            raise ConfigError(
                f"{self.__name__} returned {type(func).__name__}, but a function decorated with "  # type: ignore[attr-defined]
                "@tilelang.jit must return a function decorated with @T.prim_func"
            )
        return compiler.compile(func, **self._options)


class _Decorator(Protocol):
    """``@tilelang.jit(...)``."""

    @overload
    def __call__(self, func: Func) -> JITKernel: ...  # type: ignore[overload-overlap]
    @overload
    def __call__(self, func: Callable[Parameters, Func]) -> JITFunction[Parameters]: ...
    @overload
    def __call__(self, func: Callable[..., Any]) -> EagerFunction: ...


@overload
def jit(func: Func) -> JITKernel: ...  # type: ignore[overload-overlap]
@overload
def jit(func: Callable[Parameters, Func]) -> JITFunction[Parameters]: ...
@overload
def jit(func: Callable[..., Any]) -> EagerFunction: ...
@overload
def jit(
    func: None = None,
    *,
    tune: str,
    out_idx: Any = None,
    target: Any = "auto",
    target_host: Any = None,
    execution_backend: str = "auto",
    verbose: bool = False,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: Any = None,
    debug_root_path: str | None = None,
) -> Callable[[Callable[..., Any]], Any]: ...
@overload
def jit(
    func: None = None,
    *,
    out_idx: Any = None,
    target: Any = "auto",
    target_host: Any = None,
    execution_backend: str = "auto",
    verbose: bool = False,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: Any = None,
    debug_root_path: str | None = None,
) -> _Decorator: ...
@boundary
def jit(
    func: Callable[..., Any] | None = None,
    *,
    out_idx: Any = None,
    target: Any = "auto",
    target_host: Any = None,
    execution_backend: str = "auto",
    verbose: bool = False,
    pass_configs: Mapping[Any, Any] | None = None,
    compile_flags: Any = None,
    debug_root_path: str | None = None,
    tune: str | None = None,
) -> Any:
    """Compiles a function when it is called; used with or without arguments.

    A function that returns a ``T.prim_func`` becomes a :class:`JITFunction`, which gives kernels;
    one whose body is the kernel (it declares tensors, or opens ``T.Kernel``) becomes an
    :class:`EagerFunction`, which runs it. A ``T.prim_func`` itself has no parameters to wait for:
    it is compiled at once, and the result is its kernel.

    The other arguments are as for :func:`tilelang.compile`; ``debug_root_path`` is accepted for
    compatibility (``TILELANG_DUMP_IR`` writes the program after every pass).

    ``tune="model"`` lets the timing model of the emulator choose the tiles among the function's
    parameters, as ``@tilelang.autotune(by_model=True)`` above it does; ``tune="estimate"`` a
    formula of the kernel's template, in a fraction of a second; ``tune="measure"`` a GPU, where
    there is one.

    Raises:
        ConfigError: ``tune`` is another word, or there are no parameters to choose.
    """
    options = {
        "out_idx": out_idx,
        "target": target,
        "target_host": target_host,
        "execution_backend": execution_backend,
        "verbose": verbose,
        "pass_configs": pass_configs,
        "compile_flags": compile_flags,
    }
    if tune is not None:
        choose = _chooser(tune)
        if func is not None:
            return choose(_jit(func, options, sys._getframe(2)))
        return lambda function: choose(_jit(function, options, sys._getframe(1)))
    if func is not None:
        # Frames: this function, errors.boundary, the decorated definition's scope.
        return _jit(func, options, sys._getframe(2))
    return lambda function: _jit(function, options, sys._getframe(1))


class _Tuner:
    """Holds the function ``tilelang.autotune``, which lies above this package."""

    autotune: Callable[..., Any]


_tuner = _Tuner()


def set_tuner(autotune: Callable[..., Any]) -> None:
    """Makes ``autotune`` choose the parameters of functions that ask for it by ``tune=``."""
    _tuner.autotune = autotune


def _chooser(tune: str) -> Callable[[Any], Any]:
    """Returns the decorator that lets a search choose the parameters of a function."""
    if tune not in ("model", "estimate", "measure"):
        raise ConfigError(f'jit(tune={tune!r}): "model", "estimate" or "measure"')
    ways = {"by_model": tune == "model", "by_estimate": tune == "estimate"}

    def choose(function: Any) -> Any:
        if isinstance(function, JITKernel):
            raise ConfigError(
                f"jit(tune={tune!r}) of a T.prim_func, which has no parameters to choose"
            )
        return _tuner.autotune(function, **ways)

    return choose


def _jit(
    function: Any, options: Mapping[str, Any], frame: FrameType
) -> JITFunction[Any] | EagerFunction | JITKernel:
    if isinstance(ir_function(function), Func):
        return compiler.compile(function, **options)
    if isinstance(function, FunctionType):
        types = runtime_types(function, frame)
        if is_eager(function, types, frame):
            return EagerFunction(function, options, types)
    return JITFunction(function, options)
