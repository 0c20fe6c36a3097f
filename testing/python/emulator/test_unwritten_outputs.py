"""Reading what no kernel has written of an output that the package allocated is a warning."""

import gc
import warnings

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.emulator import EmulatorWarning, options
from tilelang.emulator.unwritten import OUTPUTS

N = 256
DTYPES = ["float32", "float16", "bfloat16", "float8_e4m3fn", "int32", "int8", "uint8", "int64"]


def part(dtype="float32", written=N // 2, target="sm_90a"):
    """A kernel that writes the first elements of its output."""

    @T.prim_func
    def part(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=N):
            i = T.get_thread_binding()
            if i < written:
                B[i] = A[i]

    return tilelang.compile(part, target=target, out_idx=[1])


def whole(dtype="float32", read=N, target="sm_90a", staged=False):
    """A kernel that reads the first elements of its input."""

    @T.prim_func
    def whole(A: T.Tensor((N,), dtype), B: T.Tensor((N,), dtype)):
        with T.Kernel(1, threads=N):
            if staged:
                tile = T.alloc_shared((N,), dtype)
                T.copy(A, tile)
                for i in T.Parallel(N):
                    if i < read:
                        B[i] = tile[i]
            else:
                i = T.get_thread_binding()
                if i < read:
                    B[i] = A[i]

    return tilelang.compile(whole, target=target)


def silent(kernel, *args):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return kernel(*args)


def source(dtype):
    return torch.arange(N).remainder(100).to(getattr(torch, dtype))


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("staged", [False, True])
def test_a_read_is_reported(target, staged):
    x = silent(part(target=target), source("float32"))
    with pytest.warns(EmulatorWarning, match="nothing has written") as caught:
        whole(target=target, staged=staged)(x, torch.zeros(N))
    if not staged:
        assert "an output that was allocated for a kernel" in str(caught[0].message)
    assert "test_unwritten_outputs.py:" in str(caught[0].message)
    silent(whole(target=target, staged=staged, read=N // 2), x, torch.zeros(N))


@pytest.mark.parametrize("dtype", DTYPES)
def test_of_every_type(dtype):
    x = silent(part(dtype), source(dtype))
    assert (x[: N // 2].float() == source(dtype)[: N // 2].float()).all()
    if dtype.startswith(("float", "bfloat")):
        assert x[N // 2 :].float().isnan().any()
    with pytest.warns(EmulatorWarning, match="nothing has written"):
        whole(dtype)(x, torch.zeros(N, dtype=x.dtype))


WRITES = {
    "zero_": lambda x: x[N // 2 :].zero_(),
    "fill_ with NaN": lambda x: x[N // 2 :].fill_(float("nan")),
    "copy_": lambda x: x[N // 2 :].copy_(torch.randn(N // 2)),
    "all": lambda x: x.random_(),
    "numpy": lambda x: x.numpy().__setitem__(slice(N // 2, None), 3),
}


@pytest.mark.parametrize("name", WRITES)
def test_written_in_place(name):
    x = silent(part(), source("float32"))
    WRITES[name](x)
    silent(whole(), x, torch.zeros(N))


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32"])
def test_random_integers_in_place(dtype):
    for seed in range(20):
        x = silent(part(dtype, written=7), source(dtype))
        x[7:].random_(generator=torch.Generator().manual_seed(seed))
        silent(whole(dtype), x, torch.zeros(N, dtype=x.dtype))


def test_written_by_another_kernel():
    x = silent(part(), source("float32"))

    @T.prim_func
    def rest(B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            i = T.get_thread_binding()
            if i >= N // 2:
                B[i] = 5

    silent(tilelang.compile(rest, target="sm_90a"), x)
    silent(whole(), x, torch.zeros(N))


def test_a_part_that_is_written_later_is_followed():
    x = silent(part(), source("float32"))
    x[N // 2 : N // 2 + 16] = 1  # 64 bytes
    silent(whole(read=N // 2 + 16), x, torch.zeros(N))
    with pytest.warns(EmulatorWarning):
        whole()(x, torch.zeros(N))


def test_an_atomic_on_nothing_is_reported():
    @T.prim_func
    def add(A: T.Tensor((N,), "float32"), B: T.Tensor((N,), "float32")):
        with T.Kernel(1, threads=N):
            i = T.get_thread_binding()
            T.atomic_add(B[i], A[i])

    kernel = tilelang.compile(add, target="sm_90a", out_idx=[1])
    with pytest.warns(EmulatorWarning, match="atomic operation on an output that was allocated"):
        kernel(source("float32"))
    silent(tilelang.compile(add, target="sm_90a"), source("float32"), torch.zeros(N))


def test_views_and_copies():
    x = silent(part(), source("float32"))
    with pytest.warns(EmulatorWarning):
        whole()(x.view(2, N // 2).view(N), torch.zeros(N))
    silent(whole(), x.clone(), torch.zeros(N))


def into_output(change, dtype="float32", out_dtype="float32"):
    """A kernel that stores what ``change`` makes of its input in an output of its own."""

    @T.prim_func
    def into_output(A: T.Tensor((N,), dtype), B: T.Tensor((N,), out_dtype)):
        with T.Kernel(1, threads=N):
            i = T.get_thread_binding()
            B[i] = change(A[i])

    return tilelang.compile(into_output, target="sm_90a", out_idx=[1])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_copying_it_to_an_output_is_no_use(dtype):
    """Kernels that copy padded tensors do so; the output stays followed."""
    x = silent(part(dtype), source(dtype))
    y = silent(into_output(lambda a: a, dtype, dtype), x)
    assert torch.equal(y[: N // 2], x[: N // 2])
    with pytest.warns(EmulatorWarning, match="nothing has written"):
        whole(dtype)(y, torch.zeros(N, dtype=x.dtype))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
@pytest.mark.parametrize("name", ["product", "sum", "exponential", "difference", "cast"])
def test_storing_what_is_computed_from_it_is_a_use(name, dtype):
    change = {
        "product": lambda a: a * 3,
        "sum": lambda a: a + 1,
        "exponential": lambda a: T.exp2(T.cast(a, "float32")),
        "difference": lambda a: 5 - a,
        "cast": lambda a: T.cast(a, "float64"),
    }[name]
    x = silent(part(dtype), source(dtype))
    kernel = into_output(change, dtype, "float64" if name == "cast" else "float32")
    with pytest.warns(EmulatorWarning, match="nothing has written"):
        kernel(x)
    x[N // 2 :].fill_(1)
    silent(kernel, x)


def test_nothing_is_kept():
    """Of outputs that are wholly written, of those that have died, and of samples."""
    gc.collect()
    before = len(OUTPUTS._outputs)
    full, half = part(written=N), part()
    kept = [silent(full, source("float32")) for _ in range(3)]
    assert len(OUTPUTS._outputs) == before and kept
    x = silent(half, source("float32"))
    assert len(OUTPUTS._outputs) == before + 1
    del x
    gc.collect()
    assert len(OUTPUTS._outputs) == before
    with options(blocks=1):
        half(source("float32"))
    assert len(OUTPUTS._outputs) == before
