"""Which threads run a tile operator: conditions on the thread index, however they are spelled."""

from __future__ import annotations

import pytest
import torch
from sm100_kernels import (
    check_product,
    compile_sm100,
    poisoned,
    random_bits,
    random_values,
    same_bits,
)

import tilelang
import tilelang.language as T
from tilelang import emulator, errors

M, N, K = 128, 64, 64
SCHEDULES = ["late", "eager", 1, 2]


def run(kernel, *arguments, schedule) -> None:
    with emulator.options(schedule=schedule, instruction_limit=5_000_000):
        kernel(*arguments)


def thread():
    return T.get_thread_binding()


#: Spellings of "the second warpgroup", for any number of warpgroups from two.
SECOND = {
    "quotient": lambda: thread() // 128 == 1,
    "shift": lambda: (thread() >> 7) == 1,
    "mask": lambda: (thread() & ~127) == 128,
    "interval": lambda: (thread() >= 128) & (thread() < 256),
    "sides": lambda: (thread() > 127) & (thread() < 256),
    "remainder": lambda: (thread() % 256 >= 128) & (thread() < 256),
    "warps": lambda: (T.get_warp_idx() >= 4) & (T.get_warp_idx() < 8),
    "synchronised warps": lambda: (T.get_warp_idx_sync() >= 4) & (T.get_warp_idx_sync() <= 7),
    "warpgroup": lambda: T.get_warp_group_idx() == 1,
    "warp and lane": lambda: (
        (thread() // 32 + thread() % 32) - thread() % 32 - 4 == (thread() // 32) % 4
    ),
}


def copies(condition, threads, through_tmem):
    """The threads of a condition copy X to out, through fragments and tensor memory."""

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), out: T.Tensor((M, N), "float32")):
        with T.Kernel(1, threads=threads):
            t = T.alloc_tmem((M, N), "float32")
            f = T.alloc_fragment((M, N), "float32")
            g = T.alloc_fragment((M, N), "float32")
            if condition():
                T.copy(X, f)
                if through_tmem:
                    T.copy(f, t)
                    T.copy(t, g)
                else:
                    for i, j in T.Parallel(M, N):
                        g[i, j] = f[i, j]
                T.copy(g, out)

    return kernel


@pytest.mark.parametrize("spelling", SECOND)
@pytest.mark.parametrize("threads", [256, 384])
def test_spellings_are_equal(spelling, threads):
    sources = set()
    for condition in (SECOND[spelling], SECOND["quotient"]):
        sources.add(compile_sm100(copies(condition, threads, True)).get_kernel_source())
    assert len(sources) == 1
    for through_tmem in (True, False):
        kernel = compile_sm100(copies(SECOND[spelling], threads, through_tmem))
        x, o = random_bits(M, N, "float32"), poisoned(M, N, "float32")
        run(kernel, x, o, schedule="eager")
        assert same_bits(x, o)


@pytest.mark.parametrize("shape", [(256, 1), (64, 4), (16, 4, 4)])
@pytest.mark.parametrize("through_tmem", [True, False])
def test_blocks_of_several_dimensions(shape, through_tmem):
    def second():
        return T.get_warp_group_idx() == 1

    def second_by_last_dimension():
        last = len([extent for extent in shape if extent > 1]) - 1
        return T.get_thread_binding(last) >= shape[last] // 2

    for condition in (second, second_by_last_dimension):
        kernel = compile_sm100(copies(condition, shape, through_tmem))
        x, o = random_bits(M, N, "float32"), poisoned(M, N, "float32")
        run(kernel, x, o, schedule=1)
        assert same_bits(x, o)


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("threads", [256, 384])
def test_sides_and_nesting(threads, schedule):
    """`else` is the complement, inner conditions intersect, T.ws is a condition like others."""

    @T.prim_func
    def kernel(X: T.Tensor((3, M, N), "float32"), out: T.Tensor((3, M, N), "float32")):
        with T.Kernel(1, threads=threads):
            f = T.alloc_fragment((M, N), "float32")
            w = T.get_thread_binding() // 128
            if w == 0:
                T.copy(X[0, 0, 0], f)
                T.copy(f, out[0, 0, 0])
            else:
                if w < 2:
                    T.copy(X[1, 0, 0], f)
                    T.copy(f, out[1, 0, 0])
                else:
                    T.copy(X[2, 0, 0], f)
                    T.copy(f, out[2, 0, 0])

    x = random_values(3 * M, N, "float32").view(3, M, N)
    o = poisoned(3 * M, N, "float32").view(3, M, N)
    run(compile_sm100(kernel), x, o, schedule=schedule)
    written = threads // 128
    assert torch.equal(o[:written], x[:written])
    assert o[written:].isnan().all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("n", [1, 3])
