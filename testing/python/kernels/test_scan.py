"""``T.cumsum`` against torch in 64 bits."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import ShapeError

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def scan(shape, dtype, dim, reverse, scope, in_place=False, threads=128):
    @T.prim_func
    def kernel(A: T.Tensor(shape, dtype), B: T.Tensor(shape, dtype)):
        with T.Kernel(1, threads=threads):
            if scope == "shared":
                tile = T.alloc_shared(shape, dtype)
            else:
                tile = T.alloc_fragment(shape, dtype)
            T.copy(A, tile)
            if in_place:
                T.cumsum(tile, dim=dim, reverse=reverse)
                T.copy(tile, B)
            else:
                T.cumsum(tile, B, dim, reverse)

    return kernel


def expected(a, dim, reverse):
    wide = a.to(torch.int64) if not a.dtype.is_floating_point else a.double()
    return wide.flip(dim).cumsum(dim).flip(dim) if reverse else wide.cumsum(dim)


@pytest.mark.parametrize("scope", ["shared", "fragment"])
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize(
    ("shape", "dim", "threads"),
    [
        ((128,), 0, 64),
        ((100,), -1, 128),
        ((1,), 0, 32),
        ((32, 64), 0, 128),
        ((32, 64), 1, 128),
        ((24, 37), -1, 64),
        ((6, 10, 16), 1, 128),
    ],
)
def test_sums(device, shape, dim, threads, reverse, scope):
    a = torch.randint(-9, 9, shape, dtype=torch.int32, device=device)
    b = torch.full_like(a, -(2**31))
    func = scan(shape, "int32", dim, reverse, scope, in_place=threads == 64, threads=threads)
    tilelang.compile(func, target="auto" if device == "cuda" else "sm_90a")(a, b)
    assert torch.equal(b.long(), expected(a, dim, reverse))


@pytest.mark.parametrize("dtype", ["float32", "float16", "float64"])
def test_floats(device, dtype):
    a = torch.randn(16, 96).to(getattr(torch, dtype)).to(device)
    b = torch.full_like(a, float("nan"))
    func = scan((16, 96), dtype, 1, False, "fragment")
    tilelang.compile(func, target="auto" if device == "cuda" else "sm_90a")(a, b)
    # Each of the 7 steps rounds; no partial sum exceeds the sum of magnitudes.
    largest = a.double().abs().sum(1).max()
    tolerance = 7 * torch.finfo(a.dtype).eps * largest
    assert ((b.double() - expected(a, 1, False)).abs() <= tolerance).all()


def test_refusals():
    def compiled(dim, other):
        @T.prim_func
        def kernel(A: T.Tensor((8, 16), "float32"), B: T.Tensor(other, "float32")):
            with T.Kernel(1, threads=32):
                T.cumsum(A, B, dim=dim)

        return tilelang.compile(kernel, target="sm_90a")

    with pytest.raises(ShapeError, match=r"dim=2 of T\.cumsum of a tile of rank 2"):
        compiled(2, (8, 16))
    with pytest.raises(ShapeError, match=r"T\.cumsum of \(8, 16\) into \(16, 8\)"):
        compiled(0, (16, 8))
