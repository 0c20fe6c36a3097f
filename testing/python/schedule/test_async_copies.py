"""Pipelined loops whose tiles threads load ahead themselves, by cp.async."""

from __future__ import annotations

import re

import pytest
import torch
from changed_ptx import emulate
from fuzz.test_mutations import mutants
from golden import ptx_opcodes

import tilelang
import tilelang.language as T
from tilelang import emulator
from tilelang.emulator import EmulatorError

every_schedule = pytest.mark.every_schedule
WITHOUT_TMA = {"tl.disable_tma_lower": True}


def gemm(M, N, K, m=64, n=64, k=32, stages=3, dtype="float16", threads=128, start=0, blocks=None):
    """C = A B from column ``start`` of A on; ``blocks``: persistent ones."""

    @T.prim_func
    def main(
        A: T.Tensor((M, K), dtype), B: T.Tensor((K, N), dtype), C: T.Tensor((M, N), "float32")
    ):
        tiles = [T.ceildiv(M, m), T.ceildiv(N, n)]
        with T.Kernel(blocks or tiles[0] * tiles[1], threads=threads) as block:
            a = T.alloc_shared((m, k), dtype)
            b = T.alloc_shared((k, n), dtype)
            c = T.alloc_fragment((m, n), "float32")
            for by, bx in T.Persistent(tiles, blocks or tiles[0] * tiles[1], block):
                T.clear(c)
                for i in T.Pipelined(start, T.ceildiv(K, k), num_stages=stages):
                    T.copy(A[by * m, i * k], a)
                    T.copy(B[i * k, bx * n], b)
                    T.gemm(a, b, c)
                T.copy(c, C[by * m, bx * n])

    return main


def exact(*shape: int, dtype=torch.float16) -> torch.Tensor:
    return torch.randint(-4, 5, shape).to(dtype)


def check_gemm(kernel, M: int, N: int, K: int, first: int = 0) -> None:
    a, b, c = exact(M, K), exact(K, N), torch.full((M, N), float("nan"))
    kernel(a, b, c)
    assert torch.equal(c.double(), a[:, first:].double() @ b[first:].double())


def compiled(function, target: str = "sm_80", **options):
    return tilelang.compile(function, target=target, **options)


def copies(kernel) -> list[str]:
    return ptx_opcodes(kernel.get_ptx(), r"^cp\.async")


def messages(kernel) -> str:
    return "\n".join(str(remark) for remark in kernel.remarks)


@every_schedule
@pytest.mark.parametrize("stages", [1, 2, 3, 5])
@pytest.mark.parametrize("K", [32, 64, 160, 200])
def test_gemm(K: int, stages: int) -> None:
    """Trip counts below, at and above the number of stages; ragged edges become zero.

    A loop of one iteration is none.
    """
    kernel = compiled(gemm(100, 72, K, stages=stages))
    assert bool(copies(kernel)) == (stages > 1 and K > 32)
    check_gemm(kernel, 100, 72, K)


def test_one_barrier_and_one_wait_an_iteration() -> None:
    """It waits for all groups but those of later iterations; loads run before the gemm."""
    kernel = compiled(gemm(64, 64, 256, stages=4))
    found = ptx_opcodes(kernel.get_ptx(), r"^(cp\.async|bar|mma|bra|ldmatrix)")
    kinds = [re.split(r"\.(sync|shared|aligned)", opcode)[0] for opcode in found]
    loop = kinds[kinds.index("cp.async.wait_group") :]
    end = len(loop) - loop[::-1].index("mma")
    order = [k for i, k in enumerate(loop[:end]) if i == 0 or k != loop[i - 1]]
    assert order.count("bar") == order.count("cp.async.wait_group") == 1
    assert order.index("cp.async.wait_group") < order.index("bar") < order.index("cp.async.cg")
    assert order.index("cp.async.commit_group") < order.index("ldmatrix") < order.index("mma")
    assert re.search(r"cp\.async\.wait_group\s+2;", kernel.get_ptx())
    before = kinds[: kinds.index("cp.async.wait_group")]
    assert before.count("cp.async.commit_group") == 3 and "bar" not in before


@every_schedule
@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("stages", [2, 4])
def test_tiles_of_a_persistent_kernel(blocks: int, stages: int) -> None:
    """The first loads of the next tile wait for those who still read the last one."""
    kernel = compiled(gemm(160, 130, 96, stages=stages, blocks=blocks))
    assert copies(kernel)
    check_gemm(kernel, 160, 130, 96)


