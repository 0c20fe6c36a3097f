"""Programs of CTA pairs that are wrong, each of which is reported in every schedule."""

import numpy as np
import pytest
from emulator.pair_kernels import COMMIT, PairCase, body, mma, program
from emulator.tmem_kernels import CLUSTER_BARRIER, HEADER

from tilelang.emulator import Device, EmulatorError

SCHEDULES = pytest.mark.parametrize("schedule", ["late", "eager", 1, 2])
GOOD = body(mma("f16"))
OWN = COMMIT.replace(".multicast::cluster", "").replace(",\n   %h0", "")


def case():
    return PairCase("f16", "f16", "f16", n=64)


def refused(text, match, schedule="late", **options):
    """The error of the program around ``text``."""
    with pytest.raises(EmulatorError, match=match) as caught:
        case().run(text, schedule=schedule, **options)
    assert caught.value.ptx_line > 0
    return caught.value


@SCHEDULES
def test_the_peer_overwrites_shared_memory_that_is_still_read(schedule):
    write = " setp.eq.and.u32 %p6, %r10, 1, %p0; @%p6 st.shared.b32 [%r5], 0;\nISSUED:"
    text = GOOD.replace("ISSUED;", "EARLY;").replace("\nISSUED:", f"\nEARLY:{write}")
    error = refused(text, "writes shared memory|reads its operand in", schedule)
    assert error.kind in ("race", "missing-wait")


@SCHEDULES
def test_the_peer_reads_the_accumulator_before_it_is_complete(schedule):
    load = """
 tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v0}, [%r3]; tcgen05.wait::ld.sync.aligned;
"""
    text = load.join(GOOD.split("ISSUED:\n")[:1]) + "ISSUED:\n" + load + GOOD.split("ISSUED:\n")[1]
    error = refused(text, "tcgen05.ld reads|accumulates into", schedule)
    assert error.kind in ("race", "missing-wait")


@SCHEDULES
def test_nothing_orders_a_store_of_the_peer_before_the_product(schedule):
    store = """
 tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%r0}; tcgen05.wait::st.sync.aligned;
"""
    error = refused(store + GOOD, "accumulates into|tcgen05.st writes", schedule)
    assert error.kind in ("race", "missing-wait")


@SCHEDULES
def test_no_fence_behind_the_wait_in_the_peer(schedule):
    fence = " tcgen05.fence::after_thread_sync;\n"
    read = " tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v0}, [%r3]; tcgen05.wait::ld.sync.aligned;\n"
    assert GOOD.endswith(fence)
    error = refused(GOOD.removesuffix(fence) + read, "after_thread_sync", schedule)
    assert error.kind == "missing-tcgen05-fence"


@SCHEDULES
def test_a_commit_that_the_peer_does_not_hear_of(schedule):
    error = refused(body(mma("f16"), commit=OWN), "deadlock", schedule)
    assert error.kind == "deadlock"


@SCHEDULES
def test_a_commit_that_may_reach_a_cta_which_has_exited(schedule):
    """Nobody waits for the last one, though all the work before it is known to be over."""
    last = " @%p4 tcgen05.commit" + COMMIT.split("tcgen05.commit")[1].replace("[%r4+8]", "[%r4]")
    error = refused(GOOD + last, "CTA 1 of the cluster may exit before", schedule)
    assert error.kind == "missing-wait"


@SCHEDULES
def test_a_commit_to_a_barrier_of_the_peer_that_is_not_there(schedule):
    early = " mov.u32 %r10, %cluster_ctarank; setp.eq.and.u32 %p6, %r10, 1, %p0;"
    early += f" @%p6 mbarrier.inval.shared::cta.b64 [%r4+8]; {CLUSTER_BARRIER}\n"
    error = refused(early + GOOD, "no mbarrier was initialised", schedule)
    assert error.kind == "mbarrier"


@SCHEDULES
@pytest.mark.parametrize("mask", [4, 7, 0])
def test_a_commit_to_ctas_that_do_not_exist(mask, schedule):
    text = GOOD.replace(" @!%p4 bra ISSUED;", f" mov.b16 %h0, {mask};\n @!%p4 bra ISSUED;")
    assert refused(text, "CTA mask", schedule).kind == "illegal-operand"