def test_threads_and_a_value_of_all(n, schedule):
    """`and` of a condition on threads and one that all of them decide alike."""

    @T.prim_func
    def kernel(X: T.Tensor((4, M, N), "float32"), out: T.Tensor((4, M, N), "float32"), n: T.int32):
        with T.Kernel(1, threads=256):
            f = T.alloc_fragment((M, N), "float32")
            for k in T.serial(4):
                if k < n and T.get_thread_binding() // 128 == 1:
                    T.copy(X[k, 0, 0], f)
                    T.copy(f, out[k, 0, 0])
                with T.ws(0):
                    if T.get_warp_group_idx() + k == 3:
                        T.copy(X[k, 0, 0], f)
                        T.copy(f, out[k, 0, 0])

    x = random_values(4 * M, N, "float32").view(4, M, N)
    o = poisoned(4 * M, N, "float32").view(4, M, N)
    run(compile_sm100(kernel), x, o, n, schedule=schedule)
    assert torch.equal(o[:n], x[:n])
    assert torch.equal(o[3], x[3])
    assert o[n:3].isnan().all()


@pytest.mark.parametrize("schedule", SCHEDULES)
@pytest.mark.parametrize("n", [1, 3])
def test_other_threads_than_those_of_the_condition(n, schedule):
    """On the other side of an `and` whose threads take no part there, some are chosen again."""

    @T.prim_func
    def kernel(X: T.Tensor((4, M, N), "float32"), out: T.Tensor((4, M, N), "float32"), n: T.int32):
        with T.Kernel(1, threads=384):
            f = T.alloc_fragment((M, N), "float32")
            tx = T.get_thread_binding()
            for k in T.serial(3):
                if tx < 128 and k < n:
                    T.copy(X[k, 0, 0], f)
                    T.copy(f, out[k, 0, 0])
                elif tx >= 128 and tx < 256 and k == 2:
                    T.copy(X[2, 0, 0], f)
                    T.copy(f, out[3, 0, 0])
                elif tx >= 256:
                    T.sync_threads(1, 128)

    x = random_values(4 * M, N, "float32").view(4, M, N)
    o = poisoned(4 * M, N, "float32").view(4, M, N)
    run(compile_sm100(kernel), x, o, n, schedule=schedule)
    assert torch.equal(o[:n], x[:n])
    assert o[n:3].isnan().all()
    assert torch.equal(o[3], x[2])


def test_the_same_threads_on_the_other_side():
    """They copy there where the value does not hold, together with threads that always do."""

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), out: T.Tensor((M, N), "float32"), n: T.int32):
        with T.Kernel(1, threads=256):
            f = T.alloc_fragment((M, N), "float32")
            if T.get_thread_binding() < 128 and n > 1:
                T.sync_threads(1, 128)
                T.copy(X, f)
            else:
                T.copy(X, f)

    with pytest.raises(errors.SemanticsError, match="on the side that some threads take by their"):
        compile_sm100(kernel)


