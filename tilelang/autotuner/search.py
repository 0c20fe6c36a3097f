"""The search: compiles candidates in parallel and measures them one after the other."""

from __future__ import annotations

import concurrent.futures
import contextvars
import ctypes
import functools
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeout
from types import MappingProxyType
from typing import Any, NamedTuple

from .. import target as targets
from ..errors import ConfigError, TileLangError
from ..jit import compiler
from ..jit.kernel import JITKernel
from ..runtime.code import assembling
from ..transform.pass_context import surroundings
from . import measure, record
from .progress import Progress
from .result import AutotuneResult, Trial
from .settings import ProfileArgs

#: Traces a configuration: the function in the IR, and the options of ``tilelang.compile``.
Describe = Callable[[Mapping[str, Any]], tuple[Any, dict[str, Any]]]
_NO_SIZES: Mapping[str, int] = MappingProxyType({})


class _Candidate(NamedTuple):
    config: dict[str, Any]
    func: Any
    options: dict[str, Any]
    key: str


class _Outcome(NamedTuple):
    kernel: JITKernel
    latency: float
    rough: bool


class _Skipped(Exception):
    """A candidate is left out; tells why, and whether that is so on every run."""

    def __init__(self, reason: str, lasting: bool) -> None:
        super().__init__(reason)
        self.lasting = lasting


class _Abandoned(BaseException):
    """Ends a measurement that took too long, in its thread."""


def compile_candidate(func: Any, options: Mapping[str, Any]) -> JITKernel:
    """Compiles a traced candidate; what executors are given to do."""
    with assembling(if_needed=True):
        return compiler.compile(func, **options)


