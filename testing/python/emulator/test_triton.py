"""Kernels that Triton compiles for sm_80 and sm_90a on this machine, run here: the right numbers
and no report, whatever the schedule. They need Triton, and no GPU."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch

pytest.importorskip("triton")
from emulator import triton_kernels as kernels
from tilelang.emulator import Device

pytestmark = pytest.mark.every_schedule
#: Triton's name, torch's, and what sums are stored as.
DTYPES = {
    "fp16": (torch.float16, "fp32"),
    "bf16": (torch.bfloat16, "fp32"),
    "fp32": (torch.float32, "fp32"),
    "i8": (torch.int8, "i32"),
    "fp8e5": (torch.float8_e5m2, "fp32"),
    "fp8e4nv": (torch.float8_e4m3fn, "fp32"),
}


def launch(program: kernels.Compiled, arch: int, grid, args) -> None:
    """Pointers to scratch memory follow the kernel's own arguments."""
    device = Device(f"sm_{arch}a" if arch == 90 else f"sm_{arch}")
    (name,) = re.findall(r"\.visible \.entry (\w+)", program.ptx)
    kernel = device.load_ptx(program.ptx)[name]
    blocks = int(np.prod(grid))
    scratch = np.zeros(max(program.scratch * blocks, 16), np.uint8)
    rest = [scratch, 0][: len(kernel.params) - len(args)]
    report = kernel.launch(
        grid,
        kernel.reqntid,
        [*args, *rest],
        smem=program.shared,
    )
    assert not report.warnings, report.warnings


def operand(rows: int, columns: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    if dtype == torch.int8:
        return torch.randint(-128, 128, (rows, columns), generator=generator).to(dtype)
    x = torch.randn(rows, columns, generator=generator)
    if dtype == torch.float32:  # what tf32 keeps, rounded or not
        x = x.bfloat16()
    return x.to(dtype)


@pytest.mark.parametrize(
    ("kind", "arch"), [(k, a) for k in DTYPES for a in (80, 90) if (k, a) != ("fp8e4nv", 80)]
)
def test_dot(kind, arch):
    """All types that Triton has for the target."""
    dtype, out = DTYPES[kind]
    m, n, k = 80, 112, 192
    a, b = operand(m, k, dtype, 0), operand(n, k, dtype, 1)
    c = torch.full((m, n), -7).to(torch.int32 if out == "i32" else torch.float32)
    program = kernels.compiled(
        kernels.matmul,
        arch,
        (f"*{kind}", f"*{kind}", f"*{out}", "i32", "i32", "i32"),
        (("BM", 64), ("BN", 64), ("BK", 64), ("INTEGER", out == "i32")),
    )
    assert ("wgmma.mma_async" if arch == 90 else "mma.sync") in program.ptx
    launch(program, arch, (-(-m // 64), -(-n // 64)), [a, b, c, m, n, k])
    exact = a.double() @ b.double().T
    if kind == "i8":
        assert torch.equal(c.double(), exact)
        return
    # wgmma keeps 13 bits of a sum of float8.
    lost = 2.0**-10 if arch == 90 and kind.startswith("fp8") else 2.0**-20
    bound = (a.double().abs() @ b.double().abs().T) * lost
    assert ((c - exact).abs() <= bound).all()


@pytest.mark.parametrize("specialized", [False, True])
def test_persistent_gemm(specialized):
    """Tensor maps made on the device; with roles a producer warp and setmaxnreg."""
    m, n, k = 256, 192, 128
    a, b = operand(m, k, torch.bfloat16, 2), operand(n, k, torch.bfloat16, 3)
    c = torch.full((m, n), float("nan")).bfloat16()
    blocks = 2
    program = kernels.compiled(
        kernels.persistent,
        90,
        ("*bf16", "*bf16", "*bf16", "i32", "i32", "i32"),
        (("BM", 128), ("BN", 64), ("BK", 64), ("BLOCKS", blocks), ("SPECIALIZED", specialized)),
    )
    assert ("setmaxnreg" in program.ptx) == specialized
    launch(program, 90, (blocks,), [a, b, c, m, n, k])
    torch.testing.assert_close(c.double(), a.double() @ b.double().T, rtol=2**-8, atol=1e-2)


@pytest.mark.parametrize("arch", [80, 90])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("kind", ["fp16", "bf16"])
def test_attention(kind, causal, arch):
    heads, s, d = 2, 192, 64
    dtype = DTYPES[kind][0]
    generator = torch.Generator().manual_seed(3)
    q, k, v = torch.randn(3, heads, s, d, generator=generator).to(dtype)
    o = torch.full_like(q, float("nan"))
    program = kernels.compiled(
        kernels.attention,
        arch,
        (f"*{kind}",) * 4 + ("i32", "fp32"),
        (("D", d), ("BM", 64), ("BN", 64), ("CAUSAL", causal)),
    )
    scale = float(1 / (np.log(2) * d**0.5))
    launch(program, arch, (s // 64, heads), [q, k, v, o, s, scale])
    scores = q.double() @ k.double().mT / d**0.5
    if causal:
        scores += torch.full((s, s), -float("inf")).triu(1)
    want = torch.softmax(scores, -1) @ v.double()
    rtol = 2**-9 if kind == "fp16" else 2**-6
    torch.testing.assert_close(o.double(), want, rtol=rtol, atol=4 * rtol * 1e-1)
