"""Which loop over a fragment decides its layout: those that move data, not those that fill it."""

import re

import pytest
import torch

import tilelang
import tilelang.language as T

TARGETS = ("sm_80", "sm_90a", "sm_100a")
ROWS, COLUMNS, BLOCKS, TURNS = 256, 16, 4, 3


def _fill(how, tile):
    if how == "clear":
        T.clear(tile)
    elif how == "fill":
        T.fill(tile, 0)
    else:
        for i, j in T.Parallel(ROWS, COLUMNS):
            tile[i, j] = 0


def _sums(how):
    shape = (ROWS * BLOCKS, COLUMNS)
    begin = T.macro(_fill)

    @T.prim_func
    def sums(X: T.Tensor(shape, "float16"), Y: T.Tensor(shape, "float32")):
        with T.Kernel(BLOCKS, threads=256) as bx:
            x = T.alloc_fragment((ROWS, COLUMNS), "float16")
            f = T.alloc_fragment((ROWS, COLUMNS), "float32")
            begin(how, f)
            for t in T.serial(TURNS):
                T.copy(X[(bx + t) % BLOCKS * ROWS, 0], x)
                for i, j in T.Parallel(ROWS, COLUMNS):
                    f[i, j] = f[i, j] + T.cast(x[i, j], "float32") * 2
            T.copy(f, Y[bx * ROWS, 0])

    return sums


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("how", ["clear", "fill", "loop"])
def test_what_fills_a_tile_follows_what_loads_it(how, target):
    kernel = tilelang.compile(_sums(how), target=target)
    accesses = re.findall(r"(?:ld|st)\.global\S*", kernel.get_ptx())
    assert accesses
    assert all(".v4." in access for access in accesses), accesses
    x = torch.randn(ROWS * BLOCKS, COLUMNS).half()
    out = torch.full(x.shape, torch.nan)
    kernel(x, out)
    tiles = x.double().reshape(BLOCKS, ROWS, COLUMNS)
    want = sum(2 * tiles.roll(-t, 0) for t in range(TURNS)).reshape(x.shape)
    torch.testing.assert_close(out.double(), want, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_of_two_loops_the_one_with_longer_vectors_decides(target):
    """Rows of Y begin at odd multiples of 2 bytes: X decides, which moves by 16 bytes; for as many
    of Y there are two loads."""

    @T.prim_func
    def add(X: T.Tensor((64, 128), "float16"), Y: T.Tensor((64, 129), "float16")):
        with T.Kernel(1, threads=128):
            x, y = T.alloc_fragment((64, 128), "float16"), T.alloc_fragment((64, 128), "float16")
            T.copy(Y[0:64, 1:129], y)
            T.copy(X, x)
            for i, j in T.Parallel(64, 128):
                x[i, j] += y[i, j]
            T.copy(x, X)

    kernel = tilelang.compile(add, target=target)
    assert len(re.findall(r"ld\.global\S*\.v4\.", kernel.get_ptx())) == 3 * 64 * 128 / 128 / 8
    x, y = torch.randn(64, 128).half(), torch.randn(64, 129).half()
    want = x.double() + y[:, 1:].double()
    kernel(x, y)
    torch.testing.assert_close(x.double(), want, rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("named", [False, True])
def test_a_multiple_of_eight_by_name(named: bool) -> None:
    """The name of a corner says what its value says: rows begin at 16 bytes."""

    @T.prim_func
    def kernel(A: T.Tensor((64, 4096), "float16"), B: T.Tensor((64, 64), "float16"), n: T.int32):
        with T.Kernel(1, threads=128):
            s = T.alloc_shared((64, 64), "float16")
            if named:
                begin = n // 8 * 8
                for i, j in T.Parallel(64, 64):
                    s[i, j] = A[i, begin + j]
            else:
                for i, j in T.Parallel(64, 64):
                    s[i, j] = A[i, n // 8 * 8 + j]
            T.copy(s, B)

    ptx = tilelang.compile(kernel, target="sm_80").get_ptx()
    assert re.search(r"ld\.global\S*\.v4\.|cp\.async\.cg\.\S+ \[\S+\], \[\S+\], 16", ptx)
    assert not re.search(r"ld\.global\S*\.[ub]16", ptx)
