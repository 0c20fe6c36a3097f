"""The configuration that the estimate of a template ranks first: nothing runs."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import ConfigError, TileLangError
from ..jit import compiler
from .result import AutotuneResult, Trial
from .suggest import Suggestion

_REMARK = "they are ranked by the estimate of a template, which runs nothing"


def choose(
    describe: Callable[[Mapping[str, Any]], tuple[Any, dict[str, Any]]],
    suggestions: Sequence[Suggestion],
) -> AutotuneResult:
    """Returns the first of the suggestions, best first, that compiles.

    Args:
        describe: traces a configuration: the function in the IR, and the options to compile it.
        suggestions: configurations with their estimates.

    Raises:
        ConfigError: none of them compiles.
    """
    ranked = sorted(suggestions, key=lambda each: each.seconds)
    trials: list[Trial] = []
    for number, (config, seconds, _) in enumerate(ranked):
        try:
            func, options = describe(config)
            kernel = compiler.compile(func, **options)
        except TileLangError as error:
            trials.append(Trial(config, reason=error.message))
            continue
        trials += map(_estimate, ranked[number:])
        unit = "ms, estimated"
        result = AutotuneResult(seconds * 1e3, config, kernel, None, unit, trials, _REMARK)
        kernel.tuner_result = result
        return result
    reasons = list(dict.fromkeys(trial.reason for trial in trials))[:8]
    raise ConfigError(f"none of {len(trials)} configurations can be used", notes=reasons)


def _estimate(suggestion: Suggestion) -> Trial:
    config, seconds, _ = suggestion
    if math.isinf(seconds):
        return Trial(config, reason="no template estimates it")
    return Trial(config, seconds * 1e3)
