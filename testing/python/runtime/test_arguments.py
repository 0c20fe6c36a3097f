"""Binding of arguments: every mismatch raises before a launch and names the argument."""

from __future__ import annotations

import struct

import numpy as np
import pytest
import torch

import tilelang
import tilelang.language as T
from runtime import handmade as hm
from tilelang import _ffi, target
from tilelang.errors import (
    ArgumentError,
    EmulatorError,
    SemanticsError,
    TargetError,
    UnsupportedError,
)


class Recorder:
    """Stands for the emulator: keeps what a launch would get."""

    def __init__(self):
        self.calls = []

    def __call__(
        self, name, grid, block, cluster, shared_memory, args, pointees, allocated, dependent
    ):
        assert not dependent
        call = (str(name), tuple(grid), tuple(block), tuple(cluster), shared_memory, list(args))
        self.calls.append(call)


def make(params, args=None, outputs=(), recorder=None, **kwargs):
    launches = [hm.launch("k", (1,), (32,), params if args is None else args)]
    spec = hm.spec("k", params, kwargs.pop("launches", launches), **kwargs)
    make_launcher = _ffi.get("runtime.MakeLauncher")
    emulate = recorder or Recorder()
    return make_launcher(spec, list(outputs), b"", target.resolve("sm_90a"), emulate, None)


def matmul_like(outputs=()):
    m, n, k = hm.var("m"), hm.var("n"), hm.var("k")
    a = hm.tensor("A", "float32", (m, k))
    b = hm.tensor("B", "bfloat16", (k, n))
    c = hm.tensor("C", "float16", (m, 24))
    return make([a, b, c, hm.var("alpha", "float32"), hm.var("count", "int8")], outputs=outputs)


def good_arguments():
    a, b, c = torch.randn(6, 7), torch.randn(7, 5).bfloat16(), torch.randn(6, 24).half()
    return [a, b, c, 0.5, 3]


def test_good_arguments_are_accepted():
    matmul_like()(*good_arguments())


