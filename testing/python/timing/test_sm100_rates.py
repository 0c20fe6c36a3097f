"""The model of a B200 against published figures: kernels of a few instructions on the emulator.

Sources: SemiAnalysis' micro-benchmarks of a B200, those of a B300 by reverse engineers, and the
paper of FlashAttention-4 (docs/timing_figures.md). All within 10 %.
"""

import importlib
import warnings
from pathlib import Path

import numpy as np
import pytest

from tilelang.emulator import Device, TimingOptions

HEAD = """.version 8.7
.target sm_100a
.address_size 64
.visible .entry k(.param .u64 P) {
 .reg .b32 %t, %ta, %i, %x, %r<200>; .reg .b64 %a, %b, %c, %d; .reg .pred %z, %q, %w, %one;
 .reg .f32 %f<40>; .reg .b64 %v<20>;
 .shared .align 1024 .b8 A[131072]; .shared .align 1024 .b8 B[32768];
 .shared .align 8 .b64 bar; .shared .b32 slot;
 mov.u32 %r1, slot; mov.u32 %r2, bar; mov.u32 %x, %tid.x; ld.param.u64 %d, [P];
 setp.eq.u32 %one, %x, 0; setp.ne.u32 %z, 0, 0;
"""
TENSOR = """ shr.u32 %r3, %x, 5; setp.ne.u32 %q, %r3, 0;
 @!%q tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r1], 512;
 @%one mbarrier.init.shared::cta.b64 [%r2], 1;
 bar.sync 0;
 ld.shared.u32 %t, [%r1]; add.u32 %ta, %t, 256;
 mov.u32 %r3, A; shr.u32 %r3, %r3, 4; cvt.u64.u32 %a, %r3; or.b64 %a, %a, 0x4000404000010000;
 mov.u32 %r4, B; shr.u32 %r4, %r4, 4; cvt.u64.u32 %b, %r4; or.b64 %b, %b, 0x4000404000010000;
 cvt.u64.u32 %c, %r3; or.b64 %c, %c, 0x0000400800010000;
"""
TENSOR_END = """ bar.sync 0;
 @!%q tcgen05.dealloc.cta_group::1.sync.aligned.b32 %t, 512;
 @!%q tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;
"""
COMMIT = "@%one tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r2];\n"
WAIT = "W#: mbarrier.try_wait.parity.shared::cta.b64 %w, [%r2], PARITY; @!%w bra W#;\n"


# Of a pair the even CTA issues, and waits.
MEET = "barrier.cluster.arrive; barrier.cluster.wait;"
PAIR = f""" mov.u32 %r5, %cluster_ctarank; setp.ne.u32 %w, %r5, 0; {MEET}
 @%w bra PEER;
"""


def timing(text, threads=32, ctas=1, data=None, cold=False, cluster=1):
    """The Timing of a kernel."""
    argument = np.zeros(16, np.uint8) if data is None else data
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # operands that nothing has written
        report = (
            Device("sm_100a")
            .load_ptx(text)["k"]
            .launch(
                ctas, threads, [argument], sanitize=False, cluster=cluster,
                timing=TimingOptions(l2="cold" if cold else "warm", sampled=ctas > 1, record=False),
            )
        )  # fmt: skip
    return report.timing


def rounds(count, body):
    """The text ``count`` times, with labels of its own and the parity of a phase."""
    return "".join(
        body.replace("#", str(i)).replace("PARITY", str(i & 1)) for i in range(count)
    )  # fmt: skip


def slope(body, threads=32, few=4, many=24, tensor=True):
    """Cycles that one more of the text takes a CTA."""

    def span(count):
        text = HEAD + (TENSOR if tensor else "") + rounds(count, body)
        return timing(text + (TENSOR_END if tensor else "") + " ret;\n}\n", threads).span_cycles

    return (span(many) - span(few)) / (many - few)


def pair_slope(body, few=4, many=24):
    """The same of a pair of CTAs."""

    def span(count):
        text = HEAD + TENSOR + PAIR + rounds(count, body) + f"PEER: {MEET}\n" + TENSOR_END
        text = text.replace("cta_group::1", "cta_group::2") + " ret;\n}\n"
        return timing(text, ctas=2, cluster=2).span_cycles

    return (span(many) - span(few)) / (many - few)


