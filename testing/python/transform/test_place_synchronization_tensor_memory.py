"""Barriers, waits and fences where warps or the tensor core touch the same cells of tensor memory,
and barriers where threads wait for a phase of an mbarrier that one of them lets complete again; and
nowhere else."""

from __future__ import annotations

import pytest
from thread_ir import (
    Buf,
    E,
    Kernel,
    alloc_tmem,
    arrive_at,
    bind,
    call,
    called,
    commit,
    evaluate,
    expr,
    if_,
    loop,
    place_synchronization,
    seq,
    sync_threads,
    var,
    wait_parity,
)

WORDS = {
    "sync_threads": "|",
    "sync_range": "|",
    "sync_warp": "|",
    "mbarrier_wait_parity": "wait",
    "mbarrier_arrive": "arrive",
    "tl::mma": "M",
    "tl::ld": "L",
    "tl::st": "S",
    "tl::tcgen05_alloc": "alloc",
    "tl::tcgen05_commit": "commit",
    "tl::tcgen05_wait_st": "wait::st",
    "tcgen05_before_thread_sync": "before",
    "tcgen05_after_thread_sync": "after",
}

# Other warps touch the same cells.
WAIT_FOR_STORES, WAIT_FOR_LOADS = "wait::st before | after", "before | after"


