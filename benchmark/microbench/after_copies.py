"""Loads of shared memory and cp.async of the same warps: what one takes of the other's time.

The copies come from lines of L2, in rows of 128 bytes and less, of which each warp has its own. The
clock waits for a load, not for the copies before it.
"""

from __future__ import annotations

from collections.abc import Iterator

from program import Probe, registers, text

_PITCH = 2048  # bytes from row to row of what is copied
_SHARED = 49152
_PLACES = 4  # in shared memory, that copies are written to by turns


def _setup(row: int) -> str:
    """Addresses of loads, and of copies in rows of so many bytes; a zero that nobody knows."""
    lanes = row // 16
    return "\n".join([
        "mov.u32 %r8, buffer;", "mad.lo.u32 %r8, %thread, 16, %r8;", "add.u32 %r9, %r8, 16384;",
        f"div.u32 %r10, %lane, {lanes};", f"rem.u32 %r11, %lane, {lanes};",
        f"mul.lo.u32 %r10, %r10, {_PITCH};", "mad.lo.u32 %r10, %r11, 16, %r10;",
        "mad.lo.u32 %r10, %warp, 128, %r10;", "cvt.u64.u32 %at, %r10;",
        "add.u64 %at, %data, %at;", "ld.global.u32 %r12, [%data];",
    ])  # fmt: skip


def _copies(count: int) -> list[str]:
    return [f"cp.async.cg.shared.global [%r9+{4096 * (i % _PLACES)}], [%at+{i << 16}], 16;"
            for i in range(count)]  # fmt: skip


def _after(row: int, copies: int, warps: int) -> Probe:
    body = [
        *["cp.async.cg.shared.global [%r9], [%at], 16;"] * copies,
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r20, %r21, %r22, %r23}, [%r8];",
        "and.b32 %r20, %r20, %r12;", "add.u32 %left, %left, %r20;",
    ]  # fmt: skip
    return Probe(
        f"ldmatrix.x4 after {copies} cp.async in rows of {row} B, {warps} warps", "clk",
        text(body, _setup(row), sinks=["%r20"], shared=_SHARED), 1, warps=warps, repeat=1,
        how="turn", parameters={"row": row, "copies": copies},
    )  # fmt: skip


_FENCES = (
    "fence.proxy.async.shared::cta", "fence.proxy.async", "fence.proxy.async.global",
    "fence.acq_rel.cta", "membar.cta", "fence.mbarrier_init.release.cluster",
)  # fmt: skip


def _fence(fence: str, copies: int, warps: int) -> Probe:
    """Copies that no group is waited for, then a fence."""
    body = [*["cp.async.cg.shared.global [%r9], [%at], 16;"] * copies, f"{fence};"]
    return Probe(
        f"{fence} after {copies} cp.async, {warps} warps", "clk",
        text(body, _setup(128), shared=_SHARED), 1, warps=warps, repeat=1, how="turn",
        parameters={"fence": fence, "copies": copies},
    )  # fmt: skip


def _beside(row: int, copies: int, loads: int) -> Probe:
    read = [f"ld.volatile.shared.v4.u32 {registers('r', 20 + 4 * i, 4)}, [%r8+{128 * (i % 16)}];"
            for i in range(loads)]  # fmt: skip
    body = [*_copies(copies), "cp.async.commit_group;", *read, "cp.async.wait_group 2;"]
    return Probe(
        f"{loads} ld.shared.v4 beside {copies} cp.async in rows of {row} B", "clk/warp/SM",
        text(body, _setup(row), sinks=[f"%r{20 + i}" for i in range(4 * loads)], shared=_SHARED),
        1, warps=8, repeat=32, how="sm", data=(1 << 20, "zeros"),
        parameters={"row": row, "copies": copies, "loads": loads},
    )  # fmt: skip


def probes() -> Iterator[Probe]:
    """All of them."""
    for fence in _FENCES:
        for warps in (1, 8):
            for copies in (0, 1, 8):
                yield _fence(fence, copies, warps)
    for row in (128, 64, 16):
        for warps in (1, 8):
            for copies in (0, 1, 2, 4, 8, 12, 16):
                yield _after(row, copies, warps)
        for copies, loads in ((0, 32), (4, 0), (4, 16), (4, 32), (8, 32)):
            yield _beside(row, copies, loads)
