"""Missing synchronisation: each hazard once right (accepted) and once wrong (reported)."""

import numpy as np
import pytest
from emulator.tmem_kernels import COMMIT, build, run

from emulator import tensor_core_model as model
from tilelang.emulator import Device, EmulatorError, EmulatorWarning

IMAGE = 32768
DESC_A = model.descriptor(1024, 16, 1024, "128B")
DESC_B = model.descriptor(1024 + 16384, 16, 1024, "128B")
IDESC = model.instruction_descriptor(128, 64, "bf16", "bf16")
SETUP = f" mov.u64 %d20, {DESC_A}; mov.u64 %d21, {DESC_B}; mov.u32 %r20, {IDESC};\n"
SS = "tcgen05.mma.cta_group::1.kind::f16 [%r2], %d20, %d21, %r20, 0;"
TS = "tcgen05.mma.cta_group::1.kind::f16 [%r2], [%r2+256], %d21, %r20, 0;"
ONE = " @!%p0 bra ISSUED;\n"
STORE_P = " tcgen05.st.sync.aligned.32x32b.x8.b32 [%r3+256], {%v0,%v1,%v2,%v3,%v4,%v5,%v6,%v7};\n"
LOAD_D = " tcgen05.ld.sync.aligned.32x32b.x8.b32 {%v0,%v1,%v2,%v3,%v4,%v5,%v6,%v7}, [%r3];\n"
WAIT_ST = " tcgen05.wait::st.sync.aligned;\n"
WAIT_LD = " tcgen05.wait::ld.sync.aligned;\n"
FENCE_BEFORE = " tcgen05.fence::before_thread_sync;\n"
FENCE_AFTER = " tcgen05.fence::after_thread_sync;\n"
BARRIER = " bar.sync 0;\n"
SYNCHRONIZE = FENCE_BEFORE + BARRIER + FENCE_AFTER
MY_WORD = " shl.b32 %r30, %r0, 2; add.u32 %r30, %r30, %r5;\n"
NEXT_WORD = " xor.b32 %r31, %r0, 64; shl.b32 %r31, %r31, 2; add.u32 %r31, %r31, %r5;\n"
FENCE = " fence.proxy.async.shared::cta;\n"
READ_NEXT = NEXT_WORD + " ld.shared.b32 %v1, [%r31];\n"
WRITE_MINE = MY_WORD + " st.shared.b32 [%r30], %r0;\n"
BULK_STORE = (
    " ld.param.u64 %d22, [DATA]; @%p0 cp.async.bulk.global.shared::cta.bulk_group"
    " [%d22], [%r5], 512;\n @%p0 cp.async.bulk.commit_group;\n"
)
BULK_LOAD = (
    " @!%p0 bra LOADED; ld.param.u64 %d22, [DATA];"
    " mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r4], 512;"
    " cp.async.bulk.shared::cta.global.mbarrier::complete_tx::bytes [%r5], [%d22], 512, [%r4];\n"
    "LOADED:\n"
)
WAIT_LOAD = "L2: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4], 1; @!%p3 bra L2;\n"
COPY = (
    " ld.param.u64 %d22, [DATA]; mul.wide.u32 %d23, %r0, 4; add.u64 %d22, %d22, %d23;\n"
    + MY_WORD
    + " cp.async.ca.shared.global [%r30], [%d22], 4;\n"
)
CP_WAIT = " cp.async.commit_group; cp.async.wait_group 0;\n"

