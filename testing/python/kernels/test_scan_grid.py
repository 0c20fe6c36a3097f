"""``T.cumsum`` and ``T.cummax`` by all blocks of a grid, against torch in 64 bits."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import ScopeError, SemanticsError
from tilelang.language import scan_turns

pytestmark = pytest.mark.filterwarnings("error")


@pytest.fixture(params=["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)])
def device(request: pytest.FixtureRequest) -> str:
    return request.param


def scan(shape, dtype="int32", dim=0, reverse=False, out=None, blocks=3, threads=64, op=T.cumsum):
    @T.prim_func
    def kernel(A: T.Tensor(shape, dtype), B: T.Tensor(shape, out or dtype)):
        with T.Kernel(blocks, threads=threads):
            op(A, B, dim, reverse, scope="grid")

    return kernel


def expected(a, dim, reverse=False):
    wide = a.long() if not a.dtype.is_floating_point else a.double()
    return wide.flip(dim).cumsum(dim).flip(dim) if reverse else wide.cumsum(dim)


def poisoned(a, dtype=None):
    return torch.full(a.shape, 99, dtype=dtype or a.dtype, device=a.device)


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    ("shape", "dim", "threads", "target"),
    [
        ((1,), 0, 32, "sm_80"),
        ((2500,), 0, 32, "sm_90a"),
        ((5, 700), 1, 64, "sm_100a"),
        ((700, 37), 0, 32, "sm_80"),
        ((2, 130, 5), 1, 96, "sm_90a"),
    ],
)
def test_any_shape(shape, dim, threads, target):
    a = torch.randint(-9, 9, shape, dtype=torch.int32)
    b = poisoned(a)
    reverse = len(shape) == 2
    kernel = tilelang.compile(scan(shape, "int32", dim, reverse, threads=threads), target=target)
    for _ in range(2):  # the first launch leaves its counters as it has found them
        kernel(a, b.fill_(99))
        assert torch.equal(b.long(), expected(a, dim, reverse))


def test_extents_known_at_run_time_and_totals_of_many_groups(device, monkeypatch):
    n = T.dynamic("n")
    monkeypatch.setattr(scan_turns, "VECTORS", 1)
    target = "auto" if device == "cuda" else "sm_90a"
    kernel = tilelang.compile(scan((n,), "float64", threads=32, blocks=2), target=target)
    # Tiles of 64 and groups of 32 tiles: the longest has more groups than a group has tiles.
    for length in (1, 63, 2048, 33 * 2048 + 11):
        a = torch.randn(length, dtype=torch.float64, device=device)
        b = torch.full_like(a, torch.nan)
        kernel(a, b)
        torch.testing.assert_close(b, a.cumsum(0), rtol=0, atol=1e-9)


@pytest.mark.parametrize(
    ("dtype", "out"),
    [("float16", "float16"), ("bfloat16", "float32"), ("int16", "int64"), ("float32", "float16")],
)
def test_types(device, dtype, out):
    is_float = dtype.startswith(("float", "bfloat"))
    a = torch.randn(2, 6001) if is_float else torch.randint(-9, 9, (2, 6001))
    a = a.to(getattr(torch, dtype)).to(device)
    b = poisoned(a, getattr(torch, out))
    target = "auto" if device == "cuda" else "sm_90a"
    tilelang.compile(scan((2, 6001), dtype, 1, out=out), target=target)(a, b)
    want = expected(a, 1)
    # Sums are kept in 32 bits at least, and rounded once to the type of the result.
    tolerance = 40 * torch.finfo(torch.float32).eps * a.double().abs().sum(1, keepdim=True)
    eps = torch.finfo(b.dtype).eps if is_float else 0
    assert ((b.double() - want).abs() <= is_float * tolerance + eps * want.abs()).all()


@pytest.mark.parametrize("reverse", [False, True])
def test_maxima(reverse):
    a = torch.randn(3, 4444)
    a[:, :5] = a[:, -5:] = -float("inf")
    b = torch.full_like(a, float("nan"))
    kernel = tilelang.compile(scan(a.shape, "float32", 1, reverse, op=T.cummax), target="sm_90a")
    kernel(a, b)
    want = a.flip(1).cummax(1).values.flip(1) if reverse else a.cummax(1).values
    assert torch.equal(b, want)


def test_bits_do_not_depend_on_when_blocks_run(device):
    """On a GPU many blocks run at once, in whichever order."""
    a = torch.randn(1 << (20 if device == "cuda" else 15), device=device)
    target = "auto" if device == "cuda" else "sm_90a"
    kernels = [
        tilelang.compile(scan(a.shape, "float32", blocks=n), target=target) for n in (300, 77)
    ]
    first = torch.full_like(a, float("nan"))
    kernels[0](a, first)
    for kernel in kernels * (10 if device == "cuda" else 1):
        again = torch.full_like(a, float("nan"))
        kernel(a, again)
        assert torch.equal(again, first)


def test_in_place_beside_other_work():
    @T.prim_func
    def kernel(A: T.Tensor((3, 3000), "int32"), S: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=64) as bx:
            T.cumsum(A[1, 1:2998], dim=1, scope="grid")
            S[bx] = bx

    a, s = torch.randint(-9, 9, (3, 3000), dtype=torch.int32), torch.zeros(4).int()
    want = a.clone()
    want[1, 1:2998] = a[1, 1:2998].cumsum(0)
    tilelang.compile(kernel, target="sm_90a")(a, s)
    assert torch.equal(a, want) and s.tolist() == [0, 1, 2, 3]


def test_two_in_a_kernel_with_a_grid_of_two_dimensions():
    @T.prim_func
    def kernel(
        A: T.Tensor((900,), "int32"), B: T.Tensor((900,), "int32"), C: T.Tensor((900,), "int32")
    ):
        with T.Kernel(2, 3, threads=(16, 4)):
            T.cumsum(A, B, scope="grid")
            T.cumsum(A, C, reverse=True, scope="grid")

    a = torch.randint(-9, 9, (900,), dtype=torch.int32)
    b, c = poisoned(a), poisoned(a)
    tilelang.compile(kernel, target="sm_90a")(a, b, c)
    assert torch.equal(b.long(), expected(a, 0)) and torch.equal(c.long(), expected(a, 0, True))


def test_vectors_and_a_remark():
    kernel = tilelang.compile(scan((1 << 20,), "float32", threads=256), target="sm_90a")
    source = kernel.get_kernel_source()
    assert "tl::load<4>" in source and "tl::store(B" in source
    (remark,) = kernel.remarks
    assert "by all blocks: 256 tiles of (4096), in groups of 256" in str(remark)


def test_refusals():
    def of_block(A: T.Tensor((4, 900), "int32")):
        with T.Kernel(4, threads=32) as bx:
            T.cumsum(A[bx, :], dim=1, scope="grid")

    def in_loop(A: T.Tensor((4, 900), "int32")):
        with T.Kernel(4, threads=32):
            for i in T.serial(4):
                T.cumsum(A[i, :], dim=1, scope="grid")

    def of_tile(A: T.Tensor((64,), "int32")):
        with T.Kernel(4, threads=32):
            tile = T.alloc_fragment((64,), "int32")
            T.cumsum(A, tile, scope="grid")

    def no_scope(A: T.Tensor((64,), "int32")):
        with T.Kernel(4, threads=32):
            T.cummax(A, scope="cluster")

    def shifted(A: T.Tensor((901,), "int32")):
        with T.Kernel(4, threads=32):
            T.cumsum(A[:900], A[1:901], scope="grid")

    with pytest.raises(SemanticsError, match="all blocks scan it together, and `bx` differs"):
        T.prim_func(of_block)
    with pytest.raises(ScopeError, match="stands in a loop or under a condition; every block"):
        T.prim_func(in_loop)
    with pytest.raises(ScopeError, match="each block has its own tile"):
        T.prim_func(of_tile)
    with pytest.raises(SemanticsError, match=r"scope='cluster' of T\.cummax is neither"):
        T.prim_func(no_scope)
    with pytest.raises(SemanticsError, match="elements that a later tile must read"):
        T.prim_func(shifted)
