"""mma.sync and wgmma: latency of a chain on one accumulator, and the tensor pipe's interval."""

from __future__ import annotations

from collections.abc import Iterator

from program import Probe, registers, text

#: shape, types of D, A, B and C, registers of D, A and B, letter of D
_MMA = [
    ("m16n8k16", "f32.bf16.bf16.f32", (4, 4, 2), "f"),
    ("m16n8k16", "f32.f16.f16.f32", (4, 4, 2), "f"),
    ("m16n8k16", "f16.f16.f16.f16", (2, 4, 2), "r"),
    ("m16n8k8", "f32.bf16.bf16.f32", (4, 2, 1), "f"),
    ("m16n8k8", "f32.tf32.tf32.f32", (4, 4, 2), "f"),
    ("m16n8k32", "s32.s8.s8.s32", (4, 4, 2), "r"),
    ("m8n8k4", "f64.f64.f64.f64", (2, 1, 1), "g"),
]
_LINKS = 32
#: wgmma: types, elements of K, operands
_WGMMA = [
    ("f32.bf16.bf16", 16, 2),
    ("f32.f16.f16", 16, 2),
    ("f16.f16.f16", 16, 2),
    ("f32.tf32.tf32", 8, 4),
    ("f32.e4m3.e4m3", 32, 1),
    ("s32.s8.s8", 32, 1),
]


def _mma(shape: str, types: str, counts: tuple[int, int, int], letter: str, chains: int) -> str:
    d, a, b = counts
    operand = "g" if letter == "g" else "r"
    first = {"r": 500, "g": 40}[operand]
    move = {"f": "mov.f32 {}, %fa;", "r": "mov.b32 {}, %thread;", "g": "mov.f64 {}, %ga;"}
    fill = {"r": "mov.b32 {}, %one;", "g": "mov.f64 {}, %ga;"}[operand]
    setup = [move[letter].format(f"%{letter}{8 + i}") for i in range(d * chains)]
    setup += [fill.format(f"%{operand}{first + i}") for i in range(a + b)]
    rows = ".row.col"
    body = []
    for i in range(_LINKS):
        sums = registers(letter, 8 + d * (i % chains), d)
        body.append(
            f"mma.sync.aligned.{shape}{rows}.{types} {sums}, {registers(operand, first, a)}, "
            f"{registers(operand, first + a, b)}, {sums};"
        )
    narrow = {"f": "mov.b32 %r{1}, %f{0};", "r": "mov.b32 %r{1}, %r{0};",
              "g": "cvt.rn.f32.f64 %f1, %g{0}; mov.b32 %r{1}, %f1;"}[letter]  # fmt: skip
    finish = [narrow.format(8 + d * i, 600 + i) for i in range(chains)]
    program = text(body, "\n".join(setup), sinks=[f"%r{600 + i}" for i in range(chains)])
    return program.replace("    xor.b32 %sink", "\n".join(finish) + "\n    xor.b32 %sink", 1)


def _mma_probes() -> Iterator[Probe]:
    for shape, types, counts, letter in _MMA:
        name = f"mma.sync {shape} {types}"
        yield Probe(f"{name} latency", "clk", _mma(shape, types, counts, letter, 1), _LINKS)
        for warps in (4, 8, 16):
            yield Probe(
                f"{name} interval, {warps} warps", "clk/warp/sub-core",
                _mma(shape, types, counts, letter, 8), _LINKS, warps=warps, how="interval",
            )  # fmt: skip


def _wgmma(
    types: str, n: int, k: int, from_registers: bool, batch: int, issue: bool = False
) -> str:
    """``batch`` instructions on one accumulator, and the wait for all of them.

    With ``issue`` the clocks (of both passes) from the first one to what follows the last one are
    told, without the wait.
    """
    whole = types.startswith("s32")
    letter = "r" if whole or types.startswith("f16") else "f"
    count = n // 4 if types.startswith("f16") else n // 2
    sums = registers(letter, 8, count)
    zero = {"r": "mov.b32 {}, 0;", "f": "mov.f32 {}, 0f00000000;"}[letter]
    setup = [zero.format(f"%{letter}{8 + i}") for i in range(count)]
    setup += [f"mov.b32 %r{500 + i}, 0;" for i in range(4)]
    # 128-byte swizzle, rows of eight at 1024 bytes: 64 rows of A, then n of B.
    setup += [
        "mov.u32 %r1, buffer;", "shr.u32 %r1, %r1, 4;", "and.b32 %r1, %r1, 16383;",
        "cvt.u64.u32 %d8, %r1;", f"mov.u64 %d10, {(1 << 62) | (64 << 32) | (1 << 16)};",
        "or.b64 %d8, %d8, %d10;", "add.u64 %d9, %d8, 512;",
        "mov.u32 %r2, buffer;",
    ]  # fmt: skip
    a = registers("r", 500, 4) if from_registers else "%d8"
    half = ".bf16" in types or ".f16" in types
    scales = "" if whole else ", 1, 1"
    transposes = "" if not half else (", 0" if from_registers else ", 0, 0")
    one = (
        f"wgmma.mma_async.sync.aligned.m64n{n}k{k}.{types} {sums}, {a}, %d9, 1{scales}{transposes};"
    )
    body = ["wgmma.fence.sync.aligned;", *[one] * batch,
            "wgmma.commit_group.sync.aligned;", "wgmma.wait_group.sync.aligned 0;"]  # fmt: skip
    told = ""
    if issue:
        setup.append("mov.u64 %d22, 0;")
        body[1:1] = ["mov.u64 %d20, %clock64;"]
        body[-1:-1] = [
            "mov.u64 %d21, %clock64;", "sub.u64 %d21, %d21, %d20;", "add.u64 %d22, %d22, %d21;",
        ]  # fmt: skip
        told = "    mov.u64 %t0, %clock64;\n    sub.u64 %t0, %t0, %d22;"
    narrow = "mov.b32 %r{1}, %{2}{0};"
    finish = [narrow.format(8 + i, 600 + i, letter) for i in range(count)]
    program = text(body, "\n".join(setup), told, [f"%r{600 + i}" for i in range(count)], 45056)
    return program.replace("    xor.b32 %sink", "\n".join(finish) + "\n    xor.b32 %sink", 1)


