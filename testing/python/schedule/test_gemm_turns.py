"""Gemms by tcgen05 that a warp of their own issues: in turns with the threads, or all of a loop."""

from __future__ import annotations

import itertools
import re

import pytest
import torch
from fuzz.pipelined_kernels import chain

import tilelang
import tilelang.language as T

every_schedule = pytest.mark.every_schedule


def exact(*shape: int) -> torch.Tensor:
    return torch.randint(-4, 5, shape).half()


def poisoned(*shape: int) -> torch.Tensor:
    return torch.full(shape, float("nan"))


def has_mma_warp(kernel) -> bool:
    return "gemm_done" in kernel.get_kernel_source()


def mma_warp(kernel) -> str:
    """Its branch of the generated code; the last loop of it stands at the end."""
    source = kernel.get_kernel_source()
    start = source.index("\n    } else", source.index("_loads = "))
    end = re.search(r"\n  } else {", source[start:])
    return source[start : start + end.start()]


def steps_of(code: str) -> list[str]:
    """Waits, gemms (one for each operator) and commits of some code, in order."""
    found = re.findall(
        r"mbarrier_(wait)\((\w+)\[(\w+)|tcgen05_(commit)\((\w+)\[(\w+)|tcgen05_mma_(ss|ts)", code
    )
    steps = []
    for *named, gemm in found:
        step = gemm or " ".join(part for part in named if part and "slot" not in part)
        if not (gemm and steps and steps[-1] == gemm):
            steps.append(step)
    return steps


def gemm(M, N, K, m=128, n=64, k=64, threads=128, stages=3, blocks=None):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((N, K), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):
        tiles = [T.ceildiv(M, m), T.ceildiv(N, n)]
        with T.Kernel(blocks or tiles[0] * tiles[1], threads=threads) as block:
            a = T.alloc_shared((m, k), "float16")
            b = T.alloc_shared((n, k), "float16")
            c = T.alloc_fragment((m, n), "float32")
            for by, bx in T.Persistent(tiles, blocks or tiles[0] * tiles[1], block):
                T.clear(c)
                for i in T.Pipelined(T.ceildiv(K, k), num_stages=stages):
                    T.copy(A[by * m, i * k], a)
                    T.copy(B[bx * n, i * k], b)
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C[by * m, bx * n])

    return main


@every_schedule
@pytest.mark.parametrize("blocks", [None, 1, 3])
@pytest.mark.parametrize("threads", [128, 256])
@pytest.mark.parametrize("K", [104, 448])
def test_gemm(K: int, threads: int, blocks) -> None:
    kernel = tilelang.compile(gemm(256, 192, K, threads=threads, blocks=blocks), target="sm_100a")
    assert has_mma_warp(kernel)
    A, B, C = exact(256, K), exact(192, K), poisoned(256, 192)
    kernel(A, B, C)
    assert torch.equal(C.double(), A.double() @ B.double().T)


def test_the_loop_waits_for_tiles_alone() -> None:
    kernel = tilelang.compile(gemm(128, 64, 448), target="sm_100a")
    code = mma_warp(kernel)
    assert steps_of(code) == [
        "wait gemm_ready 0",
        "wait a_full",
        "ss",
        "commit a_empty",
        "commit gemm_done 0",
    ]
    assert "sync_threads" not in code and "fence_proxy_async" not in code