# Name: body with @SYNC@ where the synchronisation belongs, the synchronisation, kind of the error
# without it, part of the message, and what the reported line holds.
HAZARDS = {
    "an MMA reads A whose store was not waited for": (
        STORE_P + "@SYNC@" + SYNCHRONIZE + SETUP + ONE + " " + TS + COMMIT,
        WAIT_ST, "missing-wait", "tcgen05.wait::st", "tcgen05.mma",
    ),
    "an MMA is not ordered after the store of another warp": (
        STORE_P + WAIT_ST + "@SYNC@" + SETUP + ONE + " " + TS + COMMIT,
        SYNCHRONIZE, None, "", None,
    ),
    "no fence between a store and the barrier": (
        STORE_P + WAIT_ST + "@SYNC@" + BARRIER + FENCE_AFTER + SETUP + ONE + " " + TS + COMMIT,
        FENCE_BEFORE, "missing-tcgen05-fence", "tcgen05.fence::before_thread_sync", "tcgen05.mma",
    ),
    "no fence between the barrier and an MMA": (
        STORE_P + WAIT_ST + FENCE_BEFORE + BARRIER + "@SYNC@" + SETUP + ONE + " " + TS + COMMIT,
        FENCE_AFTER, "missing-tcgen05-fence", "tcgen05.fence::after_thread_sync", "tcgen05.mma",
    ),
    "an MMA overwrites what was not loaded yet": (
        LOAD_D + "@SYNC@" + SYNCHRONIZE + SETUP + ONE + " " + SS + COMMIT,
        WAIT_LD, "missing-wait", "tcgen05.wait::ld", "tcgen05.mma",
    ),
    "an MMA overwrites what another warp loads": (
        LOAD_D + WAIT_LD + "@SYNC@" + SETUP + ONE + " " + SS + COMMIT,
        SYNCHRONIZE, None, "", None,
    ),
    "a warp overwrites what it has not loaded yet": (
        LOAD_D.replace("%v", "%v2") + "@SYNC@" + STORE_P.replace("+256", "") + WAIT_ST,
        WAIT_LD, "missing-wait", "tcgen05.wait::ld", "tcgen05.st",
    ),
    "no fence between the wait for a commit and a load": (
        SETUP + ONE + " " + SS + COMMIT.replace(FENCE_AFTER, "") + "@SYNC@" + LOAD_D,
        FENCE_AFTER, "missing-tcgen05-fence", "tcgen05.fence::after_thread_sync", "tcgen05.ld",
    ),
    "the accumulator is loaded before the commit was observed": (
        SETUP + ONE + " " + SS + COMMIT.split("ISSUED:")[0] + "ISSUED:\n"
        + "@SYNC@ bar.sync 0;\n" + FENCE_AFTER + LOAD_D
        + COMMIT.split("ISSUED:")[1].replace("ISSUED", "X2").replace(" mbarrier", "X2: mbarrier"),
        "X1: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4+8], 0; @!%p3 bra X1;",
        "missing-wait", "tcgen05.commit", "tcgen05.ld",
    ),
    "a store to shared memory under an MMA": (
        SETUP + ONE + " " + SS + COMMIT.split("ISSUED:")[0] + "ISSUED:\n" + "@SYNC@ bar.sync 0;\n"
        + WRITE_MINE
        + "X3: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4+8], 0; @!%p3 bra X3;",
        "X1: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4+8], 0; @!%p3 bra X1;",
        "missing-wait", "the tensor core may still read it", "st.shared",
    ),
    "a bulk copy into shared memory under an MMA": (
        SETUP + ONE + " " + SS + COMMIT.split("ISSUED:")[0] + "ISSUED:\n" + "@SYNC@ bar.sync 0;\n"
        + BULK_LOAD + WAIT_LOAD
        + "X3: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4+8], 0; @!%p3 bra X3;",
        "X1: mbarrier.try_wait.parity.shared::cta.b64 %p3, [%r4+8], 0; @!%p3 bra X1;",
        "missing-wait", "the bulk copy writes", "cp.async.bulk",
    ),
    "threads race on shared memory": (
        WRITE_MINE + "@SYNC@" + READ_NEXT, BARRIER, None, "", None,
    ),
    "a bulk store reads what was written without a proxy fence": (
        WRITE_MINE + "@SYNC@" + BARRIER + BULK_STORE + " @%p0 cp.async.bulk.wait_group 0;\n",
        FENCE, "missing-proxy-fence", "fence.proxy.async", "cp.async.bulk.global",
    ),
    "an MMA reads what was written without a proxy fence": (
        WRITE_MINE + "@SYNC@" + BARRIER + SETUP + ONE + " " + SS + COMMIT,
        FENCE, "missing-proxy-fence", "fence.proxy.async", "tcgen05.mma",
    ),
    "a bulk store reads what other threads wrote without a barrier": (
        WRITE_MINE + FENCE + "@SYNC@" + BULK_STORE + " @%p0 cp.async.bulk.wait_group 0;\n",
        BARRIER, None, "", None,
    ),
    "a buffer is reused under a bulk store": (
        BULK_STORE + "@SYNC@" + BARRIER + WRITE_MINE,
        " @%p0 cp.async.bulk.wait_group.read 0;\n", "missing-wait", "wait_group.read", "st.shared",
    ),
    "the destination of a bulk copy is read too early": (
        BULK_LOAD + "@SYNC@" + READ_NEXT + WAIT_LOAD.replace("L2", "L3"),
        WAIT_LOAD, None, "", None,
    ),
    "cp.async is read without wait_group": (
        COPY + "@SYNC@" + BARRIER + READ_NEXT, CP_WAIT, "missing-wait", "wait_group", "ld.shared",
    ),
    "cp.async of others is read without a barrier": (
        COPY + CP_WAIT + "@SYNC@" + READ_NEXT, BARRIER, None, "", None,
    ),
    "a stored cell is loaded by the same warp without a wait": (
        STORE_P + "@SYNC@" + LOAD_D.replace("[%r3]", "[%r3+256]"),
        WAIT_ST, "missing-wait", "tcgen05.wait::st", "tcgen05.ld",
    ),
}  # fmt: skip


