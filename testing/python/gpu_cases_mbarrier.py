"""Kernels of mbarriers for the comparison of a GPU with the emulator: states and phases."""

from __future__ import annotations

import random

_OWN_BARRIER = (
    ".shared .align 8 .b64 bars[64]; .reg .b64 %s<99>;"
    "mov.u32 %i2, bars; mov.u32 %i3, %tid.x; mad.lo.u32 %i2, %i3, 8, %i2;"
)
_TESTS = [
    "mbarrier.test_wait.shared::cta.b64 %p1, [%i2], %s{token};",
    "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%i2], 0;",
    "mbarrier.test_wait.parity.shared::cta.b64 %p1, [%i2], 1;",
]
_KEEP = "selp.u32 %i3, 1, 0, %p1; mad.lo.u32 %out, %out, 3, %i3;"


def single_thread_body(seed: int, steps: int = 40) -> str:
    """Each thread makes arrivals and transactions on its own barrier and keeps what tests tell.

    ``left`` and ``transactions`` follow the phase only to keep the program legal: no arrival
    beyond the expected ones, no more bytes completed than expected.
    """
    rng = random.Random(seed)
    expected = left = rng.randint(2, 7)
    transactions = 0
    token, arrived = 0, False  # %s{token} is of this phase or the one before, if any
    lines = [_OWN_BARRIER, f"mbarrier.init.shared::cta.b64 [%i2], {expected};"]
    for step in range(steps):
        choice = rng.choice(["arrive", "arrive", "expect", "both", "drop", "complete", "test"])
        if choice == "arrive" and left:
            count = rng.randint(1, left)
            left -= count
            token, arrived = step, True
            lines.append(f"mbarrier.arrive.shared::cta.b64 %s{step}, [%i2], {count};")
            lines.append(f"mbarrier.pending_count.b64 %i3, %s{step};")
            lines.append("mad.lo.u32 %out, %out, 5, %i3;")
        elif choice == "expect" and left:
            transactions += 48
            lines.append("mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%i2], 48;")
        elif choice == "both" and left:
            transactions += 16
            left -= 1
            token, arrived = step, True
            lines.append(f"mbarrier.arrive.expect_tx.shared::cta.b64 %s{step}, [%i2], 16;")
        elif choice == "drop" and left and expected > 1:
            left, expected = left - 1, expected - 1
            token, arrived = step, True
            lines.append(f"mbarrier.arrive_drop.shared::cta.b64 %s{step}, [%i2];")
        elif choice == "complete" and transactions:
            count = rng.choice([transactions, 16])
            transactions -= count
            lines.append(f"mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%i2], {count};")
        if left == 0 and transactions == 0:
            left = expected
        # Two phases may not pass between an arrival and the test of its token.
        if arrived and token == step:
            lines.append(_TESTS[0].format(token=token) + _KEEP)
        lines.append(rng.choice(_TESTS[1:]) + _KEEP)
    return "\n".join(lines)


def parity_bits_body() -> str:
    """What a test of a parity other than 0 and 1 tells, in four phases."""
    lines = [_OWN_BARRIER, "mbarrier.init.shared::cta.b64 [%i2], 1;"]
    for _ in range(4):
        for parity in (0, 1, 2, 3, 0xFFFFFFFF, 0xFFFFFFFE, 0x80000000, 0x7FFFFFFF):
            lines.append(f"mov.u32 %i4, {parity};")
            lines.append("mbarrier.test_wait.parity.shared::cta.b64 %p1, [%i2], %i4;")
            lines.append(_KEEP)
        lines.append("mbarrier.arrive.shared::cta.b64 %s0, [%i2];")
    return "\n".join(lines)


def phases_body(seed: int, phases: int = 7) -> str:
    """The threads of a CTA exchange values, one barrier phase for each exchange.

    Odd and even threads take turns at arriving twice (96 arrivals a phase); in some phases the
    barrier waits for bytes too, which a thread completes before it arrives itself.
    """
    rng = random.Random(seed)
    lines = [
        ".shared .align 16 .b8 sm[512]; .shared .align 8 .b64 bar; mov.u32 %i2, bar;"
        "mov.u32 %i3, %tid.x; mov.u32 %i4, sm; setp.ne.u32 %p0, %i3, 0; mov.u32 %out, %in0;"
        "@!%p0 mbarrier.init.shared::cta.b64 [%i2], 96; bar.sync 0;"
    ]
    for phase in range(phases):
        buffer = phase % 2 * 256
        lines.append(f"shl.b32 %i5, %i3, 2; add.u32 %i5, %i5, %i4; st.shared.b32 [%i5+{buffer}],")
        lines.append("%out;")
        if rng.random() < 0.6:
            size, first, second = 16 * rng.randint(1, 60), rng.randrange(64), rng.randrange(64)
            lines.append(f"setp.eq.u32 %p1, %i3, {first};")
            lines.append(f"@%p1 mbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%i2], {size};")
            # The bytes must be expected before they complete.
            lines.append(f"bar.sync 0; setp.eq.u32 %p1, %i3, {second};")
            lines.append(f"@%p1 mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%i2], {size};")
        lines.append(f"add.u32 %i5, %i3, {rng.randrange(2)}; and.b32 %i5, %i5, 1;")
        lines.append("add.u32 %i5, %i5, 1; mbarrier.arrive.shared::cta.b64 %a3, [%i2], %i5;")
        wait = f"mbarrier.{rng.choice(['try', 'test'])}_wait"
        condition = "%a3" if rng.random() < 0.5 else str(phase % 2)
        form = "" if condition == "%a3" else ".parity"
        lines.append(f"W{phase}: {wait}{form}.shared::cta.b64 %p1, [%i2], {condition};")
        lines.append(f"@!%p1 bra W{phase}; xor.b32 %i5, %i3, {rng.randrange(1, 64)};")
        lines.append(
            f"shl.b32 %i5, %i5, 2; add.u32 %i5, %i5, %i4; ld.shared.b32 %i6, [%i5+{buffer}];"
        )
        lines.append("mad.lo.u32 %out, %out, 31, %i6;")
    return "\n".join(lines)
