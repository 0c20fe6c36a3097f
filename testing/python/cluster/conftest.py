"""Kernels of this folder are assembled by ptxas, and run without a warning of the emulator."""

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