def launch(body, **options):
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 2**30, (128, 512), dtype=np.uint32)
    text = build(body, shared_bytes=IMAGE)
    return text, lambda: run(text, cells, rng.integers(0, 60, IMAGE, dtype=np.uint8), **options)


@pytest.mark.parametrize("schedule", ["late", "eager", 1])
@pytest.mark.parametrize("name", HAZARDS)
def test_synchronised(name, schedule):
    body, synchronisation, *_ = HAZARDS[name]
    _, go = launch(body.replace("@SYNC@", synchronisation), schedule=schedule)
    _, report = go()
    assert report.warnings == []


@pytest.mark.parametrize("schedule", ["late", "eager", 1])
@pytest.mark.parametrize("name", HAZARDS)
def test_not_synchronised(name, schedule):
    body, _, kind, message, place = HAZARDS[name]
    text, go = launch(body.replace("@SYNC@", ""), schedule=schedule)
    with pytest.raises(EmulatorError) as caught:
        go()
    error = caught.value
    if kind is None:  # either side may be seen first
        assert error.kind in ("race", "missing-wait")
    else:
        assert error.kind == kind
        assert message in error.reason
        assert place in text.split("\n")[error.ptx_line - 1]
    assert error.warp is not None
    assert error.address is not None
    assert error.buffer in ("shared memory", "tensor memory")
    assert "PTX line" in error.reason or kind == "deadlock"


def test_both_sides_are_named():
    body, *_ = HAZARDS["threads race on shared memory"]
    text, go = launch(body.replace("@SYNC@", ""))
    with pytest.raises(EmulatorError) as caught:
        go()
    lines = text.split("\n")
    written = next(i + 1 for i, line in enumerate(lines) if "st.shared.b32 [%r30]" in line)
    read = next(i + 1 for i, line in enumerate(lines) if "ld.shared.b32 %v1" in line)
    assert caught.value.ptx_line == written
    reader = f"which was read by warp {caught.value.warp ^ 2}, lane 0 at PTX line {read}"
    assert reader in str(caught.value)


HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"


def run_threads(body, threads=64, **options):
    text = (
        HEADER
        + f""".visible .entry k(.param .u64 OUT) {{
 .shared .align 8 .b64 bar; .shared .align 16 .b8 buf[1024];
 .reg .b32 %r<20>; .reg .b64 %d<8>; .reg .pred %p<6>; .reg .b16 %h<4>;
 mov.u32 %r0, %tid.x; mov.u32 %r1, buf; mov.u32 %r2, bar; shr.u32 %r3, %r0, 5;
 setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p1, %r3, 0;
 {body}
 ret;
}}"""
    )
    out = np.zeros(threads, np.uint32)
    Device().load_ptx(text)["k"].launch(1, threads, [out], **options)
    return out


def test_neighbouring_bytes_of_different_warps_are_no_race():
    run_threads(
        " shl.b32 %r4, %r3, 1; add.u32 %r4, %r4, %r1; cvt.u16.u32 %h0, %r0; "
        "st.shared.b16 [%r4], %h0;"
    )


@pytest.mark.parametrize(
    ("release", "acquire"), [(".release", ".acquire"), ("", ".acquire"), (".release", ""), ("", "")]
)
def test_atomics_order_what_was_done_before(release, acquire):
    """Relaxed ones, the default, do not."""
    body = """
 @%p1 bra PRODUCE;
SPIN: atom@ACQUIRE@.shared.add.u32 %r5, [%r1], 0; setp.eq.u32 %p2, %r5, 0; @%p2 bra SPIN;
 ld.shared.u32 %r6, [%r1+64]; bra END;
PRODUCE: @%p0 st.shared.u32 [%r1+64], 5; bar.warp.sync 0xffffffff;
 @%p0 atom@RELEASE@.shared.add.u32 %r5, [%r1], 1;
END:"""
    scope = {name: f"{name}.cta" if name else "" for name in (release, acquire)}
    body = body.replace("@RELEASE@", scope[release]).replace("@ACQUIRE@", scope[acquire])
    body = " @%p0 st.shared.u32 [%r1], 0; bar.sync 0;" + body
    if release and acquire:
        run_threads(body)
        return
    with pytest.raises(EmulatorError) as caught:
        run_threads(body)
    assert caught.value.kind == "race"


