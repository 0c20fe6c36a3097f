"""``python -m tilelang.emulator --timing``, and profiles of compiled kernels."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from timing.trace_format import validate

import tilelang
import tilelang.language as T
from tilelang import emulator
from tilelang.emulator.__main__ import main
from tilelang.emulator.timing import compare
from tilelang.errors import UserError
from tilelang.runtime.nvrtc import compile_cuda
from tilelang.runtime.resources import parse

SCALE = """
extern "C" __global__ void scale(float* x, float a) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  for (int j = 0; j < COUNT; ++j) x[i] = x[i] * a + 1;
}"""
OPTIONS = ["--arch", "sm_90a", "--grid", "32", "--block", "128", "--arg", "f32[4096]:arange",
           "--arg", "2.5", "--timing"]  # fmt: skip


@pytest.fixture
def files(tmp_path):
    """The same kernel with more and with less work."""
    paths = []
    for count in (64, 4):
        path = tmp_path / f"scale{count}.ptx"
        source = SCALE.replace("COUNT", str(count))
        path.write_text(compile_cuda(source, "sm_90a").ptx)
        paths.append(str(path))
    return paths


def test_text_of_a_timed_launch(files, capsys):
    assert main([files[0], *OPTIONS]) == 0
    out = capsys.readouterr().out
    assert "kernel scale" in out and "H200" in out and "critical path" in out


def test_json_trace_page_and_picture(files, tmp_path, capsys):
    trace, picture, page = (tmp_path / name for name in ("t.json", "p.svg", "r.html"))
    more = ["--report", "json", "--trace", str(trace), "--picture", str(picture)]
    assert main([files[0], *OPTIONS, *more]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert numbers["kernel"] == "scale" and numbers["ctas"] == 32
    assert numbers["grid_us"] > 0 and numbers["lines"] and "HBM" in numbers["engines"]
    assert validate(json.loads(trace.read_text()))["X"] > 0
    assert picture.read_text().startswith("<svg")
    assert main([files[0], *OPTIONS, "--report", "html", "--output", str(page)]) == 0
    assert page.read_text().startswith("<!DOCTYPE html>") and capsys.readouterr().out == ""


def test_what_is_written_asks_for_timing(files, tmp_path, capsys):
    page = tmp_path / "page.html"
    without = [option for option in OPTIONS if option != "--timing"]
    assert main([files[0], *without, "--report", "html", "--output", str(page)]) == 0
    assert page.read_text().startswith("<!DOCTYPE html>") and not capsys.readouterr().out
    assert main([files[0], *without, "--compare", files[0]]) == 0
    assert "second scale takes 1 times the time of first scale" in capsys.readouterr().out


def test_comparison_of_two_files(files, capsys):
    assert main([files[0], *OPTIONS, "--compare", files[1]]) == 0
    out = capsys.readouterr().out
    assert "scale takes 0." in out and "time of the grid" in out
    assert main([files[0], *OPTIONS, "--compare", files[1], "--report", "json"]) == 2
    assert "--compare prints text" in capsys.readouterr().err


@tilelang.jit(target="sm_90a", out_idx=[-1])
def _two_grids(n):
    @T.prim_func
    def main(X: T.Tensor((n,), "float32"), Y: T.Tensor((n,), "float32")):
        with T.Kernel(T.ceildiv(n, 256), threads=128) as b:
            for i in T.Parallel(256):
                Y[b * 256 + i] = X[b * 256 + i]
        with T.Kernel(T.ceildiv(n, 256), threads=128) as b:
            for i in T.Parallel(256):
                for _ in T.serial(20):
                    Y[b * 256 + i] = T.sin(Y[b * 256 + i])

    return main


def test_kernels_profile_themselves():
    kernel = _two_grids(4096)
    x = torch.randn(4096)
    report = kernel.profile(x)
    assert len(report.grids) == 2
    assert report.timing.grid_us == max(each.timing.grid_us for each in report.grids)
    assert report is report.grids[1]
    assert [line for line in report.lines if line.file.endswith("test_report_command_line.py")]
    assert compare(report, kernel).speedup == pytest.approx(1, rel=0.05)
    made = kernel.profile()  # on tensors of its own
    assert made.timing.ctas == 16
    assert "<iframe" in report._repr_html_()


def test_timed_launches_have_a_profile_and_their_results():
    module = emulator.Device("sm_90a").load_ptx(
        compile_cuda(SCALE.replace("COUNT", "1"), "sm_90a").ptx
    )
    x = np.arange(4096, dtype=np.float32)
    report = module["scale"].launch(32, 128, [x, 2.0], timing=True)
    np.testing.assert_array_equal(x, np.arange(4096) * 2.0 + 1)
    assert report.profile is not None and report.profile.timing is report.timing
    assert module["scale"].launch(32, 128, [x, 2.0]).profile is None
    again = module["scale"].profile(32, 128, [x, 2.0])
    assert compare(report.profile, again).speedup == pytest.approx(1, rel=0.05)


def test_registers_are_those_of_ptxas():
    source = SCALE.replace("COUNT", "1")
    artifact = compile_cuda(source, "sm_90a")
    kernel = emulator.Device("sm_90a").load_ptx(artifact.ptx)["scale"]
    expected = parse(artifact.log)["scale"].registers
    assert kernel.registers == expected > 0
    x = np.zeros(4096, np.float32)
    timed = kernel.profile(32, 128, [x, 2.0]).timing
    assert timed.registers == -(-expected // 8) * 8
    many = emulator.TimingOptions(sampled=True, registers=255)
    assert kernel.profile(32, 128, [x, 2.0], timing=many).timing.registers == 255
    with pytest.raises(UserError, match="registers"):
        emulator.TimingOptions(registers=256)
    compiled = _two_grids(4096)
    assert compiled.profile(torch.randn(4096)).timing.registers == -(-compiled.n_regs // 8) * 8
