"""T.reduce_* of tensors and T.alloc_reducer: any extent, against NumPy-like sums in float64."""

import random
import re

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors

TARGETS = ("sm_80", "sm_90a", "sm_100a")
REFERENCE = {
    "sum": lambda x, dim: x.sum(dim),
    "abssum": lambda x, dim: x.abs().sum(dim),
    "max": lambda x, dim: x.amax(dim),
    "min": lambda x, dim: x.amin(dim),
    "absmax": lambda x, dim: x.abs().amax(dim),
}


def loads_of(kernel) -> list[str]:
    return re.findall(r"ld\.global\S*", kernel.get_ptx())


def remarks_of(kernel, topic="reduction") -> list[str]:
    return [r.message for r in kernel.remarks if r.topic == topic]


def random_tensor(shape, dtype):
    if dtype.startswith(("int", "uint")):
        return torch.randint(0 if dtype[0] == "u" else -100, 100, shape).to(getattr(torch, dtype))
    return torch.randn(*shape).to(getattr(torch, dtype))


def without(shape, dims):
    return tuple(n for d, n in enumerate(shape) if d not in dims)


def reduction(op, shape, dim, dtype, out="global", **options):
    """A kernel of one block that reduces a tensor; rows of unknown number where shape[0] is."""
    dims = dim if isinstance(dim, tuple) else (dim,)
    results = without(shape, dims) or (1,)
    out_type = dtype if dtype.startswith(("int", "uint")) else "float32"

    @T.prim_func
    def kernel(X: T.Tensor(shape, dtype), Y: T.Tensor(results, out_type)):
        with T.Kernel(1, threads=128):
            if out == "fragment":
                y = T.alloc_fragment(results, out_type)
                getattr(T, f"reduce_{op}")(X, y, dim=dim, **options)
                T.copy(y, Y)
            else:
                getattr(T, f"reduce_{op}")(X, Y, dim=dim, **options)

    return kernel


def check(kernel, op, shape, dim, dtype, rtol=1e-4):
    x = random_tensor(shape, dtype)
    results = without(shape, dim if isinstance(dim, tuple) else (dim,)) or (1,)
    whole = dtype.startswith(("int", "uint"))
    y = torch.full(results, 77 if whole else torch.nan, dtype=x.dtype if whole else torch.float32)
    kernel(x, y)
    want = REFERENCE[op](x.double(), dim).reshape(results)
    scale = x.double().abs().sum(dim).reshape(results)
    if "sum" in op:
        assert ((y.double() - want).abs() <= 1e-6 * scale + (0 if whole else 1e-6)).all()
    else:
        assert torch.equal(y.double(), want)


CASES = [
    ("sum", (20000, 16), 0, "float16"),
    ("absmax", (3, 50257), 1, "bfloat16"),
    ("max", (4100, 15), 0, "float32"),
    ("min", (7, 500, 33), 1, "float16"),
    ("abssum", (5000, 24), 0, "float16"),
    ("sum", (2, 70000), 0, "bfloat16"),
    ("sum", (9, 4099), 1, "int32"),
    ("max", (9, 4099), 1, "int8"),
    ("min", (5000, 3), 0, "uint8"),
    ("sum", (6000,), 0, "float32"),
]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("op", "shape", "dim", "dtype"), CASES)
def test_a_tensor_of_any_extent(op, shape, dim, dtype, target):
    for out in ("fragment", "global") if shape[0] != 2 else ("global",):
        kernel = tilelang.compile(reduction(op, shape, dim, dtype, out), target=target)
        usage = next(iter(kernel.resource_usage.values()))
        assert usage.spill_stores == 0
        assert usage.registers <= 96
        assert "turns over" in " ".join(remarks_of(kernel))
        check(kernel, op, shape, dim, dtype)


