"""Stores by TMA are waited for where something depends on them, and at the end."""

from __future__ import annotations

import pytest
import torch

import tilelang
import tilelang.language as T

every_schedule = pytest.mark.every_schedule


def poisoned(*shape: int) -> torch.Tensor:
    return torch.full(shape, float("nan")).half()


def waits(kernel) -> list[str]:
    """Stores and waits of the kernel, in the order of its text."""
    lines = kernel.get_kernel_source().split("main_kernel(")[1].splitlines()
    names = ("tma_store(", "tma_store_wait")
    return [name for line in lines for name in names if name in line]


def scaled(tiles: int, body, threads: int = 128, **options):
    step = T.macro(body)

    @T.prim_func
    def main(A: T.Tensor((tiles * 64, 64), "float16"), C: T.Tensor((tiles * 64, 64), "float16")):
        with T.Kernel(1, threads=threads):
            out = T.alloc_shared((64, 64), "float16")
            other = T.alloc_shared((64, 64), "float16")
            step(A, C, out, other)

    return tilelang.compile(main, target="sm_90a", **options)


def _fill(A, out, t):
    for i, j in T.Parallel(64, 64):
        out[i, j] = A[t * 64 + i, j] * 2


def _in_a_loop(A, C, out, other):
    for t in T.serial(5):
        T.macro(_fill)(A, out, t)
        T.copy(out, C[t * 64, 0])


def _under_a_condition(A, C, out, other):
    for t in T.serial(5):
        if t != 7:
            T.macro(_fill)(A, out, t)
            T.copy(out, C[t * 64, 0])


def _two_tiles(A, C, out, other):
    for t in T.serial(5):
        T.macro(_fill)(A, out, t)
        T.copy(out[0:32, :], C[t * 64 : t * 64 + 32, :])
        T.copy(out[32:64, :], C[t * 64 + 32 : t * 64 + 64, :])


def _nested(A, C, out, other):
    for t in T.serial(5):
        for _u in T.serial(2):
            T.macro(_fill)(A, out, t)
            T.copy(out, C[t * 64, 0])


@every_schedule
@pytest.mark.parametrize("body", [_in_a_loop, _under_a_condition, _two_tiles, _nested])
def test_a_store_runs_while_the_loop_goes_on(body) -> None:
    kernel = scaled(5, body)
    found = waits(kernel)
    assert found[0] == "tma_store_wait" and found[-1] == "tma_store_wait"
    assert found.count("tma_store_wait") == 2
    A, C = torch.randn(320, 64).half(), poisoned(320, 64)
    kernel(A, C)
    assert torch.equal(C, A * 2)


def _read_later(A, C, out, other):
    for t in T.serial(5):
        T.macro(_fill)(A, out, t)
        T.copy(out, C[t * 64, 0])
        T.copy(out, other)
    T.copy(other, C[0:64, :])