def _wgmma_probes() -> Iterator[Probe]:
    for types, k, _ in _WGMMA:
        shapes = (8, 16, 32, 64, 96, 128, 192, 256) if types.endswith("bf16.bf16") else (64, 256)
        for n in shapes:
            for form in ("SS", "RS"):
                name = f"wgmma m64n{n}k{k} {types} {form}"
                settings = {"n": n, "form": form, "types": types}
                for batch, warps in ((1, 4), (16, 4), (16, 8)):
                    if batch == 1 and form == "RS" and n not in (64, 256):
                        continue
                    program = _wgmma(types, n, k, form == "RS", batch)
                    what = "latency" if batch == 1 else f"of {batch}, {warps} warps"
                    yield Probe(
                        f"{name} {what}", "clk/warpgroup/SM", program, batch * 0.25, warps=warps,
                        how="sm", parameters=settings,
                    )  # fmt: skip


#: Both warpgroups of an SM start at a multiple of 2^14 of its clock, the second one later.
_TOGETHER = """
    shr.u32 %r990, %warp, 2;
    mul.lo.u32 %r990, %r990, {later};
AGAIN:
    mov.u32 %r991, %clock;
    and.b32 %r991, %r991, 16383;
    setp.gt.u32 %p3, %r991, 256;
    @%p3 bra AGAIN;
LATER:
    mov.u32 %r991, %clock;
    and.b32 %r991, %r991, 16383;
    sub.u32 %r992, %r991, 512;
    setp.lt.s32 %p3, %r992, %r990;
    @%p3 bra LATER;
    mov.u64 %t0, %clock64;
"""


def _turn_probes() -> Iterator[Probe]:
    """Two warpgroups, of which the second starts later: clocks of each."""
    types = "f32.bf16.bf16"
    for n, form, batch in ((64, "SS", 8), (128, "RS", 4), (128, "SS", 8)):
        for later in (1, 100, 200):
            program = _wgmma(types, n, 16, form == "RS", batch).replace(
                "    mov.u64 %t0, %clock64;\n", _TOGETHER.format(later=later)
            )
            name = f"wgmma m64n{n}k16 {form} of {batch}, another warpgroup {later} later"
            for part, which in ((0, "first"), (4, "second")):
                yield Probe(
                    f"{name}, the {which}", "clk", program, 0.25, warps=8, repeat=1, how="sm",
                    part=(part, part + 4), parameters={"n": n, "form": form, "later": later},
                )  # fmt: skip


def _queue_probes() -> Iterator[Probe]:
    """How far a warpgroup runs ahead of the tensor core, and whose turn it is."""
    types = "f32.bf16.bf16"
    for n in (64, 128, 256):
        for form in ("SS", "RS"):
            settings = {"n": n, "form": form, "types": types}
            for batch in (1, 2, 4, 8, 16):
                yield Probe(
                    f"wgmma m64n{n}k16 {form}, issue of {batch}", "clk",
                    _wgmma(types, n, 16, form == "RS", batch, issue=True), 2, warps=4,
                    parameters=settings,
                )  # fmt: skip
            for part in ((0, 4), (4, 8)):
                yield Probe(
                    f"wgmma m64n{n}k16 {form} of 8, two warpgroups, warps from {part[0]} on",
                    "clk/warpgroup", _wgmma(types, n, 16, form == "RS", 8), 8 * 0.25, warps=8,
                    repeat=1, how="sm", part=part, parameters=settings,
                )  # fmt: skip


def probes() -> Iterator[Probe]:
    """All of them."""
    yield from _mma_probes()
    yield from _wgmma_probes()
    yield from _queue_probes()
    yield from _turn_probes()
