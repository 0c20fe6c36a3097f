"""``T.cumsum`` and ``T.cummax`` against torch in 64 bits."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import ResourceError, SemanticsError, ShapeError

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


def of_tensors(shape, dtype, dim, reverse, known, out=None, threads=64, op=T.cumsum):
    """From tensor to tensor; extents that are not ``known`` are arguments."""
    extents = tuple(extent if known else T.dynamic(f"n{d}") for d, extent in enumerate(shape))

    @T.prim_func
    def kernel(A: T.Tensor(extents, dtype), B: T.Tensor(extents, out or dtype)):
        with T.Kernel(1, threads=threads):
            op(A, B, dim, reverse)

    return kernel


TENSORS = [
    ((2305,), 0, 64),
    ((4096,), 0, 64),
    ((3, 2000), 1, 32),
    ((2, 1029), 1, 96),
    ((700, 5), 0, 64),
    ((700, 5), 1, 64),
    ((301, 37), 0, 128),
    ((2, 130, 65), 1, 64),
    ((260, 3, 11), 0, 64),
]


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize(("shape", "dim", "threads"), TENSORS)
def test_tensors_in_turns(shape, dim, threads, target):
    reverse, known = len(shape) == 2, shape[0] % 2 == 1
    a = torch.randint(-9, 9, shape, dtype=torch.int32)
    b = torch.full_like(a, -(2**31))
    func = of_tensors(shape, "int32", dim, reverse, known, threads=threads)
    tilelang.compile(func, target=target)(a, b)
    assert torch.equal(b.long(), expected(a, dim, reverse))


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("known", [False, True])
def test_any_length(device, known, reverse):
    lengths = (1, 31, 2049, 5003)
    target = "auto" if device == "cuda" else "sm_90a"
    for n in lengths:
        func = of_tensors((n,), "int32", 0, reverse, known)
        a = torch.randint(-9, 9, (n,), dtype=torch.int32, device=device)
        b = torch.full_like(a, -(2**31))
        tilelang.compile(func, target=target)(a, b)
        assert torch.equal(b.long(), expected(a, 0, reverse)), n


@pytest.mark.parametrize(
    ("dtype", "out"),
    [
        ("float16", "float16"),
        ("bfloat16", "float32"),
        ("float64", "float64"),
        ("int8", "int32"),
        ("int16", "int64"),
        ("float32", "float16"),
    ],
)
def test_types_in_turns(dtype, out):
    is_float = dtype.startswith(("float", "bfloat"))
    a = torch.randn(2, 3001) if is_float else torch.randint(-9, 9, (2, 3001))
    a = a.to(getattr(torch, dtype))
    b = torch.full(a.shape, 99, dtype=getattr(torch, out))
    func = of_tensors((2, 3001), dtype, 1, False, True, out)
    kernel = tilelang.compile(func, target="sm_90a")
    kernel(a, b)
    want = expected(a, 1, False)
    if not is_float:
        assert torch.equal(b.long(), want)
        return
    # Sums are kept in 32 bits at least, and rounded once to the type of the result.
    wide = torch.float64 if dtype == "float64" else torch.float32
    tolerance = 40 * torch.finfo(wide).eps * a.double().abs().sum(1, keepdim=True)
    tolerance = tolerance + torch.finfo(b.dtype).eps * want.abs()
    assert ((b.double() - want).abs() <= tolerance).all()


@pytest.mark.parametrize("reverse", [False, True])
def test_maxima_in_turns(reverse):
    a = torch.randn(3, 3333)
    a[:, :5] = a[:, -5:] = -float("inf")
    b = torch.full_like(a, float("nan"))
    func = of_tensors((3, 3333), "float32", 1, reverse, False, op=T.cummax)
    tilelang.compile(func, target="sm_90a")(a, b)
    want = a.flip(1).cummax(1).values.flip(1) if reverse else a.cummax(1).values
    assert torch.equal(b, want)


def test_in_place_and_of_regions():
    @T.prim_func
    def kernel(A: T.Tensor((4, 3000), "int32")):
        with T.Kernel(4, threads=64) as bx:
            T.cumsum(A[bx, 1:2998], dim=1)

    a = torch.randint(-9, 9, (4, 3000), dtype=torch.int32)
    want = a.clone()
    want[:, 1:2998] = a[:, 1:2998].cumsum(1)
    tilelang.compile(kernel, target="sm_90a")(a)
    assert torch.equal(a, want)


def test_registers_are_loaded_and_stored_by_vectors_and_lanes_shuffle():
    func = of_tensors((1, 2048), "float32", 1, False, True, threads=128)
    source = tilelang.compile(func, target="sm_90a").get_kernel_source()
    assert "tl::load<4>" in source and "shfl_up" in source
    assert source.count("__syncthreads") == 1  # between warps


def test_turns_leave_a_remark():
    kernel = tilelang.compile(of_tensors((1, 9000), "float32", 1, False, True), target="sm_90a")
    (remark,) = kernel.remarks
    assert "T.cumsum of (1, 9000) along dimension 1: 9 turns of tiles of (1, 1024)" in str(remark)


def test_refusals():
    def compiled(dim, other):
        @T.prim_func
        def kernel(A: T.Tensor((8, 16), "float32"), B: T.Tensor(other, "float32")):
            with T.Kernel(1, threads=32):
                T.cumsum(A, B, dim=dim)

        return tilelang.compile(kernel, target="sm_90a")

    with pytest.raises(ShapeError, match=r"T\.cumsum: dim=2 is out of range for a tile of rank 2"):
        compiled(2, (8, 16))
    with pytest.raises(
        ShapeError, match=r"shape \(8, 16\), but the destination has shape \(16, 8\)"
    ):
        compiled(0, (16, 8))


def test_refusals_of_what_has_no_turns():
    def into_tile(extent, dtype="float32"):
        @T.prim_func
        def kernel(A: T.Tensor((extent,), "float32")):
            with T.Kernel(1, threads=32):
                tile = T.alloc_shared((100000,), dtype)
                T.cumsum(A, tile)

        return kernel

    def shifted(A: T.Tensor((9001,), "float32")):
        with T.Kernel(1, threads=32):
            T.cumsum(A[:9000], A[1:9001])

    def namesakes(A: T.Tensor((T.dynamic("n"),)), B: T.Tensor((T.dynamic("n"),))):
        with T.Kernel(1, threads=32):
            T.cumsum(A, B)

    with pytest.raises(ShapeError, match="an extent of its own: call it once for both"):
        T.prim_func(namesakes)
    with pytest.raises(ResourceError, match=r"needs 400000 bytes of registers"):
        tilelang.compile(into_tile(100000, "int8"), target="sm_90a")
    with pytest.raises(ShapeError, match=r"shape \(n\), but the destination has shape \(100000\)"):
        tilelang.compile(into_tile(T.dynamic("n"), "int8"), target="sm_90a")
    with pytest.raises(SemanticsError, match="elements that a later tile must read"):
        T.prim_func(shifted)
