"""Kernels that CuTe DSL compiles: right and without a report at defaults, their flaws reported."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pytest
import torch

from tilelang.emulator import Device, EmulatorError, LaunchReport
from tilelang.errors import UserError

PROGRAMS = Path(__file__).with_name("cute_programs.py")
ARCHS = {"reverse": "sm_80", "hopper": "sm_90a", "blackwell": "sm_100a"}

pytestmark = pytest.mark.skipif(
    sys.platform != "linux", reason="nvidia-cutlass-dsl is there for Linux alone"
)


@functools.cache
def compiled(name: str, flaw: str = "") -> str:
    """Returns the PTX; in a process of its own, since the DSL has an LLVM and settings of its."""
    with tempfile.TemporaryDirectory() as folder:
        environment = os.environ | {
            "CUTE_DSL_ARCH": ARCHS[name],
            "CUTE_DSL_KEEP": "ptx",
            "CUTE_DSL_DUMP_DIR": folder,
        }
        command = [sys.executable, str(PROGRAMS), name, flaw]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        (text,) = Path(folder).glob("*.ptx")
        return text.read_text()


def reverse(flaw: str = "") -> LaunchReport:
    x = torch.randn(3, 512)
    y = torch.full_like(x, float("nan"))
    report = launch("reverse", flaw, 3, [x, y], smem=2048)
    assert torch.equal(y, x.flip(1))
    return report


def gemm(name: str, flaw: str = "") -> LaunchReport:
    m, n, rows, settings = {"hopper": (128, 128, 64, 1), "blackwell": (256, 128, 128, 32)}[name]
    device = Device(ARCHS[name])
    a, b = torch.randn(m, 256).bfloat16(), torch.randn(n, 256).bfloat16()
    c = torch.full((m, n), float("nan"))
    maps = [device.tensor_map(x, box=(r, 64), swizzle="128B") for x, r in ((a, rows), (b, 64))]
    args = [bytes(settings), *maps, c]  # what a tiled mma can be set to: all zero
    report = launch(name, flaw, (2, 2), args, smem=65536, device=device)
    torch.testing.assert_close(c.double(), a.double() @ b.double().T, rtol=1e-4, atol=1e-3)
    return report


def launch(name, flaw, grid, args, smem, device=None) -> LaunchReport:
    module = (device or Device(ARCHS[name])).load_ptx(compiled(name, flaw))
    (kernel,) = map(module.__getitem__, module)
    return kernel.launch(grid, kernel.reqntid, args, smem=smem)


def run(name: str, flaw: str = "") -> LaunchReport:
    return reverse(flaw) if name == "reverse" else gemm(name, flaw)


@pytest.mark.every_schedule
@pytest.mark.parametrize("name", ARCHS)
def test_right_without_a_report(name):
    report = run(name)
    assert report.producer == "cute"
    assert not report.findings and not report.warnings
    assert set(report.waived) == ({"missing-tcgen05-fence"} if name == "blackwell" else set())


@pytest.mark.budget(3)  # each flaw is another finding
@pytest.mark.parametrize(
    ("name", "flaw", "message"),
    [
        ("reverse", "copy", r"by cp\.async of warp . at .*cp\.async\.wait_group"),
        ("reverse", "barrier", r"cp\.async writes shared memory.*read by warp .*by a barrier"),
        (
            "hopper",
            "full",
            r"wgmma.* reads A in shared memory.*by a bulk copy completing on the mbarrier",
        ),
        ("hopper", "empty", r"over-arrival"),
        ("hopper", "group", r"bulk copy writes .*still being read by wgmma.*wgmma\.wait_group"),
        ("blackwell", "full", r"tcgen05\.mma reads its operand.*by a bulk copy completing"),
        (
            "blackwell",
            "result",
            r"tcgen05\.mma accumulates into tmem.*still being read by tcgen05\.ld",
        ),
        ("blackwell", "release", r"tcgen05\.ld of lanes.*not allocated"),
    ],
    ids=lambda value: value if value.isidentifier() else "",
)
def test_flaws_are_reported(name, flaw, message):
    with pytest.raises(EmulatorError, match=message):
        run(name, flaw)


def test_a_pointer_may_be_a_struct():
    """CuTe DSL passes a tensor of known shape as a struct of one pointer."""
    module = Device("sm_80").load_ptx(compiled("reverse"))
    (kernel,) = map(module.__getitem__, module)
    x, y = np.random.default_rng(0).standard_normal((2, 3, 512)).astype(np.float32)
    kernel.launch(3, 128, [x, y], smem=2048)
    assert np.array_equal(y, x[:, ::-1])
    with pytest.raises(UserError, match="has 4 bytes, but the parameter has 8"):
        kernel.launch(3, 128, [x, b"four"], smem=2048)
