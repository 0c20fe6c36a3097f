"""Every program here runs on each architecture: by the emulator, and on a GPU if there is one."""

from __future__ import annotations

import pytest


@pytest.fixture(
    params=["sm_80", "sm_90a", "sm_100a", pytest.param("cuda", marks=pytest.mark.requires_cuda)]
)
def target(request: pytest.FixtureRequest) -> str:
    """The target to compile for; "cuda" is the GPU of this machine."""
    return request.param