REFUSED = {
    "too few": (
        lambda a: a[:-1],
        r"takes 5 arguments \(A, B, C, alpha, count\), but the call passes 4",
    ),
    "too many": (lambda a: [*a, 1], r"takes 5 arguments .*, but the call passes 6"),
    "dtype": (
        lambda a: [a[0].double(), *a[1:]],
        r"'A' has dtype float64, but the kernel declares float32",
    ),
    "dtype half": (
        lambda a: [a[0], a[1].half(), *a[2:]],
        r"'B' has dtype float16, but the kernel declares bfloat16",
    ),
    "rank": (lambda a: [a[0][0], *a[1:]], r"'A' must have 2 dimensions, but has 1, shape \(7,\)"),
    "symbolic": (
        lambda a: [a[0], torch.ones(8, 5).bfloat16(), *a[2:]],
        r"'B' has shape \(8, 5\), but its dimension 0 must be k = 7 \(dimension 1 of 'A'\)",
    ),
    "constant": (
        lambda a: [a[0], a[1], torch.ones(6, 23).half(), *a[3:]],
        r"'C' has shape \(6, 23\), but its dimension 1 must be 24",
    ),
    "strides": (
        lambda a: [torch.ones(7, 6).T, *a[1:]],
        r"'A' is not contiguous: it has strides \(1, 6\) and shape \(6, 7\)",
    ),
    "no tensor": (lambda a: [1.5, *a[1:]], r"'A' must be a tensor of float32, not a float"),
    "a list": (lambda a: [a[0], a[1], [1], *a[3:]], r"'C' must be a tensor of float16, not a"),
    "tensor as scalar": (lambda a: [*a[:3], a[0], 3], r"'alpha' must be a number .*not a tensor"),
    "text as scalar": (lambda a: [*a[:4], "x"], r"'count' must be an integer \(int8\), not a str"),
    "float as int": (lambda a: [*a[:4], 2.5], r"'count' must be an integer \(int8\), not a float"),
    "range": (lambda a: [*a[:4], 128], r"'count' is 128, which does not fit int8"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refusals_name_the_argument(case):
    change, message = REFUSED[case]
    with pytest.raises(ArgumentError, match=message):
        matmul_like()(*change(good_arguments()))


def test_refusals_come_before_any_launch():
    recorder = Recorder()
    a = hm.tensor("A", "float32", (8,))
    kernel = make([a], recorder=recorder)
    with pytest.raises(ArgumentError):
        kernel(torch.zeros(9))
    assert recorder.calls == []


def test_alignment_is_checked_in_bytes():
    a = hm.tensor("A", "float32", (8,))
    kernel = make([a], alignment={a: 16})
    base = torch.zeros(16)
    kernel(base[:8])
    with pytest.raises(ArgumentError, match=r"'A' must start at a multiple of 16 bytes, but"):
        kernel(base[1:9])
    make([a])(base[1:9])


def test_declared_strides():
    step = hm.var("step", "int64")
    a = hm.tensor("A", "float32", (4, 6), (step, 1))
    b = hm.tensor("B", "float32", (4, 6), (hm.times(step, 2), 1))
    recorder = Recorder()
    kernel = make([a, b], args=[step], recorder=recorder)
    storage = torch.zeros(200)
    kernel(storage.as_strided((4, 6), (9, 1)), storage.as_strided((4, 6), (18, 1)))
    assert recorder.calls[0][-1] == [struct.pack("<q", 9)]
    with pytest.raises(
        ArgumentError, match=r"stride 0 of argument 'B' must be step \* .*2.* = 18, bu"
    ):
        kernel(storage.as_strided((4, 6), (9, 1)), storage.as_strided((4, 6), (19, 1)))


def test_strides_of_single_elements_and_empty_tensors_do_not_matter():
    n = hm.var("n")
    kernel = make([hm.tensor("A", "float32", (n, 1)), hm.tensor("B", "float32", (n, 3))])
    storage = torch.zeros(64)
    kernel(storage.as_strided((5, 1), (1, 7)), torch.zeros(5, 3))
    kernel(torch.zeros(0, 1), torch.zeros(3, 0).T)


SCALARS = {
    "int8": (-3, "<b"),
    "uint8": (200, "<B"),
    "int16": (-300, "<h"),
    "uint16": (65535, "<H"),
    "int32": (-(2**31), "<i"),
    "uint32": (2**32 - 1, "<I"),
    "int64": (-(2**40) - 1, "<q"),
    "float16": (0.1, "<e"),
    "float32": (0.1, "<f"),
    "float64": (0.1, "<d"),
}


@pytest.mark.parametrize("dtype", SCALARS)
@pytest.mark.parametrize(
    "wrap", [lambda value, dtype: value, lambda v, dtype: np.dtype(dtype).type(v)]
)
def test_scalars_reach_the_kernel_as_the_device_sees_them(dtype, wrap):
    value, layout = SCALARS[dtype]
    recorder = Recorder()
    make([hm.var("s", dtype)], recorder=recorder)(wrap(value, dtype))
    assert recorder.calls[0][-1] == [struct.pack(layout, value)]


@pytest.mark.parametrize(
    ("dtype", "torch_dtype"),
    [
        ("bfloat16", torch.bfloat16),
        ("float8_e4m3fn", torch.float8_e4m3fn),
        ("float8_e5m2", torch.float8_e5m2),
    ],
)
def test_narrow_floats_are_rounded_as_torch_rounds(dtype, torch_dtype):
    for value in (0.1, -3.3, 0.0071, 57.2):
        recorder = Recorder()
        make([hm.var("s", dtype)], recorder=recorder)(value)
        expected = torch.tensor([value], dtype=torch.float64).to(torch_dtype).view(torch.uint8)
        assert recorder.calls[0][-1] == [bytes(expected.tolist())]


def test_bool_scalar():
    recorder = Recorder()
    make([hm.var("s", "bool")], recorder=recorder)(True)
    assert recorder.calls[0][-1] == [b"\x01"]


def test_grid_and_shared_memory_follow_symbolic_dimensions():
    m, n = hm.var("m"), hm.var("n")
    a = hm.tensor("A", "float32", (m, n))
    launch = hm.launch(
        "k", (hm.ceildiv(n, 32), m), (128,), [a, m], (3, 1, 1), shared_memory=hm.times(n, 4)
    )
    recorder = Recorder()
    tensor = torch.randn(3, 65)
    make([a], launches=[launch, launch], recorder=recorder)(tensor)
    name, grid, block, cluster, shared_memory, args = recorder.calls[0]
    assert (name, grid, block, cluster) == ("k", (3, 3, 1), (128, 1, 1), (3, 1, 1))
    assert shared_memory == 260
    assert np.array_equal(np.from_dlpack(args[0]), tensor.numpy())
    assert args[1] == struct.pack("<i", 3)
    assert len(recorder.calls) == 2


def test_an_empty_grid_is_not_launched():
    n = hm.var("n")
    a = hm.tensor("A", "float32", (n,))
    recorder = Recorder()
    make([a], launches=[hm.launch("k", (n,), (32,), [a])], recorder=recorder)(torch.zeros(0))
    assert recorder.calls == []


def test_a_grid_beyond_the_limit_is_refused():
    n = hm.var("n")
    a = hm.tensor("A", "int8", (n,))
    kernel = make([a], launches=[hm.launch("k", (1, n), (32,), [a])])
    with pytest.raises(ArgumentError, match=r"grid of 65536 blocks in dimension 1 \(n\).*65535"):
        kernel(torch.zeros(65536, dtype=torch.int8))


def test_division_by_a_zero_argument_is_refused():
    n = hm.var("n")
    kernel = make([n], launches=[hm.launch("k", (hm.floordiv(100, n),), (32,), [])])
    kernel(7)
    with pytest.raises(SemanticsError, match=r"size of the launch is not defined: 100 // 0"):
        kernel(0)


@pytest.mark.parametrize("backend", ["torch", "numpy"])
def test_outputs_are_allocated_and_returned(backend):
    m, n = hm.var("m"), hm.var("n")
    params = [
        hm.tensor("Out", "float32", (n, m)),
        hm.tensor("A", "float32", (m, n)),
        hm.tensor("Sum", "int64", (m,)),
    ]
    recorder = Recorder()
    kernel = make(params, outputs=[0, 2], recorder=recorder)
    a = torch.randn(3, 5)
    first, second = kernel(a if backend == "torch" else a.numpy())
    assert tuple(first.shape) == (5, 3) and tuple(second.shape) == (3,)
    assert isinstance(first, torch.Tensor) == (backend == "torch")
    passed = [np.from_dlpack(arg) for arg in recorder.calls[0][-1]]
    assert [p.shape for p in passed] == [(5, 3), (3, 5), (3,)]
    assert passed[2].dtype == np.int64


def test_a_workspace_lives_for_the_call():
    n = hm.var("n")
    a = hm.tensor("A", "float32", (n,))
    scratch = hm.tensor("scratch", "float64", (n, 2))
    recorder = Recorder()
    make([a], args=[scratch, a], workspaces=[scratch], recorder=recorder)(torch.zeros(9))
    assert tuple(recorder.calls[0][-1][0].shape) == (9, 2)


def test_a_dimension_that_nothing_determines_is_refused():
    n = hm.var("n")
    a = hm.tensor("A", "float32", (hm.times(n, n),))
    with pytest.raises(ArgumentError, match="no argument determines the symbolic dimension 'n'"):
        make([a])
    make([a, n])(torch.zeros(9), 3)


def test_a_dimension_follows_from_a_product():
    n, m = hm.var("n"), hm.var("m")
    a = hm.tensor("A", "float32", (hm.times(hm.times(n, 2), m),))
    b = hm.tensor("B", "float32", (m,))
    recorder = Recorder()
    run = make([a, b], args=[n], recorder=recorder)
    run(torch.zeros(30), torch.zeros(5))
    assert int.from_bytes(recorder.calls[0][-1][0], "little") == 3
    run(torch.zeros(0), torch.zeros(0))
    with pytest.raises(
        ArgumentError, match=r"'A' has shape .*, but its dimension 0 must be n \* 2 \* m = 30"
    ):
        run(torch.zeros(31), torch.zeros(5))


def test_out_idx_out_of_range_is_refused():
    with pytest.raises(ArgumentError, match="out_idx names parameter 1"):
        make([hm.tensor("A", "float32", (1,))], outputs=[1])


def test_what_the_host_cannot_compute_is_refused():
    load = _ffi.get("ir.Load")(hm.tensor("A", "int32", (4,)), [hm.imm(0)], None)
    with pytest.raises(UnsupportedError, match="only the device can"):
        make([], launches=[hm.launch("k", (load,), (32,), [])])


@pytest.mark.requires_cuda
def test_mixed_devices_are_refused():
    kernel = make([hm.tensor("A", "float32", (1,)), hm.tensor("B", "float32", (1,))])
    with pytest.raises(ArgumentError, match=r"'B' is on cuda:0, but 'A' is on the CPU"):
        kernel(torch.zeros(1), torch.zeros(1, device="cuda"))


@pytest.mark.requires_cuda
def test_a_kernel_for_another_gpu_says_how_to_emulate():
    a = hm.tensor("A", "float32", (1,))
    spec = hm.spec("k", [a], [hm.launch("k", (1,), (32,), [a])])
    capability = torch.cuda.get_device_capability()
    other = "sm_100a" if capability[0] == 9 else "sm_90a"
    make_launcher = _ffi.get("runtime.MakeLauncher")
    kernel = make_launcher(spec, [], b"", target.resolve(other), Recorder(), None)
    with pytest.raises(TargetError, match=rf"compiled for {other}, but cuda:0 has .*\n.*emulator"):
        kernel(torch.zeros(1, device="cuda"))


@tilelang.jit(target="sm_90a")
def with_bias(N):
    @T.prim_func
    def main(
        A: T.Tensor((N,), "float32"), Bias: T.Tensor((N,), "float32"), Raw: T.ptr, use: T.bool
    ):
        with T.Kernel(1, threads=32):
            for i in T.Parallel(N):
                if use:
                    A[i] += Bias[i]

    return main


def test_none_is_a_null_pointer():
    a, bias = torch.randn(16), torch.randn(16)
    once, twice = a.clone(), a.clone()
    kernel = with_bias(16)
    kernel(once, None, None, False)
    assert torch.equal(once, a)
    kernel(twice, bias, None, True)
    torch.testing.assert_close(twice, a + bias)
    with pytest.raises(EmulatorError, match="0x0"):
        kernel(a, None, None, True)


@tilelang.jit(target="sm_90a")
def with_tile(by_tma):
    """Adds a tile, where the call has one, whose size only its own shape gives."""
    m = T.dynamic("m")

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float32"),
        Bias: T.Tensor((m, 64), "float32"),
        use: T.bool,
        B: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float32")
            if use:
                T.copy(Bias[0:64, :], tile, disable_tma=not by_tma)
                for i, j in T.Parallel(64, 64):
                    B[i, j] = A[i, j] + tile[i, j]
            else:
                for i, j in T.Parallel(64, 64):
                    B[i, j] = A[i, j]

    return main


def check_none_for_tiles(kernel, error, device="cpu"):
    a, bias = (torch.randn(64, 64, device=device) for _ in range(2))
    b = torch.full_like(a, torch.nan)
    kernel(a, None, False, b)
    assert torch.equal(a, b)
    kernel(a, bias, True, b)
    assert torch.equal(a + bias, b)
    if error is not None:
        with pytest.raises(error):
            kernel(a, None, True, b)


@pytest.mark.parametrize("by_tma", [False, True])
def test_none_for_a_tile(by_tma):
    kernel = with_tile(by_tma)
    assert ("tma_load" in kernel.get_kernel_source()) == by_tma
    check_none_for_tiles(kernel, EmulatorError if by_tma else None)


@pytest.mark.requires_cuda
@pytest.mark.parametrize("by_tma", [False, True])
def test_none_for_a_tile_on_a_gpu(by_tma):
    check_none_for_tiles(tilelang.jit(with_tile.__wrapped__)(by_tma), None, "cuda")


def test_none_where_another_tensor_gives_the_size():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((n,), "float32"), C: T.Tensor((n,))):
        with T.Kernel(T.ceildiv(n, 32), threads=32) as b:
            for i in T.Parallel(32):
                C[b * 32 + i] = B[b * 32 + i] + 1

    kernel = tilelang.compile(main, target="sm_90a")
    b, c = torch.randn(100), torch.full((100,), torch.nan)
    kernel(None, b, c)
    assert torch.equal(c, b + 1)
    with pytest.raises(
        ArgumentError, match=r"'C' has shape .*, but its dimension 0 must be n = 100 "
    ):
        kernel(None, b, c[1:].clone())


def test_none_where_the_launch_needs_the_size():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((4,), "float32")):
        with T.Kernel(n, threads=32) as b:
            B[b] = 1

    with pytest.raises(ArgumentError, match="'A' is None, but its shape determines symbolic dim"):
        tilelang.compile(main, target="sm_90a")(None, torch.zeros(4))


def test_none_where_an_output_needs_the_size():
    n = T.dynamic("n")

    @T.prim_func
    def main(A: T.Tensor((n,), "float32"), B: T.Tensor((4,)), C: T.Tensor((n,), "float32")):
        with T.Kernel(1, threads=32):
            C[0] = B[0]

    kernel = tilelang.compile(main, target="sm_90a", out_idx=[2])
    with pytest.raises(ArgumentError, match="'A' is None, but its shape determines symbolic dim"):
        kernel(None, torch.zeros(4))


@pytest.mark.requires_cuda
def test_none_is_a_null_pointer_on_a_gpu():
    a = torch.randn(16, device="cuda")
    kernel = tilelang.jit(with_bias.__wrapped__)(16)
    once = a.clone()
    kernel(once, None, None, False)
    assert torch.equal(once, a)
