"""Reductions to records: T.reduce_argmax and others, reducers of records, records of one's own."""

import math
import re

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import errors

TARGETS = ("sm_80", "sm_90a", "sm_100a")


def whole(where, shape, dtype, body, outs, target="sm_90a", threads=64):
    """A kernel of one block that reduces X, or a copy of it, by ``body(x, *outs)``."""
    kinds = [(tuple(out.shape), str(out.dtype).removeprefix("torch.")) for out in outs]
    kinds += [((1,), "float32")] * (3 - len(kinds))

    @T.prim_func
    def kernel(
        X: T.Tensor(shape, dtype),
        A: T.Tensor(*kinds[0]),
        B: T.Tensor(*kinds[1]),
        C: T.Tensor(*kinds[2]),
    ):
        with T.Kernel(1, threads=threads):
            x = X
            if where != "tensor":
                x = (T.alloc_fragment if where == "fragment" else T.alloc_shared)(shape, dtype)
                T.copy(X, x)
            body(x, A, B, C)

    compiled = tilelang.compile(kernel, target=target)
    rest = [torch.zeros(1) for _ in range(3 - len(outs))]
    return compiled, lambda x: compiled(x, *outs, *rest)


def shape_without(shape, dim):
    return tuple(n for d, n in enumerate(shape) if d != dim) or (1,)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("where", "shape", "dim", "dtype"),
    [
        ("tensor", (3, 5001), 1, "float16"),
        ("tensor", (2000, 24), 0, "bfloat16"),
        ("tensor", (2, 300, 5), 1, "int32"),
        ("shared", (16, 100), 1, "float32"),
        ("fragment", (16, 64), 1, "float32"),
        ("fragment", (20, 32), 0, "float16"),
        ("tensor", (777,), 0, "float32"),
    ],
)
def test_argmax_and_argmin(where, shape, dim, dtype, target):
    results = shape_without(shape, dim)
    index, values, least = torch.zeros(results).int(), torch.zeros(results), torch.zeros(results)
    least = least.long()

    def body(x, a, b, c):
        T.reduce_argmax(x, a, dim=dim, values=b)
        T.reduce_argmin(x, c, dim=dim)

    kernel, run = whole(where, shape, dtype, body, [index, values, least], target)
    assert next(iter(kernel.resource_usage.values())).spill_stores == 0
    # Few values: many ties, of which the lowest index wins.
    for x in (torch.randint(-3, 4, shape), 100 * torch.randn(shape)):
        x = x.to(getattr(torch, dtype))
        run(x)
        order = torch.arange(shape[dim]).reshape([-1 if d == dim else 1 for d in range(x.ndim)])
        for found, best in ((index, x.amax(dim)), (least, x.amin(dim))):
            first = torch.where(x == best.unsqueeze(dim), order, shape[dim]).amin(dim)
            assert torch.equal(found.long(), first.reshape(results))
        assert torch.equal(values, x.amax(dim).float().reshape(results))


