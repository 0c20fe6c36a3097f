"""Vectorized loops some of whose lanes load the same element of a shared tile."""

from __future__ import annotations

import re

import pytest
import torch

import tilelang
import tilelang.language as T

ROWS, COLUMNS = 16, 128


def unpacked(bits, offset=0, stride=COLUMNS, dtype="uint8", to="float16"):
    """B = the values of so many bits in elements of A, from a place in its rows on."""
    width = int(re.sub(r"\D", "", dtype))
    each = width // bits

    @T.prim_func
    def main(A: T.Tensor((ROWS, stride), dtype), B: T.Tensor((ROWS, COLUMNS), to)):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((ROWS, stride), dtype)
            b = T.alloc_shared((ROWS, COLUMNS), to)
            T.copy(A, a)
            for i, j in T.Parallel(ROWS, COLUMNS):
                word = T.cast(a[i, offset + j // each], "uint32")
                b[i, j] = T.cast((word >> (bits * (j % each))) & ((1 << bits) - 1), to)
            T.copy(b, B)

    return main


def values(a, bits, offset, width):
    each = width // bits
    columns = torch.arange(COLUMNS)
    words = a.long()[:, offset + columns // each] & ((1 << width) - 1)
    return words >> (bits * (columns % each)) & ((1 << bits) - 1)


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_80", "sm_120a"])
@pytest.mark.parametrize("bits", [1, 2, 4])
@pytest.mark.parametrize(("offset", "stride"), [(0, 128), (1, 128), (2, 130), (0, 129)])
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int32"])
def test_every_alignment(bits, offset, stride, dtype, target):
    torch.manual_seed(bits + offset)
    width = int(re.sub(r"\D", "", dtype))
    info = torch.iinfo(getattr(torch, dtype))
    a = torch.randint(info.min, info.max, (ROWS, stride)).to(getattr(torch, dtype))
    b = torch.full((ROWS, COLUMNS), torch.nan, dtype=torch.float16)
    tilelang.compile(unpacked(bits, offset, stride, dtype), target=target)(a, b)
    assert torch.equal(b.long(), values(a, bits, offset, width))


def test_aligned_bytes_are_loaded_at_once():
    def source(fused, **options):
        configs = {"tl.disable_block_fitting": not fused}
        kernel = tilelang.compile(unpacked(4, **options), target="sm_100a", pass_configs=configs)
        return kernel.get_kernel_source()

    assert "a_vec = tl::load<4>" in source(fused=False)
    assert "a_vec = tl::load" not in source(fused=False, offset=1)
    assert "A_vec = tl::load<4>" in source(fused=True)
    assert "A_vec = tl::load" not in source(fused=True, offset=1)


def reordered(columns, order, dtype="bfloat16", to="float32"):
    """B[i, j] = A[i, order(j)]."""

    @T.prim_func
    def main(A: T.Tensor((ROWS, columns), dtype), B: T.Tensor((ROWS, columns), to)):
        with T.Kernel(1, threads=64):
            for i, j in T.Parallel(ROWS, columns):
                B[i, j] = A[i, ORDERS[order](j)]

    return main


ORDERS = {
    "other of a pair": lambda j: j ^ 1,
    "first of a pair": lambda j: j // 2 * 2,
    "last of four": lambda j: j // 4 * 4 + 3,
    "backwards in four": lambda j: j // 4 * 4 + 3 - j % 4,
    "one of sixteen": lambda j: j // 16 * 16 + 5,
    "half": lambda j: j // 2,
    "next pair": lambda j: (j + 2) % 64,
}


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_80", "sm_120a"])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize(("columns", "dtype"), [(64, "bfloat16"), (64, "int8"), (64, "float32")])
def test_elements_of_one_vector_in_any_order(target, order, columns, dtype):
    element = getattr(torch, dtype)
    a = torch.arange(ROWS * columns).reshape(ROWS, columns).remainder(100).to(element)
    b = torch.full((ROWS, columns), torch.nan)
    tilelang.compile(reordered(columns, order, dtype), target=target)(a, b)
    places = torch.tensor([ORDERS[order](j) for j in range(columns)])
    assert torch.equal(b, a[:, places].float())


def test_an_order_within_vectors_loads_them():
    def loads(order, columns=64):
        kernel = tilelang.compile(reordered(columns, order), target="sm_100a")
        return re.findall(r"A_vec\w* = tl::load<(\d)>", kernel.get_kernel_source())

    assert loads("other of a pair") == ["4"]
    assert loads("backwards in four") == ["4"]
    assert loads("one of sixteen") == ["1"]
    # The tensor's last vector is not whole.
    assert loads("other of a pair", columns=63) == []


@pytest.mark.parametrize("target", ["sm_100a", "sm_80"])
def test_a_condition_keeps_its_loads_apart(target):
    """Only columns whose condition holds may be loaded: the others are outside of the tile."""

    @T.prim_func
    def main(A: T.Tensor((ROWS, 32), "uint8"), B: T.Tensor((ROWS, COLUMNS), "float16")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((ROWS, 32), "uint8")
            b = T.alloc_shared((ROWS, COLUMNS), "float16")
            T.copy(A, a)
            for i, j in T.Parallel(ROWS, COLUMNS):
                b[i, j] = T.if_then_else(
                    j < 64, T.cast((a[i, j // 2] >> (4 * (j % 2))) & 15, "float16"), T.float16(-1)
                )
            T.copy(b, B)

    a = torch.randint(0, 256, (ROWS, 32), dtype=torch.uint8)
    b = torch.full((ROWS, COLUMNS), torch.nan, dtype=torch.float16)
    tilelang.compile(main, target=target)(a, b)
    want = torch.full_like(b, -1)
    want[:, 0:64:2], want[:, 1:64:2] = (a & 15).half(), (a >> 4).half()
    assert torch.equal(b, want)


@pytest.mark.parametrize("target", ["sm_100a", "sm_90a", "sm_80", "sm_120a"])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
@pytest.mark.parametrize("times", [2, 4])
@pytest.mark.parametrize("directly", [False, True])
def test_repeated_elements(directly, times, dtype, target):
    """B = each element of A so many times: the lanes share elements, and nothing changes them."""

    @T.prim_func
    def main(A: T.Tensor((ROWS, COLUMNS // times), dtype), B: T.Tensor((ROWS, COLUMNS), dtype)):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((ROWS, COLUMNS // times), dtype)
            b = T.alloc_shared((ROWS, COLUMNS), dtype)
            T.copy(A, a)
            if directly:
                for i, j in T.Parallel(ROWS, COLUMNS):
                    B[i, j] = a[i, j // times]
            else:
                for i, j in T.Parallel(ROWS, COLUMNS):
                    b[i, j] = a[i, j // times]
                T.copy(b, B)

    a = torch.randint(0, 200, (ROWS, COLUMNS // times)).to(getattr(torch, dtype))
    b = torch.zeros(ROWS, COLUMNS, dtype=a.dtype)
    tilelang.compile(main, target=target)(a, b)
    assert torch.equal(b, a.repeat_interleave(times, dim=1))


def test_tensors_must_begin_where_their_vectors_do():
    kernel = tilelang.compile(reordered(64, "other of a pair"), target="sm_100a")
    a = torch.zeros(ROWS * 64 + 1, dtype=torch.bfloat16)[1:].view(ROWS, 64)
    with pytest.raises(ValueError, match="'A' must start at a multiple of 8 bytes"):
        kernel(a, torch.zeros(ROWS, 64))