def mma(m, n, form="SS", kind="f16", count=1):
    """So many products by one thread."""
    types = {"f16": 0x490, "tf32": 0x910, "f8f6f4": 0x10, "i8": 0x4A0}[kind]
    instruction = m >> 4 << 24 | n >> 3 << 17 | types
    a = "%a" if form == "SS" else "[%ta]"
    product = f"@%one tcgen05.mma.cta_group::1.kind::{kind} [%t], {a}, %b, %i, %z;\n"
    return f"mov.u32 %i, {instruction};\n" + product * count


# SemiAnalysis: cycles of an instruction when many follow each other.
@pytest.mark.parametrize(
    "form, m, n, cycles",
    [
        ("SS", 128, 64, 48.5), ("SS", 128, 80, 52.6), ("SS", 128, 96, 56.6), ("SS", 128, 112, 60.6),
        ("SS", 128, 128, 64.6), ("SS", 128, 256, 128.6), ("SS", 64, 64, 32.5),
        ("TS", 128, 64, 32), ("TS", 128, 128, 64), ("TS", 128, 256, 128), ("TS", 64, 128, 64),
    ],
)  # fmt: skip
def test_rate_of_products(form, m, n, cycles):
    assert slope(mma(m, n, form, count=4), few=20, many=40) / 4 == pytest.approx(cycles, rel=0.1)


# The same of pairs.
@pytest.mark.parametrize(
    "form, m, n, cycles",
    [
        ("SS", 256, 64, 43.7), ("SS", 256, 80, 46.1), ("SS", 256, 96, 50.1), ("SS", 256, 112, 56.7),
        ("SS", 256, 128, 64.7), ("SS", 256, 256, 128.7), ("TS", 256, 64, 32.6),
        ("TS", 256, 256, 128.6), ("SS", 128, 64, 25.7), ("SS", 128, 80, 27.7),
        ("SS", 128, 96, 29.7), ("SS", 128, 112, 30.7), ("SS", 128, 128, 32.7),
        ("SS", 128, 256, 64.7), ("TS", 128, 64, 18.3), ("TS", 128, 256, 64),
    ],
)  # fmt: skip
def test_rate_of_products_of_pairs(form, m, n, cycles):
    found = pair_slope(mma(m, n, form, count=4), few=20, many=40) / 4
    assert found == pytest.approx(cycles, rel=0.1)


@pytest.mark.parametrize(
    "form, m, n, cycles",
    [
        ("SS", 256, 64, 170 + 32), ("SS", 256, 256, 170 + 128), ("TS", 256, 64, 138 + 32),
        ("TS", 256, 256, 138 + 128), ("SS", 128, 64, 173), ("SS", 128, 256, 229),
    ],
)  # fmt: skip
def test_latency_of_a_product_of_a_pair(form, m, n, cycles):
    assert pair_slope(mma(m, n, form) + COMMIT + WAIT) == pytest.approx(cycles, rel=0.1)


@pytest.mark.parametrize("kind", ["tf32", "f8f6f4", "i8"])
def test_kinds_take_the_same_cycles(kind):
    # K is 32 bytes of a row of any kind.
    assert slope(mma(128, 256, kind=kind, count=4), few=20, many=40) / 4 == pytest.approx(
        128.6, rel=0.1
    )


# SemiAnalysis: from the issue to a thread that waits at the mbarrier.
@pytest.mark.parametrize(
    "form, m, n, cycles",
    [
        ("SS", 128, 64, 136 + 32), ("SS", 128, 256, 136 + 128), ("SS", 64, 64, 120 + 32),
        ("SS", 64, 256, 120 + 128), ("TS", 128, 64, 104 + 32), ("TS", 128, 256, 104 + 128),
    ],
)  # fmt: skip
def test_latency_of_a_product(form, m, n, cycles):
    assert slope(mma(m, n, form) + COMMIT + WAIT) == pytest.approx(cycles, rel=0.1)


def test_four_products_in_flight():
    # SemiAnalysis: 78 to 80 % of the peak.
    cycles = slope(mma(128, 256, count=4) + COMMIT + WAIT)
    assert 4 * 128 / cycles == pytest.approx(0.79, rel=0.1)


def test_balance_of_flash_attention():
    # FlashAttention-4, a tile of 128 x 128 and 128 dimensions: 1024 cycles of products (scores from
    # shared memory, weights from tensor memory), 1024 of exponentials.
    products = mma(128, 128, "SS", count=8) + mma(128, 128, "TS", count=8)
    assert slope(products) == pytest.approx(1024, rel=0.1)
    exponentials = "".join(f"ex2.approx.ftz.f32 %f{i}, %f{i};\n" for i in range(32))
    assert slope(exponentials, threads=512, tensor=False) == pytest.approx(1024, rel=0.1)


