"""Shared memory: buffers that never live at once share bytes, others never do."""

from __future__ import annotations

import random

import pytest
from thread_ir import (
    Buf,
    Kernel,
    call,
    commit,
    evaluate,
    if_,
    loop,
    plan,
    seq,
    var,
    wait_parity,
)

from tilelang import errors


def shared(name: str, size: int, dtype: str = "float32", **attrs: int) -> Buf:
    return Buf(name, dtype, size, "shared.dyn", **attrs)


def offsets(func) -> tuple[dict[str, int], int]:
    attrs = plan(func).body.attrs
    return {str(b.name): int(o) for b, o in attrs["smem_offsets"].items()}, attrs["dyn_smem_bytes"]


def use(k: Kernel, buf: Buf, out: Buf):
    return seq(buf.put(k.tx, 1.0), out.put(k.tx, buf[k.tx]))


def kernel() -> tuple[Kernel, Buf]:
    k = Kernel()
    return k, k.param("Out", "float32", 128)


def test_buffers_of_different_times_share_bytes() -> None:
    k, out = kernel()
    a, b, c = shared("a", 1024), shared("b", 512), shared("c", 1536)
    both = seq(a.put(k.tx, 1.0), b.put(k.tx, 2.0), out.put(k.tx, a[k.tx] + b[k.tx]))
    where, total = offsets(k.func(a.alloc(), b.alloc(), c.alloc(), both, use(k, c, out)))
    assert total == 1536 * 4
    assert {where["a"], where["b"]} == {0, 4096} and where["c"] == 0


def test_buffers_that_follow_each_other_lie_apart_where_no_bytes_are_added() -> None:
    k, out = kernel()
    a, b, c, d = shared("a", 1024), *(shared(name, 512) for name in "bcd")
    uses = [use(k, buffer, out) for buffer in (a, b, c, d)]
    where, total = offsets(k.func(*(buffer.alloc() for buffer in (a, b, c, d)), *uses))
    assert total == 4096
    assert where["b"] != where["c"] != where["d"]
    # Nobody waits for `b` when `d` takes its bytes: more than one use lies in between.
    assert where["d"] == where["b"]


def test_buffers_share_bytes_where_there_are_no_others() -> None:
    k, out = kernel()
    a, b, c = shared("a", 512), shared("b", 512), shared("c", 256)
    both = seq(b.put(k.tx, 1.0), c.put(k.tx, 2.0), out.put(k.tx, b[k.tx] + c[k.tx]))
    body = [use(k, a, out), both]
    where, total = offsets(k.func(*(buffer.alloc() for buffer in (a, b, c)), *body))
    assert total == 768 * 4
    assert where["a"] == 0


def test_buffers_of_one_statement_share_nothing() -> None:
    k, out = kernel()
    a, b = shared("a", 128), shared("b", 128)
    body = seq(a.put(k.tx, 1.0), b.put(k.tx, a[k.tx]), out.put(k.tx, b[k.tx]))
    _, total = offsets(k.func(a.alloc(), b.alloc(), body))
    assert total == 1024


def test_a_buffer_lives_through_the_loop_that_uses_it() -> None:
    k, out = kernel()
    a, b = shared("a", 256), shared("b", 256)
    i = var("i")
    body = seq(use(k, a, out), use(k, b, out))
    _, total = offsets(k.func(a.alloc(), b.alloc(), loop(i, 4, body)))
    assert total == 2048
    _, inside = offsets(k.func(loop(i, 4, seq(a.alloc(), b.alloc(), body))))
    assert inside == 1024


def test_branches_of_different_threads_share_nothing() -> None:
    k, out = kernel()
    a, b = shared("a", 256), shared("b", 256)
    branches = [use(k, a, out), use(k, b, out)]
    _, total = offsets(k.func(a.alloc(), b.alloc(), if_(k.tx < 64, *branches)))
    assert total == 2048
    _, uniform = offsets(k.func(a.alloc(), b.alloc(), if_(k.bx < 2, *branches)))
    assert uniform == 1024


def test_warps_with_roles_share_nothing() -> None:
    k, out = kernel()
    a, b = shared("a", 256), shared("b", 256)
    bar = Buf("bar", "uint64", 1, "shared.barrier")
    wait = wait_parity(bar)
    body = [use(k, a, out), if_(k.tx < 32, wait), use(k, b, out)]
    _, total = offsets(k.func(a.alloc(), b.alloc(), bar.alloc(), *body))
    assert total == 2048 + 8


