"""T.alloc_reducer(scope="grid"): against sums in float64, bit by bit over runs and schedules."""

import itertools
import re

import pytest
import torch

import tilelang
import tilelang.language as T
from tilelang import emulator, errors
from tilelang.language.grid_plan import choose

TARGETS = ("sm_80", "sm_90a", "sm_100a")


def sums(blocks, rows, columns, deterministic=True, op="sum", dtype="float32", threads=64):
    """Sums of the columns and of their squares, of rows that blocks share."""

    @T.prim_func
    def kernel(
        X: T.Tensor((rows, columns), "float16"),
        W: T.Tensor((columns,), dtype),
        B: T.Tensor((columns,), dtype),
    ):
        with T.Kernel(blocks, threads=threads) as bx:
            w = T.alloc_reducer(
                (columns,), dtype, op, scope="grid", out=W, deterministic=deterministic
            )
            b = T.alloc_reducer(
                (columns,), dtype, op, scope="grid", out=B, deterministic=deterministic
            )
            share = T.ceildiv(rows, blocks)
            for i, j in T.Parallel(share, columns):
                if bx * share + i < rows:
                    x = T.cast(X[bx * share + i, j], dtype)
                    T.reducer_update(w[j], x)
                    T.reducer_update(b[j], x * x)
            T.finalize_reducer(w)
            T.finalize_reducer(b)

    return kernel


def run(kernel, x, columns, dtype=torch.float32):
    poison = torch.nan if dtype.is_floating_point else 77
    w, b = torch.full((columns,), poison, dtype=dtype), torch.full((columns,), poison, dtype=dtype)
    kernel(x, w, b)
    return w, b


def check(kernel, rows, columns):
    x = torch.randn(rows, columns).half()
    for _ in range(2):  # the counter is zero again
        w, b = run(kernel, x, columns)
        torch.testing.assert_close(w.double(), x.double().sum(0), rtol=0, atol=1e-3)
        torch.testing.assert_close(b.double(), x.double().pow(2).sum(0), rtol=1e-5, atol=1e-3)


@pytest.mark.parametrize(("rows", "columns"), [(300, 24), (40, 4096)])
def test_no_barrier_stands_directly_after_another(rows, columns):
    """By a counter, and by a tree of counters."""
    source = tilelang.compile(sums(40, rows, columns), target="sm_100a").get_kernel_source()
    lines = [line.strip() for line in source.splitlines()]
    code = [line for line in lines if line and not line.startswith(("//", "#"))]
    assert ("__syncthreads();", "__syncthreads();") not in itertools.pairwise(code)


def plans_of(kernel):
    return [r.message for r in kernel.schedule().remarks if r.topic == "grid"]


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize(("blocks", "rows", "columns"), [(1, 50, 16), (13, 300, 24)])
def test_sums_over_the_grid(blocks, rows, columns, deterministic, target):
    kernel = tilelang.compile(sums(blocks, rows, columns, deterministic), target=target)
    assert len(plans_of(kernel)) == 2
    check(kernel, rows, columns)


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    ("target", "deterministic"), [("sm_80", True), ("sm_90a", False), ("sm_100a", True)]
)
def test_wide_results(deterministic, target):
    """By a tree, or by atomic operations."""
    kernel = tilelang.compile(sums(40, 40, 4096, deterministic, threads=256), target=target)
    text = plans_of(kernel)[0]
    assert ("last of each 7 blocks" if deterministic else "atomic operations") in text
    assert ("no atomics: deterministic=True" in text) == deterministic
    check(kernel, 40, 4096)


@pytest.mark.parametrize("op", ["max", "min", "bitor", "bitand", "bitxor", "sum"])
def test_other_operations(op):
    dtype = "int32" if "bit" in op else "float32"
    kernel = tilelang.compile(sums(5, 70, 8, False, op, dtype), target="sm_90a")
    x = torch.randint(1, 100, (70, 8)).half() if "bit" in op else torch.randn(70, 8).half()
    w, _ = run(kernel, x, 8, getattr(torch, dtype))
    if "bit" in op:
        whole = x.int()
        want = whole[0]
        for row in whole[1:]:
            want = {"bitor": want | row, "bitand": want & row, "bitxor": want ^ row}[op]
        assert torch.equal(w, want)
    else:
        want = {"max": x.amax(0), "min": x.amin(0), "sum": x.double().sum(0)}[op]
        torch.testing.assert_close(w.double(), want.double(), rtol=0, atol=1e-4)


