"""The verifier objects when one synchronizing statement of a compiled kernel is gone.

What it need not object to is in REDUNDANT with the reason. Barriers of the block and fences of
tensor memory are more than needed in places; they are not counted on sm_100a.
"""

from __future__ import annotations

import time

import pytest
from verify.mutants import compiled, mutants
from verify.worked_kernels import KERNELS

from tilelang import errors
from tilelang.transform import verify_synchronization

_LAST = "It releases the last tile, after which nothing is loaded any more."
_LATER = (
    "The wait for all groups comes before the other channel's tile is released, and the producer "
    "waits for that one before it fills this one's slot again."
)
_EARLIER = "The fence of the gemm before it comes after all accesses of its registers."
_FIRST = (
    "Before the only tile of a block nobody has touched the accumulators; with several it counts."
)
_BOTH = (
    "Before the loop the threads arrive on the barriers of both streams of turns, and the MMA warp "
    "has waited for the other one."
)
_PHASES = "No gemm of the stream is left then; with several tiles the next loop goes on from there."
_PACE = "The first turns order nothing: they are for speed. Later ones would run ahead of others."
_SLOTS = "The number of a tile goes to the other of two slots: the next barrier comes in between."
_TOGETHER = (
    "Both slices have slots of their own: the commit after the second one closes both stores."
)
_LEFT = "No slice fills a slot again, and the block waits for its last stores before it ends."
#: (kernel, call, number): why it is not missed
REDUNDANT = {
    ("counter_sm_80", "sync_threads", 0): _SLOTS,
    ("gemm_sm_100a", "mbarrier_wait_parity", 1): _FIRST,
    ("gemm_sm_100a", "tl::tma_store_commit", 0): _TOGETHER,
    ("attention_sm_100a", "tl::tma_store_commit", 0): _TOGETHER,
    ("attention_sm_100a", "tl::tma_store_wait_read<0>", 0): _LEFT,
    ("attention_sm_100a", "mbarrier_wait_parity", 4): _BOTH,
    ("attention_sm_100a", "mbarrier_wait_parity", 15): _PHASES,
    ("attention_sm_90a", "mbarrier_arrive", 4): _LAST,
    ("attention_sm_90a", "mbarrier_wait_parity", 5): _PACE,
    **{("causal_attention", "mbarrier_arrive", n): _LAST for n in (5, 6, 7)},
    ("causal_attention", "mbarrier_wait_parity", 5): _PACE,
    ("attention_sm_90a", "tl::wgmma_fence", 2): _EARLIER,
    **{("causal_attention", "tl::wgmma_fence", n): _EARLIER for n in (2, 4)},
    ("chained_gemms", "tl::wgmma_fence", 2): _EARLIER,
    ("chained_gemms", "mbarrier_arrive", 3): _LAST,
    ("chained_gemms", "tl::wgmma_commit", 1): _LATER,
    ("chained_gemms", "tl::wgmma_wait<1>", 0): _LATER,
}
#: of which more may stand in kernels for sm_100a than are needed
MAY_BE_MORE = (
    "sync_",
    "fence_proxy_async",
    "tcgen05_before",
    "tcgen05_after",
    "tl::tcgen05_wait_st",
)


def is_found(func) -> bool:
    try:
        verify_synchronization(func)
    except errors.SynchronizationError:
        return True
    return False


@pytest.mark.parametrize("name", KERNELS)
def test_right_kernels_pass(name) -> None:
    assert verify_synchronization(compiled(*KERNELS[name])) == [""]


@pytest.mark.parametrize("name", KERNELS)
def test_nothing_can_be_left_out(name) -> None:
    function, target = KERNELS[name]
    missed = {key for key, mutant in mutants(compiled(function, target)) if not is_found(mutant)}
    if target == "sm_100a":
        missed = {key for key in missed if not key[0].startswith(MAY_BE_MORE)}
    listed = {(call, number) for kernel, call, number in REDUNDANT if kernel == name}
    assert missed == listed


def test_it_is_quick() -> None:
    func = compiled(*KERNELS["attention_sm_90a"])
    times = []
    for _ in range(10):
        start = time.process_time()
        verify_synchronization(func)
        times.append(time.process_time() - start)
    assert min(times) < 0.02, f"{min(times) * 1e3:.1f} ms"
