"""Triton programs through the emulated driver: right on every target, and no report, whatever the
schedule of asynchronous operations."""

from __future__ import annotations

import importlib
import warnings

import pytest

pytest.importorskip("triton")
from tilelang.emulator import EmulatorWarning, options
from tilelang.emulator.triton import emulate
from tilelang.emulator.watch import watching

FILES = ("attention", "block_scaled", "elementwise", "gemm", "gluon_programs", "reductions")
PROGRAMS = [
    (each, arch)
    for file in FILES
    for each in importlib.import_module(f"triton_programs.{file}").PROGRAMS
    for arch in each.archs
]


@pytest.mark.budget(10)  # each program uses other instructions
@pytest.mark.parametrize(
    ("program", "arch"), PROGRAMS, ids=[f"{each.name}-{arch}" for each, arch in PROGRAMS]
)
def test_program(program, arch):
    launches = []

    def watch(launch):
        launches.append(launch.run())
        return launches[-1]

    with emulate(arch), watching(watch), warnings.catch_warnings():
        warnings.simplefilter("error", EmulatorWarning)
        for schedule in ("late", "eager", 1):
            with options(schedule=schedule):
                program.run(arch)
    assert launches