@pytest.mark.parametrize("target", TARGETS)
def test_a_grid_known_at_run_time(target):
    n = T.dynamic("n")

    @T.prim_func
    def kernel(X: T.Tensor((n, 64)), W: T.Tensor((64,))):
        with T.Kernel(T.ceildiv(n, 4), threads=64) as bx:
            w = T.alloc_reducer((64,), "float32", scope="grid", out=W, deterministic=True)
            for i, j in T.Parallel(4, 64):
                if bx * 4 + i < n:
                    w[j] += X[bx * 4 + i, j]
            T.finalize_reducer(w)

    compiled = tilelang.compile(kernel, target=target)
    assert "last of each 32 blocks" in plans_of(compiled)[0]
    for rows in (3, 128, 131, 300, 7):
        x, w = torch.randn(rows, 64), torch.full((64,), torch.nan)
        compiled(x, w)
        torch.testing.assert_close(w.double(), x.double().sum(0), rtol=0, atol=1e-4)


def test_deterministic_results_are_equal_bit_by_bit():
    kernel = tilelang.compile(sums(23, 700, 16), target="sm_90a")
    x = torch.randn(700, 16).half()
    found = []
    for schedule in ("late", "eager", 1, 2, 3):
        for workers in (1, 2):
            with emulator.options(schedule=schedule, threads=workers):
                found.append(torch.stack(run(kernel, x, 16)))
    assert all(torch.equal(each, found[0]) for each in found)


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", TARGETS)
def test_blocks_of_the_same_out_are_one_team(target):
    """Columns are divided over x, rows over y."""

    @T.prim_func
    def kernel(X: T.Tensor((60, 48)), W: T.Tensor((48,)), M: T.Tensor((3, 16), "float16")):
        with T.Kernel(3, 5, threads=64) as (bx, by):
            left = bx * 16
            w = T.alloc_reducer((16,), "float32", scope="grid", out=W[left : left + 16])
            m = T.alloc_reducer((1, 16), "float32", op="max", scope="grid", out=M[bx, 0])
            for i, j in T.Parallel(12, 16):
                w[j] += X[by * 12 + i, left + j]
                m[0, j] = T.max(m[0, j], X[by * 12 + i, left + j])
            T.finalize_reducer(w)
            T.finalize_reducer(m)

    compiled = tilelang.compile(kernel, target=target)
    assert all("over 5 blocks" in text for text in plans_of(compiled))
    x, w, m = torch.randn(60, 48), torch.full((48,), torch.nan), torch.zeros(3, 16).half()
    compiled(x, w, m)
    torch.testing.assert_close(w.double(), x.double().sum(0), rtol=0, atol=1e-4)
    assert torch.equal(m.flatten(), x.amax(0).half())


@pytest.mark.every_schedule
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_a_team_that_is_a_cluster(target):
    @T.prim_func
    def kernel(
        X: T.Tensor((60, 48)),
        W: T.Tensor((48,)),
        best: T.Tensor((3,)),
        place: T.Tensor((3,), "int32"),
    ):
        with T.Kernel(3, 4, threads=64, cluster_dims=(1, 4, 1)) as (bx, by):
            left = bx * 16
            w = T.alloc_reducer((16,), "float32", scope="grid", out=W[left : left + 16])
            a = T.alloc_reducer(
                (1,), T.argmax("float32"), scope="grid", out=(best[bx : bx + 1], place[bx : bx + 1])
            )
            for i, j in T.Parallel(15, 16):
                w[j] += X[by * 15 + i, left + j]
                T.reducer_update(a[0], X[by * 15 + i, left + j], (by * 15 + i) * 16 + j)
            T.finalize_reducer(w)
            T.finalize_reducer(a)

    compiled = tilelang.compile(kernel, target=target)
    assert all("shared memory of the cluster" in text for text in plans_of(compiled))
    x, w = torch.randn(60, 48), torch.full((48,), torch.nan)
    best, place = torch.zeros(3), torch.zeros(3).int()
    compiled(x, w, best, place)
    torch.testing.assert_close(w.double(), x.double().sum(0), rtol=0, atol=1e-4)
    tiles = x.view(60, 3, 16).transpose(0, 1).reshape(3, -1)
    assert torch.equal(best, tiles.amax(1)) and torch.equal(place.long(), tiles.argmax(1))


