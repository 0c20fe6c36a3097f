"""st.async and red.async: values to shared memory of a cluster, counted by an mbarrier there."""

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device, EmulatorError

# Every CTA sends to the CTA `step` ranks behind it; %r6 and %r7 are the address of the thread's
# place there and of the barrier, %r8 and %d8 the thread's values.
_KERNEL = """
.visible .entry k(.param .u64 IN, .param .u64 OUT) .reqnctapercluster {size} {{
 .shared .align 16 .b8 pad[48]; .shared .align 16 .b8 buf[2048]; .shared .align 8 .b64 bar;
 .reg .b32 %r<40>; .reg .b64 %d<20>; .reg .pred %p<9>; .reg .f32 %f<4>;
 ld.param.u64 %d0, [IN]; ld.param.u64 %d1, [OUT];
 mov.u32 %r0, %tid.x; mov.u32 %r1, %ctaid.x; mad.lo.u32 %r2, %r1, 64, %r0;
 mul.wide.u32 %d2, %r2, 16; add.u64 %d0, %d0, %d2; add.u64 %d1, %d1, %d2;
 ld.global.v4.b32 {{%r20, %r21, %r22, %r23}}, [%d0];
 mov.b64 %d8, {{%r20, %r21}}; mov.b64 %d9, {{%r22, %r23}};
 mov.u32 %r4, buf; mad.lo.u32 %r4, %r0, 16, %r4; mov.u32 %r5, bar;
 st.shared.v4.b32 [%r4], {{1000, 1000, 1000, 1000}};
 setp.ne.u32 %p0, %r0, 0; @%p0 bra READY;
 mbarrier.init.shared::cta.b64 [%r5], 1;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r5], {expected};
READY:
 barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
 mov.u32 %r9, %cluster_ctarank; add.u32 %r9, %r9, {step}; rem.u32 %r9, %r9, {size};
 mapa.shared::cluster.u32 %r6, %r4, %r9; mapa.shared::cluster.u32 %r7, %r5, %r9;
 cvt.u64.u32 %d3, %r4; cvta.shared.u64 %d3, %d3; mapa.u64 %d3, %d3, %r9;
 cvt.u64.u32 %d4, %r5; cvta.shared.u64 %d4, %d4; mapa.u64 %d4, %d4, %r9;
 {body}
WAIT: {wait}
 ld.shared.v4.b32 {{%r20, %r21, %r22, %r23}}, [%r4];
 st.global.v4.b32 [%d1], {{%r20, %r21, %r22, %r23}};
 barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
 ret;
}}"""
_WAIT = "mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r5], 0; @!%p1 bra WAIT;"
_STORE = "st.async.shared::cluster.mbarrier::complete_tx::bytes"
_REDUCE = "red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes"


def launch(body, sent, size=4, step=1, schedule="late", expected=None, wait=_WAIT, data=None):
    """Returns the input and the output, (CTAs, 64 threads, 4) words; a thread sends ``sent``
    bytes."""
    text = HEADER + _KERNEL.format(
        size=size, step=step, body=body, wait=wait, expected=expected or 64 * sent
    )
    if data is None:
        data = np.random.default_rng(size).integers(0, 1 << 32, (2 * size, 64, 4), dtype=np.uint32)
    out = np.full_like(data, 0xDEADBEEF)
    kernel = Device("sm_100a").load_ptx(text)["k"]
    kernel.launch(2 * size, 64, [data, out], cluster=size, schedule=schedule)
    return data, out


def received(data, size, step):
    """What the CTA that each one sends to has: the data of the sender."""
    return np.roll(data.reshape(-1, size, 64, 4), step, axis=1).reshape(data.shape)


@pytest.mark.parametrize("schedule", ["late", "eager", 3, 4])
@pytest.mark.parametrize(("size", "step"), [(1, 0), (2, 1), (4, 3)])
@pytest.mark.parametrize(
    ("form", "values", "words"),
    [
        (".b32", "%r20", 1),
        (".v2.u32", "{%r20, %r21}", 2),
        (".v4.s32", "{%r20, %r21, %r22, %r23}", 4),
        (".u64", "%d8", 2),
        (".v2.b64", "{%d8, %d9}", 4),
    ],
)
def test_stores(form, values, words, size, step, schedule):
    data, out = launch(f"{_STORE}{form} [%r6], {values}, [%r7];", 4 * words, size, step, schedule)
    expected = np.full_like(data, 1000)
    expected[:, :, :words] = received(data, size, step)[:, :, :words]
    np.testing.assert_array_equal(out, expected)


def test_generic_addresses_and_floats():
    body = "mov.b32 %f1, %r20; st.async.weak.mbarrier::complete_tx::bytes.f32 [%d3], %f1, [%d4];"
    data, out = launch(body, 4)
    np.testing.assert_array_equal(out[:, :, 0], received(data, 4, 1)[:, :, 0])


