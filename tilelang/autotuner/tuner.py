"""``AutoTuner``: a search that is set up step by step."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Any

from ..errors import ArgumentError, boundary
from ..ir.stmt import ir_function
from ..jit import EagerFunction, JITFunction
from . import candidates
from .inputs import get_autotune_inputs
from .param import CompileArgs
from .result import AutotuneResult
from .search import Search
from .settings import ProfileArgs

_COMPILE_OPTIONS = {field.name for field in dataclasses.fields(CompileArgs)}


class AutoTuner:
    """Chooses the fastest configuration of a kernel.

    ``AutoTuner.from_kernel(function, configs).set_compile_args(out_idx=[-1]).run()``.

    Attributes:
        function: takes the values of a configuration by name; returns a ``T.prim_func``.
        configs: mappings, or a function that returns them.
    """

    def __init__(self, function: Any, configs: candidates.Configs) -> None:
        candidates.check(configs)
        self.function = function
        self.configs = configs
        self._options: dict[str, Any] = {}
        self._settings = ProfileArgs()

    @classmethod
    def from_kernel(cls, kernel: Any, configs: candidates.Configs) -> AutoTuner:
        """Returns a tuner.

        Args:
            kernel: a function that takes the values of a configuration by name and returns a
                ``T.prim_func``, decorated with ``@tilelang.jit`` or not.
            configs: mappings of names to values, or a function without parameters that returns
                them.
        """
        return cls(kernel, configs)

    def set_compile_args(self, **options: Any) -> AutoTuner:
        """Sets options of :func:`tilelang.compile`; settings of the search are taken, too."""
        for name, value in options.items():
            if name in _COMPILE_OPTIONS:
                self._options[name] = value
            else:
                self._settings = self._settings.but(**{name: value})
        return self

    def set_profile_args(self, **settings: Any) -> AutoTuner:
        """Changes settings of the search, see :class:`ProfileArgs`."""
        self._settings = self._settings.but(**settings)
        return self

    @boundary
    def run(
        self,
        warmup: float | None = None,
        rep: float | None = None,
        timeout: float | None = None,
        **others: Any,
    ) -> AutotuneResult:
        """Searches.

        Args:
            warmup, rep, timeout, others: settings as in :class:`ProfileArgs`.

        Raises:
            ConfigError: none of the configurations can be used, or there is no such setting.
        """
        settings = self._settings.but(warmup=warmup, rep=rep, timeout=timeout, **others)
        configs = candidates.resolve(self.configs, {})
        names = _parameter_names(self.function)
        if names is not None:
            candidates.check_names(configs, names, getattr(self.function, "__name__", "it"))
        return Search(self._describe, configs, settings, get_autotune_inputs()).run()

    def _describe(self, config: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        parameters, passes = candidates.divided(config)
        if isinstance(self.function, (JITFunction, EagerFunction)):
            func, options = self.function.describe((), parameters)
            return func, candidates.with_pass_configs({**options, **self._options}, passes)
        func = self.function(**parameters)
        if not hasattr(ir_function(func), "params"):
            raise ArgumentError(
                f"the tuned function returned {type(func).__name__}, but must return a T.prim_func"
            )
        return func, candidates.with_pass_configs(self._options, passes)


def _parameter_names(function: Any) -> list[str] | None:
    """The names that a function takes; None if it takes any."""
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return [parameter.name for parameter in parameters]