def test_the_choice():
    assert choose(1, 16, 64, "").kind == "block"
    assert choose(264, 16, 64, "no").fan_in == 0
    assert choose(264, 4096, 16384, "no").fan_in == 17
    assert choose(264, 4096, 16384, "").fan_in == 17
    assert choose(40, 4096, 16384, "").kind == "atomics"
    assert choose(None, 16, 64, "no").kind == "workspace"
    assert choose(8, 16, 64, "no", clustered=True).kind == "cluster"
    assert choose(8, 4096, 16384, "no", clustered=True).kind == "workspace"
    for blocks in (2, 3, 10, 100, 5000):
        plan = choose(blocks, 1 << 20, 4 << 20, "no")
        assert plan.fan_in >= 2 or blocks < 5


def make(out="W", loop=False, finalize=1, **options):
    @T.prim_func
    def kernel(X: T.Tensor((64, 16)), W: T.Tensor((64,)), H: T.Tensor((16,), "int32")):
        with T.Kernel(4, threads=32) as bx:
            s = T.alloc_shared((16,), "float32")
            places = {
                "W": W[0:16], "all": W, "half": W[bx // 2 * 16 : bx // 2 * 16 + 16], "shared": s,
                "meet": W[bx * 8 : bx * 8 + 16], "read": W[H[0] : H[0] + 16], "none": None,
            }  # fmt: skip
            w = T.alloc_reducer((16,), "float32", out=places[out], **options)
            for i, j in T.Parallel(16, 16):
                if options.get("deterministic"):
                    w[H[j]] += X[bx * 16 + i, j]
                else:
                    w[j] += X[bx * 16 + i, j]
            if loop:
                for _ in T.serial(2):
                    T.finalize_reducer(w)
            elif finalize > 0:
                T.finalize_reducer(w)
            if finalize > 1:
                T.finalize_reducer(w)

    return kernel


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"scope": "cluster"}, errors.SemanticsError, "neither 'block' nor 'grid'"),
        ({"scope": "block"}, errors.SemanticsError, 'out= .* goes with scope="grid"'),
        ({"out": "none", "scope": "grid"}, errors.SemanticsError, "takes out="),
        ({"out": "all", "scope": "grid"}, errors.ShapeError, "has shape (.*64.*), and the reducer"),
        ({"out": "shared", "scope": "grid"}, errors.ScopeError, "a tensor gets the results"),
        ({"out": "half", "scope": "grid"}, errors.SemanticsError, "is not made for the grid"),
        ({"out": "meet", "scope": "grid"}, errors.SemanticsError, "at least its extent"),
        ({"out": "read", "scope": "grid"}, errors.SemanticsError, "is not made for the grid"),
        ({"scope": "grid", "loop": True}, errors.ScopeError, "in a loop or under a condition"),
        ({"scope": "grid", "finalize": 0}, errors.SemanticsError, "is not finalized"),
        ({"scope": "grid", "finalize": 2}, errors.SemanticsError, "is finalized twice"),
        ({"scope": "grid", "deterministic": True}, errors.SemanticsError, "in no order: its index"),
    ],
)
def test_errors(given, error, text):
    with pytest.raises(error, match=text):
        tilelang.compile(make(**given), target="sm_90a")


IDENTITIES = {
    "sum": ("float32", 0.0),
    "max": ("float32", -float("inf")),
    "min": ("int32", 2**31 - 1),
    "bitand": ("int32", -1),
    "bitor": ("int32", 0),
    "bitxor": ("uint32", 0),
}


