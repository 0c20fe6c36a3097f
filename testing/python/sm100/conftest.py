"""Kernels of this folder run without a warning of the emulator."""

from __future__ import annotations

import warnings

import pytest


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
