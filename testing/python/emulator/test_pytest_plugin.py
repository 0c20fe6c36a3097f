"""The plugin of pytest, in runs of its own with tests as others write them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import textwrap

import pytest

pytest.importorskip("triton")

TRITON = """
import torch, triton, triton.language as tl, pytest

@triton.jit
def shift(x, out, n, SAFE: tl.constexpr, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + at + 1, mask=at + 1 < n)
    if SAFE:
        tl.store(out + at, value, mask=at + 1 < n)
    else:
        tl.store(x + at, value, mask=at + 1 < n)

def run(safe, device="cpu"):
    x = torch.arange(700.0, device=device)
    out = torch.zeros(700, device=device)
    shift[(3,)](x, out, 700, SAFE=safe, BLOCK=256)
    return out
"""


def session(path, text: str, *arguments: str, library: str = TRITON):
    """Runs a file of tests; returns its exit status and output."""
    (path / "test_it.py").write_text(library + textwrap.dedent(text), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-p", "tilelang_pytest",
         "-W", "ignore", "-q", "-rA", *arguments, "test_it.py"],
        cwd=path, capture_output=True, text=True, check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


def counts(output: str) -> dict[str, int]:
    return {word: int(n) for n, word in re.findall(r"(\d+) (passed|failed|error)", output)}


def test_triton_tests_of_others(tmp_path):
    """An option makes them run, and a race fails the test with both lines."""
    status, output = session(
        tmp_path,
        """
        def test_right():
            assert run(True)[5] == 6

        def test_racing():
            run(False)
        """,
        "--emulate=sm_90a",
    )
    assert status == 1 and counts(output) == {"passed": 1, "failed": 1}, output
    assert "race in shift" in output and "on sm_90a, schedule late" in output
    assert "value = tl.load(x + at + 1" in output and "tl.store(x + at, value" in output


def test_programs_that_say_cuda(tmp_path):
    status, output = session(
        tmp_path,
        """
        DEVICE = triton.runtime.driver.active.get_active_torch_device()
        pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")

        def test_right():
            out = run(True, "cuda")
            assert out.is_cuda and out.device == DEVICE and out[5] == 6
        """,
        "--emulate=sm_80",
        "--emulate-cuda",
    )
    assert status == 0 and counts(output) == {"passed": 1}, output


def test_markers_and_the_fixture(tmp_path):
    status, output = session(
        tmp_path,
        '''
        @pytest.mark.emulator(targets=["sm_80", "sm_100a"], schedules=["late", 3])
        def test_triton(emulator):
            assert run(True)[5] == 6
            assert len(emulator.launches) == 1 and emulator.arch in ("sm_80", "sm_100a")

        @pytest.mark.emulator(targets=["sm_90a"])
        def test_without_the_fixture():
            assert run(True)[5] == 6

        def test_cuda(emulator):
            import numpy as np
            y = np.zeros(64, np.float32)
            k = emulator.load_cuda("""
        __global__ void k(float* y) {
          __shared__ float tile[64];
          tile[threadIdx.x] = 1.0f;
          y[threadIdx.x] = tile[63 - threadIdx.x];
        }
        """)["k"]
            k.launch(1, 64, [y])

        def test_wrong_and_racing(emulator):
            run(False)
            assert False, "wrong"
        ''',
    )
    assert status == 1 and counts(output) == {"passed": 5, "failed": 2}, output
    for name in ("sm_80-late", "sm_80-3", "sm_100a-late", "sm_100a-3"):
        assert f"test_triton[{name}]" in output
    assert "kernel.cu:4" in output and "kernel.cu:5" in output
    assert output.count("race in shift") == 1  # a section of the test that failed anyway


def test_others_do_not_notice(tmp_path):
    """Without option, marker and fixture nothing of tilelang is imported."""
    status, output = session(
        tmp_path,
        """
        import sys

        def test_lean():
            assert not {"tilelang", "torch", "triton"} & set(sys.modules)
        """,
        library="",
    )
    assert status == 0 and counts(output) == {"passed": 1}, output


@pytest.mark.parametrize(
    ("arguments", "text", "message"),
    [
        (["--emulate=sm_70"], "", "no architecture 'sm_70'"),
        (["--emulate-cuda"], "", "--emulate-cuda needs --emulate=ARCH"),
        ([], "import pytest\n@pytest.mark.emulator(arch=3)\ndef test(): pass\n",
         "takes targets= and schedules="),
    ],
)  # fmt: skip
def test_wrong_use(tmp_path, arguments, text, message):
    status, output = session(tmp_path, text, *arguments, library="")
    assert status != 0 and message in output, output


def test_algebra(tmp_path):
    """Tests that compare with a tolerance compare over a finite field instead."""
    status, output = session(
        tmp_path,
        """
        @triton.jit
        def total(x, out, n, FIRST: tl.constexpr, BLOCK: tl.constexpr):
            at = FIRST + tl.arange(0, BLOCK)
            tl.store(out, tl.sum(tl.load(x + at, mask=at < n, other=0.0)))

        @pytest.mark.parametrize("first", [0, 1])
        def test_sum(first):
            x, out = torch.randn(1000), torch.zeros(1)
            x[0] *= 1e-4
            total[(1,)](x, out, 1000, FIRST=first, BLOCK=1024)
            torch.testing.assert_close(out[0], x.double().sum().float(), rtol=1e-3, atol=1e-3)
        """,
        "--emulate=sm_90a", "--algebra",
    )  # fmt: skip
    assert status == 1
    assert counts(output) == {"passed": 1, "failed": 1}
    assert "test_sum[1]" in output and "comparisons over the field: 1, of numbers: 0" in output