@pytest.mark.parametrize("target", [*TARGETS, "sm_120a"])
@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("op", IDENTITIES)
def test_no_blocks(op, deterministic, target):
    """The results of a grid without blocks are what changes nothing; others follow as ever."""
    rows, (dtype, identity) = T.dynamic("rows"), IDENTITIES[op]

    @T.prim_func
    def kernel(X: T.Tensor((rows, 48), dtype), W: T.Tensor((2, 48), dtype)):
        with T.Kernel(T.ceildiv(rows, 8), 3, threads=64) as (bx, by):
            columns = by * 16
            w = T.alloc_reducer(
                (16,),
                dtype,
                op,
                scope="grid",
                out=W[1, columns : columns + 16],
                deterministic=deterministic,
            )
            for i, j in T.Parallel(8, 16):
                if bx * 8 + i < rows:
                    T.reducer_update(w[j], X[bx * 8 + i, columns + j])
            T.finalize_reducer(w)

    compiled = tilelang.compile(kernel, target=target)
    element = getattr(torch, dtype)
    for count in (0, 1, 0):
        w = torch.full((2, 48), 77, dtype=element)
        x = torch.randint(0, 100, (count, 48)).to(element)
        compiled(x, w)
        assert (w[0] == 77).all()
        assert torch.equal(w[1], x[0] if count else torch.full_like(w[1], identity))


def test_no_blocks_give_records_of_nothing():
    rows = T.dynamic("rows")

    @T.prim_func
    def kernel(
        X: T.Tensor((rows, 16), "float32"),
        Mean: T.Tensor((16,)),
        Variance: T.Tensor((16,)),
        Squares: T.Tensor((16,)),
        Count: T.Tensor((16,)),
    ):
        with T.Kernel(T.ceildiv(rows, 8), threads=64) as bx:
            w = T.alloc_reducer(
                (16,), T.welford(), scope="grid", out=(Mean, Variance, Squares, Count)
            )
            for i, j in T.Parallel(8, 16):
                if bx * 8 + i < rows:
                    T.reducer_update(w[j], X[bx * 8 + i, j])
            T.finalize_reducer(w)

    results = [torch.full((16,), 7.0) for _ in range(4)]
    tilelang.compile(kernel, target="sm_100a")(torch.zeros(0, 16), *results)
    mean, variance, squares, count = results
    assert not mean.any() and not squares.any() and not count.any()
    assert variance.isnan().all()


def test_grids_that_are_never_empty_are_one_launch():
    assert tilelang.compile(sums(13, 500, 16), target="sm_90a").get_ptx().count(".entry") == 1


def test_the_memory_is_not_the_users():
    kernel = tilelang.compile(sums(13, 500, 16), target="sm_90a")
    assert len(re.findall(r"atom\S*add", kernel.get_ptx())) == 1  # one arrival for both
    assert [p.name for p in kernel.params] == ["X", "W", "B"]


@pytest.mark.requires_cuda
@pytest.mark.parametrize("deterministic", [True, False])
@pytest.mark.parametrize("columns", [16, 4096])
def test_on_a_gpu_and_in_graphs(deterministic, columns):
    blocks, rows = 264, 4000
    kernel = tilelang.compile(sums(blocks, rows, columns, deterministic, threads=128))
    x = torch.randn(rows, columns, device="cuda").half()
    w, b = (torch.empty(columns, device="cuda") for _ in range(2))
    want, seen = x.double().sum(0), []
    for _ in range(20):
        w.fill_(torch.nan)
        kernel(x, w, b)
        torch.testing.assert_close(w.double(), want, rtol=0, atol=2e-2)
        seen.append(w.clone())
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        kernel(x, w, b)
    for _ in range(20):
        w.fill_(torch.nan)
        graph.replay()
        kernel(x, b, b.clone())
        torch.testing.assert_close(w.double(), want, rtol=0, atol=2e-2)
        seen.append(w.clone())
    if deterministic:
        assert all(torch.equal(each, seen[0]) for each in seen)


@pytest.mark.every_schedule
def test_counters_of_a_program_are_zero_in_every_call():
    """Blocks count themselves in two groups; the last of each tells how many there were."""

    @T.prim_func
    def kernel(N: T.Tensor((2,), "int32")):
        arrived = T.alloc_global((2,), "int32", zeroed=True)
        with T.Kernel(7, 2, threads=32) as (_, group):
            if T.get_thread_binding() == 0:
                before = T.atomic_add(arrived[group], 1, return_prev=True)
                if before == 6:
                    N[group] = before + 1
                    arrived[group] = 0

    compiled = tilelang.compile(kernel, target="sm_90a")
    for _ in range(3):
        counted = torch.zeros(2, dtype=torch.int32)
        compiled(counted)
        assert counted.tolist() == [7, 7]
