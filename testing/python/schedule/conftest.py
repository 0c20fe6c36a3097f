"""Markers of the tests here whose kernels are assembled by ptxas."""

from __future__ import annotations

import pytest
from sm100.checks import MARKERS


def pytest_configure(config: pytest.Config) -> None:
    for marker in MARKERS:
        config.addinivalue_line("markers", marker)
