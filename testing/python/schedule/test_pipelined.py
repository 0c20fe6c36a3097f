"""T.Pipelined: loads by a warp of their own, through rings of slots; against the same computation
in float64, for every way in which loops nest, repeat, end early and do not run at all."""

from __future__ import annotations

import re

import pytest
import torch

import tilelang
import tilelang.language as T

TARGETS = ["sm_90a", "sm_100a"]
DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.requires_cuda)]
every_schedule = pytest.mark.every_schedule


def exact(*shape: int) -> torch.Tensor:
    """Small integers, whose sums of products are exact in any order."""
    return torch.randint(-4, 5, shape).half()


def poisoned(*shape: int) -> torch.Tensor:
    return torch.full(shape, float("nan"))


def run(kernel, *tensors: torch.Tensor, device: str = "cpu") -> list[torch.Tensor]:
    """Launches; the tensors afterwards, in float64."""
    moved = [t.to(device) if isinstance(t, torch.Tensor) else t for t in tensors]
    kernel(*moved)
    return [t.cpu().double() for t in moved if isinstance(t, torch.Tensor)]


def channels(kernel) -> list[str]:
    """The rings of a kernel, by name."""
    source = kernel.get_kernel_source()
    return sorted({word[:-5] for word in source.split() if word.endswith("_full")})


def remarks(kernel) -> str:
    return "\n".join(str(r) for r in kernel.remarks if r.topic in ("pipeline", "copy"))


