"""Kernels of this folder run without a warning of the emulator, on the same data each time; ptxas
accepts them and serialises no wgmma, and but for named ones they need no more registers than there
are."""

from __future__ import annotations

import pytest
from sm100.checks import (
    MARKERS,
    _assembled,
    _seed,
    _warnings_are_errors,
    assembled_cases,
    assembler,
)

__all__ = ["_assembled", "_seed", "_warnings_are_errors", "assembled_cases", "assembler"]


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
