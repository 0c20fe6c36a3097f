"""Lists of configurations: given, computed, and narrowed by what a call says itself."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ..errors import ConfigError
from ..jit.freeze import freeze

_NO_LISTS = (str, bytes, Mapping)
#: What a configuration may set besides parameters: options of passes, as compile() takes them.
PASS_CONFIGS = "pass_configs"
Configs = Iterable[Any] | Callable[..., Iterable[Any]]


def check(configs: Any) -> None:
    """Refuses what cannot be configurations."""
    if callable(configs) or (isinstance(configs, Iterable) and not isinstance(configs, _NO_LISTS)):
        return
    raise ConfigError(
        f"configs={configs!r} is not a list of configurations",
        notes=["give a list of dicts, configs=[{'block_M': 64}], or a function that returns one"],
    )


def resolve(configs: Configs, known: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the configurations.

    Args:
        configs: mappings, or lists of the values of one parameter each for keyword use; or a
            function that returns them, of parameters of the kernel's function by name.
        known: the arguments of the call, and values of ``T.const``, by name.

    Raises:
        ConfigError: there are none, or one is no mapping of names.
    """
    found = configs(**_wanted(configs, known)) if callable(configs) else configs
    check(found)
    result = []
    for config in found:
        if not isinstance(config, Mapping) or not all(isinstance(name, str) for name in config):
            raise ConfigError(
                f"a configuration must be a dict of parameter names and values, got {config!r}"
            )
        result.append(dict(config))
    if not result:
        raise ConfigError(
            "configs= is empty: there is nothing to choose from",
            notes=[
                "give at least one configuration, configs=[{'block_M': 64}]; without configs= "
                "@tilelang.autotune finds some itself"
            ],
        )
    return result


def _wanted(function: Callable[..., Any], known: Mapping[str, Any]) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return dict(known)
    missing = [
        parameter.name
        for parameter in parameters
        if parameter.default is parameter.empty
        and parameter.kind is not parameter.VAR_POSITIONAL
        and parameter.name not in known
    ]
    if missing:
        raise ConfigError(
            f"configs= is a function of {missing[0]!r}, but the call has no such argument",
            notes=[f"the arguments of the call are {', '.join(known)}"],
        )
    return {
        parameter.name: known[parameter.name] for parameter in parameters if parameter.name in known
    }


def narrowed(configs: Sequence[dict[str, Any]], given: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Returns the configurations with the values that the caller gives himself, each once."""
    found: dict[Any, dict[str, Any]] = {}
    for config in configs:
        changed = {**config, **{name: given[name] for name in config if name in given}}
        found.setdefault(freeze(changed), changed)
    return list(found.values())


def divided(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the parameters of a configuration, and the pass options that it sets."""
    parameters = {name: value for name, value in config.items() if name != PASS_CONFIGS}
    return parameters, dict(config.get(PASS_CONFIGS) or {})


def with_pass_configs(options: Mapping[str, Any], given: Mapping[Any, Any]) -> dict[str, Any]:
    """Returns options of compiling with the pass options of a configuration, which win."""
    if not given:
        return dict(options)
    return {**options, PASS_CONFIGS: {**(options.get(PASS_CONFIGS) or {}), **given}}


def refuse_pass_configs(configs: Sequence[Mapping[str, Any]], function: str) -> None:
    """Refuses pass options of single configurations, where calls compile the kernel again."""
    if any(PASS_CONFIGS in config for config in configs):
        raise ConfigError(
            f"the configurations of {function} cannot set pass_configs: its body is the kernel",
            notes=["let the function return a T.prim_func, or give pass_configs to @tilelang.jit"],
        )


def check_names(configs: Sequence[Mapping[str, Any]], names: Sequence[str], function: str) -> None:
    """Refuses configurations of parameters that the function does not have."""
    for config in configs:
        for name in config:
            if name not in names and name != PASS_CONFIGS:
                raise ConfigError(
                    f"a configuration sets {name!r}, but {function} has no such parameter",
                    notes=[f"its parameters are {', '.join(names)}"],
                )
