"""T.device_assert on the emulator: the error names the message, the line, and the threads."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import emulator


@T.prim_func
def halves(A: T.Tensor((64,), "float32"), B: T.Tensor((64,), "float32")):
    with T.Kernel(1, threads=(16, 4)):
        tx, ty = T.get_thread_bindings()[:2]
        t = ty * 16 + tx
        T.device_assert(A[t] < 100, "too big")  # HERE
        B[t] = A[t] / 2


@pytest.mark.parametrize(
    ("wrong", "threads"),
    [
        ([5], r"in thread \(5, 0, 0\) "),
        ([40, 41, 63], r"in thread \(8, 2, 0\) and 2 more of its warp"),
    ],
)
@pytest.mark.parametrize("arch", ["sm_80", "sm_100a"])
def test_a_failed_assertion(arch: str, wrong: list[int], threads: str) -> None:
    kernel = tilelang.compile(halves, target=arch)
    a, b = torch.rand(64), torch.full((64,), float("nan"))
    kernel(a, b)
    assert torch.equal(b, a / 2)
    a[wrong] = 1000
    with pytest.raises(
        emulator.EmulatorError, match=rf"assertion `too big` failed {threads}"
    ) as caught:
        kernel(a, b)
    error = caught.value
    assert error.kind == "assert"
    with open(__file__) as source:
        assert "HERE" in source.readlines()[error.span.line - 1]


@pytest.mark.requires_cuda
def test_a_failed_assertion_on_a_gpu() -> None:
    """In a process of its own: the context is lost."""
    import subprocess
    import sys

    script = (
        f"import sys; sys.path.insert(0, {str(__file__.rpartition('/')[0])!r})\n"
        "import torch, tilelang\nfrom test_device_assert import halves\n"
        "kernel = tilelang.compile(halves)\n"
        "kernel(torch.full((64,), 1000.0).cuda(), torch.zeros(64).cuda())\n"
        "torch.cuda.synchronize()\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.returncode != 0 and "too big" in done.stdout + done.stderr
