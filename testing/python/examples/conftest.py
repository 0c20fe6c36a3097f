"""Examples are compiled with the program checked after every pass."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def verified_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the compiler check what each pass leaves, as its authors would."""
    monkeypatch.setenv("TILELANG_VERIFY", "1")
