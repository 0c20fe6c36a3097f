"""mbarrier against a model of the PTX ISA's phase rule; misuse; deadlock."""

import random

import numpy as np
import pytest

from tilelang.emulator import Device, EmulatorError

HEADER = ".version 9.0\n.target sm_100a\n.address_size 64\n"
_KERNEL = """
.visible .entry k(.param .u64 OUT) {{
 .shared .align 8 .b64 bar;
 .reg .b32 %r<20>; .reg .b64 %d<8>; .reg .b64 %s<{tokens}>; .reg .pred %p<4>;
 mov.u32 %r0, bar; ld.param.u64 %d0, [OUT];
 {body}
 ret;
}}
"""


def launch(body, out, tokens=200, block=1, **options):
    text = HEADER + _KERNEL.format(body=body, tokens=tokens)
    return Device().load_ptx(text)["k"].launch(1, block, [out], **options)


class Model:
    """Phase, pending arrivals and transaction bytes of one mbarrier."""

    def __init__(self, count):
        self.expected = self.pending = count
        self.bytes = self.phase = 0

    def arrive(self, count, drop=False):
        self.pending -= count
        self.expected -= count if drop else 0
        self.finish()

    def finish(self):
        if self.pending == 0 and self.bytes == 0:
            self.phase += 1
            self.pending = self.expected


def random_program(seed):
    """A legal sequence of operations, what each test of it must read, and its PTX."""
    rng = random.Random(seed)
    count = rng.randint(2, 9)
    model = Model(count)
    lines, reads, token = [f"mbarrier.init.shared::cta.b64 [%r0], {count};"], [], 0
    tokens = []
    for _ in range(60):
        choice = rng.choice(["arrive", "arrive", "expect", "complete", "parity", "token", "drop",
                             "both", "nocomplete"])  # fmt: skip
        left = model.pending
        if choice == "arrive" and left:
            n = rng.randint(1, left)
            lines.append(f"mbarrier.arrive.shared::cta.b64 %s{token}, [%r0], {n};")
            tokens.append((token, model.phase, left))
            token += 1
            model.arrive(n)
        elif choice == "nocomplete" and left > 1:
            lines.append(f"mbarrier.arrive.noComplete.shared::cta.b64 %s{token}, [%r0], 1;")
            token += 1
            model.arrive(1)
        elif choice == "both" and left:
            n = 16 * rng.randint(0, 9)
            lines.append(f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r0], {n};")
            model.bytes += n
            model.arrive(1)
        elif choice == "drop" and left and model.expected > 1:
            lines.append("mbarrier.arrive_drop.shared::cta.b64 _, [%r0];")
            model.arrive(1, drop=True)
        elif choice == "expect" and left:
            lines.append("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r0], 48;")
            model.bytes += 48
        elif choice == "complete" and (model.bytes > 0 or left > 1):
            n = model.bytes if model.bytes > 0 and rng.random() < 0.8 else 16
            if model.pending == 0 and n > model.bytes:
                continue
            if n > model.bytes:
                continue
            lines.append(f"mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r0], {n};")
            model.bytes -= n
            model.finish()
        elif choice == "parity":
            parity = rng.randint(0, 1)
            lines.append(f"mbarrier.test_wait.parity.shared::cta.b64 %p0, [%r0], {parity};")
            reads.append(int(model.phase & 1 != parity))
        elif choice == "token" and tokens:
            name, phase, pending = tokens[-1]
            lines.append(f"mbarrier.pending_count.b64 %r2, %s{name};")
            lines.append("st.global.u32 [%d0], %r2; add.u64 %d0, %d0, 4;")
            reads.append(pending)
            if model.phase - phase > 1:
                continue
            lines.append(f"mbarrier.test_wait.shared::cta.b64 %p0, [%r0], %s{name};")
            reads.append(int(model.phase != phase))
        if "test_wait" in lines[-1]:
            lines.append("selp.u32 %r1, 1, 0, %p0; st.global.u32 [%d0], %r1; add.u64 %d0, %d0, 4;")
    return lines, reads


@pytest.mark.parametrize("seed", range(30))
def test_random_sequences(seed):
    lines, reads = random_program(seed)
    out = np.full(max(len(reads), 1), 77, np.uint32)
    launch("\n".join(lines), out)
    assert out[: len(reads)].tolist() == reads


