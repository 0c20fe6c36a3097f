"""An index past the end of a tile in shared memory is reported, though its neighbour lies there."""

import re

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors
from tilelang.emulator import EmulatorError, options

pytestmark = pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])


@T.prim_func
def gathers(A: T.Tensor((128,)), N: T.Tensor((128,), "int32"), B: T.Tensor((128,))):
    with T.Kernel(1, threads=128):
        x = T.alloc_shared((128,), "float32")
        y = T.alloc_shared((128,), "float32")
        t = T.get_thread_binding()
        x[t] = A[t]
        y[t] = A[t] * 2
        T.sync_threads()
        B[t] = x[N[t]] + y[t]


@T.prim_func
def shifts(A: T.Tensor((128,)), n: T.int32, B: T.Tensor((128,))):
    with T.Kernel(1, threads=128):
        x = T.alloc_shared((128,), "float32")
        y = T.alloc_shared((128,), "float32")
        t = T.get_thread_binding()
        x[t] = A[t]
        y[t] = 0
        T.sync_threads()
        if t < 128 - n:
            B[t] = x[t + 1] + y[t]


@T.prim_func
def counts(N: T.Tensor((256,), "int32"), B: T.Tensor((64,), "int32")):
    with T.Kernel(1, threads=128):
        bins = T.alloc_shared((64,), "int32")
        others = T.alloc_shared((64,), "int32")
        t = T.get_thread_binding()
        if t < 64:
            bins[t] = 0
            others[t] = 0
        T.sync_threads()
        for i in T.serial(2):
            T.atomic_add(bins[N[i * 128 + t]], 1)
        T.sync_threads()
        if t < 64:
            B[t] = bins[t] + others[t]


def outside(kernel, *args) -> EmulatorError:
    with pytest.raises(EmulatorError) as caught:
        kernel(*args)
    assert caught.value.kind == "outside-tile"
    with options(sanitize=False):
        kernel(*args)
    with options(sanitize="report"):
        kernel(*args)
    assert [found.kind for found in kernel.last_launch.findings] == ["outside-tile"]
    return caught.value


def test_an_index_of_the_data(target):
    kernel = tilelang.compile(gathers, target=target)
    a, b = torch.randn(128), torch.zeros(128)
    index = torch.randperm(128).int()
    kernel(a, index, b)
    torch.testing.assert_close(b, a[index.long()] + a * 2)
    index[77] = 128
    error = outside(kernel, a, index, b)
    assert "index 128 is outside of tile 'x'" in error.reason
    assert "from 0 to 127" in error.reason and error.lane == 77 % 32
    assert error.span.line == line_with("B[t] = x[N[t]]")
    index[77] = -1
    with pytest.raises(EmulatorError, match="index -1 is outside of tile 'x'"):
        kernel(a, index, b)


def line_with(text: str) -> int:
    with open(__file__) as file:
        return next(i for i, line in enumerate(file, 1) if text in line)


def test_a_shift_of_threads(target):
    kernel = tilelang.compile(shifts, target=target)
    a, b = torch.randn(128), torch.zeros(128)
    kernel(a, 1, b)
    torch.testing.assert_close(b[:127], a[1:])
    error = outside(kernel, a, 0, b)
    assert "index 128 is outside of tile 'x'" in error.reason
    assert error.span.line == line_with("B[t] = x[t + 1] + y[t]")


def test_atomics(target):
    kernel = tilelang.compile(counts, target=target)
    index, b = torch.randint(64, (256,)).int(), torch.zeros(64, dtype=torch.int32)
    kernel(index, b)
    assert torch.equal(b, torch.bincount(index, minlength=64).int())
    index[200] = 64
    assert "index 64 is outside of tile 'bins'" in outside(kernel, index, b).reason


def test_what_all_threads_do_does_not_compile(target):
    @T.prim_func
    def main(A: T.Tensor((128,)), B: T.Tensor((128,))):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((128,), "float32")
            t = T.get_thread_binding()
            x[t] = A[t]
            T.sync_threads()
            B[t] = x[t + 1]

    with pytest.raises(errors.CompileError, match=r"index 128 = .*out of bounds"):
        tilelang.compile(main, target=target)


def pipelined():
    @T.prim_func
    def main(A: T.Tensor((200, 136), "float16"), B: T.Tensor((136, 72), "float16"),
             C: T.Tensor((200, 72), "float16")):  # fmt: skip
        with T.Kernel(T.ceildiv(200, 64), threads=128) as by:
            a = T.alloc_shared((64, 32), "float16")
            b = T.alloc_shared((32, 72), "float16")
            c = T.alloc_fragment((64, 72), "float32")
            out = T.alloc_shared((64, 72), "float16")
            T.clear(c)
            for k in T.Pipelined(T.ceildiv(136, 32), num_stages=3):
                T.copy(A[by * 64, k * 32], a)
                T.copy(B[k * 32, 0], b)
                T.gemm(a, b, c)
            T.copy(c, out)
            for i, j in T.Parallel(64, 72):
                out[i, j] = out[i, j] * 2
            T.copy(out, C[by * 64, 0])

    return main


def test_the_compilers_own_indices_need_no_check(target):
    kernel = tilelang.compile(pipelined(), target=target)
    assert not re.search(r"tl::index_of_\w+\(", kernel.get_kernel_source())
    a, b = torch.randn(200, 136).half(), torch.randn(136, 72).half()
    c = torch.zeros(200, 72).half()
    kernel(a, b, c)
    torch.testing.assert_close(c, a @ b * 2, rtol=1e-2, atol=1e-1)