@every_schedule
@pytest.mark.parametrize("count", [0, 1, 2, 5])
def test_a_loop_of_any_length_keeps_the_accumulator(count: int) -> None:
    @T.prim_func
    def main(
        A: T.Tensor((640, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((128, 64), "float32"),
        n: T.int32,
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_tmem((128, 64), "float32")
            f = T.alloc_fragment((128, 64), "float32")
            T.copy(B, b)
            T.fill(f, 3)
            T.copy(f, c)
            for i in T.Pipelined(n, num_stages=2):
                T.copy(A[i * 128, 0], a)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, f)
            T.copy(f, C)

    kernel = tilelang.compile(main, target="sm_100a")
    assert has_mma_warp(kernel)
    A, B, C = exact(640, 64), exact(64, 64), poisoned(128, 64)
    kernel(A, B, C, count)
    blocks = A.double().view(5, 128, 64)[:count]
    want = 3 + sum((block @ B.double().T for block in blocks), torch.zeros(128, 64).double())
    assert torch.equal(C.double(), want)


@every_schedule
def test_an_operand_that_threads_wrote_before_the_loop() -> None:
    @T.prim_func
    def main(A: T.Tensor((384, 64), "float16"), C: T.Tensor((2, 128, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            for t in T.serial(2):
                for r, q in T.Parallel(64, 64):
                    b[r, q] = r - q + t
                T.clear(c)
                for i in T.Pipelined(3, num_stages=2):
                    T.copy(A[i * 128, 0], a)
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C[t, :, :])

    kernel = tilelang.compile(main, target="sm_100a")
    assert has_mma_warp(kernel) and "fence_proxy_async" in kernel.get_kernel_source()
    A, C = exact(384, 64), poisoned(2, 128, 64)
    kernel(A, C)
    for t in range(2):
        b = torch.arange(64.0).view(-1, 1) - torch.arange(64.0) + t
        want = A.double().view(3, 128, 64).sum(0) @ b.double().T
        assert torch.equal(C[t].double(), want)


@every_schedule
def test_two_accumulators_and_two_loops() -> None:
    @T.prim_func
    def main(
        A: T.Tensor((128, 320), "float16"),
        B: T.Tensor((128, 320), "float16"),
        C: T.Tensor((2, 128, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((128, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            d = T.alloc_fragment((128, 64), "float32")
            T.clear(c)
            T.clear(d)
            for i in T.Pipelined(5, num_stages=2):
                T.copy(A[0, i * 64], a)
                T.copy(B[0, i * 64], b)
                T.gemm(a, b[0:64, :], c, transpose_B=True)
                T.gemm(a, b[64:128, :], d, transpose_B=True)
            for i in T.Pipelined(3, num_stages=2):
                T.copy(A[0, i * 64], a)
                T.copy(B[0, i * 64], b)
                T.gemm(a, b[64:128, :], c, transpose_B=True)
            T.copy(c, C[0, :, :])
            T.copy(d, C[1, :, :])

    kernel = tilelang.compile(main, target="sm_100a")
    assert has_mma_warp(kernel)
    A, B, C = exact(128, 320), exact(128, 320), poisoned(2, 128, 64)
    kernel(A, B, C)
    a, b = A.double(), B.double()
    first = a @ b[:64].T + a[:, :192] @ b[64:, :192].T
    assert torch.equal(C[0].double(), first)
    assert torch.equal(C[1].double(), a @ b[64:].T)


def test_results_of_a_persistent_kernel_have_two_slots() -> None:
    kernel = tilelang.compile(gemm(256, 192, 448, blocks=3), target="sm_100a")
    assert steps_of(mma_warp(kernel)) == [
        "wait c_tmem_empty",
        "wait a_full",
        "ss",
        "commit a_empty",
        "commit c_tmem_full",
    ]
    source = kernel.get_kernel_source()
    # The slot is given back when its result is in registers, before anything is stored.
    order = [source.index(step) for step in ("tcgen05_load", "arrive(c_tmem_empty", "tl::store(")]
    assert order == sorted(order)


def _tiles(m, n, k, body):
    """Three tiles one after another."""

    @T.prim_func
    def main(
        A: T.Tensor((3 * m, k), "float16"),
        B: T.Tensor((n, k), "float16"),
        C: T.Tensor((3 * m, n), "float32"),
    ):
        with T.Kernel(1, threads=m):
            a = T.alloc_shared((m, 64), "float16")
            b = T.alloc_shared((n, 64), "float16")
            c = T.alloc_fragment((m, n), "float32")
            for t in T.serial(3):
                body(A, B, C, a, b, c, t)

    return main


@T.macro
def _accumulates_over_tiles(A, B, C, a, b, c, t):
    if t == 0:
        T.clear(c)
    for i in T.Pipelined(2, num_stages=2):
        T.copy(A[t * 128, i * 64], a)
        T.copy(B[0, i * 64], b)
        T.gemm(a, b, c, transpose_B=True)
    T.copy(c, C[t * 128, 0])


@T.macro
def _starts_anew(A, B, C, a, b, c, t):
    T.clear(c)
    for i in T.Pipelined(2, num_stages=2):
        T.copy(A[t * 128, i * 64], a)
        T.copy(B[0, i * 64], b)
        T.gemm(a, b, c, transpose_B=True)
    T.copy(c, C[t * 128, 0])


@every_schedule
@pytest.mark.may_spill("a thread holds 256 words of a result")
@pytest.mark.parametrize(("n", "slots"), [(64, 2), (256, 2), (384, 1)])
def test_two_slots_where_there_is_room(n: int, slots: int) -> None:
    kernel = tilelang.compile(_tiles(128, n, 128, _starts_anew), target="sm_100a")
    assert ("c_tmem_empty" in kernel.get_kernel_source()) == (slots == 2)
    A, B, C = exact(384, 128), exact(n, 128), poisoned(384, n)
    kernel(A, B, C)
    assert torch.equal(C.double(), A.double() @ B.double().T)


@every_schedule
def test_sums_over_tiles_have_one_slot() -> None:
    kernel = tilelang.compile(_tiles(128, 64, 128, _accumulates_over_tiles), target="sm_100a")
    assert "c_tmem_empty" not in kernel.get_kernel_source()
    A, B, C = exact(384, 128), exact(64, 128), poisoned(384, 64)
    kernel(A, B, C)
    tiles = (A.double() @ B.double().T).view(3, 128, 64)
    assert torch.equal(C.double().view(3, 128, 64), tiles.cumsum(0))


def _reads_tile(A, a, b, c, s, C):
    for i in T.Pipelined(3, num_stages=2):
        T.copy(A[i * 128, 0], a)
        T.gemm(a, b, c, transpose_B=True)
        for r, q in T.Parallel(128, 64):
            s[r, q] += a[r, q]


def _reads_result(A, a, b, c, s, C):
    for i in T.Pipelined(3, num_stages=2):
        T.copy(A[i * 128, 0], a)
        T.gemm(a, b, c, transpose_B=True, clear_accum=True)
        for r, q in T.Parallel(128, 64):
            s[r, q] += c[r, q]


def _operand_changes(A, a, b, c, s, C):
    for i in T.Pipelined(3, num_stages=2):
        T.copy(A[i * 128, 0], a)
        T.gemm(a, b, c, transpose_B=True)
        for r, q in T.Parallel(64, 64):
            b[r, q] = b[r, q] + 1


def _mixed(body):
    step = T.macro(body)

    @T.prim_func
    def main(
        A: T.Tensor((384, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        C: T.Tensor((2, 128, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((128, 64), "float32")
            s = T.alloc_fragment((128, 64), "float32")
            T.copy(B, b)
            T.clear(c)
            T.clear(s)
            step(A, a, b, c, s, C)
            T.copy(c, C[0, :, :])
            T.copy(s, C[1, :, :])

    return main


@every_schedule
@pytest.mark.parametrize("body", [_reads_tile, _reads_result, _operand_changes])
def test_loops_with_work_of_threads(body) -> None:
    kernel = tilelang.compile(_mixed(body), target="sm_100a")
    # A tile that threads read as well is released by them: they issue the gemms, too.
    assert has_mma_warp(kernel) == (body is not _reads_tile)
    A, B, C = exact(384, 64), exact(64, 64), poisoned(2, 128, 64)
    kernel(A, B, C)
    blocks, b = A.double().view(3, 128, 64), B.double()
    step_of_b = 1 if body is _operand_changes else 0
    parts = [block @ (b + i * step_of_b).T for i, block in enumerate(blocks)]
    want = parts[-1] if body is _reads_result else sum(parts)
    assert torch.equal(C[0].double(), want)
    other = {_reads_tile: blocks.sum(0), _reads_result: sum(parts)}
    assert torch.equal(C[1].double(), other.get(body, torch.zeros(128, 64).double()))


def test_a_result_is_given_back_as_soon_as_it_is_in_registers() -> None:
    source = tilelang.compile(_mixed(_reads_result), target="sm_100a").get_kernel_source()
    loop = source[source.index("for (int i", source.index("tcgen05_load") - 900) :]
    order = [loop.index(step) for step in ("gemm_done", "tcgen05_load", "gemm_ready", "s[r")]
    assert order == sorted(order)


def test_an_operand_that_threads_write_between_turns_is_fenced() -> None:
    source = tilelang.compile(_mixed(_operand_changes), target="sm_100a").get_kernel_source()
    assert re.search(r"fence_proxy_async\(\);\s+tl::mbarrier_arrive\(gemm_ready", source)


def check_chain(kernel, n, rows=256, keys=64, width=64, rescale=True, depth=64) -> None:
    a, b, c = (torch.randint(-2, 3, s).half() for s in ((rows, depth), (6 * keys, depth), (1, 1)))
    c = torch.randint(-2, 3, (6 * keys, width)).half()
    out = poisoned(rows, width)
    kernel(a, b, c, out, n)
    want = torch.zeros(rows, width).double()
    for j in range(n):
        part = slice(j * keys, (j + 1) * keys)
        weights = (a.double() @ b[part].double().T).relu()
        want = want * (0.5 if rescale else 1) + weights @ c[part].double()
    assert torch.equal(out.double(), want)


SHAPES = [
    # rows, threads: one block of rows; two, each with a warpgroup; a block for two warpgroups
    (128, 128),
    (256, 256),
    (128, 256),
    (384, 384),
]


@every_schedule
@pytest.mark.parametrize("rescale", [False, True])
@pytest.mark.parametrize(("rows", "threads"), SHAPES)
def test_gemms_of_a_chain_take_turns_with_the_threads(rows, threads, rescale) -> None:
    kernel = tilelang.compile(chain(rows, threads=threads, rescale=rescale), target="sm_100a")
    assert has_mma_warp(kernel)
    for n in (0, 1, 2, 6):
        check_chain(kernel, n, rows, rescale=rescale)


#: P of this chain takes the columns of S.
OVERLAID = {"rows": 256, "threads": 256, "keys": 128, "width": 128}


def test_the_next_first_gemm_follows_the_last_one() -> None:
    """Where it overwrites what the last one reads."""
    steps = steps_of(mma_warp(tilelang.compile(chain(**OVERLAID), target="sm_100a")))
    assert steps == [
        *("wait gemm_ready 0", "wait b_full", "ss", "commit gemm_done 0"),
        *("ss", "commit b_empty", "commit gemm_done 1"),
        *("wait gemm_ready 0", "wait c_full", "ts"),
        *("wait b_full", "ss", "commit gemm_done 0"),
        *("wait gemm_ready 1", "ts", "commit c_empty"),
        *("ss", "commit b_empty", "commit gemm_done 1"),
    ]


def test_the_next_first_gemm_runs_beside_the_threads() -> None:
    """It is issued when its last result is in registers, in turns of its own."""
    kernel = tilelang.compile(chain(128, threads=128), target="sm_100a")
    first = ["wait gemm_ahead_ready 0", "wait b_full", "ss", "commit b_empty"]
    assert steps_of(mma_warp(kernel)) == [
        *(*first, "commit gemm_ahead_done 0"),
        *("wait gemm_ready 0", "commit gemm_done 0"),  # the sum is the threads' until then
        *(*first, "commit gemm_ahead_done 0"),
        *("wait gemm_ready 0", "wait c_full", "ts", "commit c_empty", "commit gemm_done 0"),
    ]
    threads = kernel.get_kernel_source()
    threads = threads[threads.rindex("for (int j") :]
    calls = re.findall(r"mbarrier_(?:wait|arrive)\(\w+|tcgen05_load|tcgen05_st_|half_t\(", threads)
    assert [call for call, _ in itertools.groupby(calls)] == [
        *("mbarrier_wait(gemm_ahead_done", "tcgen05_load", "mbarrier_arrive(gemm_ahead_ready"),
        *("half_t(", "mbarrier_wait(gemm_done"),
        *("tcgen05_st_", "tcgen05_load", "tcgen05_st_"),  # the operand; then the sum
        *("mbarrier_arrive(gemm_ready", "mbarrier_wait(gemm_done", "mbarrier_wait(gemm_ahead_done"),
        "tcgen05_load",
    ]


def test_warpgroups_take_turns_of_their_own() -> None:
    kernel = tilelang.compile(chain(256), target="sm_100a")
    assert steps_of(mma_warp(kernel))[-16:] == [
        *("wait gemm_ahead_ready 0", "wait b_full", "ss", "commit gemm_ahead_done 0"),
        *("wait gemm_ahead_ready 1", "ss", "commit b_empty", "commit gemm_ahead_done 1"),
        *("wait gemm_ready 0", "wait c_full", "ts", "commit gemm_done 0"),
        *("wait gemm_ready 1", "ts", "commit c_empty", "commit gemm_done 1"),
    ]
    source = kernel.get_kernel_source()
    assert "mbarrier_init(gemm_ready[1], 128)" in source
    assert "mbarrier_init(gemm_ahead_ready[1], 128)" in source
    # The threads of one never wait for the others inside the loop.
    loop = source[source.rindex("for (int j") :]
    assert "sync_threads" not in loop[: loop.index("\n    }\n")]


@every_schedule
def test_an_operand_takes_the_columns_of_a_result_where_there_is_tiles() -> None:
    sizes = {"rows": 256, "keys": 128, "width": 128}
    kernel = tilelang.compile(chain(**sizes), target="sm_100a")
    assert "tcgen05_alloc(tmem_slot, 512u)" in kernel.get_kernel_source()
    for n in (1, 4):
        check_chain(kernel, n, **sizes)


def test_columns_are_not_shared_between_warpgroups() -> None:
    """Two warpgroups have half of the columns each: one must not write where the other reads."""
    program = chain(128, keys=256, width=256, threads=256, depth=16)
    kernel = tilelang.compile(program, target="sm_100a")
    assert any("do not fit tensor memory together" in r.message for r in kernel.remarks)


@every_schedule
@pytest.mark.parametrize("n", [0, 1, 2, 5])
def test_two_turns_an_iteration(n: int) -> None:
    """Three gemms, each of what threads make of the one before."""

    @T.prim_func
    def main(
        A: T.Tensor((128, 64), "float16"),
        B: T.Tensor((5 * 64, 64), "float16"),
        Out: T.Tensor((128, 64), "float32"),
        count: T.int32,
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((128, 64), "float32")
            u = T.alloc_fragment((128, 64), "float32")
            p = T.alloc_fragment((128, 64), "float16")
            q = T.alloc_fragment((128, 64), "float16")
            acc = T.alloc_fragment((128, 64), "float32")
            T.copy(A, a)
            T.clear(acc)
            for j in T.Pipelined(count, num_stages=2):
                T.copy(B[j * 64, 0], b)
                T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                for i, k in T.Parallel(128, 64):
                    p[i, k] = T.max(s[i, k], 0) * 0.125
                T.gemm(p, b, u, clear_accum=True)
                for i, k in T.Parallel(128, 64):
                    q[i, k] = T.min(u[i, k], 1)
                T.gemm(q, b, acc)
            T.copy(acc, Out)

    kernel = tilelang.compile(main, target="sm_100a")
    assert steps_of(mma_warp(kernel)).count("wait gemm_ready 0") == 3
    a, b = (torch.randint(-1, 2, shape).half() for shape in ((128, 64), (320, 64)))
    out = poisoned(128, 64)
    kernel(a, b, out, n)
    want = torch.zeros(128, 64).double()
    for block in b.double().split(64)[:n]:
        p = (a.double() @ block.T).relu() * 0.125
        want += (p @ block).clamp(max=1).half().double() @ block
    assert torch.equal(out.double(), want)


@every_schedule
def test_tiles_of_a_persistent_kernel() -> None:
    """Turns go on where the loop of the tile before left off; some tiles have no iteration."""

    @T.prim_func
    def main(
        A: T.Tensor((4 * 128, 64), "float16"),
        B: T.Tensor((3 * 64, 64), "float16"),
        Out: T.Tensor((4 * 128, 64), "float32"),
    ):
        with T.Kernel(2, threads=128) as block:
            a = T.alloc_shared((128, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((128, 64), "float32")
            p = T.alloc_fragment((128, 64), "float16")
            acc = T.alloc_fragment((128, 64), "float32")
            for t in T.serial(2):
                tile = block * 2 + t
                T.copy(A[tile * 128, 0], a)
                T.clear(acc)
                for j in T.Pipelined(tile, num_stages=2):
                    T.copy(B[j * 64, 0], b)
                    T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                    T.copy(s, p)
                    T.gemm(p, b, acc)
                T.copy(acc, Out[tile * 128, 0])

    kernel = tilelang.compile(main, target="sm_100a")
    a, b = (torch.randint(-2, 3, shape).half() for shape in ((512, 64), (192, 64)))
    out = poisoned(512, 64)
    kernel(a, b, out)
    for tile in range(4):
        rows = slice(tile * 128, (tile + 1) * 128)
        blocks = b.double().split(64)[:tile]
        want = sum(((a[rows].double() @ x.T) @ x for x in blocks), torch.zeros(128, 64).double())
        assert torch.equal(out[rows].double(), want)


def test_a_layout_across_warpgroups_is_refused() -> None:
    """Half the columns of a row in each warpgroup: rows of one are not all that it touches."""
    halves = T.Fragment(
        (256, 64),
        forward_fn=lambda i, j: (i % 128 + j // 32 * 128, i // 128 * 32 + j % 32),
    )

    @T.prim_func
    def main(
        A: T.Tensor((256, 64), "float16"),
        B: T.Tensor((384, 64), "float16"),
        Out: T.Tensor((256, 64), "float32"),
    ):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((256, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((256, 64), "float32")
            t = T.alloc_fragment((256, 64), "float32")
            T.annotate_layout({s: halves})
            T.copy(A, a)
            T.clear(t)
            for j in T.Pipelined(6, num_stages=2):
                T.copy(B[j * 64, 0], b)
                T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                for r, q in T.Parallel(256, 64):
                    t[r, q] += s[r, q]
            T.copy(t, Out)

    with pytest.raises(tilelang.errors.LayoutError, match="rows of one block of 128") as caught:
        tilelang.compile(main, target="sm_100a")
    assert "T.gemm(a, b, s" in str(caught.value)
