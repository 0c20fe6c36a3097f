"""``kernel.asm["sass"]`` of programs that Triton compiles for the emulator."""

from __future__ import annotations

import pytest
import torch

pytest.importorskip("triton")
import triton
import triton.language as tl
from triton.compiler import compiler

from tilelang.emulator.triton import emulate
from tilelang.emulator.triton.launcher import Program
from tilelang.errors import UserError


@triton.jit
def doubled(x, out):
    at = tl.arange(0, 32)
    tl.store(out + at, tl.load(x + at) * 2)


@pytest.mark.parametrize("arch", ["sm_100a", "sm_90a", "sm_80"])
def test_sass(arch):
    before = compiler.get_sass
    with emulate(arch):
        x = torch.randn(32)
        out = torch.full_like(x, torch.nan)
        kernel = doubled[(1,)](x, out)
        with emulate("sm_80"):  # blocks nest
            lines = kernel.asm["sass"].splitlines()
    assert torch.equal(out, x * 2)
    assert any("EXIT" in line for line in lines)
    assert any("STG" in line for line in lines)
    assert compiler.get_sass is before


def test_what_ptxas_refuses():
    ptx = ".version 8.7\n.target sm_90a\n.address_size 64\n.visible .entry k() { no.such.op; }\n"
    with emulate("sm_90a"), pytest.raises(UserError, match="ptxas does not assemble the program"):
        compiler.get_sass(Program.binary(ptx, 32))


def test_machine_code_of_a_gpu_is_passed_on(monkeypatch):
    monkeypatch.setattr(compiler, "get_sass", lambda binary, fun=None: f"{binary!r} {fun}")
    with emulate("sm_90a"):
        assert compiler.get_sass(b"\x7fELF\xff", "k") == "b'\\x7fELF\\xff' k"
