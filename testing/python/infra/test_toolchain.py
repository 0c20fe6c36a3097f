"""ptxas and nvdisasm come from their wheels and understand each other and sm_100a."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from tilelang.runtime import toolchain

# Needs PTX ISA 9.0 and the architecture-specific sm_100a; ends in an instruction easy to find.
PTX = """
.version 9.0
.target sm_100a
.address_size 64
.visible .entry f(.param .u64 out) {
  .reg .b32 %r<3>;
  .reg .b64 %rd<2>;
  ld.param.u64 %rd1, [out];
  mov.u32 %r1, %tid.x;
  popc.b32 %r2, %r1;
  tcgen05.wait::st.sync.aligned;
  st.global.u32 [%rd1], %r2;
  ret;
}
"""


def assemble(ptx: str, folder) -> subprocess.CompletedProcess[str]:
    source, cubin = folder / "kernel.ptx", folder / "kernel.cubin"
    source.write_text(ptx)
    command = [toolchain.find_ptxas(), "-arch=sm_100a", "-o", cubin, source]
    return subprocess.run(command, capture_output=True, text=True)


def test_ptxas_assembles_and_nvdisasm_disassembles(tmp_path):
    assert assemble(PTX, tmp_path).returncode == 0
    command = [toolchain.find_nvdisasm(), "-c", tmp_path / "kernel.cubin"]
    sass = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "sm_100a" in sass and "POPC" in sass


def test_ptxas_refuses_what_is_wrong(tmp_path):
    done = assemble(PTX.replace("wait::st", "wait::mma"), tmp_path)
    assert done.returncode != 0 and "line 11" in done.stderr


def test_a_missing_tool_names_its_wheel(monkeypatch):
    monkeypatch.setattr(toolchain.importlib.util, "find_spec", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(toolchain.ToolNotFoundError, match="pip install nvidia-cuda-nvcc"):
        toolchain.find_tool.__wrapped__("ptxas")
