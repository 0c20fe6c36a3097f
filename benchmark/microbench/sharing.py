"""What CTAs get from L2 that load tiles side by side: their own, or those of neighbours.

Each CTA loads tile after tile of 128 rows into three stages, two of them a turn, from 512 bytes of
each row. ``group`` CTAs load the same tiles, each ``apart`` CTAs from the next one; or as in a GEMM
all of a row of so many CTAs load the same tile of A, and all of a column the same one of B.
"""

from __future__ import annotations

from collections.abc import Iterator

from program import Probe, text

_ROWS, _STAGES, _TURNS, _PITCH = 128, 3, 64, 16384
_REUSED = 512  # bytes of a row
_WARPS = 4


def _tiles(group: int, apart: int) -> str:
    """%r16 and %r17: which tiles."""
    return f"""
    div.u32 %r16, %r15, {group * apart};
    rem.u32 %r17, %r15, {apart};
    mad.lo.u32 %r16, %r16, {apart}, %r17;
    shl.b32 %r16, %r16, 1;
    add.u32 %r17, %r16, 1;"""


def _gemm(columns: int) -> str:
    return f"""
    div.u32 %r16, %r15, {columns};
    rem.u32 %r17, %r15, {columns};
    add.u32 %r17, %r17, 64;"""


def _setup(tiles: str) -> str:
    """%r16 and %r17: the first rows of the two tiles; %r8: the stages; %r30: the next of them."""
    return f"""
    mov.u32 %r15, %ctaid.x;
    {tiles}
    mul.lo.u32 %r16, %r16, {_ROWS};
    mul.lo.u32 %r17, %r17, {_ROWS};
    mov.u32 %r8, dynamic;
    mov.u32 %r30, 0;
    mov.u32 %r40, 0;"""


def _turn(row: int) -> list[str]:
    """%r18: which part of the rows; %r31: the stage."""
    return [
        f"and.b32 %r18, %left, {_REUSED // row - 1};",
        f"mad.lo.u32 %r31, %r30, {2 * _ROWS * row}, %r8;", "add.u32 %r31, %r31, 1024;",
    ]  # fmt: skip


_NEXT = ["add.u32 %r40, %r40, 1;", "add.u32 %r30, %r30, 1;",
         f"setp.eq.u32 %p5, %r30, {_STAGES};", "@%p5 mov.u32 %r30, 0;"]  # fmt: skip


def _dynamic(program: str) -> str:
    stages = ".extern .shared .align 1024 .b8 dynamic[];\n"
    return program.replace(".visible .entry", stages + ".visible .entry", 1)


def _by_threads(row: int, tiles: str) -> str:
    across = row // 16
    below = _WARPS * 32 // across  # rows that an instruction of all threads covers
    setup = f"""{_setup(tiles)}
    mad.lo.u32 %r8, %thread, 16, %r8;
    rem.u32 %r11, %thread, {across};
    div.u32 %r12, %thread, {across};
    shl.b32 %r11, %r11, 4;
    add.u32 %r16, %r16, %r12;
    add.u32 %r17, %r17, %r12;"""
    body = _turn(row)
    for i, first in enumerate(("%r16", "%r17")):
        body += [
            f"mad.lo.u32 %r14, %r18, {row}, %r11;", f"mul.wide.u32 %d{i}, {first}, {_PITCH};",
            f"add.u64 %d{i}, %d{i}, %data;", "cvt.u64.u32 %d8, %r14;",
            f"add.u64 %d{i}, %d{i}, %d8;",
        ]  # fmt: skip
        body += [
            f"cp.async.cg.shared.global [%r31+{i * _ROWS * row + j * _WARPS * 512}], "
            f"[%d{i}+{j * below * _PITCH}], 16;" for j in range(_ROWS // below)
        ]  # fmt: skip
    body += ["cp.async.commit_group;", f"cp.async.wait_group {_STAGES - 1};", "bar.sync 0;"]
    return _dynamic(text([*body, *_NEXT], setup, "cp.async.wait_all;"))


def _by_tma(row: int, tiles: str) -> str:
    """One thread loads; a stage is loaded again once all have waited for it."""
    bars = [f"@%p4 mbarrier.init.shared::cta.b64 [%r8+{8 * i}], 1;" for i in range(_STAGES)]
    setup = "\n".join([
        _setup(tiles), "mov.u32 %r10, 0;", "setp.eq.u32 %p4, %thread, 0;", *bars,
        "fence.proxy.async;", "bar.sync 0;", "mov.b64 %row, map;", "cvta.param.u64 %row, %row;",
    ])  # fmt: skip
    load = ("@%p4 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%r31+{}], [%row, {{%r14, {}}}], [%r32];")  # fmt: skip
    body = [
        *_turn(row), f"mul.lo.u32 %r14, %r18, {row // 2};", "mad.lo.u32 %r32, %r30, 8, %r8;",
        f"setp.lt.u32 %p6, %r40, {_STAGES};", "@%p6 bra FREE;",
        "TURN:", "mbarrier.try_wait.parity.shared::cta.b64 %wait, [%r32], %r10;",
        "@!%wait bra TURN;", "FREE:",
        f"@%p4 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r32], {2 * _ROWS * row};",
        load.format(0, "%r16"), load.format(_ROWS * row, "%r17"), *_NEXT,
        f"setp.gt.u32 %p6, %r40, {_STAGES};", "and.pred %p6, %p6, %p5;",
        "@%p6 xor.b32 %r10, %r10, 1;", "bar.sync 0;",
    ]  # fmt: skip
    return _dynamic(text(body, setup))


def probes() -> Iterator[Probe]:
    """All of them."""
    patterns = {f"{group} load the same, {apart} apart": _tiles(group, apart)
                for group, apart in ((1, 1), (2, 1), (4, 1), (12, 1), (4, 33))}  # fmt: skip
    patterns |= {f"GEMM of {columns} columns": _gemm(columns) for columns in (12, 32)}
    for how, program in (("TMA", _by_tma), ("cp.async", _by_threads)):
        for row in (64, 128):
            for name, tiles in patterns.items():
                yield Probe(
                    f"tiles of L2 by {how} in rows of {row} B, {name}", "B/clk/SM",
                    program(row, tiles),
                    2 * _ROWS * row / _WARPS, warps=_WARPS, ctas=132, repeat=_TURNS, how="rate",
                    smem=1024 + 2 * _ROWS * row * _STAGES, data=(1 << 30, "zeros"),
                    box=(_ROWS, row // 2, f"{row}B") if how == "TMA" else None,
                    parameters={"how": how, "row": row},
                )  # fmt: skip