INIT = "mbarrier.init.shared::cta.b64 [%r0], 2;\n"


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        (INIT + "mbarrier.arrive.shared::cta.b64 _, [%r0], 3;", "over-arrival"),
        (INIT + "mbarrier.arrive.shared::cta.b64 _, [%r0], 0;", "not in 1..1048575"),
        ("mbarrier.arrive.shared::cta.b64 _, [%r0];", "no mbarrier was initialised"),
        ("mbarrier.init.shared::cta.b64 [%r0], 0;", "not in 1..1048575"),
        ("mov.u32 %r3, 1048576; mbarrier.init.shared::cta.b64 [%r0], %r3;", "not in 1..1048575"),
        (INIT + "mbarrier.inval.shared::cta.b64 [%r0]; mbarrier.arrive.shared::cta.b64 _, [%r0];",
         "no mbarrier was initialised"),
        (INIT + "mov.u64 %d1, 5; st.shared.u64 [%r0], %d1; "
         "mbarrier.arrive.shared::cta.b64 _, [%r0];", "overwritten"),
        (INIT + "mbarrier.arrive.shared::cta.b64 _, [%r0], 2;"
         "mbarrier.arrive.noComplete.shared::cta.b64 %s0, [%r0], 2;", "would complete"),
        (INIT + "mbarrier.arrive.shared::cta.b64 _, [%r0]; "
         "mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%r0], 16; "
         "mbarrier.arrive.shared::cta.b64 _, [%r0];", "underflow"),
        (INIT + "mbarrier.arrive.shared::cta.b64 %s0, [%r0], 2; "
         "mbarrier.arrive.shared::cta.b64 _, [%r0], 2; "
         "mbarrier.test_wait.shared::cta.b64 %p0, [%r0], %s0;", "preceding phase"),
    ],
)  # fmt: skip
def test_misuse(body, complaint):
    with pytest.raises(EmulatorError, match=complaint) as caught:
        launch(body, np.zeros(4, np.uint32))
    assert caught.value.kind == "mbarrier"
    assert caught.value.address == 1024
    assert caught.value.ptx_line > 0


def test_misaligned():
    with pytest.raises(EmulatorError, match="8-byte aligned") as caught:
        launch("mbarrier.init.shared::cta.b64 [%r0+4], 1;", np.zeros(4, np.uint32))
    assert caught.value.kind in ("misaligned", "out-of-bounds")


def test_deadlock_tells_who_waits_for_what():
    body = (
        INIT
        + """
 mbarrier.arrive.shared::cta.b64 _, [%r0];
W: mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r0], 0; @!%p0 bra W;"""
    )
    with pytest.raises(EmulatorError) as caught:
        launch(body, np.zeros(4, np.uint32))
    assert caught.value.kind == "deadlock"
    report = str(caught.value)
    assert "parity 0; it runs phase 0 (parity 0) and awaits 1 of 2 arrivals" in report
    assert "warp 0" in report


def test_try_wait_gives_up_when_nothing_can_come():
    out = np.full(1, 9, np.uint32)
    launch(
        INIT
        + """
 mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r0], 0, 1000;
 selp.u32 %r1, 1, 0, %p0; st.global.u32 [%d0], %r1;""",
        out,
    )
    assert out[0] == 0


def test_fresh_barrier_lets_parity_1_pass():
    out = np.full(1, 9, np.uint32)
    launch(
        INIT
        + """
 mbarrier.try_wait.parity.shared::cta.b64 %p0, [%r0], 1;
 selp.u32 %r1, 1, 0, %p0; st.global.u32 [%d0], %r1;""",
        out,
    )
    assert out[0] == 1


@pytest.mark.parametrize("schedule", ["late", "eager", 1, 2, 3])
def test_producers_and_consumers_take_turns(schedule):
    """Warp 0 produces 50 values through one slot; warps 1 to 3 sum what they see."""
    text = (
        HEADER
        + """
.visible .entry k(.param .u64 OUT) {
 .shared .align 8 .b64 bar[2]; .shared .b32 slot;
 .reg .b32 %r<20>; .reg .b64 %d<8>; .reg .pred %p<6>;
 mov.u32 %r0, bar; add.u32 %r1, %r0, 8; mov.u32 %r2, slot; mov.u32 %r3, %tid.x;
 setp.eq.u32 %p0, %r3, 0; @!%p0 bra S;
 mbarrier.init.shared::cta.b64 [%r0], 32; mbarrier.init.shared::cta.b64 [%r1], 96;
S: bar.sync 0;
 mov.u32 %r4, 0; mov.u32 %r5, 0; shr.u32 %r6, %r3, 5; setp.ne.u32 %p1, %r6, 0; @%p1 bra USE;
MAKE: and.b32 %r7, %r4, 1; xor.b32 %r7, %r7, 1;
E: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r1], %r7; @!%p2 bra E;
 mul.lo.u32 %r8, %r4, %r4; @%p0 st.shared.u32 [%r2], %r8;
 mbarrier.arrive.shared::cta.b64 _, [%r0];
 add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 50; @%p3 bra MAKE; bra END;
USE: and.b32 %r7, %r4, 1;
F: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r0], %r7; @!%p2 bra F;
 ld.shared.u32 %r8, [%r2]; add.u32 %r5, %r5, %r8;
 mbarrier.arrive.shared::cta.b64 _, [%r1];
 add.u32 %r4, %r4, 1; setp.lt.u32 %p3, %r4, 50; @%p3 bra USE;
 ld.param.u64 %d0, [OUT]; mul.wide.u32 %d1, %r3, 4; add.u64 %d0, %d0, %d1;
 st.global.u32 [%d0], %r5;
END: ret;
}"""
    )
    out = np.zeros(128, np.uint32)
    Device().load_ptx(text)["k"].launch(1, 128, [out], schedule=schedule)
    assert (out[32:] == sum(i * i for i in range(50))).all()
