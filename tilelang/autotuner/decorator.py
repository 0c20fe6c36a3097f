"""``@tilelang.autotune``: the first call of its kind chooses among configurations."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable, Mapping
from typing import Any

from ..errors import ConfigError, boundary
from ..jit import EagerFunction, JITFunction
from ..jit.freeze import freeze
from ..language.tensor import TensorType
from ..runtime.arguments import describe
from . import candidates, suggest
from .inputs import get_autotune_inputs
from .measure import Inputs
from .result import AutotuneResult
from .search import Search
from .settings import ProfileArgs


class AutotunedFunction:
    """A function decorated with ``@tilelang.jit`` whose parameters are chosen by measuring.

    A call that gives values of some of these parameters itself keeps them; one that gives all of
    them does not search.

    Attributes:
        function: what was decorated.
        results: what searches of this process gave, by what they were for.
    """

    def __init__(
        self, function: JITFunction | EagerFunction, configs: Any, settings: ProfileArgs
    ) -> None:
        functools.update_wrapper(self, function, updated=())
        self.function = function
        self._configs = configs
        self._settings = settings
        self._signature = inspect.signature(function.__wrapped__)  # type: ignore[union-attr]
        self._lock = threading.RLock()
        self.results: dict[Any, AutotuneResult | None] = {}
        # What completes the arguments of calls of eager functions without keywords.
        self._tails: dict[Any, tuple[Any, ...] | None] = {}

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function with the best configuration.

        Returns:
            The kernel, of a function that returns a ``T.prim_func``; what the body returns, of one
            whose body is the kernel.
        """
        tail = self._tails.get(_key(args, kwargs))
        if tail is not None:
            return self.function(*args, *tail)
        result = self._tuned(args, kwargs)
        if result is None:
            return self.function(*args, **kwargs)
        if isinstance(self.function, JITFunction):
            return result.kernel
        given = self._given(args, kwargs)
        rest = {name: value for name, value in result.config.items() if name not in given}
        if not kwargs:
            self._tails[_key(args, kwargs)] = self._tail(len(args), rest)
        return self.function(*args, **kwargs, **rest)

    def _tail(self, count: int, config: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """The arguments after the first ``count``; None where one has no value."""
        known = {**self._defaults(), **config}
        names = list(self._signature.parameters)[count:]
        return tuple(known[name] for name in names) if all(n in known for n in names) else None

    def compile(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the best kernel for the arguments, without running it."""
        result = self._tuned(args, kwargs)
        return self.function.compile(*args, **kwargs) if result is None else result.kernel

    def tune(self, *args: Any, **kwargs: Any) -> AutotuneResult:
        """Returns what the search for these arguments gives.

        Raises:
            ConfigError: the arguments give all tuned parameters.
        """
        result = self._tuned(args, kwargs)
        if result is None:
            raise ConfigError("the arguments give every parameter that is tuned")
        return result

    def __reduce__(self) -> str:
        return str(self.__qualname__)  # type: ignore[attr-defined]

    def _tuned(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> AutotuneResult | None:
        key = _key(args, kwargs)
        if key not in self.results:
            with self._lock:
                if key not in self.results:
                    self.results[key] = self._search(args, dict(kwargs))
        return self.results[key]

    def _search(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> AutotuneResult | None:
        names = list(self._signature.parameters)
        given = self._given(args, kwargs)
        consts: Mapping[str, int] = {}
        if isinstance(self.function, EagerFunction) and callable(self._configs):
            consts = self.function.constants_of(args, kwargs)
        if self._configs is None:
            configs = self._suggested(args, kwargs, given)
        else:
            configs = candidates.resolve(self._configs, {**self._defaults(), **given, **consts})
        candidates.check_names(configs, names, self.__name__)  # type: ignore[attr-defined]
        if configs and all(name in given for config in configs for name in config):
            return None
        inputs: Inputs = get_autotune_inputs()
        if inputs is None and isinstance(self.function, EagerFunction):
            inputs = self.function.kernel_arguments(args, kwargs)

        def traced(config: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
            rest = {name: value for name, value in config.items() if name not in given}
            return self.function.describe(args, {**kwargs, **rest})

        return Search(traced, candidates.narrowed(configs, given), self._settings, inputs).run()

    def _suggested(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], given: Mapping[str, Any]
    ) -> list[dict[str, Any]]:
        name = self.__name__  # type: ignore[attr-defined]
        roles = suggest.roles_of(self._defaults(), given)
        func, options = self.function.describe(args, kwargs)
        return suggest.configurations(func, options.get("target", "auto"), roles, name)

    def _given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return {**dict(zip(self._signature.parameters, args, strict=False)), **kwargs}

    def _defaults(self) -> dict[str, Any]:
        return {
            name: parameter.default
            for name, parameter in self._signature.parameters.items()
            if parameter.default is not parameter.empty
        }


def _key(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """What a search depends on of the arguments of a call."""
    key = (*map(_kind, args), *((name, _kind(kwargs[name])) for name in sorted(kwargs)))
    try:
        hash(key)
    except TypeError:
        return freeze(key)
    return key


def _kind(arg: Any) -> Any:
    try:
        return arg.shape, arg.dtype, arg.device, arg.is_contiguous() or arg.stride()
    except AttributeError:  # no tensor of torch
        pass
    if isinstance(arg, TensorType):
        return repr(arg), arg.strides
    if hasattr(arg, "__dlpack__"):
        return (*describe(arg), str(getattr(arg, "device", "")))
    return type(arg), arg


def autotune(
    func: Any = None, configs: Any = None, **settings: Any
) -> AutotunedFunction | Callable[[Any], AutotunedFunction]:
    """Lets measuring choose parameters: ``@tilelang.autotune(configs=[...])`` above
    ``@tilelang.jit``.

    Args:
        func: the function decorated with ``@tilelang.jit``.
        configs: mappings of parameter names to values; or a function of parameters of the
            decorated function, by name, that returns them. None: from the template of the kernel
            (:mod:`tilelang.carver`), for parameters such as block_M, block_N, block_K, num_stages
            and threads.
        settings: those of :class:`ProfileArgs`.

    Returns:
        The function, or a decorator.

    Raises:
        ConfigError: there is no such setting, or what is decorated is no ``@tilelang.jit``.
    """
    chosen = ProfileArgs().but(**settings)

    def decorate(function: Any) -> AutotunedFunction:
        if not isinstance(function, (JITFunction, EagerFunction)):
            raise ConfigError(
                "@tilelang.autotune stands above @tilelang.jit, not above "
                f"{getattr(function, '__name__', function)!r}"
            )
        return AutotunedFunction(function, configs, chosen)

    return decorate if func is None else decorate(func)
