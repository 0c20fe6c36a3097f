"""Errors and warnings of the emulator."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from tilelang import errors
from tilelang.emulator.levels import level_of


class EmulatorError(errors.EmulatorError):
    """The emulated program is wrong, or does something that the emulator does not model.

    Attributes:
        kind: a short stable name: ``"syntax"``, ``"unsupported"``, ``"illegal-operand"``,
            ``"out-of-bounds"``, ``"misaligned"``, ``"divergence"``, ``"deadlock"``,
            ``"instruction-limit"``, ``"trap"``, ``"assert"``, ``"mbarrier"``, ``"tmem"``,
            ``"too-large"``, ``"out-of-memory"`` (of the host) ...
        kernel: name of the kernel, or "".
        ptx_line, ptx_text: line of the PTX text (from 1; 0 if unknown), and the line itself.
        span: file and line of the source, by the ``.loc`` directives; of code that was inlined, the
            line of the call in the kernel's own file.
        inlined: file and line of the inlined function (of a header) that it belongs to, or None.
        cta, warp, lane: who did it; None where it does not apply.
        address, buffer: the memory address and the name of the buffer it belongs to, or None.
        earlier_line, earlier_span: PTX line and source line of the earlier one of two accesses that
            conflict; 0 and None where it does not apply.
        count: how often it was found, if the launch collected its reports.
        findings, letters: what the launch had found before this error, as in
            :class:`~tilelang.emulator.device.LaunchReport`.
    """

    def __init__(self, fields: dict[str, Any]) -> None:
        span = None
        if fields.get("source_line"):
            span = errors.Span(fields.get("source_file", ""), fields["source_line"])
        super().__init__(fields.get("report", fields["message"]), span=span)
        self.kind: str = fields["kind"]
        self.reason: str = fields["message"]
        self.kernel: str = fields.get("kernel", "")
        self.ptx_line: int = fields.get("ptx_line", 0)
        self.ptx_text: str = fields.get("ptx_text", "")
        inlined = fields.get("inlined_line")
        self.inlined = errors.Span(fields["inlined_file"], inlined) if inlined else None
        self.cta: tuple[int, ...] | None = tuple(fields["cta"]) if "cta" in fields else None
        self.warp: int | None = _index(fields.get("warp"))
        self.lane: int | None = _index(fields.get("lane"))
        self.address: int | None = fields.get("address")
        self.buffer: str | None = fields.get("buffer") or None
        earlier = fields.get("earlier", {})
        self.earlier_line: int = earlier.get("ptx_line", 0)
        self.earlier_span = None
        if earlier.get("source_line"):
            self.earlier_span = errors.Span(earlier["source_file"], earlier["source_line"])
        self.count: int = fields.get("count", 1)
        self.findings: list[EmulatorError] = []
        self.letters: list[EmulatorError] = []
        self._fields = fields

    @property
    def fields(self) -> dict[str, Any]:
        """Returns what the error is made of, as the emulator reports it."""
        return self._fields

    @property
    def level(self) -> str:
        """Returns ``"breaks"`` or ``"letter"``; see :mod:`tilelang.emulator.levels`."""
        return level_of(self.kind)

    @property
    def places(self) -> list[Hashable]:
        """Returns the source lines of this and of the earlier access, or their PTX lines."""
        found: list[Hashable] = []
        for span, line in ((self.span, self.ptx_line), (self.earlier_span, self.earlier_line)):
            if span is not None:
                found.append((span.file, span.line))
            elif line or not found:
                found.append(line)
        return found

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self._fields,)


def error_of(fields: dict[str, Any]) -> errors.TileLangError:
    """Returns the error that a report of the emulator describes: also one of our own."""
    if fields["kind"] == "internal":
        return errors.InternalError(fields.get("report", fields["message"]))
    return EmulatorError(fields)


class EmulatorWarning(UserWarning):
    """Something suspicious that real hardware would let pass, e.g. an uninitialized read."""


def _index(value: int | None) -> int | None:
    return None if value is None or value < 0 else value
