"""st.async and red.async to global memory: performed at any time until the kernel ends."""

import numpy as np
import pytest
from ptx_kernels import HEADER, accepted_by_ptxas

from tilelang.emulator import Device, EmulatorError

REGISTERS = (
    " .reg .b32 %r<30>; .reg .b64 %d<20>; .reg .b16 %h<9>; .reg .f32 %f<9>; .reg .f64 %q<9>;"
    " .reg .pred %p<9>;\n"
)
NAMES = {
    "b16": "%h1", "u16": "%h1", "s16": "%h1", "b32": "%r1", "u32": "%r1", "s32": "%r1",
    "f32": "%f1", "b64": "%d1", "u64": "%d1", "s64": "%d1", "f64": "%q1",
}  # fmt: skip
BITS = {name: int(name[1:]) for name in NAMES}


def run(body, arrays, grid=1, block=32, **options):
    params = ", ".join(f".param .u64 P{i}" for i in range(len(arrays)))
    text = HEADER + f".visible .entry k({params}) {{\n{REGISTERS}"
    for i in range(len(arrays)):
        text += f" ld.param.u64 %d{10 + i}, [P{i}];\n"
    text += f" mov.u32 %r0, %tid.x;\n{body}\n ret;\n}}\n"
    arrays = [array.copy() for array in arrays]
    Device("sm_100a").load_ptx(text)["k"].launch(grid, block, arrays, **options)
    return arrays


@pytest.mark.every_schedule
@pytest.mark.parametrize("kind", NAMES)
@pytest.mark.parametrize("how", ["mmio.release.sys.global", "release.gpu"])
def test_values(how, kind):
    rng = np.random.default_rng(BITS[kind])
    data = rng.integers(0, 1 << 63, 32, dtype=np.uint64).astype(f"u{BITS[kind] // 8}")
    size, register = data.itemsize, NAMES[kind]
    body = f" mul.wide.u32 %d2, %r0, {size}; add.u64 %d3, %d10, %d2; add.u64 %d4, %d11, %d2;\n"
    body += f" ld.global.{kind} {register}, [%d3]; st.async.{how}.{kind} [%d4], {register};"
    np.testing.assert_array_equal(run(body, [data, np.zeros_like(data)])[1], data)


@pytest.mark.every_schedule
@pytest.mark.parametrize("how", ["mmio.release.sys.global", "release.gpu", "relaxed.gpu.global"])
@pytest.mark.parametrize(
    ("operation", "expected"),
    [
        ("add.u32", lambda v: v.sum()), ("max.s32", lambda v: v.max()), ("min.u32", lambda v: 0),
        ("or.b32", np.bitwise_or.reduce), ("xor.b32", np.bitwise_xor.reduce),
    ],
)  # fmt: skip
def test_reductions(how, operation, expected):
    body = f" mul.lo.u32 %r1, %r0, 5; red.async.{how}.{operation} [%d10], %r1;"
    got = run(body, [np.zeros(1, np.uint32)])[0][0]
    assert got == expected(5 * np.arange(32, dtype=np.uint32))


# CTA 0 writes 7 and then, asynchronously, the flag; CTA 1 polls it and reads.
EXCHANGE = """
 mov.u32 %r2, %ctaid.x; setp.ne.u32 %p0, %r2, 0; @%p0 bra CONSUMER;
 mov.u32 %r3, 7; st.global.u32 [%d10], %r3; mov.u32 %r4, 1; {send} ret;
CONSUMER: ld.{order}.gpu.global.u32 %r5, [%d11]; setp.eq.u32 %p1, %r5, 0; @%p1 bra CONSUMER;
 ld.global.u32 %r6, [%d10]; st.global.u32 [%d12], %r6;
"""
WORDS = [np.zeros(1, np.uint32) for _ in range(3)]


@pytest.mark.every_schedule
@pytest.mark.parametrize(
    "send", ["st.async.release.gpu.global.u32 [%d11], %r4;",
             "red.async.release.gpu.global.add.u32 [%d11], %r4;"],
)  # fmt: skip
def test_releases_are_acquired(send):
    assert run(EXCHANGE.format(send=send, order="acquire"), WORDS, grid=2, block=1)[2] == 7


@pytest.mark.parametrize(
    ("send", "order"),
    [
        ("red.async.relaxed.gpu.global.add.u32 [%d11], %r4;", "acquire"),
        ("st.async.release.gpu.global.u32 [%d11], %r4;", "relaxed"),
    ],
)
def test_relaxed_ones_order_nothing(send, order):
    with pytest.raises(EmulatorError) as caught:
        run(EXCHANGE.format(send=send, order=order), WORDS, grid=2, block=1)
    assert caught.value.kind == "race"


@pytest.mark.every_schedule
def test_nothing_tells_the_thread_that_it_is_done():
    body = " st.async.release.gpu.global.u32 [%d10], %r0; bar.sync 0; ld.global.u32 %r1, [%d10];"
    with pytest.raises(EmulatorError) as caught:
        run(body, WORDS[:1], block=1)
    assert caught.value.kind in ("race", "missing-wait")


def test_late_ones_come_last():
    body = (
        " mov.u32 %r1, 5; st.async.release.gpu.global.u32 [%d10], %r1;"
        " ld.relaxed.gpu.global.u32 %r2, [%d10]; st.global.u32 [%d11], %r2;"
    )
    assert run(body, WORDS[:2], block=1, schedule="late")[1] == 0
    assert run(body, WORDS[:2], block=1, schedule="eager")[1] == 5


def test_addresses_are_checked():
    store = "st.async.release.gpu.global.u32 [%d1], %r0;"
    with pytest.raises(EmulatorError) as caught:
        run(f" add.u64 %d1, %d10, 2; {store}", [np.zeros(4, np.uint32)], block=1)
    assert caught.value.kind == "misaligned"
    with pytest.raises(EmulatorError) as caught:
        run(f" add.u64 %d1, %d10, 64; {store}", WORDS, block=1)
    assert caught.value.kind == "out-of-bounds"


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_120a"])
def test_forms_are_those_of_ptxas(target, tmp_path):
    # ptxas takes st.async without .release, of which the PTX ISA says nothing: refused here.
    orders = ["mmio.release.sys.global", "release.gpu", "relaxed.gpu.global", "release.cta.global",
              "release.cluster.global", "release.gpu.shared::cta", "gpu.global"]  # fmt: skip
    lines = [
        f"st.async.{how}.{kind} [%d2], {NAMES[kind]};" for how in orders[:-1] for kind in NAMES
    ]
    lines += [
        f"red.async.{how}.{operation}.{kind} [%d2], {NAMES[kind]};"
        for how in orders
        for operation in ("add", "min", "inc", "and", "exch")
        for kind in ("u32", "s32", "b32", "u64", "s64", "b64", "f32")
    ]
    head = f".version 9.0\n.target {target}\n.address_size 64\n.visible .entry k() {{\n{REGISTERS}"
    device = Device(target)

    def accepted(line):
        try:
            return device.load_ptx(f"{head}{line} ret; }}").kernels["k"].error is None
        except EmulatorError:
            return False

    wanted = accepted_by_ptxas(head, lines, target, tmp_path)
    assert [line for line, w in zip(lines, wanted, strict=True) if accepted(line) != w] == []
