"""Translates ``compile_flags=``, flags of nvcc, into options of NVRTC."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

#: Flags of nvcc that NVRTC has no option for, and the reason why it needs none.
_WITHOUT_EFFECT = (
    (re.compile(r"-O[0-3s]?"), "NVRTC optimizes device code, and there is no host code"),
    (re.compile(r"-(W.*|-Wno-.*|Werror.*)"), "it is about warnings of the host compiler"),
    (re.compile(r"--?(expt-)?relaxed-constexpr"), "NVRTC takes constexpr functions as they are"),
    (re.compile(r"--?(expt-)?extended-lambda"), "there is no host code whose lambdas it is about"),
    (re.compile(r"-(g|m64|fPIC|f.*)"), "there is no host code"),
    (re.compile(r"(-t|--threads=?)\d+"), "NVRTC compiles one kernel for one architecture"),
    (re.compile(r"-l.+"), "kernels are not linked with libraries"),
    (re.compile(r"--?keep"), "kernel.export_sources() writes the sources"),
)
_KEPT = re.compile(r"--?(lineinfo|ftz=.*|fmad=.*)")
_FOR_PTXAS = re.compile(r"(?:--ptxas-options|-Xptxas)=(.+)")
_FOR_OTHERS = ("-Xcompiler", "--compiler-options", "-Xlinker", "--linker-options")


def listed(flags: Sequence[str] | str | None) -> list[str]:
    """Returns the flags of a text or a list."""
    if flags is None:
        return []
    return flags.split() if isinstance(flags, str) else [str(flag) for flag in flags]


def nvrtc_flags(flags: Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns the options for NVRTC, and a remark for each flag that has no effect.

    Args:
        flags: as nvcc takes them: ``-Xptxas a,b`` is ``--ptxas-options=a`` and ``=b``.
    """
    options: list[str] = []
    remarks: list[str] = []
    rest = iter(flags)
    for flag in rest:
        if flag in ("-Xptxas", "--ptxas-options"):
            options += _to_ptxas(next(rest, ""))
        elif found := _FOR_PTXAS.fullmatch(flag):
            options += _to_ptxas(found[1])
        elif flag.partition("=")[0] in _FOR_OTHERS:
            whole = flag if "=" in flag else f"{flag} {next(rest, '')}"
            remarks.append(f"compile flag {whole!r} has no effect: there is no host code")
        elif why := _reason(flag):
            remarks.append(f"compile flag {flag!r} has no effect: {why}")
        else:
            options.append(flag)
    return options, remarks


def _to_ptxas(text: str) -> Iterator[str]:
    return (f"--ptxas-options={option}" for option in text.split(",") if option)


def _reason(flag: str) -> str | None:
    if _KEPT.fullmatch(flag):
        return None
    return next((why for form, why in _WITHOUT_EFFECT if form.fullmatch(flag)), None)


__all__ = ["listed", "nvrtc_flags"]
