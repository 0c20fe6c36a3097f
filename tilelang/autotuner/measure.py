"""Runs one candidate: compares it with the reference and measures it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..ir.buffer import Buffer
from ..profiler import Profiler, compare, do_bench
from ..runtime.arguments import describe
from ..target import Target, device_target
from .settings import ProfileArgs

#: Arguments of a call, in order, or by name: each kernel takes those of its parameters.
Inputs = Sequence[Any] | Mapping[str, Any] | None

REMARK = (
    "no GPU of this machine can run the kernels: they are ranked by the time that the emulator's "
    "model of the GPU predicts"
)

#: The same, where the settings ask for it.
ASKED = (
    "they are ranked by the time that the emulator's model of the GPU predicts, as by_model says"
)


def device_of(target: Target) -> str:
    """Returns what candidates for a target are measured on: a GPU by name, or "emulator"."""
    if str(device_target()) != str(target):
        return "emulator"
    import torch

    return str(torch.cuda.get_device_name()) if torch.cuda.is_available() else "emulator"


def place(target: Target, inputs: Inputs, settings: ProfileArgs) -> str:
    """Returns what a search measures on: a GPU by name, or "emulator"."""
    return "emulator" if settings.by_model or _on_cpu(inputs) else device_of(target)


def _on_cpu(inputs: Inputs) -> bool:
    devices = [str(each.device) for each in values_of(inputs) if hasattr(each, "device")]
    return bool(devices) and all(device.startswith("cpu") for device in devices)


class Bench:
    """Measures candidates that compute the same.

    Args:
        settings: of the search.
        inputs: arguments of a call that are given, in order or by name; None to make them.
        on_gpu: whether to measure on a GPU.
        sizes: values of the variables of shapes, for tensors that are made.
    """

    def __init__(
        self, settings: ProfileArgs, inputs: Inputs, on_gpu: bool, sizes: Mapping[str, int]
    ) -> None:
        self._sizes = sizes
        self._settings = settings
        self._given = inputs
        self._on_gpu = on_gpu
        self._lock = threading.Lock()
        self._made: dict[tuple[str, ...], list[Any]] = {}

    def inputs(self, kernel: Any) -> list[Any]:
        """Returns the arguments of a call."""
        outputs = kernel.out_idx or []
        params = [param for i, param in enumerate(kernel.params) if i not in outputs]
        if isinstance(self._given, Mapping):
            return [self._here(self._given[str(param.name)]) for param in params]
        if self._given is not None:
            return [self._here(each) for each in self._given]
        with self._lock:
            return self._supplied(kernel, params)

    def _supplied(self, kernel: Any, params: list[Any]) -> list[Any]:
        settings = self._settings
        key = tuple(map(_signature, params))
        if key in self._made and settings.cache_input_tensors:
            return self._made[key]
        if settings.supply_prog is not None:
            made = list(settings.supply_prog(params))
        else:
            device = "cuda" if self._on_gpu else "cpu"
            profiler = Profiler(kernel, settings.supply_type).with_symbols(self._sizes)
            repeats = not self._on_gpu and not self.compares
            made = profiler.get_inputs(device, repeats=repeats)
        self._made[key] = made
        return made

    @property
    def compares(self) -> bool:
        """Returns whether candidates are compared with a reference."""
        return self._settings.ref_prog is not None and not self._settings.skip_check

    def _here(self, argument: Any) -> Any:
        """The argument where it is needed: the emulator takes tensors of the CPU."""
        return argument.cpu() if not self._on_gpu and hasattr(argument, "cpu") else argument

    def check(self, kernel: Any, inputs: Sequence[Any]) -> None:
        """Compares a run with the reference.

        Raises:
            AssertionError: they differ.
        """
        settings = self._settings
        if settings.ref_prog is None or not self.compares:
            return
        args = _copies(kernel, inputs)
        actual = compare.as_list(kernel(*args))
        actual = actual or [args[i] for i in _written(kernel)]
        theirs = _copies(kernel, inputs)
        expected = compare.as_list(settings.ref_prog(*theirs))
        expected = expected or [theirs[i] for i in _written(kernel)]
        if settings.manual_check_prog is not None:
            settings.manual_check_prog(actual, expected)
            return
        compare.assert_close(
            actual, expected, settings.rtol, settings.atol, settings.max_mismatched_ratio
        )

    def latency(self, kernel: Any, inputs: Sequence[Any], best: float | None) -> tuple[float, bool]:
        """Returns the cost of a call, and whether it is only a rough one, as it exceeds the best.

        Milliseconds: measured on a GPU, else predicted by the emulator's timing model.
        """
        args = _copies(kernel, inputs)
        if not self._on_gpu:
            return _predicted(kernel, args), False
        if best is not None:
            rough = float(do_bench(lambda: kernel(*args), _n_warmup=1, _n_repeat=3))
            if rough > self._settings.early_stop * best:
                return rough, True
        return self._full(lambda: kernel(*args)), False

    def reference(self, kernel: Any) -> float | None:
        """Returns the milliseconds of the reference program; None without it or without a GPU."""
        program = self._settings.ref_prog
        if program is None or not self._on_gpu:
            return None
        args = _copies(kernel, self.inputs(kernel))
        return self._full(lambda: program(*args))

    def _full(self, call: Callable[[], Any]) -> float:
        return float(do_bench(call, self._settings.warmup, self._settings.rep))


def comparison(settings: ProfileArgs) -> str:
    """Returns what an outcome depends on of the settings: with what results are compared, how."""
    if settings.skip_check or settings.ref_prog is None:
        return ""
    limits = (settings.rtol, settings.atol, settings.max_mismatched_ratio)
    return f"{limits} {_code(settings.ref_prog)} {_code(settings.manual_check_prog)}"


def _code(program: Any) -> str:
    """Tells functions apart by their code, as far as it shows; others by name."""
    code = getattr(program, "__code__", None)
    if code is None:
        return getattr(program, "__qualname__", type(program).__qualname__)
    consts = [each for each in code.co_consts if not hasattr(each, "co_code")]
    return f"{code.co_name} {code.co_code.hex()} {code.co_names} {consts}"


def _signature(param: Any) -> str:
    return f"{param.name} {param.dtype} {param.shape if isinstance(param, Buffer) else ''}"


def values_of(inputs: Inputs) -> list[Any]:
    """Returns the arguments that are given."""
    return list(inputs.values() if isinstance(inputs, Mapping) else inputs or ())


def signatures(inputs: Inputs) -> list[str]:
    """Returns what an outcome depends on of arguments that are given."""
    return [repr(describe(each)) for each in values_of(inputs)]


def _written(kernel: Any) -> list[int]:
    """Positions in a call of the tensors that the kernel writes to."""
    names = {str(buffer.name) for buffer in kernel.spec.written}
    outputs = kernel.out_idx or []
    inputs = [param for i, param in enumerate(kernel.params) if i not in outputs]
    return [i for i, param in enumerate(inputs) if str(param.name) in names]


def _copies(kernel: Any, inputs: Sequence[Any]) -> list[Any]:
    """Returns the arguments, with copies of tensors that the kernel writes to."""
    written = _written(kernel)
    return [
        (each.clone() if hasattr(each, "clone") else each.copy()) if i in written else each
        for i, each in enumerate(inputs)
    ]


def _predicted(kernel: Any, args: Sequence[Any]) -> float:
    """Milliseconds of all grids of a call by the timing model."""
    from ..emulator import TimingOptions, options

    # The checks of ordering take most of the time; the first launch of the best one has them.
    with options(sanitize=False):
        report = kernel.profile(*args, timing=TimingOptions(sampled=True, record=False))
    return float(sum(each.timing.grid_us for each in report.grids)) / 1e3


@contextlib.contextmanager
def on_device_of(inputs: Inputs):  # type: ignore[no-untyped-def]
    """Makes the GPU of the arguments the current one of this thread, once they are computed."""
    device = next((each.device for each in values_of(inputs) if hasattr(each, "device")), None)
    if getattr(device, "type", None) != "cuda":
        yield
        return
    import torch

    with torch.cuda.device(device):
        torch.cuda.synchronize()  # of the caller's stream, which is not this thread's
        yield