class Search:
    """One search over configurations of a kernel.

    Args:
        describe: traces a configuration.
        configs: the configurations.
        settings: how to search.
        inputs: arguments of a call; None to make them.
        sizes: values of the variables of shapes, which stand for a class of calls: what is found
            for them holds for inputs of others.
    """

    def __init__(
        self,
        describe: Describe,
        configs: Sequence[Mapping[str, Any]],
        settings: ProfileArgs,
        inputs: measure.Inputs,
        sizes: Mapping[str, int] = _NO_SIZES,
    ) -> None:
        self._describe = describe
        self._configs = [dict(config) for config in configs]
        self._settings = settings
        self._inputs = inputs
        self._sizes = sizes
        self._start = time.monotonic()
        self._trials: list[Trial | None] = [None] * len(configs)
        self._kernels: dict[int, JITKernel] = {}
        #: Outcomes by their programs: the compiler may make one of several configurations.
        self._known: dict[tuple[str, str], _Outcome] = {}
        self._locks: dict[tuple[str, str], threading.Lock] = defaultdict(threading.Lock)
        #: Those that other threads find out, by number.
        self._ahead: dict[int, Future[_Outcome]] = {}
        self._device = ""
        self._bench: measure.Bench | None = None

    def run(self) -> AutotuneResult:
        """Returns the best configuration.

        Raises:
            ConfigError: none of them could be compiled, run and compared.
        """
        executor = self._settings.executor or ThreadPoolExecutor(self._settings.workers)
        timers = ThreadPoolExecutor(self._settings.workers)
        progress: Progress | None = None
        try:
            for number, candidate, future in self._submitted(executor, timers):
                progress = progress or Progress(
                    len(self._configs), self._settings.progress, self._unit
                )
                self._trials[number] = self._tried(number, candidate, future)
                progress.step(self._best()[1])
        finally:
            if progress:
                progress.close(self._best()[1])
            timers.shutdown(wait=False, cancel_futures=True)
            if self._settings.executor is None:
                executor.shutdown(wait=False, cancel_futures=True)
        return self._result()

    # Candidates -----------------------------------------------------------------------------

    def _submitted(self, executor: Executor, timers: Executor):  # type: ignore[no-untyped-def]
        """Gives number, candidate and compilation of each, so many at a time."""
        size = 2 * (self._settings.workers or 8)
        for start in range(0, len(self._configs), size):
            batch = []
            for number, config in enumerate(self._configs[start : start + size], start):
                candidate, future = self._submit(executor, config)
                batch.append((candidate, future))
                if isinstance(candidate, _Candidate) and future and self._runs_ahead():
                    self._ahead[number] = timers.submit(
                        _in_context(self._outcome), candidate, future
                    )
            if self._device != "emulator":
                # Compiling beside a measurement would delay its launches.
                futures = [future for _, future in batch if future is not None]
                concurrent.futures.wait(futures, timeout=self._settings.timeout)
            for number, (candidate, future) in enumerate(batch, start):
                yield number, candidate, future

    def _runs_ahead(self) -> bool:
        """Whether candidates are timed several at a time: by the model, which asks nobody."""
        timed = self._device == "emulator" and self._settings.budget is None
        return timed and self._bench is not None and not self._bench.compares

    def _submit(
        self, executor: Executor, config: dict[str, Any]
    ) -> tuple[_Candidate | Trial, Future[JITKernel] | None]:
        if self._is_over():
            return self._out_of_time(config), None
        try:
            candidate = self._candidate(config)
        except Exception as error:  # of the user's function too, whatever it is
            return Trial(config, reason=_reason(error)), None
        if record.is_enabled() and (known := record.load(candidate.key)) is not None:
            cached = Trial(config, known["latency"], known["reason"], known["rough"], True)
            return cached, None
        return candidate, executor.submit(compile_candidate, candidate.func, candidate.options)

    def _candidate(self, config: dict[str, Any]) -> _Candidate:
        func, options = self._describe(config)
        target = targets.resolve(options.get("target", "auto"))
        # Executors do not have what surrounds the search.
        options = {**surroundings(options), "target": str(target)}
        if self._bench is None:
            self._device = measure.place(target, self._inputs, self._settings)
            on_gpu = self._device != "emulator"
            self._bench = measure.Bench(self._settings, self._inputs, on_gpu, self._sizes)
        inputs = [f"{name} {size}" for name, size in sorted(self._sizes.items())]
        inputs = inputs or measure.signatures(self._inputs)
        key = record.key(func, options, self._device, inputs, measure.comparison(self._settings))
        return _Candidate(config, func, options, key)

    # Trials ---------------------------------------------------------------------------------

    def _tried(
        self, number: int, candidate: _Candidate | Trial, future: Future[JITKernel] | None
    ) -> Trial:
        if isinstance(candidate, Trial) or future is None:
            return candidate  # type: ignore[return-value]
        if self._is_over():
            future.cancel()
            return self._out_of_time(candidate.config)
        try:
            outcome = self._ahead.pop(number, None)
            found = outcome.result() if outcome else self._outcome(candidate, future)
        except _Skipped as skipped:
            trial = Trial(candidate.config, reason=str(skipped))
            if skipped.lasting:
                self._keep(candidate, trial)
            return trial
        self._kernels[number] = found.kernel
        trial = Trial(candidate.config, found.latency, rough=found.rough)
        self._keep(candidate, trial)
        return trial

    def _outcome(self, candidate: _Candidate, future: Future[JITKernel]) -> _Outcome:
        """Measures a candidate, unless it is the same program as another one."""
        kernel = self._compiled(candidate, future)
        program = kernel.get_kernel_source(), kernel.get_host_source()
        with self._locks[program]:
            if program not in self._known:
                measured = _within(self._settings.timeout, lambda: self._measured(kernel))
                self._known[program] = _Outcome(kernel, *measured)
            return self._known[program]

    def _compiled(self, candidate: _Candidate, future: Future[JITKernel]) -> JITKernel:
        timeout = self._settings.timeout
        try:
            return future.result(timeout=timeout)
        except (FutureTimeout, TimeoutError):
            future.cancel()
            raise _Skipped(f"compiling took longer than {timeout:g} s", False) from None
        except TileLangError as error:
            raise _Skipped(_reason(error), True) from None
        except Exception as error:
            if self._settings.executor is None:
                raise _Skipped(_reason(error), False) from None
        # Executors of other processes cannot carry every candidate, and may lose one.
        return _within(timeout, lambda: compile_candidate(candidate.func, candidate.options))

    def _measured(self, kernel: JITKernel) -> tuple[float, bool]:
        assert self._bench is not None
        with measure.on_device_of(self._inputs):
            inputs = self._bench.inputs(kernel)
            try:
                self._bench.check(kernel, inputs)
            except AssertionError as error:
                raise _Skipped(f"wrong result: {_first_line(error)}", False) from None
            best = self._best()[1]
            return self._bench.latency(kernel, inputs, best.latency if best else None)

    def _keep(self, candidate: _Candidate, trial: Trial) -> None:
        if record.is_enabled():
            outcome = {"latency": trial.latency, "reason": trial.reason, "rough": trial.rough}
            record.store(candidate.key, outcome)

    def _is_over(self) -> bool:
        """Returns whether the budget is spent; never before there is one candidate to use."""
        budget = self._settings.budget
        if budget is None or self._best()[1] is None:
            return False
        return time.monotonic() - self._start > budget

    def _out_of_time(self, config: dict[str, Any]) -> Trial:
        return Trial(config, reason=f"the budget of {self._settings.budget:g} s was spent")

    # Result ---------------------------------------------------------------------------------

    @property
    def _unit(self) -> str:
        return "ms, predicted" if self._device == "emulator" else "ms"

    def _best(self) -> tuple[int, Trial | None]:
        """The best trial; the first one of equals."""
        known = [(i, t) for i, t in enumerate(self._trials) if t and t.latency is not None]
        return min(known, key=lambda each: each[1].latency or 0.0, default=(-1, None))

    def _result(self) -> AutotuneResult:
        trials = [trial for trial in self._trials if trial is not None]
        number, best = self._best()
        if best is None or best.latency is None:
            reasons = dict.fromkeys(trial.reason for trial in trials)
            raise ConfigError(
                f"none of {len(trials)} configurations can be used",
                notes=[f"{_example(trials, reason)}: {reason}" for reason in list(reasons)[:8]],
            )
        kernel = self._kernels.get(number)
        if kernel is None:
            func, options = self._describe(best.config)
            kernel = compile_candidate(func, options)
        assert self._bench is not None
        on_gpu = self._device != "emulator"
        result = AutotuneResult(
            best.latency,
            best.config,
            kernel,
            self._bench.reference(kernel),
            self._unit,
            trials,
            "" if on_gpu else measure.ASKED if self._settings.by_model else measure.REMARK,
        )
        kernel.tuner_result = result
        return result


