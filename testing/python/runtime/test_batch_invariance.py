"""A row's bits do not depend on the batch: the comparison, and what the compiler refuses."""

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang.errors import SemanticsError, UserError
from tilelang.testing import assert_batch_invariant, requires_cuda

K, N = 128, 32
INVARIANT = {"tl.batch_invariant": True}


def product(splits):
    """Products of any number of rows; each of the `splits` parts of K has its own accumulator."""
    m = T.dynamic("m")

    @T.prim_func
    def main(
        x: T.Tensor((m, K), "float16"),
        w: T.Tensor((K, N), "float16"),
        y: T.Tensor((m, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(m, 16), threads=128) as bx:
            xs = T.alloc_shared((16, K // splits), "float16")
            ws = T.alloc_shared((K // splits, N), "float16")
            part = T.alloc_fragment((16, N), "float32")
            total = T.alloc_fragment((16, N), "float32")
            T.clear(total)
            for k in T.serial(splits):
                T.copy(x[bx * 16, k * (K // splits)], xs)
                T.copy(w[k * (K // splits), 0], ws)
                T.clear(part)
                T.gemm(xs, ws, part)
                for i, j in T.Parallel(16, N):
                    total[i, j] += part[i, j]
            T.copy(total, y[bx * 16, 0])

    return main


def operands(rows, device="cpu"):
    generator = torch.Generator().manual_seed(rows)
    x = torch.randn(rows, K, generator=generator).half()
    w = torch.randn(K, N, generator=generator).half()
    return x.to(device), w.to(device)


@pytest.fixture(scope="module")
def compiled():
    return {
        splits: tilelang.compile(product(splits), target="sm_80", out_idx=-1) for splits in (1, 4)
    }


def test_rows_do_not_depend_on_the_batch(compiled):
    x, w = operands(37)
    assert_batch_invariant(compiled[1], x, w)
    torch.testing.assert_close(compiled[1](x, w), x.float() @ w.float(), rtol=1e-3, atol=1e-3)


def test_splits_chosen_by_the_batch_are_found(compiled):
    def run(x, w):
        return compiled[4 if x.shape[0] < 8 else 1](x, w)

    x, w = operands(20)
    with pytest.raises(AssertionError, match=r"rows 0 to 0 of 20, computed alone: output 0: \d+ of "
                       r"32 elements differ .*the first is at \(0, \d+\)"):  # fmt: skip
        assert_batch_invariant(run, x, w)
    assert_batch_invariant(run, x, w, sizes=(8, 13, 19, 20))


def test_every_output_along_its_axis(compiled):
    """The second output does not depend on the batch at all, the third lies across."""
    x, w = operands(11)

    def run(w, x):
        y = compiled[1](x, w)
        return y, w.clone(), y.T

    assert_batch_invariant(run, w, x, batch_axes=(None, 0), output_axes=(0, None, 1))
    with pytest.raises(AssertionError, match="output 1 has shape"):
        assert_batch_invariant(
            lambda x: (x, x.sum(0)), x, output_axes=(0, 0), sizes=(3,), schedules=("late",)
        )


def test_a_sign_of_zero_and_a_nan_are_bits():
    def run(x):
        return torch.where(torch.tensor(x.shape[0] == 5), x, -x)

    zeros = torch.zeros(5, 3)
    with pytest.raises(AssertionError, match=r"-0\.0 instead of 0\.0"):
        assert_batch_invariant(run, zeros)
    assert_batch_invariant(lambda x: x.clone(), torch.full((5, 3), float("nan")))


@pytest.mark.parametrize(
    ("inputs", "options", "message"),
    [
        ((torch.zeros(4, 2),), {"batch_axes": (None,)}, "no input has a batch axis"),
        ((torch.zeros(4, 2),), {"batch_axes": (0, 0)}, "2 entries for 1 inputs"),
        ((torch.zeros(4), torch.zeros(5)), {"batch_axes": (0, 0)}, "batches of 4, 5 rows"),
        ((torch.zeros(4),), {"sizes": (5,)}, "sizes=5, but there are 4 rows"),
        ((torch.zeros(4),), {"output_axes": (0, 0)}, "2 entries for 1 outputs"),
        ((torch.zeros(1),), {}, "at least two rows"),
        ((torch.zeros(4),), {"schedules": ("soon",)}, "schedule must be"),
    ],
)
def test_wrong_arguments(inputs, options, message):
    with pytest.raises(UserError, match=message):
        assert_batch_invariant(lambda *given: given[0].clone(), *inputs, **options)


def test_no_output():
    with pytest.raises(UserError, match="returns no output"):
        assert_batch_invariant(lambda x: None, torch.zeros(4))


def sums(kind, dtype="float32"):
    """Column sums of (128, 64) by 4 blocks."""

    @T.prim_func
    def main(x: T.Tensor((128, 64), dtype), y: T.Tensor((64,), dtype)):
        with T.Kernel(4, threads=64) as bx:
            if kind == "element":
                for i, j in T.Parallel(32, 64):
                    T.atomic_add(y[j], x[bx * 32 + i, j])
            elif kind == "tile":
                part = T.alloc_fragment((64,), dtype)
                T.copy(x[bx, 0:64], part)
                T.atomic_add(y[0:64], part)
            elif kind == "largest":
                for i, j in T.Parallel(32, 64):
                    T.atomic_max(y[j], x[bx * 32 + i, j])
            elif kind == "scattered":
                total = T.alloc_reducer((64,), dtype)
                for i, j in T.Parallel(32, 64):
                    total[(j * 3) % 64] += x[bx * 32 + i, j]
                T.copy(total, y)
            else:
                total = T.alloc_reducer(
                    (64,), dtype, scope="grid", out=y, deterministic=kind == "ordered"
                )
                for i, j in T.Parallel(32, 64):
                    total[j] += x[bx * 32 + i, j]
                T.finalize_reducer(total)

    return main


@pytest.mark.parametrize("kind", ["element", "tile", "scattered"])
def test_sums_in_the_order_of_arrival_are_refused(kind):
    with pytest.raises(
        SemanticsError, match=r"tl.batch_invariant: atomic additions to \w+ \(float"
    ):
        tilelang.lower(sums(kind), target="sm_90a", pass_configs=INVARIANT)
    tilelang.lower(sums(kind), target="sm_90a")


@pytest.mark.parametrize(
    ("kind", "dtype"), [("element", "int32"), ("largest", "float32"), ("ordered", "float32")]
)
def test_what_has_no_order_or_keeps_one_is_compiled(kind, dtype):
    tilelang.lower(sums(kind, dtype), target="sm_90a", pass_configs=INVARIANT)


@requires_cuda
def test_rows_on_the_gpu():
    kernel = tilelang.compile(product(4), out_idx=-1, pass_configs=INVARIANT)
    assert_batch_invariant(kernel, *operands(300, "cuda"))
    with pytest.raises(UserError, match="those of the emulator"):
        assert_batch_invariant(kernel, *operands(30, "cuda"), schedules=("late",))
