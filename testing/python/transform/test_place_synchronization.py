"""Barriers stand where threads would otherwise race in shared memory, and nowhere else."""

from __future__ import annotations

import pytest
from thread_ir import (
    Buf,
    E,
    Kernel,
    arrive_at,
    bind,
    call,
    called,
    evaluate,
    fence_proxy_async,
    if_,
    ir,
    loop,
    place_synchronization,
    seq,
    sync_threads,
    var,
    vector_loop,
    wait_parity,
)

from tilelang import errors


def shared(name: str = "S", size: int = 1024, dtype: str = "float32") -> Buf:
    return Buf(name, dtype, size, "shared.dyn")


class Case:
    """A kernel of 128 threads with one shared buffer ``s`` and a global ``out``."""

    def __init__(self) -> None:
        self.k = Kernel()
        self.tx, self.bx = self.k.tx, self.k.bx
        self.out = self.k.param("Out", "float32", 4096)
        self.n = self.k.scalar("n", "int32")
        self.s = shared()

    def write(self, i: E | int):
        return self.s.put(i, 1.0)

    def read(self, i: E | int):
        return self.out.put(self.tx, self.s[i])

    def text(self, *stmts) -> str:
        """The statements after the pass, a word each: W, R, |, F, {, }, ..."""
        func = place_synchronization(self.k.func(self.s.alloc(), *stmts))
        return " ".join(words(func.body.body))

    def func(self, *stmts):
        return place_synchronization(self.k.func(self.s.alloc(), *stmts))


def words(s) -> list[str]:
    kind = type(s).__name__
    if kind == "Seq":
        return [w for child in s.stmts for w in words(child)]
    if kind == "Store":
        return ["W" if str(s.buffer.scope).startswith("shared") else "R"]
    if kind == "For":
        return ["for{", *words(s.body), "}"]
    if kind == "While":
        return ["while{", *words(s.body), "}"]
    if kind == "If":
        other = ["else", *words(s.else_case)] if s.else_case is not None else []
        return ["if{", *words(s.then_case), *other, "}"]
    if name := called(s):
        names = {"sync_threads": "|", "fence_proxy_async": "F", "sync_warp": "w|"}
        if name == "sync_range":
            return ["|{},{}".format(*s.threads)]
        named = name == "sync_threads" and s.number is not None
        return [f"|{s.number.value},{s.count.value}" if named else names.get(name, name)]
    return ["break"] if kind == "Break" else []