def _filled_once(A, C, out, other):
    T.macro(_fill)(A, out, 3)
    for t in T.serial(5):
        T.copy(out, C[t // 2 * 64, 0])
    T.copy(out, C[192, 0])
    T.copy(out, C[256, 0])


def _filled_once_to_rows_of_turns(A, C, out, other):
    T.macro(_fill)(A, out, 3)
    for t in T.serial(5):
        T.copy(out, C[t * 64, 0])


@every_schedule
def test_a_tile_is_read_beside_its_store() -> None:
    kernel = scaled(5, _read_later)
    assert waits(kernel)[:3] == ["tma_store_wait", "tma_store(", "tma_store_wait"]
    A, C = torch.randn(320, 64).half(), poisoned(320, 64)
    kernel(A, C)
    want = A * 2
    want[0:64] = A[256:320] * 2
    assert torch.equal(C, want)


@every_schedule
def test_a_tile_that_is_not_filled_again_is_waited_for_before_the_next_store() -> None:
    kernel = scaled(5, _filled_once)
    assert waits(kernel)[:2] == ["tma_store_wait", "tma_store("]
    rows_of_turns = scaled(5, _filled_once_to_rows_of_turns)
    assert waits(rows_of_turns) == ["tma_store(", "tma_store_wait"]
    for each in kernel, rows_of_turns:
        _check_filled_once(each)


def _check_filled_once(kernel) -> None:
    A, C = torch.randn(320, 64).half(), poisoned(320, 64)
    kernel(A, C)
    assert torch.equal(C, A[192:256].repeat(5, 1) * 2)


def _to_one_place(A, C, out, other):
    for t in T.serial(5):
        T.macro(_fill)(A, out, t)
        T.copy(out, C[0:64, :])


def _two_tiles_to_one_place(A, C, out, other):
    for t in T.serial(5):
        T.macro(_fill)(A, other, t)
        T.macro(_fill)(A, out, 4 - t)
        T.copy(other, C[t * 64, 0])
        T.copy(out, C[t * 64, 0])


def _each_over_the_end_of_the_last(A, C, out, other):
    for t in T.serial(4):
        T.macro(_fill)(A, out, t)
        T.copy(out, C[t * 64, 0])
        T.macro(_fill)(A, other, t + 1)
        T.copy(other, C[t * 64 + 32, 0])


def _other_order(A, C, out, other):
    for t in T.serial(2):
        T.macro(_fill)(A, out, t)
        T.copy(out, C[t * 64, 0])
        T.macro(_fill)(A, other, t + 2)
        T.copy(other, C[64 - t * 64, 0])


def _written(body, A):
    """Rows of C where the stores come one after the other."""
    C = torch.full_like(A, float("nan"))
    tile = {t: A[t * 64 : t * 64 + 64] * 2 for t in range(5)}
    for t in range(5):
        if body is _to_one_place:
            C[0:64] = tile[t]
        elif body is _two_tiles_to_one_place:
            C[t * 64 : t * 64 + 64] = tile[4 - t]
        elif body is _each_over_the_end_of_the_last and t < 4:
            C[t * 64 : t * 64 + 64] = tile[t]
            C[t * 64 + 32 : t * 64 + 96] = tile[t + 1]
        elif body is _other_order and t < 2:
            C[t * 64 : t * 64 + 64] = tile[t]
            C[64 - t * 64 : 128 - t * 64] = tile[t + 2]
    return C


@every_schedule
@pytest.mark.parametrize(
    "body",
    [_to_one_place, _two_tiles_to_one_place, _each_over_the_end_of_the_last, _other_order],
)
def test_the_last_of_several_stores_to_one_place_stays(body) -> None:
    A, C = torch.randn(320, 64).half(), poisoned(320, 64)
    scaled(5, body)(A, C)
    assert torch.equal(C.nan_to_num(7), _written(body, A).nan_to_num(7))


@every_schedule
def test_a_slot_is_given_back_after_its_store() -> None:
    @T.prim_func
    def main(A: T.Tensor((640, 64), "float16"), C: T.Tensor((640, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            for t in T.Pipelined(10, num_stages=2):
                T.copy(A[t * 64, 0], tile)
                T.copy(tile, C[t * 64, 0])

    kernel = tilelang.compile(main, target="sm_90a")
    text = kernel.get_kernel_source().split("tl::tma_store(")[1]
    assert text.index("tma_store_wait") < text.index("mbarrier_arrive(tile_empty")
    A, C = torch.randn(640, 64).half(), poisoned(640, 64)
    kernel(A, C)
    assert torch.equal(C, A)


def _handed_over(A, C, out, other):
    """Warps 0 to 3 store what warps 4 to 7 fill again."""
    full, empty = T.alloc_barrier(128), T.alloc_barrier(128)
    for t in T.serial(5):
        if T.get_warp_group_idx() == 0:
            T.barrier_wait(full, t % 2)
            T.copy(out, C[t * 64, 0])
            T.barrier_arrive(empty)
        else:
            T.barrier_wait(empty, (t + 1) % 2)
            T.macro(_fill)(A, out, t)
            T.fence_proxy_async()
            T.barrier_arrive(full)


@every_schedule
def test_a_tile_is_handed_over_after_its_store() -> None:
    A, C = torch.randn(320, 64).half(), poisoned(320, 64)
    scaled(5, _handed_over, threads=256)(A, C)
    assert torch.equal(C, A * 2)


@every_schedule
def test_a_program_that_orders_its_statements_finds_its_stores_finished() -> None:
    def body(A, C, out, other):
        for t in T.serial(5):
            T.macro(_fill)(A, out, t)
            T.fence_proxy_async()
            T.sync_threads()
            T.copy(out, C[t * 64, 0])
            T.sync_threads()

    kernel = scaled(5, body, pass_configs={"tl.disable_thread_storage_sync": True})
    assert waits(kernel) == ["tma_store(", "tma_store_wait"]
    assert "__syncthreads" in kernel.get_kernel_source().split("tma_store_wait")[1]
    A, C = torch.randn(320, 64).half(), poisoned(320, 64)
    kernel(A, C)
    assert torch.equal(C, A * 2)


@every_schedule
def test_one_thread_waits_for_what_it_alone_has_stored() -> None:
    def body(A, C, out, other):
        for t in T.serial(5):
            T.macro(_fill)(A, out, t)
            if T.get_thread_binding() == 77:
                T.copy(out, C[t * 64, 0])

    kernel = scaled(5, body)
    A, C = torch.randn(320, 64).half(), poisoned(320, 64)
    kernel(A, C)
    assert torch.equal(C, A * 2)


@every_schedule
def test_two_roles_wait_for_their_own() -> None:
    def body(A, C, out, other):
        for t in T.serial(2):
            if T.get_warp_group_idx() == 0:
                T.macro(_fill)(A, out, t)
                T.copy(out, C[t * 64, 0])
            else:
                T.macro(_fill)(A, other, t + 2)
                T.copy(other, C[t * 64 + 128, 0])

    A, C = torch.randn(256, 64).half(), poisoned(256, 64)
    scaled(4, body, threads=256)(A, C)
    assert torch.equal(C, A * 2)


@every_schedule
def test_who_stores_sometimes_waits_each_time() -> None:
    """The condition may be another one where the tile is filled again."""

    @T.prim_func
    def main(
        A: T.Tensor((320, 64), "float16"),
        F: T.Tensor((5,), "int32"),
        C: T.Tensor((320, 64), "float16"),
    ):
        with T.Kernel(1, threads=128):
            out = T.alloc_shared((64, 64), "float16")
            for t in T.serial(5):
                for i, j in T.Parallel(64, 64):
                    out[i, j] = A[t * 64 + i, j] * 2
                if T.get_thread_binding() < 32 and F[t] > 0:
                    T.copy(out, C[t * 64, 0])

    kernel = tilelang.compile(main, target="sm_90a")
    A, F = torch.randn(320, 64).half(), torch.tensor([1, 0, 1, 1, 0], dtype=torch.int32)
    C = torch.full((320, 64), 7.0).half()
    kernel(A, F, C)
    want = torch.where(F.repeat_interleave(64)[:, None] > 0, A * 2, 7.0)
    assert torch.equal(C, want)


def _shifted_by_half(A, C, out, other):
    T.macro(_fill)(A, out, 2)
    for t in T.serial(5):
        T.copy(out, C[t * 32, 0])


def _at_one_place(A, C, out, other):
    T.macro(_fill)(A, out, 2)
    for _ in T.serial(3):
        T.copy(out, C[64:128, :])


def _shifted_in_two_loops(A, C, out, other):
    T.macro(_fill)(A, out, 2)
    for t in T.serial(2):
        for u in T.serial(2):
            T.copy(out, C[t * 64 + u * 96, 0])


@every_schedule
def test_the_last_of_several_slots_to_one_place_stays() -> None:
    def body(A, C, out, other):
        slots = T.alloc_shared((2, 64, 64), "float16")
        for n, i, j in T.Parallel(2, 64, 64):
            slots[n, i, j] = A[n * 64 + i, j] * 2
        for t in T.serial(3):
            for u in T.serial(2):
                T.copy(slots[u, :, :], C[t * 64, 0])

    A, C = torch.randn(320, 64).half(), poisoned(320, 64)
    scaled(5, body)(A, C)
    assert torch.equal(C[:192], A[64:128].repeat(3, 1) * 2)


@every_schedule
@pytest.mark.parametrize(
    ("body", "rows"),
    [
        (_shifted_by_half, [0, 32, 64, 96, 128]),
        (_shifted_in_two_loops, [0, 96, 64, 160]),
        (_at_one_place, [64]),
    ],
)
def test_a_tile_is_stored_over_a_part_of_itself(body, rows) -> None:
    """Which iteration wrote an element last decides, though the tile stays the same."""
    A, C = torch.randn(320, 64).half(), poisoned(320, 64)
    scaled(5, body)(A, C)
    want = poisoned(320, 64)
    for row in rows:
        want[row : row + 64] = A[128:192] * 2
    assert torch.equal(C.nan_to_num(7), want.nan_to_num(7))


def _copied(A, rows, tile, k):
    T.copy(A[k * 32, 0], tile, disable_tma=True)


def _gathered(A, rows, tile, k):
    for i, j in T.Parallel(32, 64):
        tile[i, j] = A[rows[k * 32 + i], j]


def _through_registers(A, rows, tile, k):
    part = T.alloc_fragment((32, 64), "float32")
    T.copy(A[k * 32, 0], part)
    T.copy(part, tile)


@every_schedule
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("adds", [False, True])
@pytest.mark.parametrize("stages", [1, 2, 3])
@pytest.mark.parametrize("load", [_copied, _gathered, _through_registers])
def test_all_threads_know_that_a_tile_was_stored_before_they_fill_it_again(
    load, stages: int, adds: bool, target: str
) -> None:
    fill = T.macro(load)

    @T.prim_func
    def main(
        A: T.Tensor((256, 64), "float32"),
        rows: T.Tensor((256,), "int32"),
        C: T.Tensor((256, 64), "float32"),
        n: T.int32,
    ):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((32, 64), "float32")
            for k in T.Pipelined(n, num_stages=stages):
                fill(A, rows, tile, k)
                if adds:
                    T.atomic_add(C[k * 32 : k * 32 + 32, :], tile)
                else:
                    T.copy(tile, C[k * 32, 0])

    kernel = tilelang.compile(main, target=target)
    assert "tl::tma_store" in kernel.get_kernel_source()
    A, rows = torch.randn(256, 64), torch.randperm(256).int()
    C = torch.zeros(256, 64) if adds else poisoned(256, 64).float()
    kernel(A, rows, C, 8)
    assert torch.equal(C, A[rows.long()] if load is _gathered else A)