@SCHEDULES
def test_no_peer(schedule):
    error = refused(GOOD, "no peer; launch clusters", schedule, cluster=1)
    assert error.kind == "cta-pair"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"m": 64}, "M is 128 or 256"),
        ({"n": 24}, "N is a multiple of 16 in 16"),
        ({"n": 8}, "N is a multiple of 16 in 16"),
        ({"kind": "i8", "n": 48}, "N is a multiple of 32 in 32"),
        ({"kind": "i8", "n": 16}, "N is a multiple of 32 in 32"),
        ({"kind": "i8", "n": 32, "b": 1}, None),
    ],
)
def test_shapes_of_pairs(change, complaint):
    kind = change.get("kind", "f16")
    types = ("s8", "s8", "s32") if kind == "i8" else ("f16", "f16", "f32")
    wrong = PairCase(kind, *types, n=64)
    instruction = wrong.args[2]
    if "n" in change:
        instruction = instruction & ~(63 << 17) | change["n"] >> 3 << 17
    if "m" in change:
        instruction = instruction & ~(31 << 24) | change["m"] >> 4 << 24
    wrong.args[2] = instruction
    if complaint is None:
        wrong.run(body(mma(kind)))
        return
    with pytest.raises(EmulatorError, match=complaint) as caught:
        wrong.run(body(mma(kind)))
    assert caught.value.kind == "descriptor"


def test_an_eight_bit_b_along_n_needs_32_columns():
    with pytest.raises(EmulatorError, match="multiple of 32"):
        PairCase("f8f6f4", "e4m3", "e4m3", n=48, majors="KM", swizzles=("128B", "none")).run(
            body(mma("f8f6f4"))
        )


def test_ashift_needs_all_lanes():
    wrong = PairCase("f16", "f16", "f16", m=128, n=32)
    wrong.store_a(300)
    with pytest.raises(EmulatorError, match="ashift needs M=256, not M=128"):
        wrong.run(body(mma("f16", a="[%r2+300]", modifiers=".ashift")))


def test_mixed_groups_are_refused_when_loaded():
    for one in (" tcgen05.shift.cta_group::1.down [%r2];", COMMIT.replace("::2.m", "::1.m")):
        with pytest.raises(
            EmulatorError, match=r"have the same \.cta_group, and there is one of 2"
        ):
            Device("sm_100a").load_ptx(program(body(mma("f16") + one)))["k"]


def test_mixed_groups_in_a_function_are_refused():
    function = """
.func f(.param .b32 t) {
 .reg .b32 %r; ld.param.b32 %r, [t]; tcgen05.shift.cta_group::1.down [%r]; ret;
}
"""
    call = " { .param .b32 t; st.param.b32 [t], %r2; call f, (t); }\n"
    text = program(call + GOOD).replace(".visible .entry", function + ".visible .entry")
    with pytest.raises(EmulatorError, match=r"have the same \.cta_group"):
        Device("sm_100a").load_ptx(text)["k"]


def test_the_last_of_three_has_no_peer():
    with pytest.raises(EmulatorError, match="rank 2 of a cluster of 3 has no peer") as caught:
        allocate(ALLOC.format(64) + ADDRESS + DEALLOC.format(64), grid=3, cluster=3)
    assert caught.value.kind == "cta-pair"


@SCHEDULES
@pytest.mark.parametrize("fenced", [False, True])
def test_the_peer_writes_an_operand_by_ordinary_stores(schedule, fenced):
    """Its writes need a proxy fence, though another CTA's thread has them read."""
    write = " setp.eq.u32 %p6, %r0, 5; @%p6 st.shared.b32 [%r5], 0;\n"
    write += " fence.proxy.async.shared::cta;\n" if fenced else ""
    text = write + CLUSTER_BARRIER + GOOD
    if not fenced:
        error = refused(text, "without fence.proxy.async by the writer", schedule)
        assert error.kind == "missing-proxy-fence"
        return
    good = case()
    good.images[:, :4] = 0
    # The element of A whose bytes are the first of the image: rows 0 and 128, k = 0 and 1.
    good.a[[0, 128], :2] = 0
    good.check(text=text, schedule=schedule)