def test_loops_begin_anywhere() -> None:
    check_gemm(compiled(gemm(64, 64, 256, start=3)), 64, 64, 256, first=96)


@every_schedule
@pytest.mark.parametrize("dtype, width", [("int8", 48), ("float32", 7), ("float32", 33)])
def test_bytes_of_a_copy(dtype: str, width: int) -> None:
    """Elements of 4 bytes are copied one by one, smaller ones as many as are side by side."""

    @T.prim_func
    def main(A: T.Tensor((40, width), dtype), B: T.Tensor((40, width), dtype)):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((8, width), dtype)
            for i in T.Pipelined(5, num_stages=3):
                T.copy(A[i * 8, 0], a)
                for r, q in T.Parallel(8, width):
                    B[i * 8 + r, q] = a[7 - r, q]

    kernel = compiled(main)
    assert copies(kernel)[0].startswith("cp.async.c")
    a = exact(40, width, dtype=getattr(torch, dtype))
    b = torch.full_like(a, 77)
    kernel(a, b)
    assert torch.equal(b, a.reshape(5, 8, width).flip(1).reshape(40, width))


def test_elements_that_are_too_few() -> None:
    """Rows of 101 elements of two bytes begin anywhere: threads copy, and a remark says so."""
    kernel = compiled(gemm(64, 64, 101))
    assert "a is not copied by cp.async: 2 bytes of it are known to be contiguous" in (
        messages(kernel)
    )
    check_gemm(kernel, 64, 64, 101)


def chain(stages=2):
    """Out = sum over n blocks of relu(A B_j^T) C_j; tiles are used at two places."""

    @T.prim_func
    def main(
        A: T.Tensor((64, 64), "float16"),
        B: T.Tensor((384, 64), "float16"),
        C: T.Tensor((384, 64), "float16"),
        Out: T.Tensor((64, 64), "float32"),
        n: T.int32,
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((64, 64), "float16")
            b = T.alloc_shared((64, 64), "float16")
            c = T.alloc_shared((64, 64), "float16")
            s = T.alloc_fragment((64, 64), "float32")
            p = T.alloc_fragment((64, 64), "float16")
            acc = T.alloc_fragment((64, 64), "float32")
            T.copy(A, a)
            T.clear(acc)
            for j in T.Pipelined(n, num_stages=stages):
                T.copy(B[j * 64, 0], b)
                T.gemm(a, b, s, transpose_B=True, clear_accum=True)
                for r, q in T.Parallel(64, 64):
                    p[r, q] = T.max(s[r, q], 0)
                T.copy(C[j * 64, 0], c)
                T.gemm(p, c, acc)
            T.copy(acc, Out)

    return main


@every_schedule
@pytest.mark.parametrize("n", [0, 1, 2, 3, 6])
@pytest.mark.parametrize("stages", [2, 3])
def test_dynamic_trip_counts(n: int, stages: int) -> None:
    kernel = compiled(chain(stages=stages))
    a, b, c, out = exact(64, 64), exact(384, 64), exact(384, 64), torch.full((64, 64), 7.0)
    kernel(a, b, c, out, n)
    want = torch.zeros(64, 64, dtype=torch.float64)
    for j in range(n):
        block = slice(j * 64, (j + 1) * 64)
        want += (a.double() @ b[block].double().T).clamp(min=0) @ c[block].double()
    assert torch.equal(out.double(), want)


@every_schedule
def test_indices_from_memory_and_names_of_values() -> None:
    """A table that nobody writes is read ahead; values that a loop names are known ahead."""

    @T.prim_func
    def main(
        Table: T.Tensor((6,), "int32"),
        A: T.Tensor((64, 64), "float32"),
        B: T.Tensor((96, 64), "float32"),
    ):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((16, 64), "float32")
            for i in T.Pipelined(6, num_stages=3):
                row = Table[i] * 16
                T.copy(A[row, 0], a)
                for r, q in T.Parallel(16, 64):
                    B[i * 16 + r, q] = a[15 - r, q] + row

    kernel = compiled(main)
    assert copies(kernel)
    table = torch.tensor([2, 0, 3, 3, 1, 0], dtype=torch.int32)
    a, b = torch.randn(64, 64), torch.full((96, 64), float("nan"))
    kernel(table, a, b)
    want = [a[t * 16 : t * 16 + 16].flip(0) + t * 16 for t in table.tolist()]
    assert torch.equal(b, torch.cat(want))


def gathered_gemm(tokens: int, rows: int, K: int, stages: int, where: str):
    """Out (64, 64) = X[Rows] W, zero for rows that are -1; ``rows`` of the tile exist in Rows."""

    @T.prim_func
    def main(
        X: T.Tensor((tokens, K), "float16"),
        W: T.Tensor((K, 64), "float16"),
        Rows: T.Tensor((rows,), "int32"),
        Out: T.Tensor((64, 64), "float32"),
    ):
        with T.Kernel(1, threads=128):
            x = T.alloc_shared((64, 32), "float16")
            w = T.alloc_shared((32, 64), "float16")
            out = T.alloc_fragment((64, 64), "float32")
            chosen = T.alloc_shared((64,), "int32")
            for i in T.Parallel(64):
                chosen[i] = T.if_then_else(i < rows, Rows[i], -1)
            T.clear(out)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=stages):
                for i, j in T.Parallel(64, 32):
                    if where == "shared":
                        x[i, j] = T.if_then_else(chosen[i] >= 0, X[chosen[i], k * 32 + j], 0)
                    else:  # nothing of Rows is read where i has none
                        x[i, j] = T.if_then_else(i < rows, X[Rows[i], k * 32 + j], 0)
                T.copy(W[k * 32, 0], w)
                T.gemm(x, w, out)
            T.copy(out, Out)

    return main


