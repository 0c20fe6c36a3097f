"""How candidates are measured, checked and searched."""

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
    by_estimate: bool = False

    def __post_init__(self) -> None:
        for name in ("warmup", "rep", "timeout", "early_stop"):
            if not getattr(self, name) > 0:
                raise ConfigError(f"{name}={getattr(self, name)!r} of a search is not positive")
        if self.budget is not None and not self.budget > 0:
            raise ConfigError(f"budget={self.budget!r} of a search is not positive")
        if self.by_model and self.by_estimate:
            raise ConfigError("by_model and by_estimate of a search exclude each other")

    def but(self, **changes: Any) -> ProfileArgs:
        """Returns the settings with some of them changed; None leaves one as it is.

        Raises:
            ConfigError: there is no such setting.
        """
        known = {field.name for field in dataclasses.fields(self)}
        for name in changes:
            if name not in known and name not in _WITHOUT_EFFECT:
                raise ConfigError(
                    f"a search has no setting {name!r}",
                    notes=[f"it has {', '.join(sorted(known))}"],
                )
        given = {k: v for k, v in changes.items() if v is not None and k in known}
        return dataclasses.replace(self, **given)


# Settings of TileLang that ask for nothing here.
_WITHOUT_EFFECT = frozenset({"backend", "do_not_specialize", "topk"})
