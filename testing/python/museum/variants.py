"""Further ordering bugs, written after the checks that find them, with other mechanics.

``variants/<name>.cu`` says in its first line what is wrong; ``FIXED`` selects the repair.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from museum.exhibits import Array, Exhibit

FOLDER = Path(__file__).parent / "variants"


def _same(x: Array) -> Array:
    return x[:128]


def _reversed(x: Array) -> Array:
    return x[:128][::-1]


def _exchanged(x: Array) -> Array:
    return np.concatenate([x[128:256], x[:128]])


def _handed_over(x: Array) -> Array:
    """The result of the first block, that of the second one, and the flag between them."""
    flag = np.zeros(128, np.uint32)
    flag[0] = 1
    return np.concatenate([x[:128], x[:128], flag])


def _floats(value: float) -> Array:
    return np.full(128, value, np.float32).view(np.uint32)


def _tiles_reversed(x: Array) -> Array:
    return x.reshape(-1, 128)[:, ::-1].ravel()


VARIANTS = {
    "accumulator_read_early": Exhibit("missing-wait", "sm_90a", 128, 128, lambda x: _floats(16)),
    "arrive_then_expect": Exhibit("missing-wait", "sm_90a", 128, 128, _same),
    "barrier_in_a_branch": Exhibit("race", "sm_80", 128, 128, lambda x: _reversed(x) + 1),
    "commit_by_another_thread": Exhibit(
        "missing-wait", "sm_100a", 128, 128, lambda x: np.ones(128, np.uint32)
    ),
    "expect_too_small": Exhibit("mbarrier", "sm_90a", 128, 128, _same),
    "flag_without_release": Exhibit("race", "sm_80", 128, 384, _handed_over, 2),
    "half_waits_before_refill": Exhibit(
        "race", "sm_90a", 128, 256, lambda x: _tiles_reversed(x[:256])
    ),
    "last_group_not_waited": Exhibit(
        "missing-wait", "sm_80", 128, 512, lambda x: _tiles_reversed(x[:512])
    ),
    "named_barrier_of_half": Exhibit("race", "sm_80", 128, 128, _reversed),
    "one_thread_spins": Exhibit("race", "sm_80", 128, 384, _handed_over, 2),
    "operand_refilled_early": Exhibit("missing-wait", "sm_90a", 128, 128, lambda x: _floats(32)),
    "parity_not_flipped": Exhibit("race", "sm_90a", 128, 256, lambda x: x[:256]),
    "peer_told_without_release": Exhibit("race", "sm_90a", 128, 256, _exchanged, 2),
    "remote_read_too_early": Exhibit("race", "sm_90a", 128, 256, _exchanged, 2),
    "ring_one_too_far": Exhibit("mbarrier", "sm_90a", 160, 512, lambda x: x[:512]),
    "stored_tile_read_back": Exhibit(
        "missing-wait", "sm_90a", 128, 256, lambda x: np.tile(x[:128] + 1, 2)
    ),
    "tmem_store_in_flight": Exhibit("missing-wait", "sm_100a", 256, 128, _same),
}