TARGETS = pytest.mark.parametrize("target", ["sm_80", "sm_90a", "sm_100a"])


@every_schedule
@TARGETS
@pytest.mark.parametrize("where", ["shared", "global"])
@pytest.mark.parametrize(("rows", "K"), [(64, 96), (50, 128), (1, 32)])
def test_rows_chosen_by_a_table(rows: int, K: int, where: str, target: str) -> None:
    """Gathered tiles run ahead: what chooses their elements does not change in the loop. Beside
    them another role loads W, where there is TMA."""
    kernel = compiled(gathered_gemm(80, rows, K, 3, where), target)
    assert ("cp.async.bulk.tensor" in kernel.get_ptx()) == (target != "sm_80")
    loads = re.findall(r"cp\.async\.cg\.shared\.global \[\S+ \[\S+ 16, %", kernel.get_ptx())
    assert bool(loads) == (K > 32)
    x, w = exact(80, K), exact(K, 64)
    table = torch.randint(0 if where == "global" else -1, 80, (rows,), dtype=torch.int32)
    out = torch.full((64, 64), float("nan"))
    kernel(x, w, table, out)
    want = torch.zeros(64, 64).double()
    for i, row in enumerate(table.tolist()):
        if row >= 0:
            want[i] = x[row].double() @ w.double()
    assert torch.equal(out.double(), want)


@every_schedule
def test_a_table_that_the_loop_changes() -> None:
    """Then nothing is known ahead."""

    @T.prim_func
    def main(X: T.Tensor((64, 32), "float32"), Out: T.Tensor((16, 32), "float32")):
        with T.Kernel(1, threads=32):
            x = T.alloc_shared((16, 32), "float32")
            sums = T.alloc_fragment((16, 32), "float32")
            row = T.alloc_shared((16,), "int32")
            for i in T.Parallel(16):
                row[i] = i
            T.clear(sums)
            for k in T.Pipelined(4, num_stages=3):
                for i, j in T.Parallel(16, 32):
                    x[i, j] = X[row[i], j]
                for i, j in T.Parallel(16, 32):
                    sums[i, j] += x[15 - i, j]
                for i in T.Parallel(16):
                    row[i] = (row[i] * 3 + k) % 64
            T.copy(sums, Out)

    kernel = compiled(main)
    assert not copies(kernel) and "its index depends on row" in messages(kernel)
    x, out = torch.randint(-9, 9, (64, 32)).float(), torch.full((16, 32), float("nan"))
    kernel(x, out)
    rows, want = torch.arange(16), torch.zeros(16, 32)
    for k in range(4):
        want += x[rows].flip(0)
        rows = (rows * 3 + k) % 64
    assert torch.equal(out, want)


