"""Conversions to types of 8 bits: two floats by one instruction."""

import pytest
import torch

import tilelang
import tilelang.language as T

TARGETS = ["sm_100a", "sm_90a", "sm_80", "sm_120a"]
DTYPES = {"float8_e4m3fn": 448.0, "float8_e5m2": 57344.0}


def converted(rows, columns, dtype, through):
    """Y = X in ``dtype``, stored from a fragment or in the loop."""

    @T.prim_func
    def main(X: T.Tensor((rows, columns), "float32"), Y: T.Tensor((rows, columns), dtype)):
        with T.Kernel(T.ceildiv(rows, 4), threads=64) as block:
            x, y = T.alloc_fragment((4, columns), "float32"), T.alloc_fragment((4, columns), dtype)
            T.copy(X[block * 4, 0], x)
            if through:
                for i, j in T.Parallel(4, columns):
                    y[i, j] = T.cast(x[i, j] * 2.0, dtype)
                T.copy(y, Y[block * 4, 0])
            else:
                for i, j in T.Parallel(4, columns):
                    Y[block * 4 + i, j] = T.cast(x[i, j] * 2.0, dtype)

    return main


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("through", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(8, 256), (7, 96), (5, 77)])
def test_values(rows, columns, through, dtype, target):
    kept = {"tl.disable_block_fitting": True}
    program = converted(rows, columns, dtype, through)
    kernel = tilelang.compile(program, target=target, pass_configs=kept)
    if columns == 256:
        name = "tl::narrow(" if through else "tl::narrowed<"
        assert name in kernel.get_kernel_source()
    x = torch.randn(rows, columns) * torch.logspace(-8, 3, columns)
    x[0, :4] = torch.tensor([torch.inf, -torch.inf, torch.nan, -0.0])
    y = torch.zeros(rows, columns, dtype=getattr(torch, dtype))
    kernel(x, y)
    want = (2 * x).clamp(-DTYPES[dtype], DTYPES[dtype]).to(y.dtype)
    numbers = ~x.isnan()
    assert torch.equal(y.view(torch.int8)[numbers], want.view(torch.int8)[numbers])
    assert y.float()[~numbers].isnan().all()