def test_mbarrier_orders():
    body = """
 @%p0 mbarrier.init.shared::cta.b64 [%r2], 1; bar.sync 0;
 @%p0 st.shared.u32 [%r1], 5;
 @SYNC@
 @%p0 mbarrier.arrive.shared::cta.b64 _, [%r2];
 @%p1 bra END;
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W;
 ld.shared.u32 %r6, [%r1];
END:"""
    run_threads(body.replace("@SYNC@", ""))
    late = body.replace("@SYNC@", "").replace("@%p0 st.shared.u32 [%r1], 5;", "")
    late = late.replace("_, [%r2];", "_, [%r2]; @%p0 st.shared.u32 [%r1], 5;")
    with pytest.raises(EmulatorError) as caught:
        run_threads(late)
    assert caught.value.kind == "race"


def test_use_of_an_mbarrier_before_its_initialisation_is_visible():
    body = """
 @%p0 mbarrier.init.shared::cta.b64 [%r2], 1;
 @SYNC@
 @%p0 mbarrier.arrive.shared::cta.b64 _, [%r2];
W: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], 0; @!%p2 bra W;"""
    run_threads(body.replace("@SYNC@", "bar.sync 0;"))
    with pytest.raises(EmulatorError) as caught:
        run_threads(body.replace("@SYNC@", ""))
    assert caught.value.kind in ("race", "mbarrier")


def test_named_barriers_order_only_their_participants():
    body = """
 setp.eq.u32 %p3, %r3, 2; @%p0 st.shared.u32 [%r1], 1;
 @%p3 bra LAST; bar.sync 1, 64; ld.shared.u32 %r5, [%r1];
LAST: @SYNC@ @%p3 ld.shared.u32 %r5, [%r1];"""
    run_threads(body.replace("@SYNC@", "bar.sync 0;"), 96)
    with pytest.raises(EmulatorError) as caught:
        run_threads(body.replace("@SYNC@", ""), 96)
    assert caught.value.kind == "race"


def test_off_when_not_wanted():
    body, *_ = HAZARDS["threads race on shared memory"]
    _, go = launch(body.replace("@SYNC@", ""), sanitize=False)
    go()


def test_source_lines_are_named():
    text = build(WRITE_MINE + READ_NEXT, shared_bytes=IMAGE)
    text = text.replace(HEADER, HEADER + '.file 1 "kernel.py"\n')
    text = text.replace(" st.shared.b32", "\n.loc 1 42 5\n st.shared.b32")
    text = text.replace(" ld.shared.b32 %v1", "\n.loc 1 57 5\n ld.shared.b32 %v1")
    with pytest.raises(EmulatorError, match="source line 57") as caught:
        run(text, np.zeros((128, 512), np.uint32), np.zeros(IMAGE, np.uint8))
    assert caught.value.span.line == 42
    assert caught.value.span.file.endswith("kernel.py")


ALLOCATED_BY_ONE_WARP = """
.version 8.6
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 out)
{
  .reg .pred %first;
  .reg .b32 %t, %w, %a, %v, %s;
  .reg .b64 %o, %i;
  .shared .align 4 .b32 slot;
  ld.param.u64 %o, [out];
  mov.u32 %t, %tid.x;
  shr.u32 %w, %t, 5;
  mov.u32 %s, slot;
  setp.eq.u32 %first, %w, 0;
  @%first tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%s], 32;
  bar.sync 0;
  ld.shared.b32 %a, [%s];
  tcgen05.st.sync.aligned.32x32b.x1.b32 [%a], {%t};
  tcgen05.wait::st.sync.aligned;
  tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v}, [%a];
  tcgen05.wait::ld.sync.aligned;
  mul.wide.u32 %i, %t, 4;
  add.s64 %o, %o, %i;
  st.global.b32 [%o], %v;
  bar.sync 0;
  @%first tcgen05.dealloc.cta_group::1.sync.aligned.b32 %a, 32;
  ret;
}
"""


def test_allocation_without_fences_is_against_custom() -> None:
    """alloc and dealloc are synchronous (PTX ISA): barriers alone order them."""
    device, out = Device("sm_100a"), np.full(128, -1, np.int32)
    kernel = device.load_ptx(ALLOCATED_BY_ONE_WARP)["k"]
    with pytest.warns(EmulatorWarning, match="of level letter"):
        found = kernel.launch(1, 128, [out], letters="count").letters
    messages = [each.reason for each in found]
    assert any("which was allocated" in m and "customary" in m for m in messages)
    assert any("tcgen05.dealloc frees" in m for m in messages)
    assert (out == np.arange(128)).all()
