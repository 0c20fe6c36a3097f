"""``@tilelang.autotune``: the first call of its kind chooses among configurations."""

from __future__ import annotations

import contextlib
import functools
import math
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from .. import target as targets
from ..errors import ConfigError, boundary
from ..ir.expr import Var
from ..jit import EagerFunction, JITFunction
from ..jit.freeze import freeze
from ..jit.kernel import normalize_out_idx
from ..jit.lower import ir_function
from ..language.tensor import TensorType
from ..runtime.arguments import describe
from ..transform import pass_context
from ..transform.pass_context import PassContext
from . import candidates, estimated, suggest
from .dynamic import TunedKernel, axes_of, class_of
from .inputs import get_autotune_inputs
from .measure import Inputs, place
from .result import AutotuneResult
from .search import Search, compile_candidate
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
        self._signature = function.signature
        for name in settings.do_not_specialize:
            if name not in self._signature.parameters:
                raise ConfigError(
                    f"do_not_specialize: {self.__name__} has no parameter {name!r}"  # type: ignore[attr-defined]
                )
        self._lock = threading.RLock()
        self.results: dict[Any, AutotuneResult | None] = {}
        # What completes the arguments of calls of eager functions without keywords.
        self._tails: dict[Any, tuple[Any, ...] | None] = {}
        # Of eager functions: variables of dimensions that calls choose, by parameter and axis.
        self._dynamic: dict[str, dict[int, str]] | None = None
        self._kernels: dict[Any, TunedKernel | None] = {}
        # The arguments of the call whose search gave a result, by its key.
        self._searched: dict[Any, Any] = {}
        # Candidates of those whose kernel has no such dimension, until they are searched.
        self._found: dict[Any, list[suggest.Suggestion]] = {}

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function with the best configuration.

        Returns:
            The kernel, of a function that returns a ``T.prim_func``, or a :class:`TunedKernel`
            where it has dimensions of ``T.dynamic``; what the body returns, of one whose body is
            the kernel.
        """
        if isinstance(self.function, JITFunction):
            kwargs.pop("__return_kernel", None)  # which it does in any case
        args, kwargs = self._without_stand_ins(args, kwargs)
        key = self._key(args, kwargs)
        tail = self._tails.get(key)
        if tail is not None:
            return self.function(*args, *tail)
        dispatcher = self._by_class(key, args, kwargs)
        if dispatcher is not None:
            return dispatcher
        result = self._tuned(key, args, kwargs)
        if result is None:
            return self.function(*args, **kwargs)
        if isinstance(self.function, JITFunction):
            return self._kernel_for(key, result, args, kwargs)
        given = self._given(args, kwargs)
        rest = {name: value for name, value in result.config.items() if name not in given}
        if not kwargs:
            self._tails[key] = self._tail(len(args), rest)
        return self.function(*args, **kwargs, **rest)

    def _tail(self, count: int, config: Mapping[str, Any]) -> tuple[Any, ...] | None:
        """The arguments after the first ``count``; None where one has no value."""
        known = {**self._defaults(), **config}
        names = list(self._signature.parameters)[count:]
        return tuple(known[name] for name in names) if all(n in known for n in names) else None

    def compile(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the best kernel for the arguments, without running it."""
        args, kwargs = self._without_stand_ins(args, kwargs)
        key = self._key(args, kwargs)
        dispatcher = self._by_class(key, args, kwargs)
        if dispatcher is not None:
            return dispatcher
        result = self._tuned(key, args, kwargs)
        if result is None:
            return self.function.compile(*args, **kwargs)
        return self._kernel_for(key, result, args, kwargs)

    def tune(self, *args: Any, **kwargs: Any) -> AutotuneResult:
        """Returns what the search for these arguments gives.

        Raises:
            ConfigError: the arguments give all tuned parameters, or calls choose sizes.
        """
        args, kwargs = self._without_stand_ins(args, kwargs)
        key = self._key(args, kwargs)
        dispatcher = self._by_class(key, args, kwargs)
        if dispatcher is not None:
            name = self.__name__  # type: ignore[attr-defined]
            raise ConfigError(
                f"{name}.tune: the best configuration depends on dynamic sizes",
                notes=[
                    f"choose the sizes: {name}(...).at({dispatcher.example}).get_tuner_result()"
                ],
            )
        result = self._tuned(key, args, kwargs)
        if result is None:
            raise ConfigError("there is nothing to tune: the arguments give every parameter")
        return result

    def __reduce__(self) -> str:
        return str(self.__qualname__)  # type: ignore[attr-defined]

    def _without_stand_ins(
        self, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Drops the values of tuned parameters that ``do_not_specialize`` names."""
        free = self._settings.do_not_specialize
        if not free or self._configs is None:
            return args, kwargs
        given = self._given(args, kwargs)
        configs = candidates.resolve(self._configs, {**self._defaults(), **given})
        dropped = {name for config in configs for name in config if name in free}
        return (), {name: value for name, value in given.items() if name not in dropped}

    def _kernel_for(
        self, key: Any, result: AutotuneResult, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """The kernel of a configuration that may have been found for other arguments."""
        if not self._settings.do_not_specialize:
            return result.kernel
        whole = _key(args, kwargs)
        if self._searched[key] == whole:
            return result.kernel
        given = self._given(args, kwargs)
        rest = {name: value for name, value in result.config.items() if name not in given}
        return self.function.compile(*args, **kwargs, **rest)

    def _tuned(
        self, key: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> AutotuneResult | None:
        if key not in self.results:
            with self._lock:
                if key not in self.results:
                    sizes, found = self._sizes(args, kwargs), self._found.pop(key, None)
                    if self._settings.do_not_specialize:
                        self._searched[key] = _key(args, kwargs)
                    self.results[key] = self._search(args, dict(kwargs), sizes, found)
        return self.results[key]

    def _search(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        sizes: Mapping[str, int],
        found: list[suggest.Suggestion] | None = None,
        inputs: Inputs = None,
    ) -> AutotuneResult | None:
        """Searches; ``sizes`` stand for a class of calls, by the variables of dimensions."""
        given = self._given(args, kwargs)
        found = self._candidates(args, kwargs, given, sizes) if found is None else found
        if self._is_given(found, given):
            return None
        inputs = inputs or get_autotune_inputs()
        if inputs is None and isinstance(self.function, EagerFunction):
            inputs = self.function.kernel_arguments(args, kwargs)
        traced = functools.partial(self._traced, args, kwargs)
        if self._is_estimated(sizes, inputs, lambda: traced({})[1]):
            return estimated.choose(traced, found)
        spare = [each.config for each in found if each.spare]
        configs = candidates.narrowed([each.config for each in found if not each.spare], given)
        try:
            return Search(traced, configs, self._settings, inputs, sizes).run()
        except ConfigError:
            if not spare:
                raise
        return Search(traced, spare, self._settings, inputs, sizes).run()

    def _traced(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any], config: Mapping[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        given = self._given(args, kwargs)
        parameters, passes = candidates.divided(config)
        rest = {name: value for name, value in parameters.items() if name not in given}
        func, options = self.function.describe(args, {**kwargs, **rest})
        return func, candidates.with_pass_configs(options, passes)

    def _is_estimated(
        self, sizes: Mapping[str, int], inputs: Inputs, options: Callable[[], dict[str, Any]]
    ) -> bool:
        """Whether nothing is run: as asked, or for a class of sizes that no GPU can measure."""
        if self._configs is not None or self._settings.by_model:
            return False
        if self._settings.by_estimate:
            return True
        target = targets.resolve(options().get("target", "auto"))
        return bool(sizes) and place(target, inputs, self._settings) == "emulator"

    def _is_modelled(self, sizes: Mapping[str, int], target: targets.Target) -> bool:
        """Returns whether the timing model ranks the candidates."""
        inputs = get_autotune_inputs()
        if self._is_estimated(sizes, inputs, lambda: {"target": target}):
            return False
        return place(target, inputs, self._settings) == "emulator"

    def _candidates(
        self,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        given: Mapping[str, Any],
        sizes: Mapping[str, int],
    ) -> list[suggest.Suggestion]:
        name = self.__name__  # type: ignore[attr-defined]
        if self._configs is None:
            options = self.function.describe(args, kwargs)[1]
            target = targets.resolve(options.get("target", "auto"))
            found = suggest.configurations(
                lambda config: self._traced(args, kwargs, config)[0],
                *(self._defaults(), given, target, name, sizes),
                topk=self._settings.topk,
                by_model=self._is_modelled(sizes, target),
            )
        else:
            consts: Mapping[str, int] = {}
            if isinstance(self.function, EagerFunction) and callable(self._configs):
                consts = self.function.constants_of(args, kwargs)
            known = {**self._defaults(), **given, **consts}
            configs = candidates.resolve(self._configs, known)
            found = [suggest.Suggestion(config, math.inf) for config in configs]
        names = list(self._signature.parameters)
        given_configs = [each.config for each in found]
        candidates.check_names(given_configs, names, name)
        if isinstance(self.function, EagerFunction):
            candidates.refuse_pass_configs(given_configs, name)
        return found

    def _is_given(self, found: Sequence[suggest.Suggestion], given: Mapping[str, Any]) -> bool:
        return bool(found) and all(name in given for each in found for name in each.config)

    # Dimensions that only calls know -----------------------------------------------------------

    def _by_class(
        self, key: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> TunedKernel | None:
        """Returns the chooser for classes of dynamic sizes; None if all sizes are static."""
        settings = self._settings
        if not isinstance(self.function, JITFunction) or settings.supply_prog is not None:
            return None
        if get_autotune_inputs() is not None:
            return None
        if settings.do_not_specialize:
            key = _key(args, kwargs)  # the chooser compiles for its own arguments
        if key not in self._kernels:
            with self._lock:
                if key not in self._kernels:
                    found = self._candidates(args, kwargs, self._given(args, kwargs), {})
                    kernel = self._dispatcher(args, kwargs, found)
                    if kernel is None:
                        self._found[key] = found
                    self._kernels[key] = kernel
        return self._kernels[key]

    def _dispatcher(
        self, args: tuple[Any, ...], kwargs: dict[str, Any], found: list[suggest.Suggestion]
    ) -> TunedKernel | None:
        if self._is_given(found, self._given(args, kwargs)):
            return None
        for config, *_ in found:
            with contextlib.suppress(Exception):  # the search tells what is wrong with it
                func, options = self._traced(args, kwargs, config)
                break
        else:
            return None
        params = getattr(ir_function(func), "params", ())
        axes = axes_of(params, normalize_out_idx(options.get("out_idx"), len(params)) or ())

        def choose(sizes: Mapping[str, int], tensors: Sequence[Any] | None) -> AutotuneResult:
            known = None if self._configs is None else found
            result = self._search(args, kwargs, sizes, known, tensors)
            assert result is not None  # something is left to be tuned
            return result

        return TunedKernel(axes, choose, lambda: compile_candidate(func, options)) if axes else None

    def _sizes(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, int]:
        """The classes of sizes of an eager function's tensors, by variable."""
        given = self._given(args, kwargs)
        sizes = {}
        for parameter, axes in (self._dynamic or {}).items():
            shape: Any = getattr(given.get(parameter), "shape", None)
            for axis, variable in axes.items() if shape is not None else ():
                if type(shape[axis]) is int:
                    sizes[variable] = class_of(shape[axis])
        return sizes

    def _key(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Returns the key of a search: the arguments of a call and its environment."""
        key = self._key_of(args, kwargs)
        if targets.entered() or pass_context.entered():
            return key, *map(str, targets.entered()), freeze(PassContext.current().config)
        return key

    def _key_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        free = self._settings.do_not_specialize
        if free:
            named = self._given(args, kwargs)
            args, kwargs = (), {name: value for name, value in named.items() if name not in free}
        if self._dynamic is None:
            eager = isinstance(self.function, EagerFunction)
            self._dynamic = self.function.dynamic_axes(args, kwargs) if eager else {}  # type: ignore[union-attr]
        if not self._dynamic:
            return _key(args, kwargs)
        given = sorted(self._given(args, kwargs).items())
        return _hashable(
            tuple([(name, _kind(each, self._dynamic.get(name, ()))) for name, each in given])
        )

    def _given(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        return {**dict(zip(self._signature.parameters, args, strict=False)), **kwargs}

    def _defaults(self) -> dict[str, Any]:
        return {
            name: parameter.default
            for name, parameter in self._signature.parameters.items()
            if parameter.default is not parameter.empty
        }


def _key(args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    names = sorted(kwargs)
    values = [*args, *(kwargs[name] for name in names)]
    # Dimensions of T.dynamic by name, and whether two arguments are the same one.
    first = [next(i for i, each in enumerate(values) if each is value) for value in values]
    kinds = [
        (Var, str(value.name), str(value.dtype), same) if isinstance(value, Var) else _kind(value)
        for value, same in zip(values, first, strict=True)
    ]
    return _hashable((len(args), *names, *kinds))


def _hashable(key: tuple[Any, ...]) -> Any:
    try:
        hash(key)
    except TypeError:
        return freeze(key)
    return key


def _kind(arg: Any, dynamic: Collection[int] = ()) -> Any:
    """Returns the key of the arguments, with classes for sizes along some axes."""
    try:
        shape = arg.shape
        if dynamic:
            shape = tuple([class_of(n) if i in dynamic else n for i, n in enumerate(shape)])
        return shape, arg.dtype, arg.device, arg.is_contiguous() or arg.stride()
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
            (:mod:`tilelang.carver`), for parameters that are extents of its tile, stages of a loop
            or threads of a block, whatever their names are.
        settings: those of :class:`ProfileArgs`.

    Returns:
        The function, or a decorator.

    Raises:
        ConfigError: there is no such setting, or what is decorated is no ``@tilelang.jit``.
    """
    chosen = ProfileArgs().but(**settings)
    if configs is not None:
        candidates.check(configs)
    if configs is not None and chosen.by_estimate:
        raise ConfigError(
            "by_estimate=True cannot rank configs=: it ranks the tilings of templates",
            notes=["leave configs= out, or pass by_model=True to rank them by the timing model"],
        )

    def decorate(function: Any) -> AutotunedFunction:
        if not isinstance(function, (JITFunction, EagerFunction)):
            raise ConfigError(
                "@tilelang.autotune must be above @tilelang.jit, but here it is above "
                f"{getattr(function, '__name__', function)!r}"
            )
        return AutotunedFunction(function, configs, chosen)

    return decorate if func is None else decorate(func)