@SCHEDULES
def test_a_store_of_the_peer_that_is_not_complete(schedule):
    store = " tcgen05.st.sync.aligned.32x32b.x1.b32 [%r3], {%r0};\n"
    text = store + " tcgen05.fence::before_thread_sync;" + CLUSTER_BARRIER
    error = refused(text + " tcgen05.fence::after_thread_sync;" + GOOD, "wait::st", schedule)
    assert error.kind == "missing-wait"


@SCHEDULES
def test_both_ctas_issue_the_same_product(schedule):
    text = GOOD.replace("setp.eq.and.u32 %p4, %r11, 0, %p0", "and.pred %p4, %p0, %p0")
    refused(text, "accumulates into .* pipe of warp 0, lane 0", schedule)


# --- allocation ---------------------------------------------------------------------------------

_ALLOCATION = """
.visible .entry k(.param .u64 OUT) {{
 .shared .b32 slot[4]; .reg .b32 %r<9>; .reg .b64 %d<4>; .reg .pred %p<4>;
 mov.u32 %r0, %cluster_ctarank; mov.u32 %r1, slot; mov.u32 %r7, %tid.x; shr.u32 %r8, %r7, 5;
 setp.eq.u32 %p0, %r0, 0; setp.eq.u32 %p1, %r8, 0; and.pred %p2, %p0, %p1;
 {text}
 ret;
}}"""
ALLOC = "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r1], {};\n"
ADDRESS = "bar.warp.sync -1; ld.shared.b32 %r2, [%r1]; bar.warp.sync -1;\n"
DEALLOC = "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r2, {};\n"
RELINQUISH = "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned;\n"
OF_FIRST = " @!%p0 bra {label};\n {text} {label}:\n"


def allocate(text, threads=32, schedule="late", grid=2, cluster=2):
    kernel = Device("sm_100a").load_ptx(HEADER + _ALLOCATION.format(text=text))["k"]
    out = np.zeros((grid, 4), np.uint32)
    kernel.launch(grid, threads, [out], cluster=cluster, schedule=schedule)
    return out


@SCHEDULES
def test_both_allocate_and_leave_at_once(schedule):
    text = ALLOC.format(64) + ADDRESS + RELINQUISH + CLUSTER_BARRIER + DEALLOC.format(64)
    allocate(text, schedule=schedule, grid=6)


@SCHEDULES
def test_two_allocations_and_reuse(schedule):
    """The second block follows the first in both; after both are free they are given again."""
    store = (
        "ld.param.u64 %d0, [OUT]; mov.u32 %r6, %ctaid.x; mul.wide.u32 %d1, %r6, 16;"
        " add.u64 %d0, %d0, %d1; st.global.b32 [%d0+{at}], {value};\n"
    )
    text = ALLOC.format(128) + ADDRESS + store.format(at=0, value="%r2") + "mov.b32 %r3, %r2;\n"
    text += ALLOC.format(128) + ADDRESS + store.format(at=4, value="%r2")
    text += DEALLOC.format(128) + "mov.b32 %r2, %r3;\n" + DEALLOC.format(128)
    text += ALLOC.format(64) + ADDRESS + store.format(at=8, value="%r2") + DEALLOC.format(64)
    out = allocate(text, schedule=schedule)
    np.testing.assert_array_equal(out[:, :3], [[0, 128, 0]] * 2)


@SCHEDULES
def test_an_allocation_waits_until_others_have_freed(schedule):
    """Two warps of each CTA want all of tensor memory in turn."""
    text = ALLOC.format(512) + ADDRESS + DEALLOC.format(512)
    text = "mad.lo.u32 %r1, %r8, 4, %r1;\n" + text
    allocate(text, threads=64, schedule=schedule)