REDUCTIONS = {
    ("add", "u32"): lambda a, b: a + b,
    ("add", "s32"): lambda a, b: a + b,
    ("min", "u32"): np.minimum,
    ("min", "s32"): lambda a, b: np.minimum(a.view(np.int32), b.view(np.int32)).view(np.uint32),
    ("max", "u32"): np.maximum,
    ("max", "s32"): lambda a, b: np.maximum(a.view(np.int32), b.view(np.int32)).view(np.uint32),
    ("inc", "u32"): lambda a, b: np.where(a >= b, 0, a + 1).astype(np.uint32),
    ("dec", "u32"): lambda a, b: np.where((a == 0) | (a > b), b, a - 1).astype(np.uint32),
    ("and", "b32"): np.bitwise_and,
    ("or", "b32"): np.bitwise_or,
    ("xor", "b32"): np.bitwise_xor,
}


@pytest.mark.parametrize(("op", "kind"), REDUCTIONS)
def test_reductions(op, kind):
    data, out = launch(f"{_REDUCE}.{op}.{kind} [%r6], %r20, [%r7];", 4)
    sent = np.ascontiguousarray(received(data, 4, 1)[:, :, 0])
    expected = REDUCTIONS[op, kind](np.full_like(sent, 1000), sent)
    np.testing.assert_array_equal(out[:, :, 0], expected)
    assert (out[:, :, 1:] == 1000).all()


@pytest.mark.parametrize("kind", ["u64", "s64"])
def test_wide_addition(kind):
    data, out = launch(f"{_REDUCE}.add.{kind} [%r6], %d8, [%r7];", 8)
    sent = np.ascontiguousarray(received(data, 4, 1)[:, :, :2]).view(np.uint64)
    expected = sent + np.uint64(1000 << 32 | 1000)
    np.testing.assert_array_equal(out[:, :, :2].copy().view(np.uint64), expected)


@pytest.mark.parametrize("schedule", ["late", "eager", 8])
def test_all_threads_reduce_into_one_place(schedule):
    body = "mov.u32 %r10, buf; mapa.shared::cluster.u32 %r6, %r10, 0;"
    body += " mov.u32 %r10, bar; mapa.shared::cluster.u32 %r7, %r10, 0;"
    body += f" {_REDUCE}.add.u32 [%r6], %r20, [%r7];"
    wait = "mov.u32 %r9, %cluster_ctarank; setp.ne.u32 %p2, %r9, 0; @%p2 bra END;"
    wait += f" SPIN: {_WAIT.replace('WAIT', 'SPIN')} END:"
    data, out = launch(body, 0, schedule=schedule, expected=4 * 64 * 4, wait=wait)
    sums = data[:, :, 0].reshape(-1, 256).sum(axis=1, dtype=np.uint32) + np.uint32(1000)
    np.testing.assert_array_equal(out[::4, 0, 0], sums)


def test_the_value_is_taken_when_the_store_is_issued():
    body = f"{_STORE}.b32 [%r6], %r20, [%r7]; mov.u32 %r20, 7;"
    data, out = launch(body, 4)
    np.testing.assert_array_equal(out[:, :, 0], received(data, 4, 1)[:, :, 0])


def test_reading_before_the_barrier_is_a_missing_wait():
    with pytest.raises(EmulatorError) as caught:
        launch(f"{_STORE}.b32 [%r6], %r20, [%r7];", 4, wait="")
    assert caught.value.kind in ("missing-wait", "race")


@pytest.mark.parametrize(
    ("body", "kind", "complaint"),
    [
        (f"{_STORE}.v4.b32 [%r6+4], {{%r20, %r21, %r22, %r23}}, [%r7];", "misaligned", "16"),
        (f"{_STORE}.b32 [%r6], %r20, [%r5];", "illegal-operand", "one CTA"),
        (f"{_STORE}.b32 [%r6], %r20, [%r7+8];", "mbarrier|out-of-bounds", "mbarrier"),
        (f"{_STORE}.b32 [%r6+1000000], %r20, [%r7];", "out-of-bounds", ""),
    ],
)
def test_wrong_addresses(body, kind, complaint):
    with pytest.raises(EmulatorError, match=complaint) as caught:
        launch(body, 4)
    assert caught.value.kind in kind.split("|")
    assert caught.value.ptx_line > 0


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        (f"{_STORE}.v4.b64 [%r6], {{%d8, %d9, %d8, %d9}}, [%r7];", "elements"),
        (f"{_STORE}.b16 [%r6], 5, [%r7];", "elements"),
        (f"{_STORE}.v2.b32 [%r6], %r20, [%r7];", "1 values given"),
        (f"{_REDUCE}.min.u64 [%r6], %d8, [%r7];", "does not exist"),
        (f"{_REDUCE}.add.f32 [%r6], %f1, [%r7];", "does not exist"),
        (f"{_REDUCE}.and.u32 [%r6], %r20, [%r7];", "does not exist"),
        (f"{_REDUCE}.exch.b32 [%r6], %r20, [%r7];", "does not exist"),
        (f"{_REDUCE.replace('.relaxed', '')}.add.u32 [%r6], %r20, [%r7];", "relaxed.cluster"),
        (f"{_STORE}.relaxed.b32 [%r6], %r20, [%r7];", "relaxed"),
    ],
)
def test_forms_that_are_refused(text, complaint):
    with pytest.raises(EmulatorError, match=complaint) as caught:
        launch(text, 4)
    assert caught.value.ptx_line > 0
