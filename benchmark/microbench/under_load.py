"""What a tile loop waits for: loads while all multiprocessors load, with pauses between them.

Each CTA loads a tile of A and one of B, waits for both, computes for ``pause`` clocks, and goes on
to the next tiles: neighbours share rows or columns, as in a GEMM. The value is the clocks of a
turn, the pause among them.
"""

from __future__ import annotations

from collections.abc import Iterator

from program import Probe, registers, text

_TURNS = 32
_COLUMNS = 12  # CTAs that share a tile of A; every twelfth shares one of B
_PAUSE = """
    mov.u32 %r20, %clock;
PAUSED:
    mov.u32 %r21, %clock;
    sub.u32 %r21, %r21, %r20;
    setp.lt.u32 %p3, %r21, {pause};
    @%p3 bra PAUSED;
"""
# %r16 is the tile of A (rows of the matrix), %r17 that of B, whose rows come after, %r18 the turn.
_PLACE = f"""
    mov.u32 %r16, %ctaid.x;
    rem.u32 %r17, %r16, {_COLUMNS};
    div.u32 %r16, %r16, {_COLUMNS};
    add.u32 %r17, %r17, 64;
    mov.u32 %r18, 0;
"""


def _turn(cold: bool) -> list[str]:
    """The second pass reads on where the first one ended, or the same again."""
    first = [f"mul.lo.u32 %r18, %pass, {_TURNS};"] if cold else ["mov.u32 %r18, 0;"]
    return [*first, "sub.u32 %r18, %r18, %left;", f"add.u32 %r18, %r18, {_TURNS};"]


def _tensor(bytes_of_tile: int, pause: int, cold: bool, row: int = 128) -> str:
    """By TMA: one thread loads, all wait. Tiles have rows of ``row`` bytes."""
    rows = bytes_of_tile // row
    setup = f"""
    mov.u32 %r8, buffer;
    mov.u32 %r10, 0;
    setp.eq.u32 %p4, %thread, 0;
    @%p4 mbarrier.init.shared::cta.b64 [%r8], 1;
    fence.proxy.async;
    bar.sync 0;
    mov.b64 %row, map;
    cvta.param.u64 %row, %row;
    {_PLACE}
    mul.lo.u32 %r16, %r16, {rows};
    mul.lo.u32 %r17, %r17, {rows};"""
    load = ("@%p4 cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes "
            "[%r8+{}], [%row, {{%r14, {}}}], [%r8];")  # fmt: skip
    body = [
        *_turn(cold),
        f"mul.lo.u32 %r14, %r18, {row // 2};",
        f"@%p4 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r8], {2 * bytes_of_tile};",
        load.format(1024, "%r16"),
        load.format(1024 + bytes_of_tile, "%r17"),
        "TURN:",
        "mbarrier.try_wait.parity.shared::cta.b64 %wait, [%r8], %r10;",
        "@!%wait bra TURN;",
        "xor.b32 %r10, %r10, 1;",
        *_PAUSE.format(pause=pause).splitlines(),
        "bar.sync 0;",
    ]
    return text(body, setup, shared=1024 + 2 * bytes_of_tile)