def load(shape, number, registers):
    """A load of tensor memory into registers."""
    names = ", ".join(f"%r{20 + i}" for i in range(registers))
    return f"tcgen05.ld.sync.aligned.{shape}.x{number}.b32 {{{names}}}, [%t];\n"


# B300: cycles of the port of a sub-core, with two warps of each.
@pytest.mark.parametrize(
    "shape, number, registers, cycles",
    [
        ("32x32b", 16, 16, 8), ("32x32b", 32, 32, 16), ("32x32b", 128, 128, 64),
        ("16x64b", 32, 32, 32), ("16x128b", 16, 32, 32), ("16x256b", 8, 32, 64),
    ],
)  # fmt: skip
def test_rate_of_loads_of_tensor_memory(shape, number, registers, cycles):
    lanes = " and.b32 %r5, %x, 96; shl.b32 %r5, %r5, 16; add.u32 %t, %t, %r5;\n"
    few, many = (
        timing(
            HEAD + TENSOR + lanes + load(shape, number, registers) * count
            + " tcgen05.wait::ld.sync.aligned;\n sub.u32 %t, %t, %r5;\n" + TENSOR_END
            + " ret;\n}\n", 256,
        ).span_cycles
        for count in (8, 28)
    )  # fmt: skip
    assert (many - few) / 40 == pytest.approx(cycles, rel=0.1)


def test_one_warp_does_not_fill_the_port_of_tensor_memory():
    # 184 to 213 of 256 bytes a cycle.
    wait = "tcgen05.wait::ld.sync.aligned;\n"
    text = load("32x32b", 32, 32)
    few, many = (
        timing(HEAD + TENSOR + text * count + wait + TENSOR_END + " ret;\n}\n").span_cycles
        for count in (8, 28)
    )
    assert 184 * 0.95 <= 32 * 32 * 4 / ((many - few) / 20) <= 213 * 1.05


def test_latency_of_a_load_of_tensor_memory():
    assert slope(load("32x32b", 16, 16) + "tcgen05.wait::ld.sync.aligned;\n") == pytest.approx(
        24.5, rel=0.1
    )


def test_copies_into_tensor_memory():
    copy = "@%one tcgen05.cp.cta_group::1.128x256b [%t], %c;\n"
    assert slope(copy, few=20, many=40) == pytest.approx(128, rel=0.1)
    assert slope(copy + COMMIT + WAIT) == pytest.approx(168, rel=0.1)


# Copies of factors and products take turns in the tensor core: a step of cuDNN's nvfp4 GEMM with
# eight copies and four products (8192 cubed, 256 x 64 a pair) takes 314 cycles, and 8 * 16 + 4 *
# 43.7 are 303.
@pytest.mark.parametrize("copies", [1, 2, 4])
def test_copies_of_factors_and_products_take_turns(copies):
    copy = "@%one tcgen05.cp.cta_group::1.32x128b.warpx4 [%t], %c;\n"
    step = copy * copies + mma(128, 128)
    assert slope(step, few=20, many=40) == pytest.approx(16 * copies + 64.6, rel=0.1)


ELECTION = """ {{ .reg .pred %e, %f; .reg .b32 %l, %v; elect.sync %l|%e, -1; selp.b32 %v, 1, 0, %e;
 setp.ne.s32 %f, %v, 1; @%f bra SKIP#;
 {body}
 SKIP#: }}
"""


# ptxas for sm_100a makes UTCCP alone of an elected tcgen05.cp, without ELECT and BRA: the machine
# code of cuDNN's kernels in tirx-kernels. The copy takes 16 cycles, an election alone 12.
FACTORS = "tcgen05.cp.cta_group::1.32x128b.warpx4 [%t], %c;"


def test_an_elected_copy_costs_no_election():
    elected = slope(ELECTION.format(body=FACTORS), few=20, many=40)
    assert elected == pytest.approx(16, rel=0.1)


def test_an_election_whose_lane_is_read_stays():
    read = ELECTION.format(body=FACTORS).replace("selp", "add.u32 %r3, %r3, %l; selp")
    assert slope(read, few=20, many=40) > 24


def test_an_elected_store_costs_its_election():
    store = "st.shared.b32 [%r2+8], %r1;"
    alone = slope(store + "\n", few=20, many=40)
    assert slope(ELECTION.format(body=store), few=20, many=40) > alone + 12


