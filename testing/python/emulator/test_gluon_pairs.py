"""Products by pairs of CTAs that Gluon, of Triton, compiles for sm_100a: the right numbers and no
report."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from tilelang.emulator import Device

# Gluon's mbarriers and layouts for pairs of CTAs have these names since Triton 3.9.
pytest.importorskip("triton", minversion="3.9")
kernels = pytest.importorskip("emulator.gluon_kernels", exc_type=ImportError)

SWIZZLES = {0: "none", 1: "32B", 2: "64B", 3: "128B"}


@pytest.mark.parametrize("schedule", ["late", "eager", 1, 2])
@pytest.mark.parametrize(
    ("ctas", "dtype", "m", "n", "block", "k"),
    [
        (2, "fp16", 256, 128, 64, 256),
        (2, "fp16", 128, 64, 64, 192),
        (2, "fp16", 256, 256, 32, 96),
        (2, "fp8e4nv", 256, 128, 128, 256),
        (2, "fp8e4nv", 128, 128, 64, 128),
        (4, "fp16", 512, 128, 64, 128),
        (4, "fp16", 256, 64, 64, 128),
    ],
)
def test_product(ctas, dtype, m, n, block, k, schedule):
    program = kernels.compiled(ctas, dtype, m, n, block, k)
    clusters = 2
    generator = torch.Generator().manual_seed(m + n)
    kind = {"fp16": torch.float16, "fp8e4nv": torch.float8_e4m3fn}[dtype]
    a = torch.randn(m * clusters, k, generator=generator).to(kind)
    b = torch.randn(k, n, generator=generator).to(kind)
    c = torch.full((m * clusters, n), float("nan"), dtype=torch.float16)
    device = Device("sm_100a")
    arguments = []
    for x, meta in zip((a, b, c), program.metadata.tensordesc_meta, strict=True):
        box, swizzle = tuple(meta["block_size"]), SWIZZLES[meta["swizzle"]]
        arguments += [device.tensor_map(x, box=box, swizzle=swizzle), *x.shape, x.shape[1], 1]
    scratch = np.zeros(64, np.uint8)
    kernel = device.load_ptx(program.asm["ptx"])["product"]
    report = kernel.launch(
        clusters * ctas, 128, [*arguments, scratch, scratch], cluster=ctas,
        smem=program.metadata.shared, schedule=schedule,
    )  # fmt: skip
    assert not report.warnings, report.warnings
    expected = a.double() @ b.double()
    torch.testing.assert_close(c.double(), expected, rtol=2**-11, atol=2**-10)
