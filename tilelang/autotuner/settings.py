"""Settings of the search: how candidates are measured and checked."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Any

from ..errors import ConfigError
from ..profiler import TensorSupplyType


@dataclasses.dataclass(frozen=True)
class ProfileArgs:
    """Settings of a search.

    Attributes:
        warmup, rep: milliseconds to spend warming up and measuring each candidate on a GPU.
        timeout: seconds that compiling, or checking and measuring, one candidate may take.
        supply_type: how tensors are filled that nobody gives.
        supply_prog: returns the arguments of a call, from the list of the kernel's inputs (buffers
            and scalar variables).
        ref_prog: the function that the kernel computes; candidates that differ are skipped.
        rtol, atol, max_mismatched_ratio: how much they may differ, see
            ``Profiler.assert_allclose``.
        skip_check: do not compare.
        manual_check_prog: compares instead: called with the outputs of the kernel and of
            ``ref_prog``, it raises where they differ.
        cache_input_tensors: make the tensors once for all candidates with the same inputs.
        budget: seconds for the whole search; candidates beyond are not tried, once there is one to
            use. None: no limit.
        early_stop: a candidate is not measured in full whose first runs take longer than this
            many times the best.
        executor: any ``concurrent.futures`` executor that compiles candidates; threads by default.
        workers: how many threads that are; by default one for each core.
        progress: show a progress bar; by default on a terminal.
        by_model: rank by the time that the emulator's timing model predicts, also where a GPU could
            run the candidates.
        topk: how many tilings of a template are tried beside the default, where nobody gives
            configurations; by default 6, or 1 or 2 where the timing model ranks them and the
            estimate knows what the kernel does.
        do_not_specialize: parameters by whose values a search does not go. A configuration that was
            found for one value serves calls with others, whose kernels are compiled for their own
            values. A value of a tuned parameter only stands in: the search chooses another.
        by_estimate: take the candidate that the estimate of its template ranks first; nothing
            runs. Only of candidates that nobody gives.
    """

    warmup: float = 25
    rep: float = 100
    timeout: float = 100
    supply_type: TensorSupplyType = TensorSupplyType.Auto
    supply_prog: Callable[[Sequence[Any]], Sequence[Any]] | None = None
    ref_prog: Callable[..., Any] | None = None
    rtol: float = 1e-2
    atol: float = 1e-2
    max_mismatched_ratio: float = 0.01
    skip_check: bool = False
    manual_check_prog: Callable[[Sequence[Any], Sequence[Any]], None] | None = None
    cache_input_tensors: bool = True
    budget: float | None = None
    early_stop: float = 1.5
    executor: Executor | None = None
    workers: int | None = None
    progress: bool | None = None
    by_model: bool = False
    topk: int | None = None
    by_estimate: bool = False
    do_not_specialize: Sequence[str] = ()

    def __post_init__(self) -> None:
        for names, fits, kind in _KINDS:
            for name in names:
                if not fits(getattr(self, name)):
                    raise ConfigError(f"{name}= must be {kind}, got {getattr(self, name)!r}")
        if self.by_model and self.by_estimate:
            raise ConfigError("by_model=True and by_estimate=True exclude each other")

    def but(self, **changes: Any) -> ProfileArgs:
        """Returns the settings with some of them changed; None leaves one as it is.

        ``early_stop`` may be True, with the factor as ``early_stop_factor``, or False, for never.

        Raises:
            ConfigError: there is no such setting.
        """
        changes = _with_factor(changes)
        known = {field.name for field in dataclasses.fields(self)}
        for name in changes:
            if name not in known and name not in _WITHOUT_EFFECT:
                raise ConfigError(
                    f"autotuning has no setting {name!r}",
                    notes=[f"its settings are {', '.join(sorted(known))}"],
                )
        given = {k: v for k, v in changes.items() if v is not None and k in known}
        return dataclasses.replace(self, **given)


def _with_factor(changes: dict[str, Any]) -> dict[str, Any]:
    """Returns changes whose ``early_stop`` is a factor, if it is a truth value or has one apart."""
    rest = dict(changes)
    factor, stops = rest.pop("early_stop_factor", None), rest.get("early_stop")
    if stops is False:
        rest["early_stop"] = float("inf")
    elif stops is True or (stops is None and factor is not None):
        rest["early_stop"] = factor
    return rest


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_count(value: Any) -> bool:
    return value is None or (type(value) is int and value > 0)


#: What settings have to be.
_KINDS: tuple[tuple[tuple[str, ...], Callable[[Any], bool], str], ...] = (
    (
        ("warmup", "rep", "timeout", "early_stop"),
        lambda value: _is_number(value) and value > 0,
        "positive",
    ),
    (
        ("budget",),
        lambda value: value is None or (_is_number(value) and value > 0),
        "positive: seconds, or None for no limit",
    ),
    (("rtol", "atol"), lambda value: _is_number(value) and value >= 0, "a number of at least 0"),
    (
        ("max_mismatched_ratio",),
        lambda value: _is_number(value) and 0 <= value <= 1,
        "a number from 0 to 1",
    ),
    (("topk", "workers"), _is_count, "a whole number of at least 1, or None"),
    (
        ("skip_check", "cache_input_tensors", "by_model", "by_estimate"),
        lambda value: isinstance(value, bool),
        "True or False",
    ),
    (("progress",), lambda value: value in (None, True, False), "True, False or None"),
    (
        ("supply_prog", "ref_prog", "manual_check_prog"),
        lambda value: value is None or callable(value),
        "a function, or None",
    ),
    (
        ("supply_type",),
        lambda value: isinstance(value, TensorSupplyType),
        f"a TensorSupplyType: {', '.join(each.name for each in TensorSupplyType)}",
    ),
    (
        ("do_not_specialize",),
        lambda value: (
            isinstance(value, (list, tuple)) and all(isinstance(name, str) for name in value)
        ),
        "a list of names of parameters",
    ),
    (
        ("executor",),
        lambda value: value is None or callable(getattr(value, "submit", None)),
        "an executor of concurrent.futures, or None",
    ),
)

# Settings of TileLang that ask for nothing here. Candidates are compiled beside each other in any
# case, and one GPU measures all of them.
_WITHOUT_EFFECT = frozenset(
    {
        *("backend", "use_pipeline", "enable_grouped_compile", "group_compile_size"),
        *("benchmark_multi_gpu", "benchmark_devices"),
    }
)
