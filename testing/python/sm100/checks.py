"""What every kernel of a folder undergoes: the folder's conftest imports these fixtures."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from durations import test_of
from sm100.assembler import Assembler

from tilelang.runtime import cache

MARKERS = (
    "may_spill(reason): kernels of the test hold more than 255 registers a thread",
    "may_serialise(reason): ptxas may let wgmma of kernels of the test wait for each other",
)


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


@pytest.fixture(autouse=True)
def _warnings_are_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


@pytest.fixture(scope="session")
def assembler(request: pytest.FixtureRequest, tmp_path_factory) -> Assembler:
    kept = getattr(request.config, "cache", None)  # there is none under -p no:cacheprovider
    return Assembler(kept.mkdir("ptxas") if kept else tmp_path_factory.mktemp("ptxas"))


@pytest.fixture(scope="session")
def assembled_cases(request: pytest.FixtureRequest) -> set[str]:
    """The cases whose kernels ptxas assembles: at each change the first one of each test.

    ptxas takes as long as NVRTC; kernels of one test differ by shapes and types more than by what
    ptxas refuses.
    """
    names = [item.nodeid for item in request.session.items]
    if request.config.getoption("--tier") == "all":
        return set(names)
    return set({test_of(name): name for name in reversed(names)}.values())


@pytest.fixture(autouse=True)
def _assembled(
    request: pytest.FixtureRequest, monkeypatch, assembler: Assembler, assembled_cases: set[str]
):
    if request.node.nodeid not in assembled_cases:
        return
    may_spill = request.node.get_closest_marker("may_spill")
    may_serialise = request.node.get_closest_marker("may_serialise")
    compile_cached = cache.compile_cached

    def checked(source: str, arch: str, *args: Any, **options: Any) -> cache.Artifact:
        artifact = compile_cached(source, arch, *args, **options)
        for name, usage in assembler.usage(artifact.ptx, arch).items():
            assert may_spill or usage.spill_stores == usage.spill_loads == 0, f"{name}: {usage}"
        losses = assembler.losses(artifact.ptx, arch)
        assert may_serialise or not losses, "\n".join(losses)
        return artifact

    monkeypatch.setattr(cache, "compile_cached", checked)