def test_allocation():
    with_it = timing(HEAD + TENSOR + TENSOR_END + " ret;\n}\n").span_cycles
    without = TENSOR.replace("@!%q tcgen05.alloc", "@%q tcgen05.alloc")
    end = TENSOR_END.replace("@!%q", "@%q")
    assert with_it - timing(HEAD + without + end + " ret;\n}\n").span_cycles == pytest.approx(
        253, rel=0.1
    )


# B300: an arrival, a wait that need not wait, a barrier of 512 threads.
@pytest.mark.parametrize(
    "text, threads, cycles",
    [
        ("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 0;\n", 32, 8),
        ("mbarrier.try_wait.parity.shared::cta.b64 %w, [%r2], 1;\n", 32, 7.5),
        ("bar.sync 0;\n", 512, 45),
    ],
)
def test_synchronization(text, threads, cycles):
    if "arrive" in text:
        # The barrier counts enough arrivals for all.
        text = (
            text.replace("expect_tx.", "")
            .replace(", 0;", ";")
            .replace("mbarrier", "@%one mbarrier")
        )
    init = "@%one mbarrier.init.shared::cta.b64 [%r2], 1000;\n bar.sync 0;\n"
    few, many = (
        timing(HEAD + init + text * count + " ret;\n}\n", threads).span_cycles for count in (4, 24)
    )
    assert (many - few) / 20 == pytest.approx(cycles, rel=0.1)


# FlashAttention-4: of an SM, a cycle.
@pytest.mark.parametrize(
    "text, operations",
    [
        ("ex2.approx.ftz.f32 %f#, %f#;\n", 16),
        ("fma.rn.f32 %f#, %f#, %f0, %f0;\n", 128),
        ("fma.rn.f32x2 %v#, %v#, %v0, %v0;\n", 64),
    ],
)
def test_rates_of_arithmetic(text, operations):
    body = "".join(text.replace("#", str(i)) for i in range(1, 17))
    cycles = slope(body, threads=512, tensor=False)
    assert 16 * 512 / cycles == pytest.approx(operations, rel=0.1)


# nvdisasm, of ptxas for sm_100a: FMNMX3 is the largest of three, F2FP converts two and packs them.
@pytest.mark.parametrize(
    "text, instructions",
    [
        ("max.f32 %a, %f1, %f3; max.f32 %f2, %a, %f2;", 1),
        ("max.f32 %a, %f1, %f3; min.f32 %f2, %a, %f2;", 2),
        ("max.f32 %a, %f1, %f3, %f4; max.f32 %f2, %a, %f2;", 2),
        ("max.f32 %a, %f1, %f3; max.f32 %b, %a, %f3; max.f32 %f2, %b, %f2;", 2),
        ("cvt.rn.bf16.f32 %g, %f1; cvt.rn.bf16.f32 %h, %f2; mov.b32 %r9, {%g, %h};", 1),
    ],
)
def test_what_one_instruction_does(text, instructions):
    step = "{ .reg .f32 %a, %b; .reg .b16 %g, %h;" + text + "}\n"
    keep = "xor.b32 %r8, %r8, %r9;\n"
    cycles = slope((step * 8 + keep) * 4, threads=512, tensor=False)
    pipe = 2 * 512 / 128  # cycles of one, of four warps
    assert cycles == pytest.approx(32 * pipe * instructions, rel=0.15)


# ptxas moves the conversions of a register to its packing, also into another block.
def test_conversions_before_a_wait():
    convert = "cvt.rn.bf16.f32 %g, %f1; cvt.rn.bf16.f32 %h, %f2;"
    pack = "mov.b32 %r9, {%g, %h}; xor.b32 %r8, %r8, %r9;"
    block = "setp.eq.u32 %skip, %r8, 1; @%skip bra past#; past#:"
    spans = []
    for text in (f"{convert} {block} {pack}", f"{block} {convert} {pack}"):
        steps = (f"{{ .reg .pred %skip; .reg .b16 %g, %h; {text} }}\n" for _ in range(32))
        body = "".join(step.replace("#", str(i)) for i, step in enumerate(steps))
        spans.append(slope(body, threads=512, tensor=False))
    assert spans[0] == pytest.approx(spans[1], rel=0.05)