@pytest.mark.parametrize(
    ("text", "kind", "complaint"),
    [
        (
            OF_FIRST.format(label="L", text=ALLOC.format(64)),
            "cta-pair",
            "exited without its tcgen05.alloc",
        ),
        (
            OF_FIRST.format(label="L", text=ALLOC.format(64)) + CLUSTER_BARRIER,
            "deadlock",
            "tcgen05.alloc: a warp of the peer CTA",
        ),
        (
            "selp.b32 %r3, 64, 128, %p0;\n" + ALLOC.format("%r3"),
            "cta-pair",
            "columns together with one of",
        ),
        (
            ALLOC.format(64) + ADDRESS + OF_FIRST.format(label="L", text=DEALLOC.format(64)),
            "cta-pair",
            "exited without its tcgen05.dealloc",
        ),
        # The scenario of the PTX ISA that hangs if the deallocation blocks.
        (
            ALLOC.format(64) + ADDRESS
            + OF_FIRST.format(label="L", text=CLUSTER_BARRIER + DEALLOC.format(64) + "ret;")
            + DEALLOC.format(64) + CLUSTER_BARRIER,
            "deadlock",
            "tcgen05.dealloc: a warp of the peer CTA",
        ),
        (
            ALLOC.format(64) + ADDRESS + OF_FIRST.format(label="L", text=RELINQUISH)
            + DEALLOC.format(64),
            "deadlock",
            "tcgen05.relinquish_alloc_permit: a warp of the peer CTA",
        ),
        (ALLOC.format(64), "tmem-leak", "exits with tensor memory allocated"),
        (RELINQUISH + ALLOC.format(64), "tmem", "after tcgen05.relinquish_alloc_permit"),
        (ALLOC.format(48), "tmem", "power of two"),
        (
            ALLOC.format(64) + ADDRESS + DEALLOC.format(128),
            "tmem",
            "matches no allocation",
        ),
        (
            ALLOC.format(64) + ADDRESS + DEALLOC.format(64) + DEALLOC.format(64),
            "tmem",
            "matches no allocation",
        ),
        (
            ALLOC.format(64) + ADDRESS + DEALLOC.format(64) + ALLOC.format(128),
            "tmem",
            "must not be larger",
        ),
    ],
)  # fmt: skip
@SCHEDULES
def test_wrong_allocations(text, kind, complaint, schedule):
    with pytest.raises(EmulatorError, match=complaint) as caught:
        allocate(text, schedule=schedule)
    assert caught.value.kind == kind
    assert caught.value.ptx_line > 0


@SCHEDULES
@pytest.mark.parametrize(
    "instruction",
    [
        "tcgen05.shift.cta_group::2.down [%r2];",
        "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%r1];",
    ],
)
def test_the_peer_has_exited(instruction, schedule):
    """The first CTA waits so long that the other is gone in every schedule."""
    text = ALLOC.format(64) + ADDRESS
    text += " setp.ne.u32 %p3, %r0, 0; @%p3 ret;\n mov.u32 %r4, 0;\nL: add.u32 %r4, %r4, 1;\n"
    text += " setp.lt.u32 %p3, %r4, 100000; @%p3 bra L;\n elect.sync _|%p3, -1;\n"
    with pytest.raises(
        EmulatorError, match="peer CTA, rank 1 of the cluster, has exited"
    ) as caught:
        allocate(text + f" @%p3 {instruction}", schedule=schedule)
    assert caught.value.kind == "cta-pair"


@SCHEDULES
def test_the_peer_frees_what_is_still_computed(schedule):
    """It neither waits for the commit nor meets the other CTA."""
    leaves = "ISSUED: @%p4 bra STAYS; setp.ne.u32 %p6, %r10, 0; @%p6 bra LEAVES;\nSTAYS:"
    text = program(GOOD).replace("\nISSUED:", "\n" + leaves)
    text = text.replace("@!%p3 bra ISSUED;", "@!%p3 bra STAYS;")
    text = text.replace(" @%p1 bra END;", "LEAVES: @%p1 bra END;")
    good = case()
    kernel = Device("sm_100a").load_ptx(text)["k"]
    arguments = [good.cells, np.zeros_like(good.cells), good.images, *good.args]
    found = r"tcgen05\.(dealloc frees|mma accumulates into)"
    with pytest.raises(EmulatorError, match=found) as caught:
        kernel.launch(2, 128, arguments, cluster=2, schedule=schedule)
    assert caught.value.kind in ("race", "missing-wait")
