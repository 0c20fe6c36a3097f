"""What orders threads and engines by hand is statements with fields, and prints as device code."""

import pytest

import tilelang.language as T
from tilelang import lower, nodes

THREAD, EXPECT, THREAD_EXPECT, COPIES = 0, 1, 2, 4
BLOCK, NAMED, WARP, CLUSTER, GRID = 0, 1, 4, 6, 7


@T.prim_func
def by_hand(A: T.Tensor((128,), "float32")):
    with T.Kernel(2, threads=128, cluster_dims=(2, 1, 1)):
        full = T.alloc_barrier([128, 128])
        T.mbarrier_arrive(full[1])
        T.mbarrier_arrive(full[0], 1)
        T.mbarrier_expect_tx(full[0], 64)
        T.mbarrier_arrive_expect_tx(full[1], 32)
        T.cp_async_barrier_noinc(full[0])
        T.mbarrier_wait_parity(full[1], 1)
        T.fence_proxy_async()
        T.sync_threads()
        T.sync_threads(3, 64)
        T.named_barrier_arrive(3, 64)
        T.sync_warp()
        T.cluster_sync()
        T.cluster_arrive()
        T.cluster_arrive_relaxed()
        T.cluster_wait()
        A[0] = T.float32(0)


#: class, the fields that say what it is, and the device function
FORMS = [
    (nodes.Arrive, {"arrive_kind": THREAD, "block": None}, "tl::mbarrier_arrive(full[1])"),
    (nodes.Arrive, {"arrive_kind": THREAD, "scope": 0}, "tl::mbarrier_give_back(full[0], 1u)"),
    (nodes.Arrive, {"arrive_kind": EXPECT}, "tl::mbarrier_expect_tx(full[0], 64u)"),
    (nodes.Arrive, {"arrive_kind": THREAD_EXPECT}, "tl::mbarrier_arrive_expect_tx(full[1], 32u)"),
    (nodes.Arrive, {"arrive_kind": COPIES}, "tl::cp_async_arrive(full[0])"),
    (nodes.WaitParity, {"scope": 0}, "tl::mbarrier_wait(full[1], 1u)"),
    (nodes.Fence, {"fence_kind": 0}, "tl::fence_proxy_async()"),
    (nodes.Barrier, {"barrier_kind": BLOCK, "part": 0}, "__syncthreads()"),
    (nodes.Barrier, {"barrier_kind": NAMED, "part": 0}, "tl::sync_threads(3, 64)"),
    (nodes.Barrier, {"barrier_kind": NAMED, "part": 1}, "tl::named_barrier_arrive(3, 64)"),
    (nodes.Barrier, {"barrier_kind": WARP, "mask": None}, "__syncwarp()"),
    (nodes.Barrier, {"barrier_kind": CLUSTER, "part": 0}, "tl::cluster_sync()"),
    (nodes.Barrier, {"barrier_kind": CLUSTER, "part": 1}, "tl::cluster_arrive()"),
    (nodes.Barrier, {"barrier_kind": CLUSTER, "part": 2}, "tl::cluster_arrive_relaxed()"),
    (nodes.Barrier, {"barrier_kind": CLUSTER, "part": 3}, "tl::cluster_wait()"),
]


@pytest.fixture(scope="module")
def written():
    """The statements by hand in program order, and the generated code."""
    body = by_hand.body
    while not isinstance(body, nodes.Seq):
        body = body.body
    kinds = (nodes.Arrive, nodes.WaitParity, nodes.Fence, nodes.Barrier)
    stmts = [s for s in body.stmts if isinstance(s, kinds)]
    return stmts, lower(by_hand, target="sm_90a").source


@pytest.mark.parametrize("place", range(len(FORMS)))
def test_a_form_is_a_statement_with_fields(written, place):
    stmts, source = written
    of, fields, text = FORMS[place]
    assert len(stmts) == len(FORMS)
    assert isinstance(stmts[place], of)
    for name, value in fields.items():
        assert getattr(stmts[place], name) == value, name
    assert text + ";" in source
