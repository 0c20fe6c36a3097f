"""Shared and global memory: latencies, bank conflicts, sectors, caches, bandwidth of some CTAs."""

from __future__ import annotations

from collections.abc import Iterator

from program import Probe, registers, text

_WIDTHS = {4: ("u32", 1), 8: ("v2.u32", 2), 16: ("v4.u32", 4)}
_LINKS = 32
# %r9 is zero, which the compiler does not know: no load is the same as one of another turn.
_STEP = "add.u32 %r8, %r8, %r9;"


def _shared_chase(load: str) -> str:
    setup = """
    mov.u32 %r8, buffer;
    st.shared.u32 [%r8], %r8;
    st.shared.v4.u32 [%r8], {%r8, %r8, %r8, %r8};
    bar.sync 0;"""
    return text([load] * _LINKS, setup, sinks=["%r8"], shared=1024)


def _shared_latency() -> Iterator[Probe]:
    loads = {
        "ld.shared.u32": "ld.shared.u32 %r8, [%r8];",
        "ld.shared.v4": "ld.shared.v4.u32 {%r8, %r9, %r10, %r11}, [%r8];",
        "ldmatrix.x4": "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r8, %r9, %r10, %r11}, [%r8];",
        "ldmatrix.x1": "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r8];",
        "atom.shared.add": "atom.shared.add.u32 %r9, [%r8], 0; and.b32 %r9, %r9, 0; "
        "add.u32 %r8, %r8, %r9;",
    }
    for name, load in loads.items():
        if name == "atom.shared.add":  # its result is the next address only formally
            load = "atom.shared.max.u32 %r8, [%r8], 0;"
            name = "atom.shared.max"
        yield Probe(f"{name} latency", "clk", _shared_chase(load), _LINKS)


def _conflicts() -> Iterator[Probe]:
    """A warp's lanes are ``stride`` bytes apart; the port's time a warp instruction."""
    for width, (kind, count) in _WIDTHS.items():
        for stride in [
            0,
            *(s for s in (4, 8, 12, 16, 20, 32, 48, 64, 128, 132, 144) if s >= width),
        ]:
            if stride % width:
                continue
            setup = f"""
    mov.u32 %r8, buffer;
    mad.lo.u32 %r8, %lane, {stride}, %r8;
    ld.global.u32 %r9, [%data];"""
            for access in ("ld", "st"):
                values = [registers("r", 16 + 4 * i * (access == "ld"), count)
                          for i in range(_LINKS)]  # fmt: skip
                body = [
                    f"ld.volatile.shared.{kind} {value}, [%r8+{16 * i}];"
                    if access == "ld"
                    else f"st.volatile.shared.{kind} [%r8+{16 * i}], {value};"
                    for i, value in enumerate(values)
                ]
                zeros = "\n".join(f"    mov.u32 %r{16 + i}, 0;" for i in range(4))
                yield Probe(
                    f"{access}.shared.{kind} stride {stride}", "clk/warp/SM",
                    text([*body, _STEP], setup + "\n" + zeros, shared=8192), _LINKS,
                    warps=8, how="sm", parameters={"width": width, "stride": stride},
                )  # fmt: skip


def _matrices() -> Iterator[Probe]:
    for stride in (16, 32, 64, 128, 144):
        setup = f"""
    mov.u32 %r8, buffer;
    mad.lo.u32 %r8, %lane, {stride}, %r8;
    ld.global.u32 %r9, [%data];
    mov.u32 %r16, 0;
    mov.u32 %r17, 0;
    mov.u32 %r18, 0;
    mov.u32 %r19, 0;"""
        forms = {
            "ldmatrix.x4": "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {0}, [%r8+{1}];",
            "ldmatrix.x4.trans": "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {0}, [%r8+{1}];",
            "stmatrix.x4": "stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r8+{1}], {0};",
        }
        for name, form in forms.items():
            # Registers of their own, all used in each turn: else only the last loads would be left.
            body = [form.format(registers('r', 16 + 4 * i * (name[0] == "l"), 4), 16 * i)
                    for i in range(_LINKS)]  # fmt: skip
            if name[0] == "l":
                body += [f"xor.b32 %sink, %sink, %r{16 + 4 * i};" for i in range(_LINKS)]
            yield Probe(
                f"{name} row stride {stride}", "clk/warp/SM",
                text([*body, _STEP], setup, shared=8192), _LINKS,
                warps=8, how="sm", parameters={"stride": stride},
            )  # fmt: skip