@every_schedule
@TARGETS
@pytest.mark.parametrize(("kernel", "stride", "dilation", "pad"), [(3, 1, 1, 1), (2, 2, 3, 0)])
def test_pixels_under_a_kernel(kernel, stride, dilation, pad, target) -> None:
    height, width, channels, places = 7, 6, 32, 2
    reach = dilation * (kernel - 1) + 1
    shape = [(extent + 2 * pad - reach) // stride + 1 for extent in (height, width)]
    M, K = places * shape[0] * shape[1], kernel * kernel * channels

    @T.prim_func
    def main(
        X: T.Tensor((places, height, width, channels), "float16"),
        W: T.Tensor((K, 32), "float16"),
        Y: T.Tensor((M, 32), "float32"),
    ):
        with T.Kernel(T.ceildiv(M, 64), threads=128) as by:
            x = T.alloc_shared((64, 32), "float16")
            w = T.alloc_shared((32, 32), "float16")
            y = T.alloc_fragment((64, 32), "float32")
            T.clear(y)
            for k in T.Pipelined(T.ceildiv(K, 32), num_stages=3):
                T.im2col(X, x, by, k, kernel, stride, dilation, pad)
                T.copy(W[k * 32, 0], w)
                T.gemm(x, w, y)
            T.copy(y, Y[by * 64, 0])

    compiled_kernel = compiled(main, target)
    rings = compiled_kernel.schedule().launches[0].channels
    (tiles,) = [list(ring.tiles) for ring in rings if not ring.full and ring.tiles]
    assert tiles == (["x", "w"] if target == "sm_80" else ["x"])
    x, w = exact(places, height, width, channels), exact(K, 32)
    y = torch.full((M, 32), float("nan"))
    compiled_kernel(x, w, y)
    filters = w.double().view(kernel, kernel, channels, 32).permute(3, 2, 0, 1)
    images = x.double().permute(0, 3, 1, 2)
    want = torch.nn.functional.conv2d(images, filters, None, stride, pad, dilation)
    assert torch.equal(y.double(), want.permute(0, 2, 3, 1).reshape(M, 32))


@every_schedule
@pytest.mark.parametrize("n", [0, 2, 3])
def test_nested_loops_and_memory_used_again(n: int) -> None:
    """A loop in a loop, both pipelined, and a tile afterwards that takes their place in memory."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32"), n: T.int32):
        with T.Kernel(1, threads=64):
            total = T.alloc_fragment((16, 64), "float32")
            T.clear(total)
            for i in T.Pipelined(n, num_stages=2):
                a = T.alloc_shared((16, 64), "float32")
                T.copy(A[i * 16, 0], a)
                for j in T.Pipelined(i + 1, num_stages=3):
                    b = T.alloc_shared((16, 64), "float32")
                    T.copy(A[j * 16, 0], b)
                    for r, q in T.Parallel(16, 64):
                        total[r, q] += a[15 - r, q] * b[r, 63 - q]
            last = T.alloc_shared((64, 64), "float32")
            for r, q in T.Parallel(16, 64):
                last[r, q] = total[r, q]
            for r, q in T.Parallel(16, 64):
                B[r, q] = last[15 - r, q]

    kernel = compiled(main)
    a, b = torch.randint(-4, 5, (64, 64)).float(), torch.full((64, 64), float("nan"))
    kernel(a, b, n)
    want = torch.zeros(16, 64)
    for i in range(n):
        for j in range(i + 1):
            tile = a[j * 16 : j * 16 + 16]
            want += a[i * 16 : i * 16 + 16].flip(0) * tile.flip(1)
    assert torch.equal(b[:16], want.flip(0))


@every_schedule
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
def test_tensor_cores_that_read_shared_memory(target: str) -> None:
    """Without TMA: what threads copied is visible to wgmma and tcgen05 after a proxy fence."""
    kernel = compiled(gemm(128, 128, 160, m=128, k=64), target, pass_configs=WITHOUT_TMA)
    assert copies(kernel) and "fence.proxy.async" in kernel.get_ptx()
    check_gemm(kernel, 128, 128, 160)


@every_schedule
def test_other_values_than_zero_outside_of_a_tensor() -> None:
    """cp.async writes zeros there: the threads store what T.annotate_safe_value says."""

    @T.prim_func
    def main(A: T.Tensor((100, 64), "float32"), B: T.Tensor((128, 64), "float32")):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((16, 64), "float32")
            T.annotate_safe_value({A: -0.5})
            for i in T.Pipelined(8, num_stages=3):
                T.copy(A[i * 16, 0], a)
                for r, q in T.Parallel(16, 64):
                    B[i * 16 + r, q] = a[15 - r, q]

    kernel = compiled(main)
    assert "num_stages=3 has no effect" in messages(kernel)
    a, b = torch.randn(100, 64), torch.full((128, 64), float("nan"))
    kernel(a, b)
    padded = torch.cat([a, torch.full((28, 64), -0.5)])
    assert torch.equal(b, padded.view(8, 16, 64).flip(1).reshape(128, 64))


def loop_body(kind: str):
    """A load that cannot be ahead, of this kind."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float32"), B: T.Tensor((64, 64), "float32"), n: T.int32):
        with T.Kernel(1, threads=64):
            a = T.alloc_shared((16, 64), "float32")
            at = T.alloc_var("int32")
            at = 0
            for i in T.Pipelined(4, num_stages=3):
                if kind == "branch":
                    if i != n:
                        T.copy(A[i * 16, 0], a)
                        for r, q in T.Parallel(16, 64):
                            B[i * 16 + r, q] = a[15 - r, q]
                else:
                    if kind == "variable":
                        T.copy(A[at * 16, 0], a)
                    else:
                        T.copy(A[i * 16, 0], a)
                    for r, q in T.Parallel(16, 64):
                        B[i * 16 + r, q] = a[15 - r, q]
                    if kind == "written":
                        T.copy(a, A[48 - i * 16, 0])
                    if kind == "break" and i == n:
                        break
                    at = at + 1
            if kind == "elsewhere":
                for r, q in T.Parallel(16, 64):
                    B[r, q] = a[r, q]

    return main