@pytest.mark.parametrize("target", TARGETS)
def test_the_exchange_of_1024_threads_spills_nothing(target):
    """Each thread reads 32 results of others for each of its 8 columns."""

    @T.prim_func
    def main(A: T.Tensor((60000, 16), "float16"), C: T.Tensor((16,), "float32")):
        with T.Kernel(1, threads=1024):
            s = T.alloc_fragment((16,), "float32")
            T.reduce_sum(A, s, dim=0)
            T.copy(s, C)

    kernel = tilelang.compile(main, target=target)
    assert kernel.n_spills == 0
    x, y = torch.randn(60000, 16).half(), torch.full((16,), torch.nan)
    kernel(x, y)
    torch.testing.assert_close(y.double(), x.double().sum(0), rtol=0, atol=1e-2)


@pytest.mark.parametrize("seed", range(12))
def test_extents_at_random(seed):
    pick = random.Random(seed)
    rank = pick.choice([1, 2, 2, 3])
    shape = tuple(pick.choice([1, 2, 3, 8, 15, 16, 64, 100, 129]) for _ in range(rank))
    dim = pick.randrange(rank)
    shape = (*shape[:dim], pick.choice([1, 31, 1000, 1024, 2047, 4100]), *shape[dim + 1 :])
    op = pick.choice(list(REFERENCE))
    dtype = pick.choice(["float16", "bfloat16", "float32"])
    target = pick.choice(TARGETS)
    kernel = tilelang.compile(reduction(op, shape, dim, dtype), target=target)
    check(kernel, op, shape, dim, dtype)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("rows", [1, 77, 5000])
def test_rows_known_at_run_time(rows, target):
    for dim in (0, 1):
        shape = (T.dynamic("m"), 40)
        kernel = tilelang.compile(reduction("sum", shape, dim, "float16"), target=target)
        check(kernel, "sum", (rows, 40), dim, "float16")


def test_a_region_between_bounds_known_at_run_time():
    @T.prim_func
    def kernel(X: T.Tensor((3000, 16), "float16"), at: T.Tensor((2,), "int32"), Y: T.Tensor((16,))):
        with T.Kernel(1, threads=128):
            y = T.alloc_fragment((16,), "float32")
            T.fill(y, 1)
            T.reduce_sum(X[at[0] : at[1], :], y, dim=0, clear=False)
            T.copy(y, Y)

    compiled = tilelang.compile(kernel, target="sm_90a")
    x = torch.randn(3000, 16).half()
    for first, last in ((0, 3000), (17, 2500), (5, 5), (2999, 3000)):
        y = torch.full((16,), torch.nan)
        compiled(x, torch.tensor([first, last], dtype=torch.int32), y)
        torch.testing.assert_close(y.double(), 1 + x[first:last].double().sum(0), atol=1e-3, rtol=0)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("op", "shape", "dim", "dtype"),
    [
        ("sum", (30, 17, 200), (0, 2), "float16"),
        ("absmax", (30, 17, 200), (0, 1), "float32"),
        ("min", (40, 300), (0, 1), "bfloat16"),
        ("sum", (40, 1, 300), (1, 2), "int32"),
    ],
)
def test_several_dimensions(op, shape, dim, dtype, target):
    kernel = tilelang.compile(reduction(op, shape, dim, dtype), target=target)
    check(kernel, op, shape, dim, dtype)


def test_several_dimensions_of_a_tile():
    @T.prim_func
    def kernel(X: T.Tensor((8, 16, 32)), Y: T.Tensor((16,)), Z: T.Tensor((16,))):
        with T.Kernel(1, threads=128):
            x, y = T.alloc_fragment((8, 16, 32), "float32"), T.alloc_fragment((16,), "float32")
            T.copy(X, x)
            T.fill(y, 2)
            T.reduce_sum(x, y, dim=(0, 2), clear=False)
            T.copy(y, Y)
            T.reduce_absmax(x, y, dim=(2, 0))
            T.copy(y, Z)

    x, y, z = torch.randn(8, 16, 32), torch.zeros(16), torch.zeros(16)
    tilelang.compile(kernel, target="sm_90a")(x, y, z)
    torch.testing.assert_close(y.double(), 2 + x.double().sum((0, 2)), atol=1e-4, rtol=0)
    assert torch.equal(z, x.abs().amax((0, 2)))