@pytest.mark.parametrize(
    ("write", "read", "sync"),
    [
        (lambda t: t, lambda t: t, False),
        (lambda t: t, lambda t: (t + 1) % 128, True),
        (lambda t: t, lambda t: t + 128, False),
        (lambda t: t, lambda t: t + 127, True),
        (lambda t: t * 2 + 1, lambda t: t * 2, False),
        (lambda t: t ^ 5, lambda t: t ^ 5, False),
        (lambda t: t ^ 5, lambda t: t ^ 4, True),
        (lambda t: (t // 8) * 8 + ((t % 8) ^ ((t // 8) % 8)), lambda t: t, True),
        (lambda t: (t // 8) * 8 + (t % 8), lambda t: t, False),
        (lambda t: t // 2, lambda t: t // 2, True),
        (lambda t: t, lambda t: 5, True),
    ],
)
def test_a_read_of_what_another_thread_wrote(write, read, sync: bool) -> None:
    c = Case()
    assert c.text(c.write(write(c.tx)), c.read(read(c.tx))) == ("W | R" if sync else "W R")
    # The other way round: a write of what another thread reads.
    assert c.text(c.read(read(c.tx)), c.write(write(c.tx))) == ("R | W" if sync else "R W")


def test_reads_need_no_barrier() -> None:
    c = Case()
    assert c.text(c.read(3), c.read(c.tx ^ 1)) == "R R"


def test_one_barrier_serves_several_hazards() -> None:
    c = Case()
    mirrored = c.tx ^ 127
    t = c.text(c.write(c.tx), c.write(c.tx + 128), c.read(mirrored), c.read(mirrored + 128))
    assert t == "W W | R R"


def test_barriers_of_the_program_count() -> None:
    c = Case()
    sync = sync_threads()
    assert c.text(c.write(c.tx), sync, c.read(c.tx ^ 1)) == "W | R"


def test_a_barrier_directly_after_another_goes() -> None:
    """Only where all threads are known to get there: branches pair their barriers otherwise."""
    c = Case()
    sync = [sync_threads() for _ in range(3)]
    assert c.text(c.write(c.tx), *sync, c.read(c.tx ^ 1)) == "W | R"
    assert c.text(sync[0], c.write(c.tx), sync[1], c.read(c.tx)) == "| W | R"
    uniform = if_(c.bx < c.n, seq(*sync))
    assert c.text(uniform) == "if{ | }"
    for some in (c.tx < 64, c.tx < c.n):
        branch = if_(some, seq(*sync[:2]), seq(c.read(3), sync[2]))
        assert c.text(branch) == "if{ | | else R | }"


def test_a_loop_carries_hazards() -> None:
    c = Case()
    i = var("i")
    body = seq(c.write(c.tx), c.read(c.tx ^ 1))
    assert c.text(loop(i, c.n, body)) == "for{ | W | R }"
    assert c.text(loop(i, c.n, seq(c.write(c.tx), c.read(c.tx)))) == "for{ W R }"


def test_a_loop_inside_does_not_hide_what_the_outer_one_carries() -> None:
    """Element i + tx is another thread's in the iteration before, with a loop in between or not."""
    c = Case()
    i, j, x = var("i"), var("j"), Buf("x", "float32", 1, "local")
    touch = [c.write(i + c.tx), c.read(i + c.tx)]
    inner = loop(j, 4, x.put(0, x[0] * 2.0))
    assert c.text(x.alloc(), loop(i, c.n, seq(*touch))) == "for{ | W R }"
    assert c.text(x.alloc(), loop(i, c.n, seq(inner, *touch))) == "for{ for{ R } | W R }"
    assert c.text(x.alloc(), loop(i, c.n, seq(*touch, inner))) == "for{ | W R for{ R } }"


def test_an_unrolled_copy_loop_needs_no_barrier_inside() -> None:
    c = Case()
    i, j, k = var("i"), var("j"), var("k")
    fill = loop(i, 4, c.write(c.tx + i * 128), "unrolled")
    use = loop(j, 4, c.read((c.tx ^ 1) + j * 128), "unrolled")
    assert c.text(fill, use) == "for{ W } | for{ R }"
    assert c.text(loop(k, c.n, seq(fill, use))) == "for{ | for{ W } | for{ R } }"
    same = loop(j, 4, c.read(c.tx + j * 128), "unrolled")
    assert c.text(loop(k, c.n, seq(fill, same))) == "for{ for{ W } for{ R } }"


def test_a_loop_over_other_threads_elements() -> None:
    c = Case()
    i = var("i")
    assert c.text(loop(i, 4, c.write((c.tx + i) % 128))) == "for{ | W }"
    assert c.text(loop(i, 4, c.write((c.tx + i * 32) % 256 // 2))) == "for{ | W }"
    assert c.text(loop(i, 4, c.write(c.tx // 2))) == "for{ W }"


def test_vector_accesses_cover_all_their_lanes() -> None:
    c = Case()
    i, j = var("i"), var("j")
    fill = vector_loop(i, 4, c.write(c.tx * 4 + i), [c.s])
    read = vector_loop(j, 4, c.read(c.tx * 4 + j), [c.s])
    assert c.text(fill, read) == "for{ W } for{ R }"
    assert c.text(fill, c.read(c.tx)) == "for{ W } | R"


def test_before_a_branch_of_some_threads() -> None:
    c = Case()
    branch = if_(c.tx < 5, c.read(c.tx + 1))
    assert c.text(c.write(c.tx), branch) == "W | if{ R }"
    assert c.text(c.write(c.tx), if_(c.tx < 5, c.read(c.tx))) == "W if{ R }"
    # Threads 0..4 write 0..4; nobody else reads those.
    high = if_((c.tx < 5).op("==", False), c.read(c.tx))
    assert c.text(if_(c.tx < 5, c.write(c.tx)), high) == "if{ W } if{ R }"


def test_inside_a_branch_of_all_threads() -> None:
    c = Case()
    branch = if_(c.bx < c.n, c.read(c.tx ^ 1), c.write(c.tx))
    assert c.text(c.write(c.tx), branch) == "W if{ | R else W }"


def test_one_thread_needs_no_barrier_with_itself() -> None:
    c = Case()
    one = c.tx.eq(0)
    assert c.text(if_(one, c.write(3)), if_(one, c.read(3))) == "if{ W } if{ R }"
    assert c.text(if_(one, c.write(3)), c.read(3)) == "if{ W } | R"
    elected = call("bool", "elect_one")
    first_warp = (c.tx // 32).eq(0)
    both = [if_(first_warp, if_(elected, s)) for s in (c.write(3), c.read(3))]
    assert c.text(*both) == "if{ if{ W } } if{ if{ R } }"


def test_whole_warps_wait_at_a_named_barrier() -> None:
    c = Case()
    exchange = seq(c.write(c.tx), c.read(c.tx ^ 1))
    assert c.text(if_(c.tx < 64, exchange)) == "if{ W |0,64 R }"
    assert c.text(if_(c.tx < 32, exchange)) == "if{ W w| R }"


def test_threads_that_cannot_wait_are_refused() -> None:
    c = Case()
    with pytest.raises(errors.SemanticsError, match="whole warps"):
        c.text(if_(c.tx < 40, seq(c.write(c.tx), c.read(c.tx ^ 1))))
    with pytest.raises(errors.SemanticsError, match="whole warps"):
        c.text(loop(var("i"), c.tx, seq(c.write(c.tx), c.read(c.tx ^ 1))))


def test_a_loop_that_may_not_run_hides_no_hazard() -> None:
    c = Case()
    sync = sync_threads()
    i, j = var("i"), var("j")
    assert c.text(c.write(c.tx), loop(i, c.n, sync), c.read(c.tx ^ 1)) == "W for{ | } | R"
    assert c.text(c.write(c.tx), loop(j, 3, sync), c.read(c.tx ^ 1)) == "W for{ | } R"


def test_break_leaves_before_the_barrier() -> None:
    c = Case()
    sync = sync_threads()
    leave = if_(c.n < 3, ir("Break", None))
    i = var("i")
    body = seq(c.write(c.tx), leave, sync)
    assert c.text(loop(i, 4, body), c.read(c.tx ^ 1)) == "for{ W if{ break } | } | R"


def test_values_of_named_expressions_are_seen() -> None:
    c = Case()
    row = var("row")
    assert c.text(bind(row, c.tx // 4 * 4 + c.tx % 4), c.write(row), c.read(c.tx)) == "W R"


def test_buffers_that_share_bytes() -> None:
    c = Case()
    other = shared("T")
    t = c.text(other.alloc(), c.write(c.tx), c.read(c.tx), other.put(c.tx, 1.0))
    assert t == "W R | W"


def test_atomics_commute() -> None:
    c = Case()
    add = evaluate(
        call(
            "float32",
            "atomic_add",
            c.s.at(c.tx // 64),
            E(ir("FloatImm", c.s[0].node.dtype, 1.0, None)),
        )
    )
    assert c.text(c.write(c.tx), add, add, c.read(c.tx)) == "W | atomic_add atomic_add | R"


def issue(buf: Buf, key: str):
    return evaluate(call("void", "tl::engine", **{key: [buf.node], "async": True}))


def test_stores_are_fenced_for_the_async_proxy() -> None:
    c = Case()
    sync = sync_threads()
    fence = fence_proxy_async()
    one = c.tx.eq(0)
    engine = if_(one, issue(c.s, "reads"))
    assert c.text(c.write(c.tx), engine) == "W F | if{ tl::engine }"
    assert c.text(c.write(c.tx), sync, engine) == "W F | if{ tl::engine }"
    assert c.text(c.write(c.tx), fence, sync, engine) == "W F | if{ tl::engine }"
    assert c.text(c.read(c.tx), if_(one, issue(c.s, "writes"))) == "R | if{ tl::engine }"


def test_a_wait_of_all_threads_ends_an_asynchronous_access() -> None:
    c = Case()
    bar = Buf("bar", "uint64", 1, "shared.barrier")
    wait = wait_parity(bar)
    load = if_(c.tx.eq(0), issue(c.s, "writes"))
    assert c.text(bar.alloc(), load, wait, c.read(c.tx ^ 1)).split()[-2:] == [
        "mbarrier_wait_parity",
        "R",
    ]


def test_a_wait_ends_what_completes_on_its_own_mbarrier() -> None:
    """Thread 0 loads on two mbarriers; all wait for one, and thread 0 alone for the other."""
    c = Case()
    first, second = (Buf(name, "uint64", 1, "shared.barrier") for name in ("first", "second"))

    def load(bar: Buf):
        attrs = {"writes": [c.s.node], "async": True}
        return if_(c.tx.eq(0), evaluate(call("void", "tl::engine", bar.at(), **attrs)))

    def wait(bar: Buf):
        return wait_parity(bar)

    def sync(*stmts) -> list[str]:
        text = c.text(first.alloc(), second.alloc(), *stmts, c.read(c.tx ^ 1))
        return text.split()[-2:]

    assert sync(load(first), wait(first)) == ["mbarrier_wait_parity", "R"]
    assert sync(load(second), wait(first), if_(c.tx.eq(0), wait(second))) == ["|", "R"]


def test_a_statement_that_stands_in_two_places() -> None:
    """What one thread reads without a barrier others do not, though it is the same statement."""
    c = Case()
    store = if_(c.tx.eq(0), c.write(0))
    read = c.read(0)
    alone = if_(c.tx.eq(0), read)
    assert c.text(store, alone, read) == "if{ W } if{ R } | R"


def test_branches_with_roles_are_left_alone() -> None:
    c = Case()
    bar = Buf("bar", "uint64", 1, "shared.barrier")
    wait = wait_parity(bar)
    arrive = arrive_at(bar)
    producer = if_(c.tx < 32, seq(wait, c.write(c.tx), arrive))
    consumer = if_((c.tx < 32).eq(False), seq(wait, c.read(c.tx % 32)))
    text = c.text(bar.alloc(), producer, consumer)
    assert "|" not in text