class Case:
    """A kernel whose threads have tensor memory, and an mbarrier on which they wait together."""

    def __init__(self, threads: int = 128) -> None:
        self.k = Kernel(threads=threads)
        self.tx, self.threads = self.k.tx, threads
        self.base = var("tmem", "uint32")
        self.done = self.barrier("done", waiting_threads=[0, threads])

    @staticmethod
    def barrier(name: str, **attrs) -> Buf:
        return Buf(name, "uint64", 1, "shared.barrier", arrive_counts=[expr(1)], **attrs)

    def touch(self, name: str, column, columns=16, tile=(0, 512), **attrs):
        """Each warp moves its 32 lanes, from `column` on (an expression, or a number)."""
        lanes = (self.tx // 32 % 4).cast("uint32") * (32 << 16)
        address = self.base + lanes
        address = address + (column.cast("uint32") if isinstance(column, E) else column)
        box = [0, 32, columns, int(name == "tl::st"), *tile]
        return evaluate(call("void", name, address, tmem=[box], **attrs))

    def load(self, column, *args, **attrs):
        return self.touch("tl::ld", column, *args, **attrs)

    def store(self, column, *args, **attrs):
        return self.touch("tl::st", column, *args, **attrs)

    def mma(self, column, columns=16, barrier=None, tile=(0, 512), warp=0):
        """One thread has the tensor core write all lanes; it completes on `done`."""
        box = [0, 128, columns, 1, *tile]
        issue = call("void", "tl::mma", self.base + column, tmem=[box], **{"async": True})
        elected = call("bool", "elect_one", operator_threads=[0, self.threads])
        body = seq(evaluate(issue), commit(barrier or self.done))
        return if_((self.tx // 32).eq(warp), if_(elected, body))

    def wait(self, barrier=None):
        return wait_parity(barrier or self.done)

    def text(self, *stmts) -> str:
        """The statements after the pass, a word each."""
        slot = Buf("slot", "uint32", 1, "shared.dyn")
        func = self.k.func(
            slot.alloc(),
            bind(self.base, slot[0]),
            *stmts,
            tmem_base=self.base.node,
            tmem_columns={},
            tmem_allocation=512,
        )
        return " ".join(words(place_synchronization(func).body.body))


def words(s) -> list[str]:
    kind = type(s).__name__
    if kind == "Seq":
        return [w for child in s.stmts for w in words(child)]
    if kind == "For":
        return ["for{", *words(s.body), "}"]
    if kind == "If":
        return words(s.then_case)
    if name := called(s):
        return [WORDS[name]]
    return []


def test_warps_keep_their_lanes() -> None:
    c = Case()
    assert c.text(c.store(0), c.load(0), c.store(8), c.load(4)) == "S wait::st L S wait::st L"


@pytest.mark.parametrize(
    ("columns", "after_store", "after_load"),
    [
        (lambda group: group * 16, "wait::st", ""),  # each warpgroup its columns, as it had them
        (lambda group: group * -16 + 16, WAIT_FOR_STORES, WAIT_FOR_LOADS),  # those of the other
        (lambda group: group * 16 + 32, "", ""),  # others
        (lambda group: group * 8, WAIT_FOR_STORES, WAIT_FOR_LOADS),
        (lambda group: group * 0, WAIT_FOR_STORES, WAIT_FOR_LOADS),
    ],
)
def test_warpgroups_that_change_columns(columns, after_store: str, after_load: str) -> None:
    c = Case(threads=256)
    group = c.tx // 128
    stored, loaded = c.store(group * 16), c.load(columns(group))
    assert c.text(stored, loaded).split() == ["S", *after_store.split(), "L"]
    assert c.text(loaded, stored).split() == ["L", *after_load.split(), "S"]
    assert c.text(loaded, loaded) == "L L"


def test_a_column_chosen_at_run_time() -> None:
    """Warps of one warpgroup keep their lanes all the same; those of two may change columns."""
    between = "for{ before | after S wait::st before | after L }"
    for threads, text in ((128, "for{ S wait::st L }"), (256, between)):
        c = Case(threads=threads)
        i, group = var("i"), c.tx // 128
        slot = (i % 2 * 64 + group * 16) if threads > 128 else i % 2 * 64
        other = ((i + 1) % 2 * 64 + group * 16) if threads > 128 else (i + 1) % 2 * 64
        n = c.k.scalar("n", "int32")
        assert c.text(loop(i, n, seq(c.store(slot), c.load(other)))) == text


def test_warpgroups_that_keep_to_their_rows() -> None:
    c = Case(threads=256)
    i, n = var("i"), c.k.scalar("n", "int32")
    keeps = {"rows_of_warpgroups": True}
    body = seq(c.store(i % 2 * 64, **keeps), c.load((i + 1) % 2 * 64, **keeps))
    assert c.text(loop(i, n, body)) == "for{ S wait::st L }"


def test_tiles_of_other_columns() -> None:
    """A column chosen at run time stays in its tile."""
    c = Case(threads=256)
    n = c.k.scalar("n", "int32")
    first, second = c.store(n % 64, 16, (0, 128)), c.load(n % 64 + 128, 16, (128, 256))
    assert c.text(first, second) == "S L"


def test_the_tensor_core_comes_after_stores_and_loads() -> None:
    c = Case()
    stored, loaded = c.text(c.store(0), c.mma(0), c.wait()), c.text(c.load(0), c.mma(8), c.wait())
    assert stored == f"S {WAIT_FOR_STORES} M commit wait"
    assert loaded == f"L {WAIT_FOR_LOADS} M commit wait"
    assert c.text(c.store(0), c.mma(16), c.wait()) == "S M commit wait"


def test_who_has_waited_needs_no_barrier() -> None:
    c = Case()
    assert c.text(c.mma(0), c.wait(), c.load(0)) == "M commit wait after L"
    assert c.text(c.mma(0), c.wait(), c.load(16)) == "M commit wait L"
    # The next phase begins after all have seen this one.
    assert c.text(c.mma(0), c.wait(), c.mma(0), c.wait()) == "M commit wait | M commit wait"


def test_one_barrier_serves_cells_and_phases() -> None:
    c = Case()
    text = c.text(c.mma(0), c.wait(), c.load(0), c.mma(0), c.wait())
    assert text == f"M commit wait after L {WAIT_FOR_LOADS} M commit wait"


def test_phases_of_loops() -> None:
    c = Case()
    i = var("i")
    assert c.text(loop(i, 4, seq(c.mma(0), c.wait()))) == "for{ | M commit wait }"
    sync = sync_threads()
    assert c.text(loop(i, 4, seq(c.mma(0), c.wait(), sync))) == "for{ M commit wait | }"
    # What the loop leaves open is closed after it, not in it.
    body = seq(c.mma(0), c.wait(), sync)
    text = c.text(c.mma(16), c.wait(), loop(i, 4, body), c.mma(0), c.wait())
    assert text == "M commit wait | for{ M commit wait | } M commit wait"


def test_a_thread_alone_issues_after_it_has_waited() -> None:
    c = Case()
    alone = c.barrier("alone", waiting_threads=[0, 1])
    assert c.text(c.mma(0, 16, alone), c.wait(alone), c.mma(0, 16, alone)) == (
        "M commit wait M commit"
    )


def test_barriers_of_the_program() -> None:
    """Threads that wait on one together have all waited before the tensor core tells others."""
    c = Case()
    full, empty = c.barrier("full"), c.barrier("empty")
    i = var("i")
    assert c.text(loop(i, 4, seq(c.wait(full), c.mma(0, 16, empty)))) == "for{ wait | M commit }"


def test_fences_of_roles() -> None:
    """A role has a fence for what its mbarriers tell of, however many others it waits on."""
    c = Case(threads=160)
    tiles, full, empty = (c.barrier(name, of_ring=True) for name in ("tiles", "full", "empty"))
    i, j = var("i"), var("j")
    issuer = c.tx // 32
    gemm = [c.wait(tiles), c.mma(0, barrier=full, warp=4)]
    # The role that loads learns on `full` what the tensor core did, which issues again itself.
    loads = if_(issuer.eq(3), loop(j, 4, seq(c.wait(full), arrive_at(tiles))))
    gemms = if_(issuer.eq(4), loop(i, 4, seq(c.wait(empty), *gemm)))
    reads = if_(c.tx < 96, loop(i, 4, seq(c.wait(full), c.load(0), arrive_at(empty))))
    text = c.text(loads, gemms, reads)
    assert text == (
        "for{ wait arrive } for{ wait wait after M commit } for{ wait after L before arrive }"
    )


def test_allocation_is_an_access_of_all() -> None:
    """Warps other than the one that allocates have a fence before their first access, once."""
    c = Case()
    warp = c.tx // 32
    sync = sync_threads()
    allocation = if_(warp.eq(0), alloc_tmem(Buf("slot", "uint32", 1, "shared.dyn")))
    text = c.text(allocation, sync, c.mma(0), *(if_(warp.eq(1), c.load(32)) for _ in range(2)))
    assert text == "alloc before | M commit after L L"


def test_what_one_warp_learned_goes_on_by_barriers() -> None:
    c = Case(threads=160)
    done = c.barrier("done", of_ring=True)
    sync = sync_threads()
    issues = if_((c.tx // 32).eq(4), seq(c.mma(0, barrier=done, warp=4), c.wait(done)))
    assert c.text(issues, sync, if_(c.tx < 128, c.load(0))) == "M commit wait | after L"


def test_the_last_fence_before_a_handover_serves_earlier_loads() -> None:
    """Barriers of all threads in between hand nothing over that another thread acquires."""
    c = Case()
    text = c.text(c.load(0), sync_threads(), c.load(16), sync_threads(), c.mma(0, 32), c.wait())
    assert text == "L | L before | after M commit wait"


def test_fences_stay_before_others_acquire() -> None:
    c = Case()
    arrival = arrive_at(c.barrier("told"))
    last = (c.load(16), sync_threads(), c.mma(0, 32), c.wait())
    text = c.text(c.load(0), sync_threads(), arrival, *last)
    assert text == "L before | arrive L before | after M commit wait"
    text = c.text(c.load(0), sync_threads(), c.mma(0), c.wait(), *last)
    assert text == "L before | after M commit wait after L before | after M commit wait"