def sums(rows, columns=16, threads=128, condition=False, dtype="float16", **options):
    """Two sums of columns in one pass."""

    @T.prim_func
    def kernel(
        X: T.Tensor((rows, columns), dtype),
        Y: T.Tensor((rows, columns), dtype),
        out: T.Tensor((2, columns), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_reducer((columns,), "float32", op="sum", **options)
            b = T.alloc_reducer((columns,), "float32", op="sum", **options)
            for i, j in T.Parallel(rows, columns):
                if condition:
                    if i % 3 != 1:
                        y = T.cast(Y[i, j], "float32")
                        a[j] += T.cast(X[i, j], "float32") * y
                        b[j] += y
                else:
                    y = T.cast(Y[i, j], "float32")
                    a[j] += T.cast(X[i, j], "float32") * y
                    b[j] += y
            T.finalize_reducer(a)
            T.finalize_reducer(b)
            T.copy(a, out[0, :])
            T.copy(b, out[1, :])

    return kernel


def check_sums(kernel, rows, columns, condition=False):
    x, y = torch.randn(rows, columns).half(), torch.randn(rows, columns).half()
    out = torch.full((2, columns), torch.nan)
    kernel(x, y, out)
    taken = torch.arange(rows) % 3 != 1 if condition else torch.ones(rows, dtype=torch.bool)
    xd, yd = x.double()[taken], y.double()[taken]
    want = torch.stack([(xd * yd).sum(0), yd.sum(0)])
    torch.testing.assert_close(out.double(), want, rtol=0, atol=1e-3)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("condition", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(2000, 16), (2048, 32), (501, 64), (3, 4096)])
def test_reducers_load_vectors(rows, columns, condition, target):
    kernel = tilelang.compile(sums(rows, columns, condition=condition), target=target)
    assert all(".v4." in load for load in loads_of(kernel)), loads_of(kernel)
    assert next(iter(kernel.resource_usage.values())).spill_stores == 0
    assert not re.search(r"atom\S*add|red\S*add", "".join(loads_of(kernel)))
    check_sums(kernel, rows, columns, condition)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("choice", ["value", "triangle", "rows", "inside"])
def test_choices_of_elements_load_vectors(choice, target):
    rows, columns = 500, 64

    @T.prim_func
    def kernel(X: T.Tensor((rows, columns)), Y: T.Tensor((columns,))):
        with T.Kernel(1, threads=128):
            y = T.alloc_reducer((columns,), "float32")
            for i, j in T.Parallel(rows, columns):
                if choice == "value":
                    y[j] += T.if_then_else(X[i, j] > 0, X[i, j], 0)
                elif choice == "triangle":
                    y[j] += T.if_then_else(j <= i // 2, X[i, j], 1)
                elif choice == "rows":
                    y[j] += T.if_then_else(i % 3 == 1, X[i, j], 0)
                else:
                    y[j] += T.if_then_else(j + 7 < columns, X[i, j + 7], 0)
            T.finalize_reducer(y)
            T.copy(y, Y)

    compiled = tilelang.compile(kernel, target=target)
    if choice != "inside":  # which begins at no vector
        assert all(".v4." in load for load in loads_of(compiled)), loads_of(compiled)
    x, y = torch.randn(rows, columns), torch.full((columns,), torch.nan)
    compiled(x, y)
    i, j = torch.arange(rows)[:, None], torch.arange(columns)
    want = {
        "value": x.clamp(min=0),
        "triangle": torch.where(j <= i // 2, x, 1),
        "rows": torch.where(i % 3 == 1, x, 0),
        "inside": torch.nn.functional.pad(x[:, 7:], (0, 7)),
    }[choice]
    torch.testing.assert_close(y.double(), want.double().sum(0), rtol=0, atol=1e-3)


@pytest.mark.parametrize("threads", [32, 96, 128, 416])
def test_reducers_of_any_number_of_threads(threads):
    kernel = tilelang.compile(sums(1000, 24, threads), target="sm_90a")
    check_sums(kernel, 1000, 24)


def test_reducers_of_rows_known_at_run_time():
    kernel = tilelang.compile(sums(T.dynamic("m")), target="sm_90a")
    assert all(".v4." in load for load in loads_of(kernel)), loads_of(kernel)
    assert any("turns over i" in text for text in remarks_of(kernel))
    for rows in (1, 200, 3001):
        check_sums(kernel, rows, 16)


def test_reducers_of_rows_and_of_columns_in_one_loop():
    rows, columns = 100, 300

    @T.prim_func
    def kernel(X: T.Tensor((rows, columns)), R: T.Tensor((rows,)), C: T.Tensor((columns,))):
        with T.Kernel(1, threads=64):
            r = T.alloc_reducer((rows,), "float32")
            c = T.alloc_reducer((columns,), "float32", op="max")
            for i, j in T.Parallel(rows, columns):
                r[i] -= X[i, j]
                c[j] = T.max(c[j], X[i, j])
            T.finalize_reducer(r)
            T.finalize_reducer(c)
            T.copy(r, R)
            T.copy(c, C)

    x, r, c = torch.randn(rows, columns), torch.zeros(rows), torch.zeros(columns)
    tilelang.compile(kernel, target="sm_90a")(x, r, c)
    torch.testing.assert_close(r.double(), -x.double().sum(1), rtol=0, atol=1e-3)
    assert torch.equal(c, x.amax(0))


def test_a_loop_with_a_tile_in_registers_is_not_divided():
    @T.prim_func
    def kernel(X: T.Tensor((64, 128)), Y: T.Tensor((64, 128)), S: T.Tensor((128,))):
        with T.Kernel(1, threads=128):
            x = T.alloc_fragment((64, 128), "float32")
            s = T.alloc_reducer((128,), "float32")
            T.copy(X, x)
            for i, j in T.Parallel(64, 128):
                x[i, j] = x[i, j] * 2
                s[j] += x[i, j]
            T.finalize_reducer(s)
            T.copy(s, S)
            T.copy(x, Y)

    x, y, s = torch.randn(64, 128), torch.zeros(64, 128), torch.zeros(128)
    tilelang.compile(kernel, target="sm_90a")(x, y, s)
    assert torch.equal(y, 2 * x)
    torch.testing.assert_close(s.double(), 2 * x.double().sum(0), rtol=0, atol=1e-3)


def test_other_elements_are_atomic_and_say_so():
    @T.prim_func
    def histogram(X: T.Tensor((1000,), "int32"), H: T.Tensor((10,), "int32")):
        with T.Kernel(1, threads=128):
            h = T.alloc_reducer((10,), "int32")
            for i in T.Parallel(1000):
                h[X[i] % 10] += 1
            T.finalize_reducer(h)
            T.copy(h, H)

    kernel = tilelang.compile(histogram, target="sm_90a")
    assert any("is an atomic operation: its index is read from memory" in text
               for text in remarks_of(kernel))  # fmt: skip
    x, h = torch.randint(0, 1000, (1000,)).int(), torch.zeros(10).int()
    kernel(x, h)
    assert torch.equal(h.long(), torch.bincount(x % 10, minlength=10))


def test_chunks_are_a_limit():
    kernel = tilelang.compile(reduction("sum", (4000, 16), 0, "float16", chunk=64), target="sm_90a")
    assert any("(64, 16)" in text for text in remarks_of(kernel)), remarks_of(kernel)
    check(kernel, "sum", (4000, 16), 0, "float16")
    kernel = tilelang.compile(sums(4000, chunk=128), target="sm_90a")
    assert any("(128, 16)" in text for text in remarks_of(kernel))
    kernel = tilelang.compile(
        sums(4000), target="sm_90a", pass_configs={"tl.max_reduction_chunk": 32}
    )
    assert any("(32, 16): 125 turns over i" in text for text in remarks_of(kernel))
    check_sums(kernel, 4000, 16)


@pytest.mark.parametrize("chunk", [0, -3, True, "many"])
def test_a_chunk_is_a_positive_number(chunk):
    with pytest.raises(errors.SemanticsError, match="chunk of"):
        tilelang.compile(sums(4000, chunk=chunk), target="sm_90a")
    with pytest.raises((errors.SemanticsError, errors.ConfigError)):
        configs = {"tl.max_reduction_chunk": chunk}
        tilelang.compile(sums(4000), target="sm_90a", pass_configs=configs)


def test_a_scan_in_a_reduction_is_refused_by_name():
    def inside():
        @T.prim_func
        def kernel(X: T.Tensor((20000, 16)), Y: T.Tensor((16,))):
            with T.Kernel(1, threads=128):
                s = T.alloc_shared((16,), "float32")
                r = T.alloc_reducer((16,), "float32")
                for i, j in T.Parallel(20000, 16):
                    T.cumsum(s)
                    r[j] += X[i, j]
                T.finalize_reducer(r)
                T.copy(r, Y)

        return kernel

    with pytest.raises(errors.ScopeError, match=r"T.cumsum inside T.Parallel"):
        tilelang.compile(inside(), target="sm_90a")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"dim": (0, 1), "nan_propagate": True}, errors.UnsupportedError),
        ({"dim": ()}, errors.ShapeError),
        ({"dim": (0, 2)}, errors.ShapeError),
        ({"dim": 1, "chunk": 8}, errors.SemanticsError),
    ],
)
def test_what_several_dimensions_do_not_have(options, error):
    def make():
        @T.prim_func
        def kernel(X: T.Tensor((8, 16)), Y: T.Tensor((8,))):
            with T.Kernel(1, threads=32):
                x = T.alloc_fragment((8, 16), "float32")
                T.copy(X, x)
                T.reduce_max(x, Y, **options)

        return kernel

    with pytest.raises(error):
        tilelang.compile(make(), target="sm_90a")


