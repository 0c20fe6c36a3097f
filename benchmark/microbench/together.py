"""Engines side by side: what wgmma, TMA, loads of shared memory and arithmetic leave each other.

Warps 0 to 7 are two warpgroups that multiply; one more warp copies, or four more load. The group
that is timed ends first: the other one has more to do.
"""

from __future__ import annotations

from collections.abc import Iterator

from program import Probe, mma_of_warp, registers, text

_MULTIPLIERS = 8
_BATCH = 16
_STAGES, _BYTES = 4, 16384
_TILES = 45056  # bytes of operands before the stages


def _multiply(n: int) -> tuple[list[str], list[str]]:
    """Set-up and body: a batch of m64nNk16, A and B in shared memory."""
    sums = registers("f", 8, n // 2)
    setup = [f"mov.f32 %f{8 + i}, 0f00000000;" for i in range(n // 2)]
    setup += [
        "mov.u32 %r1, buffer;", "shr.u32 %r1, %r1, 4;", "and.b32 %r1, %r1, 16383;",
        "cvt.u64.u32 %d8, %r1;", f"mov.u64 %d10, {(1 << 62) | (64 << 32) | (1 << 16)};",
        "or.b64 %d8, %d8, %d10;", "add.u64 %d9, %d8, 512;",
    ]  # fmt: skip
    one = f"wgmma.mma_async.sync.aligned.m64n{n}k16.f32.bf16.bf16 {sums}, %d8, %d9, 1, 1, 1, 0, 0;"
    wait = ["wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]
    return setup, ["wgmma.fence.sync.aligned;", *[one] * _BATCH, *wait]


def _copies(count: int) -> tuple[list[str], list[str], list[str]]:
    """Set-up, body and end of one thread of warp 8: ``count`` copies from L2, four in flight."""

    def fetch(stage: int) -> list[str]:
        bar = f"%r20+{8 * stage}"
        return [
            f"@%p4 mbarrier.arrive.expect_tx.shared::cta.b64 _, [{bar}], {_BYTES};",
            "@%p4 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
            f"[%r21+{stage * _BYTES}], [%data], {_BYTES}, [{bar}];",
        ]

    def wait(name: str, stage: int) -> list[str]:
        return [
            f"{name}{stage}:",
            f"mbarrier.try_wait.parity.shared::cta.b64 %wait, [%r20+{8 * stage}], %r22;",
            f"@!%wait bra {name}{stage};",
        ]

    setup = [
        "mov.u32 %r20, buffer;", f"add.u32 %r21, %r20, {_TILES + 1024};",
        f"add.u32 %r20, %r20, {_TILES};", "mov.u32 %r22, 0;", "mov.u32 %r23, 0;",
        f"setp.eq.u32 %p4, %thread, {32 * _MULTIPLIERS};",
        *(f"@%p4 mbarrier.init.shared::cta.b64 [%r20+{8 * s}], 1;" for s in range(_STAGES)),
        "fence.proxy.async;", "bar.sync 0;",
    ]  # fmt: skip
    for stage in range(_STAGES):
        setup += fetch(stage)
    body = [f"mov.u32 %r23, {count // _STAGES};", "TURN:"]
    for stage in range(_STAGES):
        body += [*wait("W", stage), *fetch(stage)]
    body += ["xor.b32 %r22, %r22, 1;", "sub.u32 %r23, %r23, 1;",
             "setp.ne.u32 %p6, %r23, 0;", "@%p6 bra TURN;"]  # fmt: skip
    end = [line for stage in range(_STAGES) for line in wait("E", stage)]
    return setup, body, end


def _loads(count: int, kind: str) -> tuple[list[str], list[str]]:
    """Set-up and body of warps of their own: loads of shared memory, shuffles, or arithmetic."""
    setup = ["mov.u32 %r24, buffer;", f"add.u32 %r24, %r24, {_TILES + 2048};",
             "mad.lo.u32 %r24, %lane, 16, %r24;"]  # fmt: skip
    one = {
        "ld.shared.v4": "ld.volatile.shared.v4.u32 {{{0}, {1}, {2}, {3}}}, [%r24];",
        "shfl": "shfl.sync.bfly.b32 {0}, {0}, 1, 31, -1;",
        "fma": "fma.rn.f32 %f9{4}, %f9{4}, %fa, %fb;",
        "max": "max.f32 %f9{4}, %f9{4}, %fa;",
        "ex2": "ex2.approx.ftz.f32 %f9{4}, %f9{4};",
    }[kind]
    links = [one.format(*(f"%r{30 + 4 * (i % 8) + j}" for j in range(4)), f"{i % 8:02}")
             for i in range(16)]  # fmt: skip
    if "%f9" in one:
        setup += [f"mov.f32 %f9{i:02}, %fa;" for i in range(8)]
    body = [f"mov.u32 %r25, {count};", "TURN:", *links, "sub.u32 %r25, %r25, 1;",
            "setp.ne.u32 %p6, %r25, 0;", "@%p6 bra TURN;"]  # fmt: skip
    return setup, body


def _program(n: int, others: tuple[list[str], ...]) -> str:
    setup, multiply = _multiply(n)
    other_setup, other_body, *end = others
    zeros = [f"mov.b32 %r{30 + i}, 0;" for i in range(32)]
    setup += [*zeros, *other_setup, f"setp.lt.u32 %p5, %warp, {_MULTIPLIERS};"]
    body = ["@!%p5 bra OTHER;", *multiply, "bra JOIN;", "OTHER:", *other_body, "JOIN:"]
    finish = [f"mov.b32 %r{600 + i}, %f{8 + i};" for i in range(n // 2)]
    if any("%f9" in line for line in other_setup):  # or nobody would need what they compute
        finish += [f"mov.b32 %r{30 + i}, %f9{i:02};" for i in range(8)]
    program = text(body, "\n".join(setup), sinks=[f"%r{600 + i}" for i in range(n // 2)]
                   + [f"%r{30 + i}" for i in range(32)],
                   shared=_TILES + 1024 + _STAGES * _BYTES)  # fmt: skip
    program = program.replace("    xor.b32 %sink", "\n".join(finish) + "\n    xor.b32 %sink", 1)
    drain = "\n".join(["@%p5 bra DRAINED;", *(end[0] if end else []), "DRAINED:"])
    program = program.replace("map[128])", "map[128])\n.maxntid 384", 1)
    return program.replace("    mov.u32 %r0, %ctaid.x;", f"{drain}\n    mov.u32 %r0, %ctaid.x;", 1)


def _tensor_probes() -> Iterator[Probe]:
    for n in (64, 128, 256):
        most = n // 4  # copies that take longer than a batch of both warpgroups
        for kind in ("copies", "ld.shared.v4", "shfl", "fma", "max", "ex2"):
            warps = _MULTIPLIERS + (1 if kind == "copies" else 4)
            for timed in ("wgmma", kind):
                # Loads: 16 a turn and warp; a batch lasts 8 n clocks.
                count = 2 * n if timed == "wgmma" else n // 16
                if kind == "copies":
                    count = most if timed == "wgmma" else max(4, most // 4)
                others = _copies(count) if kind == "copies" else _loads(count, kind)
                counted = (
                    2 * _BATCH if timed == "wgmma" else count * (1 if kind == "copies" else 64)
                )
                part = (0, _MULTIPLIERS) if timed == "wgmma" else (_MULTIPLIERS, warps)
                probe = Probe(
                    f"{timed} beside {kind if timed == 'wgmma' else 'wgmma'}, m64n{n}k16",
                    "clk/copy/SM" if timed == "copies" else "clk/warp/SM"
                    if timed != "wgmma" else "clk/warpgroup/SM",
                    _program(n, others), counted / (part[1] - part[0]), warps=warps, repeat=16,
                    how="sm", part=part, parameters={"n": n},
                )  # fmt: skip
                yield probe


def _fragments() -> Iterator[Probe]:
    """The inner loop of a product by mma.sync: 64 x 64 of a warp, eight ldmatrix.x4 for 32 mma."""
    setup = ["mov.u32 %r8, buffer;", "mad.lo.u32 %r8, %thread, 16, %r8;",
             "ld.global.u32 %r9, [%data];"]  # fmt: skip
    setup += [f"mov.f32 %f{8 + i}, %fa;" for i in range(128)]
    setup += [f"mov.b32 %r{100 + i}, %one;" for i in range(32)]
    moves = [f"ldmatrix.sync.aligned.m8n8.x4.shared.b16 {registers('r', 100 + 4 * i, 4)}, "
             f"[%r8+{16384 * (i % 2)}];" for i in range(8)]  # fmt: skip
    products = mma_of_warp()
    finish = [f"mov.b32 %r{600 + i}, %f{8 + i};" for i in range(128)]
    for warps in (4, 8, 12):
        for name, body in {
            "8 ldmatrix.x4, 32 mma": [*moves, *products],
            "32 mma": products,
        }.items():
            # A step of zero, which the compiler does not know.
            program = text(
                [*body, "add.u32 %r8, %r8, %r9;"], "\n".join(setup),
                sinks=[f"%r{600 + i}" for i in range(128)], shared=49152,
            )  # fmt: skip
            program = program.replace(
                "    xor.b32 %sink", "\n".join(finish) + "\n    xor.b32 %sink", 1
            )
            yield Probe(f"{name}, {warps} warps", "clk/warp/sub-core", program, 1, warps=warps,
                        repeat=32, how="interval")  # fmt: skip


def _softmax() -> Iterator[Probe]:
    """A row's part of the weights: 64 scores of a thread become exponentials, their sum, bf16."""
    scores, weights = range(8, 72), range(100, 164)
    setup = [f"cvt.rn.f32.u32 %f{i}, {i}; add.f32 %f{i}, %f{i}, %fa;" for i in scores]
    setup += ["mov.f32 %f3, %fa;", "mov.f32 %f4, %fa;"]
    parts = {
        "max": [f"max.f32 %f3, %f3, %f{i};" for i in scores],
        "ex2": [f"fma.rn.f32 %f{w}, %f{s}, %fa, %f4; ex2.approx.ftz.f32 %f{w}, %f{w};"
                for s, w in zip(scores, weights, strict=True)],
        "sum": [f"add.f32 %f{s}, %f{s}, %f{w};" for s, w in zip(scores, weights, strict=True)],
        "pack": [f"cvt.rn.bf16x2.f32 %r{w}, %f{w}, %f{w + 1}; xor.b32 %sink, %sink, %r{w};"
                 for w in weights[::2]],
    }  # fmt: skip
    choices = (("max",), ("ex2",), ("ex2", "sum"), ("ex2", "pack"), ("max", "ex2", "sum", "pack"))
    for warps in (4, 8, 12):
        for names in choices:
            body = ["add.f32 %f4, %f4, %fa;", *(line for name in names for line in parts[name])]
            if "pack" not in names:
                body += [f"mov.b32 %r{i}, %f{i}; xor.b32 %sink, %sink, %r{i};"
                         for i in (3, *weights) if i == 3 or "ex2" in names]  # fmt: skip
            yield Probe(f"softmax of 64: {', '.join(names)}, {warps} warps", "clk/warp/sub-core",
                        text(body, "\n".join(setup)), 1, warps=warps, repeat=16,
                        how="interval")  # fmt: skip


def probes() -> Iterator[Probe]:
    """All of them."""
    yield from _tensor_probes()
    yield from _fragments()
    yield from _softmax()