def _global_latency() -> Iterator[Probe]:
    """Chases through working sets that lie in L1, in L2, and in neither."""
    body = ["cvt.u64.u32 %d8, %r8; add.u64 %d8, %data, %d8; ld.global{op}.u32 %r8, [%d8];"] * _LINKS
    places = [
        ("L1", "", 16 << 10, 128, 64),
        ("L2, 1 MiB", ".cg", 1 << 20, 128, 256),
        ("L2, 16 MiB", ".cg", 16 << 20, 2048, 256),
        ("HBM, 256 MiB", ".cg", 256 << 20, 128, 128),
        ("HBM, 1 GiB", ".cg", 1 << 30, 4096, 128),
    ]
    for name, op, size, line, repeat in places:
        program = text([link.format(op=op) for link in body], "    mov.u32 %r8, 0;", sinks=["%r8"])
        yield Probe(
            f"ld.global latency, {name}", "clk", program, _LINKS, repeat=repeat,
            data=(size, f"chase {line}"),
        )  # fmt: skip
    atomic = "atom.global.max.u32 %r8, [%data], %r8;"
    yield Probe("atom.global latency", "clk", text([atomic] * 8, sinks=["%r8"]), 8)


_STREAM = """
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %nctaid.x;
    mul.wide.u32 %row, %r0, {chunk};
    add.u64 %row, %data, %row;
    mul.wide.u32 %d8, %thread, {lane_bytes};
    add.u64 %row, %row, %d8;
    mul.wide.u32 %d9, %r1, {chunk};
    mov.u64 %at, %row;"""


def _stream(
    width: int, loads: int, threads: int, lane_bytes: int, store: bool, again: bool = False
) -> str:
    """CTAs take chunks in turn; a thread has ``loads`` accesses in flight.

    The second pass takes other bytes than the first one unless it is to find them in L2 ``again``.
    """
    chunk = loads * threads * lane_bytes
    kind, count = _WIDTHS[width]
    setup = _STREAM.format(chunk=chunk, lane_bytes=lane_bytes)
    zeros = "\n".join(f"    mov.u32 %r{100 + i}, 0;" for i in range(4 * loads))
    body = [
        f"st.global.{kind} [%at+{i * threads * lane_bytes}], {registers('r', 100, count)};"
        if store
        else f"ld.global.{kind} {registers('r', 100 + 4 * i, count)}, "
        f"[%at+{i * threads * lane_bytes}];"
        for i in range(loads)
    ]
    if not store:
        body += [f"xor.b32 %sink, %sink, %r{100 + 4 * i};" for i in range(loads)]
    body.append("add.u64 %at, %at, %d9;")
    return text(body, setup + "\n" + zeros, finish="    mov.u64 %at, %row;" if again else "")


def _bandwidth() -> Iterator[Probe]:
    """Bytes a nanosecond of CTAs with 1024 threads: of HBM, of L2, stores; by number of CTAs."""
    threads, loads = 1024, 4
    for ctas in (1, 2, 4, 8, 16, 33, 66, 132):
        for store in (False, True):
            program = _stream(16, loads, threads, 16, store)
            chunk = loads * threads * 16
            total = min(1 << 30, ctas * chunk * 256)
            kind = "st" if store else "ld"
            yield Probe(
                f"HBM {kind} bandwidth, {ctas} CTAs", "B/ns", program, loads * 32 * 16 * 2,
                warps=32, ctas=ctas, repeat=total // (ctas * chunk), data=(2 << 30, "zeros"),
                how="bandwidth", parameters={"ctas": ctas},
            )  # fmt: skip
        program = _stream(16, loads, threads, 16, False, again=True).replace(
            "ld.global.", "ld.global.cg."
        )
        yield Probe(
            f"L2 ld bandwidth, {ctas} CTAs", "B/clk/SM", program, loads * 32 * 16, warps=32,
            ctas=ctas, repeat=2, data=(2 << 30, "zeros"), how="rate", parameters={"ctas": ctas},
        )  # fmt: skip