#: Who issues, of how many threads.
ISSUERS = {
    "first thread": (lambda: thread() == 0, 128),
    "some thread": (lambda: thread() == 77, 256),
    "elected of 128": (lambda: T.shuffle_elect(128), 128),
    "elected of 256": (lambda: T.shuffle_elect(256), 256),
    "elected of the block": (lambda: T.shuffle_elect(0), 384),
    "thread of a warp": (lambda: (T.get_warp_idx() == 1) & (T.get_lane_idx() == 5), 128),
    "thread of three indices": (
        lambda: (
            (T.get_thread_binding(2) == 1)
            & (T.get_thread_binding(1) // 4 * 32 + T.get_thread_binding(0) == 5)
            & (T.get_thread_binding(1) == 3)
        ),
        (8, 8, 2),
    ),
    "warp": (lambda: thread() // 32 == 2, 128),
    "synchronised warp": (lambda: T.get_warp_idx_sync() == 0, 256),
    "warpgroup": (lambda: T.get_warp_group_idx() == 0, 384),
}


def products(condition, threads, source, arrives):
    """Each step one group issues a product, everybody copies it out.

    source: where A comes from: "tma" or "threads" (through shared memory), "tmem".
    arrives: T.tcgen05_mma_arrive commits instead of mbar=.
    """

    @T.prim_func
    def kernel(
        A: T.Tensor((2, M, K), "bfloat16"),
        B: T.Tensor((N, K), "bfloat16"),
        C: T.Tensor((2, M, N), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((M, K), "bfloat16")
            b = T.alloc_shared((N, K), "bfloat16")
            a_frag = T.alloc_fragment((M, K), "bfloat16")
            a_tmem = T.alloc_tmem((M, K), "bfloat16")
            c = T.alloc_tmem((M, N), "float32")
            done = T.alloc_barrier(1)
            T.copy(B, b)
            for t in T.serial(2):
                if source == "threads":
                    for i, j in T.Parallel(M, K):
                        a[i, j] = A[t, i, j]
                else:
                    T.copy(A[t, 0, 0], a)
                if source == "tmem":
                    T.copy(a, a_frag)
                    T.copy(a_frag, a_tmem)
                if condition():
                    if arrives:
                        T.tcgen05_gemm(a, b, c, transpose_B=True, clear_accum=True, mbar=None)
                        T.tcgen05_mma_arrive(done)
                    elif source == "tmem":
                        T.tcgen05_gemm(a_tmem, b, c, transpose_B=True, clear_accum=True, mbar=done)
                    else:
                        T.gemm(a, b, c, transpose_B=True, clear_accum=True, mbar=done)
                T.mbarrier_wait_parity(done, t)
                T.copy(c, C[t, 0, 0])

    return kernel


def check_products(kernel, schedule):
    a, b = random_values(2 * M, K, "bfloat16"), random_values(N, K, "bfloat16")
    c = poisoned(2 * M, N, "float32")
    run(kernel, a.view(2, M, K), b, c.view(2, M, N), schedule=schedule)
    check_product(c, a, b.T)


@pytest.mark.parametrize("issuer", [k for k in ISSUERS if "warp" not in k or "thread" in k])
@pytest.mark.parametrize("source", ["tma", "threads", "tmem"])
def test_one_thread_issues(issuer, source):
    kernel = compile_sm100(products(*ISSUERS[issuer], source, False))
    for schedule in SCHEDULES:
        check_products(kernel, schedule)


@pytest.mark.parametrize("issuer", [k for k in ISSUERS if "warp" not in k or "thread" in k])
def test_arrival_of_what_was_issued(issuer):
    kernel = compile_sm100(products(*ISSUERS[issuer], "tma", True))
    check_products(kernel, "late")


@pytest.mark.parametrize("issuer", [k for k in ISSUERS if "thread" not in k and "warp" in k])
@pytest.mark.parametrize("arrives", [False, True])
def test_warps_issue(issuer, arrives):
    """Their phases are observed by others, so they issue once."""
    condition, threads = ISSUERS[issuer]

    @T.prim_func
    def kernel(
        A: T.Tensor((M, K), "bfloat16"),
        B: T.Tensor((N, K), "bfloat16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((M, K), "bfloat16")
            b = T.alloc_shared((N, K), "bfloat16")
            c = T.alloc_tmem((M, N), "float32")
            done = T.alloc_barrier(1)
            T.copy(A, a)
            T.copy(B, b)
            if condition():
                if arrives:
                    T.tcgen05_gemm(a, b, c, transpose_B=True, clear_accum=True, mbar=None)
                    T.tcgen05_mma_arrive(done)
                else:
                    T.tcgen05_gemm(a, b, c, transpose_B=True, clear_accum=True, mbar=done)
            T.mbarrier_wait_parity(done, 0)
            T.copy(c, C)

    a, b = random_values(M, K, "bfloat16"), random_values(N, K, "bfloat16")
    c = poisoned(M, N, "float32")
    for schedule in SCHEDULES:
        run(compile_sm100(kernel), a, b, c, schedule=schedule)
        check_product(c, a, b.T)


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_fragment_in_several_roles(schedule):
    """Each role has registers, and a layout, of its own."""

    @T.prim_func
    def kernel(X: T.Tensor((2, M, N), "float32"), out: T.Tensor((2, M, N), "float32")):
        with T.Kernel(1, threads=256):
            t = T.alloc_tmem((2, M, N), "float32")
            f = T.alloc_fragment((M, N), "float32")
            row = T.alloc_fragment((M,), "float32")
            if T.get_thread_binding() < 128:
                T.copy(X[0, 0, 0], f)
                T.copy(f, t[0, :, :])
                T.copy(t[0, :, :], out[0, 0, 0])
            else:
                T.copy(X[1, 0, 0], f)
                T.copy(f, t[1, :, :])
                T.copy(t[1, :, :], f)
                T.reduce_max(f, row, dim=1)
                for i, j in T.Parallel(M, N):
                    f[i, j] = f[i, j] - row[i]
                T.copy(f, out[1, 0, 0])

    x = random_values(2 * M, N, "float32").view(2, M, N)
    o = poisoned(2 * M, N, "float32").view(2, M, N)
    run(compile_sm100(kernel), x, o, schedule=schedule)
    assert torch.equal(o[0], x[0])
    assert torch.equal(o[1], x[1] - x[1].amax(1, keepdim=True))


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_roles_of_a_producer_and_a_consumer(schedule):
    """A value that only one role changes is the same in its threads: its loops may use it."""

    @T.prim_func
    def kernel(
        A: T.Tensor((4, M, K), "bfloat16"),
        B: T.Tensor((N, K), "bfloat16"),
        C: T.Tensor((4, M, N), "float32"),
    ):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((4, M, K), "bfloat16")
            b = T.alloc_shared((N, K), "bfloat16")
            c = T.alloc_tmem((2, M, N), "float32")
            full = T.alloc_barrier([1, 1])
            free = T.alloc_barrier([128, 128])
            steps = T.alloc_var("int32")
            T.copy(A, a)
            T.copy(B, b)
            if T.get_warp_idx() == 0:
                steps = 0
                while steps < 4:
                    T.mbarrier_wait_parity(free[steps % 2], (steps // 2 + 1) % 2)
                    T.tcgen05_gemm(
                        a[steps, :, :],
                        b,
                        c[steps % 2, :, :],
                        transpose_B=True,
                        clear_accum=True,
                        mbar=full[steps % 2],
                    )
                    steps = steps + 1
            elif T.get_warp_group_idx() == 1:
                f = T.alloc_fragment((M, N), "float32")
                steps = 4
                while steps > 0:
                    T.mbarrier_wait_parity(full[(4 - steps) % 2], ((4 - steps) // 2) % 2)
                    T.copy(c[(4 - steps) % 2, :, :], f)
                    T.mbarrier_arrive(free[(4 - steps) % 2])
                    T.copy(f, C[4 - steps, 0, 0])
                    steps = steps - 1

    a, b = random_values(4 * M, K, "bfloat16"), random_values(N, K, "bfloat16")
    c = poisoned(4 * M, N, "float32")
    run(compile_sm100(kernel), a.view(4, M, K), b, c.view(4, M, N), schedule=schedule)
    check_product(c, a, b.T)


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_scalar_code_under_any_condition(target):
    """Only tile operators need groups of threads."""

    @T.prim_func
    def kernel(X: T.Tensor((512,), "int32"), out: T.Tensor((512,), "int32")):
        with T.Kernel(1, threads=256):
            tid = T.get_thread_binding()
            for k in T.serial(2):
                if tid % 2 == k:
                    out[tid] = X[tid] + k
                if tid // 32 == X[k] % 8:
                    out[256 + tid] = tid

    x = torch.randint(0, 1000, (512,), dtype=torch.int32)
    o = torch.full((512,), -1, dtype=torch.int32)
    tilelang.compile(kernel, target=target)(x, o)
    index = torch.arange(256, dtype=torch.int32)
    assert torch.equal(o[:256], x[:256] + index % 2)
    chosen = (index // 32 == x[0] % 8) | (index // 32 == x[1] % 8)
    assert torch.equal(o[256:], torch.where(chosen, index, -1))


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
def test_threads_of_a_role_exchange_values(target, nested):
    """Barriers of the role alone, under a condition of threads and a value."""

    @T.prim_func
    def kernel(X: T.Tensor((M, N), "float32"), out: T.Tensor((N, M), "float32"), n: T.int32):
        with T.Kernel(1, threads=256):
            s = T.alloc_shared((M, N), "float32")
            for k in T.serial(3):
                if nested:
                    if T.get_warp_group_idx() == 1:
                        step = T.alloc_var("int32")
                        step = k * 2
                        if step < n:
                            for i, j in T.Parallel(M, N):
                                s[i, j] = X[i, j] * (k + 1)
                            for i, j in T.Parallel(N, M):
                                out[i, j] = s[j, i]
                elif T.get_warp_group_idx() == 1 and k * 2 < n:
                    for i, j in T.Parallel(M, N):
                        s[i, j] = X[i, j] * (k + 1)
                    for i, j in T.Parallel(N, M):
                        out[i, j] = s[j, i]

    compiled = tilelang.compile(kernel, target=target)
    for schedule in SCHEDULES:
        x, out = random_values(M, N, "float32"), poisoned(N, M, "float32")
        run(compiled, x, out, 3, schedule=schedule)
        assert torch.equal(out, x.T * 2)


SCRATCH = {
    "reduce": (lambda f, g: T.reduce_sum(f, g, dim=0), lambda x: x.sum(0).expand(32, 64)),
    "cumsum": (lambda f, g: T.cumsum(f, g, dim=0), lambda x: x.cumsum(0)),
    "reverse": (None, lambda x: x.flip(0)),
}


@pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("operation", SCRATCH)
def test_roles_have_scratch_memory_of_their_own(operation, target):
    """Sides of a branch run at the same time: what the compiler allocates may not overlap."""
    apply, reference = SCRATCH[operation]

    @T.macro
    def role(source, out):
        f = T.alloc_fragment((32, 64), "float32")
        g = T.alloc_fragment((64,) if operation == "reduce" else (32, 64), "float32")
        T.copy(source, f)
        if apply:
            apply(f, g)
        else:
            for i, j in T.Parallel(32, 64):
                g[i, j] = f[31 - i, j]
        for i, j in T.Parallel(32, 64):
            out[i, j] = g[j] if operation == "reduce" else g[i, j]

    tile = T.Tensor((32, 64), "float32")

    @T.prim_func
    def kernel(X: tile, Y: tile, x_out: tile, y_out: tile):
        with T.Kernel(1, threads=256):
            if thread() < 128:
                role(X, x_out)
            else:
                role(Y, y_out)

    compiled = tilelang.compile(kernel, target=target)
    x, y = torch.randn(2, 32, 64)
    for schedule in SCHEDULES:
        out = [poisoned(32, 64, "float32") for _ in range(2)]
        run(compiled, x, y, *out, schedule=schedule)
        for source, result in zip((x, y), out, strict=True):
            expected = reference(source.double())
            torch.testing.assert_close(result.double(), expected, rtol=1e-5, atol=1e-5)


CHOSEN = {
    "a range": (lambda t: t < 32, lambda t: (t >= 32) & (t < 96)),
    "no range": (lambda t: (t < 32) | (t >= 96), lambda t: (t >= 32) & (t < 96)),
    "every other warp": (lambda t: t // 32 % 2 == 0, lambda t: (t >= 32) & (t < 64)),
}


@pytest.mark.parametrize("chosen", CHOSEN)
def test_others_where_a_value_decides_for_some(chosen):
    """Threads that a value keeps from their branch do not take that of others."""
    some, others = CHOSEN[chosen]

    @T.prim_func
    def kernel(
        A: T.Tensor((64, 64), "float32"),
        C: T.Tensor((64, 64), "float32"),
        D: T.Tensor((128,), "int32"),
        n: T.int32,
    ):
        with T.Kernel(1, threads=128):
            t = thread()
            D[t] = 0
            if some(t) and n == 0:
                D[t] = 1
            elif others(t):
                D[t] = 2
                T.copy(A, C)

    if chosen != "a range":
        with pytest.raises(errors.SemanticsError, match="Write one `if` for the threads"):
            tilelang.compile(kernel, target="sm_90a")
        return
    compiled = tilelang.compile(kernel, target="sm_90a")
    t = torch.arange(128)
    for schedule in SCHEDULES:
        for n in (0, 1):
            a, c = random_values(64, 64, "float32"), poisoned(64, 64, "float32")
            d = torch.full((128,), 77, dtype=torch.int32)
            run(compiled, a, c, d, n, schedule=schedule)
            assert torch.equal(c, a)
            want = torch.where(others(t), 2, 0)
            assert torch.equal(d, torch.where(some(t), 1, want).int() if n == 0 else want.int())
