"""The emulated GPU of a test."""

from __future__ import annotations

import contextlib
import importlib.util
import linecache
from collections.abc import Iterator
from typing import Any

from tilelang.algebra import Algebra
from tilelang.emulator import Device, EmulatorError, LaunchReport, Module, options
from tilelang.emulator.triton import emulate
from tilelang.emulator.watch import Launch, watching


class Emulator:
    """What the fixture ``emulator`` gives.

    Attributes:
        arch: the target, as ``"sm_90a"``.
        schedule: when asynchronous operations act: ``"late"``, ``"eager"`` or a seed.
        launches: the reports of the launches of the test that came to their end.
        findings: races, missing waits and missing fences, of all launches.
        algebra: the elements of floats, where tensors are compared over a finite field; else None.
    """

    def __init__(self, arch: str, schedule: str | int = "late", algebra: bool = False) -> None:
        self.arch, self.schedule = arch, schedule
        self.algebra = Algebra() if algebra else None
        self._followed: Any = None
        self.launches: list[LaunchReport] = []
        self.findings: list[EmulatorError] = []
        self.device = Device(arch)

    def load_ptx(self, text: str | bytes) -> Module:
        """As :meth:`tilelang.emulator.Device.load_ptx`."""
        return self.device.load_ptx(text)

    def load_cuda(self, source: Any, **arguments: Any) -> Module:
        """As :meth:`tilelang.emulator.Device.load_cuda`."""
        return self.device.load_cuda(source, **arguments)

    @contextlib.contextmanager
    def active(self) -> Iterator[Emulator]:
        """Launches of the block run by the schedule and are checked; Triton programs, too."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(options(schedule=self.schedule, sanitize="report", progress=False))
            stack.enter_context(watching(self._launched))
            if importlib.util.find_spec("triton") is not None:
                stack.enter_context(emulate(self.arch))
            if self.algebra is not None:
                import torch  # noqa: F401 - the mode follows it

                self._followed = stack.enter_context(self.algebra.mode(seed=0))
            yield self

    def _launched(self, launch: Launch) -> LaunchReport:
        try:
            report = launch.run()
        except EmulatorError as error:
            self.findings += error.findings
            raise
        self.findings += report.findings
        self.launches.append(report)
        return report

    def describe(self) -> str:
        """Returns the findings with the source lines of both sides."""
        head = f"{len(self.findings)} findings on {self.arch}, schedule {self.schedule}"
        return "\n".join([head, *map(_text, self.findings)])

    def describe_algebra(self) -> str:
        """Returns how tensors were compared, and what has lost elements on the way."""
        assert self.algebra is not None
        follow, functions = self._followed
        field, others = functions.compared
        lines = [f"comparisons over the field: {field}, of numbers: {others}"]
        lines += [f"torch.{name} loses elements, {n} times" for name, n in follow.lost.items()]
        return "\n".join([*lines, *map(str, self.algebra.remarks)])


def _text(error: EmulatorError) -> str:
    times = f", {error.count} times" if error.count > 1 else ""
    lines = [f"{error.kind} in {error.kernel}{times}: {error.reason}"]
    for span, ptx_line in (
        (error.span, error.ptx_line), (error.earlier_span, error.earlier_line),
    ):  # fmt: skip
        if span is not None:
            source = linecache.getline(span.file, span.line).strip()
            lines.append(f"    {span.file}:{span.line}: {source}")
        elif ptx_line:
            lines.append(f"    PTX line {ptx_line}")
    return "\n".join(lines)


def device_of_session(arch: str, cuda: bool) -> contextlib.ExitStack:
    """Makes an emulated GPU the one of the process, also while tests are collected.

    Returns:
        What ends it when it is closed.
    """
    stack = contextlib.ExitStack()
    Device(arch)  # tells of an architecture that there is not
    if cuda:
        from tilelang.emulator import as_cuda

        stack.enter_context(as_cuda(arch))
    elif importlib.util.find_spec("triton") is not None:
        stack.enter_context(emulate(arch))
    return stack


__all__ = ["Emulator", "device_of_session"]