def _in_context(action: Callable[..., Any]) -> Callable[..., Any]:
    """The action for another thread, with what surrounds the search in this one."""
    return functools.partial(contextvars.copy_context().run, action)


def _example(trials: Sequence[Trial], reason: str) -> str:
    config = next(trial.config for trial in trials if trial.reason == reason)
    return ", ".join(f"{name}={value}" for name, value in config.items())


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).split("\n")[0]


def _reason(error: BaseException) -> str:
    text = error.message if isinstance(error, TileLangError) else _first_line(error)
    return text if isinstance(error, TileLangError) else f"{type(error).__name__}: {text}"


def _within(seconds: float, action: Callable[[], Any]) -> Any:
    """Runs an action in a thread of its own; what takes too long is told to end.

    It ends when it is back in Python: a launch of the emulator soon, a kernel on a GPU that never
    ends not at all.
    """
    outcome: list[Any] = []
    context = contextvars.copy_context()

    def run() -> None:
        try:
            outcome.append((True, context.run(action)))
        except BaseException as error:
            outcome.append((False, error))

    thread = threading.Thread(target=run, daemon=True, name="tilelang-autotune")
    thread.start()
    thread.join(seconds)
    if not outcome:
        ident = ctypes.c_ulong(thread.ident or 0)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ident, ctypes.py_object(_Abandoned))
        raise _Skipped(f"running it took longer than {seconds:g} s", False)
    succeeded, value = outcome[0]
    if succeeded:
        return value
    if isinstance(value, _Skipped):
        raise value
    if not isinstance(value, Exception):
        raise value
    raise _Skipped(_reason(value), False)