def _copies(bytes_of_tile: int, pause: int, cold: bool, row: int, warps: int) -> str:
    """By ``cp.async`` of all threads, of a tile of A and one of B with rows of ``row`` bytes."""
    across, rows = row // 16, bytes_of_tile // row
    below = warps * 32 // across  # rows that an instruction of all threads covers
    setup = f"""{_PLACE}
    mov.u32 %r8, buffer;
    mad.lo.u32 %r8, %thread, 16, %r8;
    mul.lo.u32 %r16, %r16, {rows};
    mul.lo.u32 %r17, %r17, {rows};
    rem.u32 %r11, %thread, {across};
    div.u32 %r12, %thread, {across};
    shl.b32 %r11, %r11, 4;
    add.u32 %r16, %r16, %r12;
    add.u32 %r17, %r17, %r12;"""
    body = _turn(cold)
    for i, first in enumerate(("%r16", "%r17")):
        body += [
            f"mad.lo.u32 %r14, %r18, {row}, %r11;",
            f"mul.wide.u32 %d{i}, {first}, 16384;",
            f"add.u64 %d{i}, %d{i}, %data;",
            "cvt.u64.u32 %d8, %r14;",
            f"add.u64 %d{i}, %d{i}, %d8;",
        ]
        body += [f"cp.async.cg.shared.global [%r8+{i * bytes_of_tile + j * warps * 512}], "
                 f"[%d{i}+{j * below * 16384}], 16;" for j in range(rows // below)]  # fmt: skip
    body += ["cp.async.commit_group;", "cp.async.wait_group 0;", "bar.sync 0;"]
    body += [*_PAUSE.format(pause=pause).splitlines(), "bar.sync 0;"]
    return text(body, setup, shared=2 * bytes_of_tile)


def _threads(loads: int, across: int, pause: int, cold: bool) -> str:
    """By ``ld.global.v4`` of all threads: ``loads`` of A, then as many of B.

    Rows of 16 KiB; ``across`` threads read one, the next ones the row below. So a turn reads
    16 * across bytes of each of its rows.
    """
    setup = f"""{_PLACE}
    mov.u32 %r13, %ntid.x;
    div.u32 %r13, %r13, {across};
    mul.lo.u32 %r13, %r13, {loads};
    mul.lo.u32 %r16, %r16, %r13;
    mul.lo.u32 %r17, %r17, %r13;
    rem.u32 %r11, %thread, {across};
    div.u32 %r12, %thread, {across};
    add.u32 %r16, %r16, %r12;
    add.u32 %r17, %r17, %r12;
    mov.u32 %r19, %ntid.x;
    div.u32 %r19, %r19, {across};
    shl.b32 %r19, %r19, 14;
    shl.b32 %r11, %r11, 4;"""
    body = _turn(cold)
    for i, row in enumerate(("%r16", "%r17")):
        body += [
            f"mad.lo.u32 %r14, %r18, {16 * across}, %r11;",
            f"mul.wide.u32 %d{i}, {row}, 16384;",
            f"add.u64 %d{i}, %d{i}, %data;",
            "cvt.u64.u32 %d8, %r14;",
            f"add.u64 %d{i}, %d{i}, %d8;",
        ]
        for j in range(loads):
            to = registers("r", 100 + 64 * i + 4 * j, 4)
            body += [f"ld.global.{'nc' if cold else 'cg'}.v4.u32 {to}, [%d{i}];"]
            if j + 1 < loads:
                body += ["cvt.u64.u32 %d9, %r19;", f"add.u64 %d{i}, %d{i}, %d9;"]
        body += [f"xor.b32 %sink, %sink, %r{100 + 64 * i + 4 * j + k};"
                 for j in range(loads) for k in range(4)]  # fmt: skip
        body += ["setp.eq.u32 %p6, %sink, 305419896;", "@%p6 st.global.u32 [%out], %sink;"]
    body += [*_PAUSE.format(pause=pause).splitlines(), "bar.sync 0;"]
    return text(body, setup)


def _probe(name: str, program: str, pause: int, **how) -> Probe:
    return Probe(
        f"turn of a tile loop, {name}, pause of {pause}", "clk", program, 1, repeat=_TURNS,
        data=(1 << 30, "zeros"), how="turn", parameters={"pause": pause}, **how,
    )  # fmt: skip


def probes() -> Iterator[Probe]:
    """All of them."""
    for place in ("L2", "HBM"):
        cold = place == "HBM"
        for ctas in (1, 132):
            for size in (8192, 16384):
                for pause in (1, 600, 1200):
                    yield _probe(
                        f"TMA, 2 x {size} B, {ctas} CTAs, {place}", _tensor(size, pause, cold),
                        pause, warps=8, ctas=ctas, box=(size // 128, 64, "128B"),
                    )  # fmt: skip
            for loads, across in ((1, 2), (1, 32), (2, 8), (4, 8)):
                for pause in (1, 1000):
                    yield _probe(
                        f"{loads} ld.v4 of {16 * across} B, 8 warps, {ctas} CTAs, {place}",
                        _threads(loads, across, pause, cold), pause, warps=8, ctas=ctas,
                    )  # fmt: skip
        for ctas in (1, 132, 264):
            for row in (64, 128):
                for warps, pause in ((4, 1), (8, 1), (8, 600)):
                    yield _probe(
                        f"cp.async, 2 x 8192 B in rows of {row} B, {warps} warps, {ctas} CTAs, "
                        f"{place}", _copies(8192, pause, cold, row, warps), pause,
                        warps=warps, ctas=ctas,
                    )  # fmt: skip
            for pause in (1, 600):
                yield _probe(
                    f"TMA, 2 x 8192 B in rows of 64 B, {ctas} CTAs, {place}",
                    _tensor(8192, pause, cold, 64), pause, warps=8, ctas=ctas,
                    box=(128, 32, "64B"),
                )  # fmt: skip
    for size in (8192, 16384):
        for pause in (600, 1200):
            yield _probe(
                f"TMA, 2 x {size} B, 264 CTAs, HBM", _tensor(size, pause, True), pause,
                warps=8, ctas=264, box=(size // 128, 64, "128B"),
            )  # fmt: skip