def bulk(size, count=1, bytes_a_copy=131072):
    """One thread of each CTA loads so many bytes into place, again and again, and waits."""
    pieces = max(1, size // bytes_a_copy)
    each = size // pieces
    copies = "".join(
        f"@%one cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
        f"[%r3+{i * each}], [%d], {each}, [%r2];\nadd.u64 %d, %d, {each};\n"
        for i in range(pieces)
    )
    turn = f"@%one mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {size};\n{copies}{WAIT}"
    return (
        HEAD + f"""@%one mbarrier.init.shared::cta.b64 [%r2], 1;
 fence.mbarrier_init.release.cluster; bar.sync 0;
 mov.u32 %r3, A; mov.u32 %r4, %ctaid.x; mul.wide.u32 %c, %r4, {size * count}; add.u64 %d, %d, %c;
""" + rounds(count, turn) + " ret;\n}\n"
    )  # fmt: skip


# SemiAnalysis: cycles for each copy of so much by TMA from HBM, one after the other on all SMs.
@pytest.mark.parametrize("size, cycles", [(1024, 927), (4096, 1038), (8192, 1258)])
def test_copies_by_tma_from_hbm(size, cycles):
    few, many = 4, 10
    spans = [
        timing(
            bulk(size, count), ctas=148, data=np.zeros(148 * size * count, np.uint8), cold=True
        ).cta_cycles
        for count in (few, many)
    ]
    assert (spans[1] - spans[0]) / (many - few) == pytest.approx(cycles, rel=0.25)


def test_multicast_reads_once():
    """Two CTAs get 64 KiB each: both load, or one loads for both, which takes no longer."""
    size = 65536
    data = np.zeros(size, np.uint8)
    copy = (
        "@%one cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%d], "
        f"{size}, [%r2];\n"
    )
    sent = copy.replace("@%one", "@%w").replace("bytes [", "bytes.multicast::cluster [")
    sent = sent.replace("[%r2];", "[%r2], %h;")

    def of(body):
        text = HEAD + f"""@%one mbarrier.init.shared::cta.b64 [%r2], 1;
 fence.mbarrier_init.release.cluster; {MEET} mov.u32 %r3, A;
 @%one mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], {size};
 .reg .b16 %h; mov.b16 %h, 3; mov.u32 %r5, %cluster_ctarank; setp.eq.and.u32 %w, %r5, 0, %one;
 {body}{rounds(1, WAIT)} {MEET} ret;
}}
"""  # fmt: skip
        return timing(text, ctas=2, cluster=2, data=data)

    both, one = of(copy), of(sent)
    assert one.l2_bytes == pytest.approx(both.l2_bytes / 2, rel=0.05)
    assert one.span_cycles == pytest.approx(both.span_cycles, rel=0.1)


def test_latency_of_l2():
    chase = "ld.relaxed.gpu.global.u64 %d, [%d];\n"
    # Where it points to does not matter: always to itself.
    data = np.zeros(2, np.uint64)
    text = HEAD + "mov.b64 %c, %d;\n" + (chase + "add.u64 %d, %d, %c;\n") * 8 + " ret;\n}\n"
    longer = HEAD + "mov.b64 %c, %d;\n" + (chase + "add.u64 %d, %d, %c;\n") * 18 + " ret;\n}\n"
    cycles = (timing(longer, data=data).span_cycles - timing(text, data=data).span_cycles) / 10
    assert cycles == pytest.approx(300, rel=0.1)


def test_bandwidth_of_hbm():
    # SemiAnalysis: 7.0 to 7.26 TB/s with 64 KiB and more in flight on each SM.
    size = 65536
    data = np.zeros(148 * 16 * size, np.uint8)
    text = bulk(size).replace("A[131072]", "A[65536]").replace("B[32768]", "B[1024]")  # three CTAs
    few, many = (
        timing(text, ctas=148 * count, data=data, cold=True).grid_us for count in (4, 16)
    )  # fmt: skip
    assert 12 * 148 * size / (many - few) / 1e6 == pytest.approx(7.1, rel=0.1)


def test_steps_of_a_gemm(monkeypatch):
    # gau-nernst/learn-cuda on a B200: 256, 721, 914, 1054, 1170, 1273 TFLOP/s.
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmark"))
    steps = importlib.import_module("timing_steps")
    rates = [steps.predicted(step)[0] for step in steps.STEPS]
    published = [step.published for step in steps.STEPS]
    assert rates == sorted(rates)
    for i in range(1, len(rates)):
        assert rates[i] / rates[i - 1] == pytest.approx(published[i] / published[i - 1], rel=0.15)
    assert rates == pytest.approx(published, rel=0.15)


def test_steps_of_a_gemm_compute(monkeypatch):
    monkeypatch.syspath_prepend(str(Path(__file__).parents[3] / "benchmark"))
    steps = importlib.import_module("timing_steps")
    for step in steps.STEPS:
        # Half a unit of bfloat16's last place, by the largest value's binade.
        assert steps.check(step) < 2**-8