def gemm(M, N, K, m=64, n=64, k=64, threads=128, stages=3):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((N, K), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(T.ceildiv(N, n), T.ceildiv(M, m), threads=threads) as (bx, by):
            a = T.alloc_shared((m, k), "float16")
            b = T.alloc_shared((n, k), "float16")
            c = T.alloc_fragment((m, n), "float32")
            T.clear(c)
            for i in T.Pipelined(T.ceildiv(K, k), num_stages=stages):
                T.copy(A[by * m, i * k], a)
                T.copy(B[bx * n, i * k], b)
                T.gemm(a, b, c, transpose_B=True)
            T.copy(c, C[by * m, bx * n])

    return main


def product(A: torch.Tensor, B: torch.Tensor) -> torch.Tensor:
    return A.double() @ B.double().T


@every_schedule
@pytest.mark.parametrize("stages", [2, 3, 4])
@pytest.mark.parametrize("K", [32, 64, 200, 448])
@pytest.mark.parametrize("target", TARGETS)
def test_gemm(target: str, K: int, stages: int) -> None:
    kernel = tilelang.compile(gemm(72, 136, K, stages=stages), target=target)
    # There is nothing to overlap in a loop that runs once.
    assert channels(kernel) == (["a"] if K > 64 else [])
    A, B = exact(72, K), exact(136, K)
    assert torch.equal(run(kernel, A, B, poisoned(72, 136))[-1], product(A, B))


@pytest.mark.requires_cuda
@pytest.mark.parametrize("threads", [32, 64, 128, 256, 384])
@pytest.mark.parametrize("K", [64, 1000, 4096])
def test_gemm_on_a_gpu(K: int, threads: int) -> None:
    kernel = tilelang.compile(gemm(1000, 520, K, m=192, n=96, threads=threads))
    A, B = exact(1000, K), exact(520, K)
    result = run(kernel, A, B, poisoned(1000, 520), device="cuda")[-1]
    assert torch.equal(result, product(A, B))


@every_schedule
@pytest.mark.parametrize("count", [0, 1, 2, 5, 9])
@pytest.mark.parametrize("device", DEVICES)
def test_a_loop_of_any_length(device: str, count: int) -> None:
    @T.prim_func
    def main(A: T.Tensor((640, 64), "float16"), C: T.Tensor((64, 64), "float32"), n: T.int32):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for i in T.Pipelined(n, num_stages=2):
                T.copy(A[i * 64, 0], a)
                for r, q in T.Parallel(64, 64):
                    c[r, q] += a[r, q] * (i + 1)
            T.copy(c, C)

    kernel = tilelang.compile(main, target="sm_90a" if device == "cpu" else "auto")
    assert channels(kernel) == ["a"]
    A = exact(640, 64)
    result = run(kernel, A, poisoned(64, 64), count, device=device)[-1]
    blocks = A.double().view(10, 64, 64)[:count]
    expected = sum(
        ((i + 1) * block for i, block in enumerate(blocks)), torch.zeros(64, 64).double()
    )
    assert torch.equal(result, expected)


@every_schedule
def test_loops_that_begin_late_and_repeat() -> None:
    """Phases go on over nested loops, whose number of iterations is no multiple of the slots."""

    @T.prim_func
    def main(A: T.Tensor((640, 64), "float16"), C: T.Tensor((320, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            for t in T.serial(5):
                T.clear(c)
                for i in T.Pipelined(t, 7, num_stages=3):
                    T.copy(A[i * 64, 0], a)
                    for r, q in T.Parallel(64, 64):
                        c[r, q] += a[r, q]
                T.copy(c, C[t * 64, 0])

    kernel = tilelang.compile(main, target="sm_90a")
    assert channels(kernel) == ["a"]
    A = exact(640, 64)
    blocks = A.double().view(10, 64, 64)
    expected = torch.cat([blocks[t:7].sum(0) for t in range(5)])
    assert torch.equal(run(kernel, A, poisoned(320, 64))[-1], expected)


@every_schedule
@pytest.mark.parametrize("blocks", [1, 3, 7])
def test_a_persistent_kernel(blocks: int) -> None:
    M, N, K, m, n, k = 192, 128, 160, 64, 64, 64

    @T.prim_func
    def main(
        A: T.Tensor((M, K), "float16"),
        B: T.Tensor((N, K), "float16"),
        C: T.Tensor((M, N), "float32"),
    ):
        with T.Kernel(blocks, threads=128) as block:
            a = T.alloc_shared((m, k), "float16")
            b = T.alloc_shared((n, k), "float16")
            c = T.alloc_fragment((m, n), "float32")
            for by, bx in T.Persistent([T.ceildiv(M, m), T.ceildiv(N, n)], blocks, block):
                T.clear(c)
                for i in T.Pipelined(T.ceildiv(K, k), num_stages=2):
                    T.copy(A[by * m, i * k], a)
                    T.copy(B[bx * n, i * k], b)
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C[by * m, bx * n])

    A, B = exact(M, K), exact(N, K)
    for target in TARGETS:
        kernel = tilelang.compile(main, target=target)
        # On Blackwell the results have slots, too, where a block has more than one tile.
        slots = ["c_tmem"] if target == "sm_100a" and blocks < 6 else []
        assert channels(kernel) == ["a", *slots]
        assert torch.equal(run(kernel, A, B, poisoned(M, N))[-1], product(A, B))


@every_schedule
def test_tiles_used_apart_have_channels_of_their_own() -> None:
    @T.prim_func
    def main(
        A: T.Tensor((320, 64), "float16"),
        B: T.Tensor((320, 64), "float16"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for i in T.Pipelined(5, num_stages=2):
                T.copy(A[i * 64, 0], a)
                for r, q in T.Parallel(64, 64):
                    c[r, q] += a[r, q]
                T.copy(B[i * 64, 0], b)
                for r, q in T.Parallel(64, 64):
                    c[r, q] *= b[r, q]
            T.copy(c, C)

    kernel = tilelang.compile(main, target="sm_90a")
    assert channels(kernel) == ["a", "b"]
    A, B = exact(320, 64), torch.randint(-1, 2, (320, 64)).half()
    expected = torch.zeros(64, 64).double()
    for a, b in zip(A.double().view(5, 64, 64), B.double().view(5, 64, 64), strict=True):
        expected = (expected + a) * b
    assert torch.equal(run(kernel, A, B, poisoned(64, 64))[-1], expected)


@every_schedule
def test_a_tile_that_two_loops_load_has_one_channel() -> None:
    @T.prim_func
    def main(A: T.Tensor((320, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for i in T.Pipelined(3, num_stages=2):
                T.copy(A[i * 64, 0], a)
                for r, q in T.Parallel(64, 64):
                    c[r, q] += a[r, q]
            for i in T.Pipelined(5, num_stages=3):
                T.copy(A[i * 64, 0], a)
                for r, q in T.Parallel(64, 64):
                    c[r, q] = c[r, q] * 2 + a[r, q]
            T.copy(c, C)

    kernel = tilelang.compile(main, target="sm_90a")
    assert channels(kernel) == ["a"]
    A = exact(320, 64)
    blocks = A.double().view(5, 64, 64)
    expected = blocks[:3].sum(0)
    for block in blocks:
        expected = expected * 2 + block
    assert torch.equal(run(kernel, A, poisoned(64, 64))[-1], expected)


@every_schedule
def test_a_tile_written_in_place_is_not_overwritten_early() -> None:
    @T.prim_func
    def main(A: T.Tensor((320, 64), "float16"), C: T.Tensor((320, 64), "float16")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            for i in T.Pipelined(5, num_stages=2):
                T.copy(A[i * 64, 0], a)
                for r, q in T.Parallel(64, 64):
                    a[r, q] = a[r, q] * 2 + r
                T.copy(a, C[i * 64, 0])

    kernel = tilelang.compile(main, target="sm_90a")
    assert channels(kernel) == ["a"]
    A = exact(320, 64)
    expected = A.double() * 2 + torch.arange(64).repeat(5).view(-1, 1)
    assert torch.equal(run(kernel, A, poisoned(320, 64).half())[-1], expected)


@every_schedule
@pytest.mark.parametrize("target", TARGETS)
def test_a_skipped_block_is_neither_loaded_nor_used(target: str) -> None:
    """Conditions around the loads hold for both roles: a block-sparse loop."""

    @T.prim_func
    def main(
        A: T.Tensor((512, 64), "float16"),
        mask: T.Tensor((8,), "int32"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for i in T.Pipelined(8, num_stages=2):
                if mask[i] != 0:
                    T.copy(A[i * 64, 0], a)
                    T.gemm(a, a, c, transpose_B=True)
            T.copy(c, C)

    kernel = tilelang.compile(main, target=target)
    assert channels(kernel) == ["a"]
    A, mask = exact(512, 64), torch.tensor([0, 1, 1, 0, 0, 1, 0, 1], dtype=torch.int32)
    kept = A.double().view(8, 64, 64)[mask.bool()]
    expected = (kept @ kept.transpose(1, 2)).sum(0)
    assert torch.equal(run(kernel, A, mask, poisoned(64, 64))[-1], expected)


@every_schedule
def test_a_loop_that_both_roles_leave() -> None:
    """Indices and ends that come from memory and variables are computed by both roles."""

    @T.prim_func
    def main(
        A: T.Tensor((512, 64), "float16"),
        table: T.Tensor((8,), "int32"),
        C: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            row = T.alloc_var("int32", init=0)
            T.clear(c)
            for i in T.Pipelined(8, num_stages=2):
                if table[i] < 0:
                    break
                row = row + table[i]
                T.copy(A[row * 64, 0], a)
                for r, q in T.Parallel(64, 64):
                    c[r, q] += a[r, q]
            T.copy(c, C)

    kernel = tilelang.compile(main, target="sm_90a")
    assert channels(kernel) == ["a"]
    A, table = exact(512, 64), torch.tensor([1, 2, 0, 3, -1, 1, 1, 1], dtype=torch.int32)
    blocks = A.double().view(8, 64, 64)
    expected = blocks[[1, 3, 3, 6]].sum(0)
    assert torch.equal(run(kernel, A, table, poisoned(64, 64))[-1], expected)


@every_schedule
def test_halves_of_a_tile_are_one_use() -> None:
    @T.prim_func
    def main(A: T.Tensor((320, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for i in T.Pipelined(5, num_stages=2):
                T.copy(A[i * 64, 0], a[0:32, :])
                T.copy(A[i * 64 + 32, 0], a[32:64, :])
                for r, q in T.Parallel(64, 64):
                    c[r, q] += a[r, q]
            T.copy(c, C)

    kernel = tilelang.compile(main, target="sm_90a")
    assert channels(kernel) == ["a"]
    A = exact(320, 64)
    assert torch.equal(run(kernel, A, poisoned(64, 64))[-1], A.double().view(5, 64, 64).sum(0))


@every_schedule
def test_an_annotated_layout_holds_for_each_slot() -> None:
    @T.prim_func
    def main(A: T.Tensor((320, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.annotate_layout({a: tilelang.layout.make_swizzled_layout(a)})
            T.clear(c)
            for i in T.Pipelined(5, num_stages=3):
                T.copy(A[i * 64, 0], a)
                T.gemm(a, a, c, transpose_B=True)
            T.copy(c, C)

    kernel = tilelang.compile(main, target="sm_90a")
    assert channels(kernel) == ["a"]
    A = exact(320, 64)
    blocks = A.double().view(5, 64, 64)
    expected = (blocks @ blocks.transpose(1, 2)).sum(0)
    assert torch.equal(run(kernel, A, poisoned(64, 64))[-1], expected)


def _outside(A, a, c, C):
    T.clear(c)
    for i in T.Pipelined(5, num_stages=2):
        T.copy(A[i * 64, 0], a)
        for r, q in T.Parallel(64, 64):
            c[r, q] += a[r, q]
    T.copy(a, C)


def _part(A, a, c, C):
    for i in T.Pipelined(5, num_stages=2):
        T.copy(A[i * 64, 0], a[0:32, :])
        T.copy(a[0:32, :], C[0:32, :])


def _before(A, a, c, C):
    T.clear(a)
    for i in T.Pipelined(5, num_stages=2):
        T.copy(a, C)
        T.copy(A[i * 64, 0], a)


def _computed(A, a, c, C):
    row = T.alloc_shared((64,), "int32")
    T.fill(row, 0)
    for i in T.Pipelined(5, num_stages=2):
        T.copy(A[row[0] + i * 64, 0], a)
        T.copy(a, C)


def _synchronized(A, a, c, C):
    for i in T.Pipelined(5, num_stages=2):
        T.copy(A[i * 64, 0], a)
        T.sync_threads()
        T.copy(a, C)


def _role(A, a, c, C):
    for i in T.Pipelined(5, num_stages=2):
        T.copy(A[i * 64, 0], a)
        if T.get_warp_idx() < 2:
            T.copy(a, C)


def _one_stage(A, a, c, C):
    for i in T.Pipelined(5, num_stages=1):
        T.copy(A[i * 64, 0], a)
        T.copy(a, C)


REASONS = {
    _outside: "a) is not pipelined: it is also used outside of the sequence that loads it",
    _part: "is not pipelined: it does not load the whole tile",
    _before: "a) is not pipelined: it is used before it is loaded in the same iteration",
    _computed: "a) is not pipelined: it depends on values of row",
    _synchronized: "the program synchronizes threads itself, by sync_threads",
    _role: "num_stages=2 has no effect: the program has roles of its own",
    _one_stage: "",
}


@every_schedule
@pytest.mark.parametrize("body", REASONS, ids=lambda body: body.__name__)
def test_what_is_not_pipelined_stays_in_order(body) -> None:
    step = T.macro(body)

    @T.prim_func
    def main(A: T.Tensor((640, 64), "float16"), C: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float16")
            step(A, a, c, C)

    kernel = tilelang.compile(main, target="sm_90a")
    assert channels(kernel) == []
    assert REASONS[body] in remarks(kernel)
    if body is not _one_stage:
        assert "T.Pipelined: num_stages=2 has no effect" in remarks(kernel)
    A = exact(640, 64)
    result = run(kernel, A, poisoned(64, 64).half())[-1]
    last = A.double().view(10, 64, 64)[3 if body is _before else 4]
    rows = 32 if body is _part else 64
    assert torch.equal(result[:rows], last[:rows])


def test_no_roles_where_the_option_turns_them_off() -> None:
    options = {tilelang.PassConfigKey.TL_DISABLE_WARP_SPECIALIZED: True}
    kernel = tilelang.compile(gemm(64, 64, 256), target="sm_90a", pass_configs=options)
    assert channels(kernel) == []
    A, B = exact(64, 256), exact(64, 256)
    assert torch.equal(run(kernel, A, B, poisoned(64, 64))[-1], product(A, B))


@pytest.mark.parametrize(
    ("annotate", "expected"),
    [
        (lambda: None, ()),  # without a gemm
        (lambda: T.annotate_producer_reg_dealloc(24), ("<24>", "<240>")),
        (lambda: T.annotate_consumer_reg_alloc(160), ("<40>", "<160>")),
        (T.no_set_max_nreg, ()),
    ],
)
def test_registers_go_to_the_threads_that_compute(annotate, expected: tuple[str, ...]) -> None:
    @T.prim_func
    def main(A: T.Tensor((640, 64), "float16"), C: T.Tensor((640, 64), "float16")):
        with T.Kernel(1, threads=256):
            a = T.alloc_shared((64, 64), "float16")
            annotate()
            for i in T.Pipelined(10, num_stages=2):
                T.copy(A[i * 64, 0], a)
                T.copy(a, C[i * 64, 0])

    kernel = tilelang.compile(main, target="sm_90a")
    assert channels(kernel) == ["a"]
    source = kernel.get_kernel_source()
    assert all(text in source for text in expected)
    assert ("crease_registers" in source) == bool(expected)
    A = exact(640, 64)
    assert torch.equal(run(kernel, A, poisoned(640, 64).half())[-1], A.double())


@pytest.mark.parametrize("blocks", [1, 2, 3])
@pytest.mark.parametrize("threads", [256, 384, 512, 640])
def test_registers_are_those_of_the_launch(threads: int, blocks: int) -> None:
    """Who asks for more than what the others of the block give away waits for ever."""

    @T.prim_func
    def main(A: T.Tensor((640, 64), "float16"), C: T.Tensor((640, 64), "float16")):
        with T.Kernel(1, threads=threads):
            T.annotate_producer_reg_dealloc(32)
            T.annotate_min_blocks_per_sm(blocks)
            a = T.alloc_shared((128, 64), "float16")
            for i in T.Pipelined(5, num_stages=2):
                T.copy(A[i * 128, 0], a)
                T.copy(a, C[i * 128, 0])

    source = tilelang.compile(main, target="sm_90a").get_kernel_source()
    launched = 65536 // blocks // (threads + 128) // 8 * 8
    if launched <= 32:  # there is nothing to give away
        assert "crease_registers" not in source
        return
    less, more = (int(re.search(rf"{word}_registers<(\d+)>", source)[1])
                  for word in ("decrease", "increase"))  # fmt: skip
    assert less < launched <= more
    assert less * 128 + more * threads <= launched * (threads + 128)


def test_more_registers_than_there_are() -> None:
    @T.prim_func
    def main(A: T.Tensor((640, 64), "float16"), C: T.Tensor((640, 64), "float16")):
        with T.Kernel(1, threads=384):
            a = T.alloc_shared((96, 64), "float16")
            T.annotate_consumer_reg_alloc(240)
            for i in T.Pipelined(5, num_stages=2):
                T.copy(A[i * 96, 0], a)
                T.copy(a, C[i * 96, 0])

    with pytest.raises(tilelang.errors.ResourceError, match="at most 160"):
        tilelang.compile(main, target="sm_90a")


def test_slots_that_do_not_fit() -> None:
    program = gemm(512, 512, 512, m=128, n=256, k=128, stages=4)
    keep = {"tl.keep_stages": True, "tl.disable_tile_choice": True}
    with pytest.raises(tilelang.errors.ResourceError, match=r"a: \d+ bytes at offset"):
        tilelang.compile(program, target="sm_90a", pass_configs=keep)


@every_schedule
@pytest.mark.parametrize("target", TARGETS)
def test_a_second_loop_that_runs_once(target: str) -> None:
    """The last tile in a loop of its own, as of a ragged edge: both loops share the ring."""

    @T.prim_func
    def main(A: T.Tensor((200, 64), "float16"), C: T.Tensor((64, 64), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            T.clear(c)
            for i in T.Pipelined(3, num_stages=2):
                T.copy(A[i * 64, 0], a)
                for r, q in T.Parallel(64, 64):
                    c[r, q] += a[r, q]
            for i in T.Pipelined(3, 4, num_stages=2):
                T.copy(A[i * 64, 0], a)
                for r, q in T.Parallel(64, 64):
                    c[r, q] -= a[r, q]
            T.copy(c, C)

    kernel = tilelang.compile(main, target=target)
    assert channels(kernel) == ["a"]
    A = exact(200, 64)
    tiles = torch.zeros(256, 64).double()
    tiles[:200] = A.double()
    want = tiles[:192].reshape(3, 64, 64).sum(0) - tiles[192:]
    assert torch.equal(run(kernel, A, poisoned(64, 64))[-1], want)


@every_schedule
@pytest.mark.parametrize("target", [*TARGETS, "sm_80"])
def test_iterations_that_need_another_layout_of_a_row(target: str) -> None:
    """Both copies of the reduction, in the loop and behind it, have tiles of their own."""

    @T.prim_func
    def kernel(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((64, 64), "float16"),
        Sums: T.Tensor((64,), "float32"),
    ):
        with T.Kernel(1, threads=128) as block:
            a, b, c = (T.alloc_shared((64, 64), "float16") for _ in range(3))
            p, q, r = (T.alloc_fragment((64, 64), "float32") for _ in range(3))
            sums = T.alloc_fragment((64,), "float32")
            T.copy(A, b)
            T.copy(B, c)
            T.clear(p)
            T.clear(q)
            T.clear(sums)
            for _ in T.Pipelined(2, num_stages=4):
                T.gemm(c, b, p)
                if block % 2 == 0:
                    T.reduce_max(p, sums, dim=0, clear=True)
            for _ in T.Pipelined(2, num_stages=2):
                T.copy(B[block * 64, 0], a)
                T.gemm(a, b, q)
                T.copy(A[block * 64, 0], b)
                T.gemm(b, c, r, transpose_B=True, clear_accum=True)
                T.reduce_sum(r, sums, dim=1, clear=False)
            T.copy(sums, Sums)

    a, b = exact(64, 64), exact(64, 64)
    built = tilelang.compile(kernel, target=target)
    *_, sums = run(built, a, b, poisoned(64))
    largest = (2 * b.double() @ a.double()).amax(0)
    assert torch.equal(sums, largest + 2 * (a.double() @ b.double().T).sum(1))