def test_an_asynchronous_read_ends_at_the_wait_for_its_barrier() -> None:
    k, out = kernel()
    a, b, c = shared("a", 256), shared("b", 256), shared("c", 256)
    bar = Buf("bar", "uint64", 1, "shared.barrier")
    issue = call("void", "tl::issue", reads=[a.node], **{"async": True})
    wait = wait_parity(bar)
    stmts = [evaluate(issue), commit(bar), use(k, b, out), wait, use(k, c, out)]
    allocs = [x.alloc() for x in (a, b, c, bar)]
    where, total = offsets(k.func(*allocs, *stmts))
    assert where["a"] != where["b"] and total == 2048 + 8
    del stmts[3]
    assert offsets(k.func(*allocs, *stmts))[1] == 2048 + 8
    assert len({offsets(k.func(*allocs, *stmts))[0][n] for n in "abc"}) >= 2


def test_alignment() -> None:
    k, out = kernel()
    bar = Buf("bar", "uint64", 3, "shared.barrier")
    a, b = shared("a", 10, "uint8"), shared("b", 256, align=1024)
    both = seq(a.put(k.tx, 1), b.put(k.tx, 1.0), out.put(k.tx, b[k.tx] + a[0].cast("float32")))
    where, total = offsets(k.func(bar.alloc(), a.alloc(), b.alloc(), both))
    assert where["b"] % 1024 == 0 and where["a"] % 16 == 0 and where["bar"] % 8 == 0
    assert total == 1024 + 16 + 24 or total == 1024 + 10 + 6 + 24


def test_a_buffer_after_one_of_odd_size_is_aligned() -> None:
    k, out = kernel()
    a, b = shared("a", 300, align=1024), shared("b", 256, align=1024)
    both = seq(a.put(k.tx, 1.0), b.put(k.tx, 1.0), out.put(k.tx, a[k.tx] + b[k.tx]))
    where, total = offsets(k.func(a.alloc(), b.alloc(), both))
    assert sorted(where.values()) == [0, 2048] and total == 3072


def test_too_much_shared_memory_lists_the_buffers() -> None:
    k, out = kernel()
    a, b = shared("tile_a", 40000), shared("tile_b", 40000)
    body = seq(a.put(k.tx, 1.0), b.put(k.tx, 2.0), out.put(k.tx, a[k.tx] + b[k.tx]))
    with pytest.raises(errors.ResourceError) as caught:
        offsets(k.func(a.alloc(), b.alloc(), body))
    message = str(caught.value)
    assert "320000 bytes" in message and "tile_a: 160000" in message and "232448" in message


@pytest.mark.parametrize("seed", range(30))
def test_random_straight_line_programs(seed: int) -> None:
    rng = random.Random(seed)
    k, out = kernel()
    bufs = [shared(f"s{i}", rng.randint(1, 300)) for i in range(8)]
    order = [rng.choice(bufs) for _ in range(20)]
    stmts = [out.put(k.tx, b[0]) for b in order]
    where, total = offsets(k.func(*[b.alloc() for b in bufs], *stmts))
    used = [b for b in bufs if b in order]
    span = {}
    for b in used:
        times = [i for i, other in enumerate(order) if other is b]
        size = b.size * 4
        span[str(b.node.name)] = (times[0], times[-1], where[str(b.node.name)], size)
    for a in span.values():
        assert a[2] % 16 == 0 and a[2] + a[3] <= total
        for b in span.values():
            if a is not b and a[0] <= b[1] and b[0] <= a[1]:
                assert a[2] + a[3] <= b[2] or b[2] + b[3] <= a[2]


@pytest.mark.parametrize("size", [1, 3, 5, 63])
def test_a_vector_load_ends_inside(size: int) -> None:
    """NVRTC may read the aligned 16 bytes around an element: they exist and are nobody else's."""
    k, out = kernel()
    other = k.param("Other", "int16", 128)
    a, b = shared("a", size), shared("b", size, "int16")
    both = seq(a.put(k.tx, 1.0), b.put(k.tx, 1), out.put(k.tx, a[k.tx]), other.put(k.tx, b[k.tx]))
    where, total = offsets(k.func(a.alloc(), b.alloc(), both))
    ends = {name: where[name] + -(-size * width // 16) * 16 for name, width in (("a", 4), ("b", 2))}
    assert total == max(ends.values()) and total % 16 == 0
    assert where["a"] >= ends["b"] or where["b"] >= ends["a"]