@pytest.mark.parametrize("where", ["tensor", "fragment"])
def test_nan_wins_as_in_torch(where):
    index, values = torch.zeros(6).int(), torch.zeros(6)

    def body(x, a, b, c):
        T.reduce_argmax(x, a, dim=1, values=b)

    _, run = whole(where, (6, 200), "float32", body, [index, values])
    x = torch.randn(6, 200)
    x[0, 17] = x[0, 90] = math.nan
    x[1] = -math.inf
    x[2, 150] = math.inf
    x[3] = math.nan
    x[4, 199], x[4, 0] = math.inf, math.nan
    run(x)
    want = x.max(1)
    assert torch.equal(index.long()[[0, 2, 3, 4, 5]], want.indices[[0, 2, 3, 4, 5]])
    assert index[1] == 0
    torch.testing.assert_close(values, want.values, equal_nan=True, rtol=0, atol=0)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("where", "shape", "dim"),
    [("tensor", (3, 4099), 1), ("tensor", (1500, 16), 0), ("fragment", (8, 200), 1)],
)
def test_welford_is_exact_where_the_mean_is_large(where, shape, dim, target):
    results = shape_without(shape, dim)
    mean, variance = torch.zeros(results), torch.zeros(results)

    def body(x, a, b, c):
        T.reduce_welford(x, a, b, dim=dim, correction=1)

    _, run = whole(where, shape, "float32", body, [mean, variance], target)
    for offset in (0.0, 1e4, -1e4):
        x = torch.randn(shape) + offset
        run(x)
        want = x.double().var(dim)
        assert ((variance.double() / want) - 1).abs().max() < 1e-6
        torch.testing.assert_close(mean.double(), x.double().mean(dim), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("where", "shape", "dim"),
    [("tensor", (40, 1025), 1), ("tensor", (1025, 40), 0), ("fragment", (40, 200), 1)],
)
def test_welford_of_infinities(where, shape, dim, target):
    """As torch: the mean is the infinity, or NaN for both of them; the variance is NaN."""
    results = shape_without(shape, dim)
    mean, variance = torch.zeros(results), torch.zeros(results)

    def body(x, a, b, c):
        T.reduce_welford(x, a, b, dim=dim, correction=1)

    _, run = whole(where, shape, "float32", body, [mean, variance], target)
    x = torch.randn(shape)
    length = shape[dim]
    for row in range(36):
        values = x.select(1 - dim, row)
        infinity = (-1) ** row * torch.inf
        places = [0, length - 1, row % length] if row < 8 else torch.randperm(length)[: row // 8]
        values[places[:1] if row < 4 else places] = infinity
        if row % 5 == 4:
            values[(places[0] + 1 + row) % length] = -infinity
        if row % 7 == 6:
            values[(places[0] + 2 + row) % length] = torch.nan
    run(x)
    torch.testing.assert_close(mean, x.mean(dim), rtol=0, atol=1e-5, equal_nan=True)
    torch.testing.assert_close(variance, x.var(dim), rtol=1e-4, atol=0, equal_nan=True)
    assert mean.isinf().sum() > 10 and mean.isnan().sum() > 5


@pytest.mark.parametrize("where", ["tensor", "fragment"])
def test_welford_along_several_dimensions(where):
    mean, variance = torch.zeros(6), torch.zeros(6)

    def body(x, a, b, c):
        T.reduce_welford(x, a, b, dim=(0, 2))

    _, run = whole(where, (5, 6, 33), "float16", body, [mean, variance])
    x = torch.randn(5, 6, 33).half() * 3 + 5
    run(x)
    want = x.double()
    torch.testing.assert_close(mean.double(), want.mean((0, 2)), rtol=1e-5, atol=0)
    torch.testing.assert_close(variance.double(), want.var((0, 2), correction=0), rtol=1e-5, atol=0)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(("where", "shape"), [("tensor", (4, 3001)), ("fragment", (16, 48))])
def test_logsumexp(where, shape, target):
    found = torch.zeros(shape[0])

    def body(x, a, b, c):
        T.reduce_logsumexp(x, a, dim=1)

    _, run = whole(where, shape, "float32", body, [found], target)
    x = 30 * torch.randn(shape)
    x[1] += 1e4
    x[2, ::2] = -math.inf
    run(x)
    torch.testing.assert_close(found.double(), x.double().logsumexp(1), rtol=1e-6, atol=1e-5)
    x[0], x[1, 3], x[2, 5] = -math.inf, math.inf, math.nan
    run(x)
    want = x.double().logsumexp(1)
    torch.testing.assert_close(found.double(), want, rtol=1e-6, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize(
    ("where", "shape", "k"), [("tensor", (3, 2001), 3), ("fragment", (8, 64), 2)]
)
def test_topk(where, shape, k, target):
    values, index = torch.zeros(shape[0], k), torch.zeros(shape[0], k).long()

    def body(x, a, b, c):
        T.reduce_topk(x, a, b, dim=1)

    _, run = whole(where, shape, "float32", body, [values, index], target)
    for x in (torch.randn(shape), torch.randint(0, 9, shape).float()):
        run(x)
        want = x.sort(dim=1, descending=True, stable=True)
        assert torch.equal(values, want.values[:, :k])
        assert torch.equal(index, want.indices[:, :k])


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
def test_reducers_of_records_over_a_grid(target):
    blocks, share, columns = 7, 60, 16

    @T.prim_func
    def kernel(
        X: T.Tensor((blocks * share, columns)),
        best: T.Tensor((columns,)),
        at: T.Tensor((columns,), "int32"),
        mean: T.Tensor((columns,)),
        variance: T.Tensor((columns,)),
        m2: T.Tensor((columns,)),
        count: T.Tensor((columns,)),
    ):
        with T.Kernel(blocks, threads=64) as bx:
            top = T.alloc_reducer((columns,), T.argmax("float32"), scope="grid", out=(best, at))
            stats = T.alloc_reducer(
                (columns,), T.welford(), scope="grid", out=(mean, variance, m2, count)
            )
            for i, j in T.Parallel(share, columns):
                row = bx * share + i
                T.reducer_update(top[j], X[row, j], row)
                T.reducer_update(stats[j], X[row, j])
            T.finalize_reducer(top)
            T.finalize_reducer(stats)

    compiled = tilelang.compile(kernel, target=target)
    assert "records are more than one value" in str(compiled.schedule())
    x = torch.randn(blocks * share, columns) + 100
    outs = [torch.full((columns,), torch.nan) for _ in range(6)]
    outs[1] = torch.full((columns,), -1).int()
    for _ in range(2):
        compiled(x, *outs)
    want = x.max(0)
    assert torch.equal(outs[0], want.values)
    assert torch.equal(outs[1].long(), want.indices)
    torch.testing.assert_close(outs[2].double(), x.double().mean(0), rtol=1e-6, atol=0)
    torch.testing.assert_close(outs[3].double(), x.double().var(0, correction=0), rtol=2e-6, atol=0)
    assert torch.equal(outs[5], torch.full((columns,), float(blocks * share)))


@pytest.mark.parametrize("target", TARGETS)
def test_a_record_of_ones_own(target):
    """Minimum and maximum in one pass."""
    both = T.record(
        fields={"low": "float32", "high": "float32"},
        identity=(math.inf, -math.inf),
        combine=lambda a, b: (T.min(a.low, b.low), T.max(a.high, b.high)),
        insert=lambda r, x: (T.min(r.low, x), T.max(r.high, x)),
        arguments={"x": "float32"},
        name="range",
    )
    low, high = torch.zeros(9), torch.zeros(9)

    def body(x, a, b, c):
        T.reduce_record(x, (a, b), both, dim=1)

    _, run = whole("tensor", (9, 1234), "float16", body, [low, high], target)
    x = torch.randn(9, 1234).half()
    run(x)
    assert torch.equal(low, x.amin(1).float())
    assert torch.equal(high, x.amax(1).float())


def test_rows_known_at_run_time():
    found = torch.zeros(40).int()
    n = T.dynamic("n")

    def body(x, a, b, c):
        T.reduce_argmax(x, a, dim=0)

    _, run = whole("tensor", (n, 40), "float16", body, [found])
    for rows in (1, 33, 1000):
        x = torch.randn(rows, 40).half()
        run(x)
        assert torch.equal(x.gather(0, found[None].long())[0], x.amax(0))


@pytest.mark.parametrize("target", TARGETS)
def test_columns_known_at_run_time(target):
    columns = T.dynamic("columns")

    @T.prim_func
    def kernel(X: T.Tensor((4, columns), "float16"), place: T.Tensor((4,), "int32")):
        with T.Kernel(4, threads=64) as bx:
            T.reduce_argmax(X[bx, :], place[bx], dim=1)

    compiled = tilelang.compile(kernel, target=target)
    for n in (1, 8, 1003, 1032, 4096):
        x, place = torch.randint(-99, 99, (4, n)).half(), torch.full((4,), -1, dtype=torch.int32)
        x[1:] += torch.randn(3, n).half()
        compiled(x, place)
        first = (x == x.amax(1, keepdim=True)).int().argmax(1)  # of equal values
        assert torch.equal(place.long(), first)
    said = [r.message for r in compiled.remarks if r.topic == "reduction"]
    assert said == [
        "reduction in tiles of (1, 1024): (columns + 1023) // 1024 turns over i1",
        "reduction in tiles of (1, 128, 8): (columns // 8 + 127) // 128 turns over i1",
    ]
    assert re.search(r"ld\.global(\.nc)?\.v4", compiled.get_ptx())


def wrong(body, shape=(8, 64), outs=((8,), "int32")):
    def make():
        @T.prim_func
        def kernel(X: T.Tensor(shape), A: T.Tensor(*outs), B: T.Tensor((8,))):
            with T.Kernel(1, threads=32):
                x = T.alloc_fragment(shape, "float32")
                T.copy(X, x)
                r = T.alloc_reducer((8,), T.argmax("float32"))
                body(x, A, B, r)

        return kernel

    return make


def outside(x, A, B, r):
    T.reducer_update(r[0], x[0, 0], 0)


@T.macro
def one_value(x, A, B, r):
    for i, j in T.Parallel(8, 64):
        T.reducer_update(r[i], x[i, j])


@T.macro
def computed(x, A, B, r):
    for i, j in T.Parallel(8, 64):
        T.reducer_update(r[(i * j) % 8], x[i, j], j)


@T.macro
def assigned(x, A, B, r):
    for i, j in T.Parallel(8, 64):
        r[i] = x[i, j]


three = T.record({"a": "float32", "b": "float32", "c": "float32"}, (0, 0, 0), lambda a, b: (
    a.a + b.a, a.b + b.b, a.c + b.c))  # fmt: skip


@pytest.mark.parametrize(
    ("body", "error", "text"),
    [
        (lambda x, A, B, r: T.reduce_argmax(x, A, dim=2), errors.ShapeError, "dim=2"),
        (lambda x, A, B, r: T.reduce_argmax(x, A, dim=0), errors.ShapeError, "index goes to A"),
        (lambda x, A, B, r: T.reduce_argmax(x, B, dim=1), errors.DTypeError, "are integers"),
        (lambda x, A, B, r: T.reduce_argmax(x, A, dim=(0, 1)), errors.SemanticsError, "its index"),
        (lambda x, A, B, r: T.reduce_welford(A, B, B), errors.DTypeError, "takes floats"),
        (lambda x, A, B, r: T.reduce_topk(x, B, A), errors.ShapeError, "the same rank"),
        (lambda x, A, B, r: T.topk(17, "float32"), errors.SemanticsError, "must be from 1 to 16"),
        (lambda x, A, B, r: T.reduce_record(x, B, three), errors.SemanticsError, "1 outs"),
        (
            lambda x, A, B, r: T.reduce_record(x, (B, B, B), three),
            errors.SemanticsError,
            "takes a, b, c",
        ),
        (lambda x, A, B, r: T.finalize_reducer(r, B), errors.SemanticsError, "value, index"),
        (lambda x, A, B, r: T.reducer_init(r, 0), errors.SemanticsError, "identity"),
        (outside, errors.ScopeError, "must be inside T.Parallel"),
        (one_value, errors.SemanticsError, "takes value, index, got 1 values"),
        (computed, errors.SemanticsError, "cannot be an atomic operation"),
        (assigned, errors.SemanticsError, "cannot be assigned"),
    ],
)
def test_errors(body, error, text):
    with pytest.raises(error, match=text):
        tilelang.compile(wrong(body)(), target="sm_90a")


def test_records_that_are_none():
    with pytest.raises(errors.SemanticsError, match="2 fields and 1 values"):
        T.record({"a": "int32", "b": "int32"}, (0,), lambda a, b: (a.a, b.b))
    with pytest.raises(errors.SemanticsError, match="a tuple of its 1 fields"):
        T.record({"a": "int32"}, (0,), lambda a, b: a.a + b.a)


@pytest.mark.parametrize(
    ("columns", "dtype", "load"),
    [(4096, "bfloat16", "tl::load<8>"), (5000, "float32", "tl::load<4>"), (4097, "float16", None)],
)
def test_rows_are_loaded_by_vectors_and_combined_in_registers(columns, dtype, load):
    @T.prim_func
    def kernel(X: T.Tensor((2, columns), dtype), place: T.Tensor((2,), "int32")):
        with T.Kernel(2, threads=256) as bx:
            T.reduce_argmax(X[bx, :], place[bx], dim=1)

    compiled = tilelang.compile(kernel, target="sm_90a")
    source = compiled.get_kernel_source()
    assert load is None or load in source
    # 256 records of the block become 64, 16, 4, 1: two barriers each, and those around the result.
    assert source.count("__syncthreads") <= 10
    x = torch.randint(-50, 50, (2, columns)).to(getattr(torch, dtype))
    place = torch.full((2,), -1, dtype=torch.int32)
    compiled(x, place)
    wide = x.double()
    assert torch.equal(place, (wide == wide.amax(1, keepdim=True)).int().argmax(1).int())