def _in_flight() -> Iterator[Probe]:
    """Bandwidth of HBM by what a multiprocessor has in flight."""
    for warps in (2, 4, 8, 16):
        for loads in (1, 2, 4, 8):
            chunk = loads * warps * 512
            yield Probe(
                f"HBM ld, 132 CTAs of {warps} warps, {loads} x 16 B in flight", "B/ns",
                _stream(16, loads, warps * 32, 16, False), loads * 32 * 16 * 2, warps=warps,
                ctas=132, repeat=max(1, (64 << 20) // (132 * chunk)) * 4,
                data=(2 << 30, "zeros"), how="bandwidth",
                parameters={"bytes_in_flight": chunk},
            )  # fmt: skip


def _sectors() -> Iterator[Probe]:
    """Lanes some bytes apart: time of a warp's load where all hit L1, and where L2 answers."""
    for op, place in (("ca", "L1"), ("cg", "L2")):
        for stride in (4, 8, 16, 32, 64, 128):
            setup = f"""
    ld.global.u32 %r9, [%data];
    cvt.u64.u32 %d9, %r9;
    mul.wide.u32 %d8, %thread, {stride};
    add.u64 %d8, %data, %d8;"""
            offsets = [i * 128 * stride for i in range(8)]  # four warps side by side
            body = [f"ld.global.{op}.u32 %r{16 + i}, [%d8+{at}];" for i, at in enumerate(offsets)]
            body += [f"xor.b32 %sink, %sink, %r{16 + i};" for i in range(8)]
            body.append("add.u64 %d8, %d8, %d9;")  # zero, which the compiler does not know
            yield Probe(
                f"ld.global {place} stride {stride}", "clk/warp/SM", text(body, setup), 8,
                warps=4, repeat=32, data=(1 << 20, "zeros"), how="sm",
                parameters={"stride": stride},
            )  # fmt: skip


def _atomics() -> Iterator[Probe]:
    """Additions whose results nobody needs; lanes side by side, or some of them at one address."""
    for lanes in (1, 2, 8, 32):
        setup = f"""
    mov.u32 %r8, buffer;
    shr.u32 %r9, %lane, {lanes.bit_length() - 1};
    mad.lo.u32 %r8, %r9, 4, %r8;
    mad.lo.u32 %r8, %warp, 128, %r8;
    mov.u32 %r10, buffer;
    sub.u32 %r9, %r8, %r10;
    mul.wide.u32 %d8, %r9, 1;
    add.u64 %d8, %data, %d8;"""
        shared = ["red.shared.add.u32 [%r8], 1;"] * 8
        distant = ["red.global.add.u32 [%d8], 1;"] * 8
        yield Probe(
            f"red.shared.add, {lanes} lanes at one address", "clk/warp/SM",
            text(shared, setup, shared=4096), 8, warps=8, how="sm", parameters={"lanes": lanes},
        )  # fmt: skip
        yield Probe(
            f"red.global.add, {lanes} lanes at one address", "clk/warp/SM",
            text(distant, setup, shared=4096), 8, warps=8, how="sm", parameters={"lanes": lanes},
        )  # fmt: skip


def _random_sectors() -> Iterator[Probe]:
    """Lanes that read random places of a table: bytes that they use, all multiprocessors."""
    for log2 in (16, 22, 25, 28, 31):
        setup = f"""
    mov.u32 %r0, %ctaid.x;
    mov.u32 %r1, %ntid.x;
    mad.lo.u32 %r8, %r0, %r1, %thread;
    mad.lo.u32 %r8, %r8, 2654435761, 12345;
    mov.u32 %r9, {(1 << log2) // 4 - 1};"""
        body = []
        for i in range(8):
            body += [
                "mad.lo.u32 %r8, %r8, 1664525, 1013904223;", "shr.u32 %r10, %r8, 3;",
                "and.b32 %r10, %r10, %r9;", "mul.wide.u32 %d8, %r10, 4;",
                "add.u64 %d8, %data, %d8;", f"ld.global.cg.u32 %r{16 + i}, [%d8];",
            ]  # fmt: skip
        body += [f"xor.b32 %sink, %sink, %r{16 + i};" for i in range(8)]
        yield Probe(
            f"random words of {1 << log2} B, 132 CTAs of 32 warps", "B/ns", text(body, setup),
            8 * 32 * 4 * 2, warps=32, ctas=132, repeat=32, data=(1 << 31, "zeros"),
            how="bandwidth", parameters={"bytes": 1 << log2},
        )  # fmt: skip


def _shared_lines() -> Iterator[Probe]:
    """Bytes a clock of L2 where some CTAs read the same 128 KiB, again and again."""
    for ctas, sharers in ((1, 1), (33, 1), (132, 1), (132, 2), (132, 4), (132, 12), (132, 132)):
        setup = f"""
    mov.u32 %r0, %ctaid.x;
    div.u32 %r0, %r0, {sharers};
    mul.wide.u32 %row, %r0, 131072;
    add.u64 %row, %data, %row;
    mul.wide.u32 %d8, %thread, 16;
    add.u64 %row, %row, %d8;
    mov.u64 %d9, 0;"""
        body = ["add.u64 %at, %row, %d9;"]
        body += [f"ld.global.cg.v4.u32 {registers('r', 100 + 4 * i, 4)}, [%at+{i * 16384}];"
                 for i in range(4)]  # fmt: skip
        body += [f"xor.b32 %sink, %sink, %r{100 + 4 * i};" for i in range(4)]
        body.append("xor.b64 %d9, %d9, 65536;")
        yield Probe(
            f"L2 ld of 128 KiB, {ctas} CTAs, {sharers} the same", "B/clk/SM", text(body, setup),
            4 * 32 * 16, warps=32, ctas=ctas, repeat=32, data=(64 << 20, "zeros"), how="rate",
            parameters={"ctas": ctas, "sharers": sharers},
        )  # fmt: skip


def _scattered_stores() -> Iterator[Probe]:
    """Stores of words whose lanes are some bytes apart, into lines that L2 has, by all SMs."""
    for ctas in (1, 132):
        for stride in (4, 8, 16, 32, 128, 4096):
            setup = f"""
    mov.u32 %r0, %ctaid.x;
    mul.wide.u32 %row, %r0, 131072;
    add.u64 %row, %data, %row;
    mul.wide.u32 %d8, %lane, {stride};
    add.u64 %row, %row, %d8;
    mul.wide.u32 %d8, %warp, 4;
    add.u64 %row, %row, %d8;"""
            body = [f"st.global.u32 [%row+{i * 32}], %thread;" for i in range(16)]
            yield Probe(
                f"st.global of {ctas} CTAs, stride {stride}", "clk/warp/SM", text(body, setup), 16,
                warps=8, ctas=ctas, repeat=16, data=(64 << 20, "zeros"), how="sm",
                parameters={"stride": stride},
            )  # fmt: skip


def _tiles() -> Iterator[Probe]:
    """Copies of tiles of 16 KiB: segments of some bytes of rows that are 32 KiB apart.

    Neighbouring CTAs have neighbouring segments of the same rows ("in order"), or the same columns
    of neighbouring rows ("across"); they read in the one order and write in the other.
    """
    for width in (64, 128, 256, 512, 1024):
        for reads, writes in ((0, 0), (1, 0), (0, 1)):
            rows, lanes, across = 16384 // width, width // 16, 32768 // width
            setup = f"""
    mov.u32 %r8, %ctaid.x;
    shr.u32 %r9, %thread, {lanes.bit_length() - 1};
    and.b32 %r10, %thread, {lanes - 1};
    mul.wide.u32 %d8, %r9, 32768;
    mul.wide.u32 %d9, %r10, 16;
    add.u64 %d8, %d8, %d9;
    add.u64 %d8, %data, %d8;"""
            tiles = 8192 // rows  # one above the other
            place = []
            for name, swapped in (("%d10", reads), ("%d11", writes)):
                inner, outer = (tiles, rows * 32768) if swapped else (across, width)
                step = width if swapped else rows * 32768
                place += [
                    f"rem.u32 %r11, %r8, {inner};", f"div.u32 %r12, %r8, {inner};",
                    f"mul.wide.u32 %d12, %r11, {outer};", f"mul.wide.u32 %d13, %r12, {step};",
                    f"add.u64 {name}, %d12, %d13;", f"add.u64 {name}, %d8, {name};",
                ]  # fmt: skip
            per_turn = 256 // lanes  # rows that 256 threads take at once
            offsets = [i * per_turn * 32768 for i in range(4)]
            body = [*place]
            body += [f"ld.global.v4.u32 {registers('r', 100 + 4 * i, 4)}, [%d10+{at}];"
                     for i, at in enumerate(offsets)]  # fmt: skip
            body += ["add.u64 %d11, %d11, 268435456;"]
            body += [f"st.global.v4.u32 [%d11+{at}], {registers('r', 100 + 4 * i, 4)};"
                     for i, at in enumerate(offsets)]  # fmt: skip
            body.append("add.u32 %r8, %r8, 8192;")  # the second pass takes the other half
            orders = ["in order", "across"]
            yield Probe(
                f"copy of tiles of {width} B, read {orders[reads]}, written {orders[writes]}",
                "B/ns", text(body, setup), 2 * 2 * 4 * 32 * 16, warps=8, ctas=8192, repeat=1,
                data=(1 << 29, "zeros"), how="bandwidth", parameters={"bytes": width},
            )  # fmt: skip


def probes() -> Iterator[Probe]:
    """All of them."""
    yield from _shared_lines()
    yield from _scattered_stores()
    yield from _tiles()
    yield from _shared_latency()
    yield from _conflicts()
    yield from _matrices()
    yield from _global_latency()
    yield from _in_flight()
    yield from _sectors()
    yield from _bandwidth()
    yield from _atomics()
    yield from _random_sectors()