def test_extrema_of_infinities_are_infinite():
    @T.prim_func
    def kernel(X: T.Tensor((40,)), high: T.Tensor((1,)), low: T.Tensor((1,), "float16")):
        with T.Kernel(1, threads=32):
            most = T.alloc_reducer((1,), "float32", op="max")
            least = T.alloc_reducer((1,), "float16", op="min")
            for i in T.Parallel(40):
                most[0] = T.max(most[0], X[i])
                least[0] = T.min(least[0], T.cast(-X[i], "float16"))
            T.finalize_reducer(most, high)
            T.finalize_reducer(least, low)

    x, high, low = torch.full((40,), -torch.inf), torch.zeros(1), torch.zeros(1).half()
    tilelang.compile(kernel, target="sm_90a")(x, high, low)
    assert (high, low) == (-torch.inf, torch.inf)


def test_an_extent_below_zero_has_no_elements():
    rows, share, blocks = 100, 40, 4  # the last block has 20 rows fewer than none

    @T.prim_func
    def kernel(X: T.Tensor((rows, 16)), S: T.Tensor((blocks, 16))):
        with T.Kernel(blocks, threads=64) as bx:
            sums = T.alloc_reducer((16,), "float32")
            count = T.min(share, rows - bx * share)
            for i, j in T.Parallel(count, 16):
                sums[j] += X[bx * share + i, j]
            T.finalize_reducer(sums)
            T.copy(sums, S[bx, :])

    x, s = torch.randn(rows, 16), torch.full((blocks, 16), torch.nan)
    tilelang.compile(kernel, target="sm_90a")(x, s)
    wanted = torch.stack([x[b * share : b * share + share].sum(0) for b in range(blocks)])
    torch.testing.assert_close(s, wanted, rtol=1e-5, atol=1e-5)