REASONS = {
    "branch": "it does not stand in the body of a loop that can be pipelined itself",
    "variable": "its index depends on at",
    "written": "the kernel also writes A",
    "break": "the loop may be left, or an iteration of it, in the middle",
    "elsewhere": "it is also used outside of the sequence that loads it",
}


@every_schedule
@pytest.mark.parametrize("kind", REASONS)
def test_what_is_not_pipelined(kind: str) -> None:
    kernel = compiled(loop_body(kind))
    assert REASONS[kind] in messages(kernel)
    assert "num_stages=3 has no effect" in messages(kernel)
    assert not copies(kernel)
    a = torch.randn(64, 64)
    state, b = a.clone(), torch.full((64, 64), -1.0)
    want = b.clone()
    for i in range(4):
        if kind == "branch" and i == 2:
            continue
        tile = state[i * 16 : i * 16 + 16].clone()
        want[i * 16 : i * 16 + 16] = tile.flip(0)
        if kind == "written":
            state[48 - i * 16 : 64 - i * 16] = tile
        if kind == "break" and i == 2:
            break
    if kind == "elsewhere":
        want[:16] = a[48:]
    kernel(a, b, 2)
    assert torch.equal(b, want)


def test_two_stages_do_not_fit() -> None:
    """All slots exist at once: the error lists them."""
    keep = {"tl.keep_stages": True}
    with pytest.raises(tilelang.errors.ResourceError, match="a"):
        compiled(gemm(256, 256, 512, m=256, n=256, k=64, stages=4, threads=256), pass_configs=keep)


def test_schedule_of_copies(golden) -> None:
    text = str(compiled(gemm(128, 128, 256, stages=3, blocks=2)).schedule())
    golden("schedule_gemm_sm_80", re.sub(r"(?<=line )\d+", lambda n: "N" * len(n[0]), text))


@pytest.mark.parametrize("number", range(6))
def test_every_wait_is_needed(number: int) -> None:
    """Deleting a wait, a commit, or a barrier is reported: that of an iteration, or of a tile."""
    kernel = compiled(gemm(128, 64, 160, stages=3, blocks=1))
    everything = mutants(kernel.get_ptx())
    assert len(everything) == 6
    key, ptx = everything[number]
    emulate(kernel, ptx)
    reported = []
    for schedule in ("late", "eager", 1, 2):
        with emulator.options(schedule=schedule, progress=False):
            try:
                kernel(exact(128, 160), exact(160, 64), torch.zeros(128, 64))
            except EmulatorError as error:
                reported.append(error.kind)
    assert reported, key
