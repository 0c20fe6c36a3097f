"""What orders threads and engines by hand is statements with fields, and prints as device code."""

import pytest

import tilelang.language as T
from tilelang import lower, nodes
from tilelang.transform import pipeline, run_pass

THREAD, EXPECT, THREAD_EXPECT, COMMIT, COPIES, ISSUER_COMMIT = range(6)
WGMMA, CP_ASYNC = 6, 7
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
        T.pdl_sync()
        T.pdl_trigger()
        T.ptx_commit_group()
        T.ptx_wait_group(2)
        T.wait_wgmma(1)
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
    (nodes.GridDependency, {"waits": True}, "tl::wait_for_previous_grid()"),
    (nodes.GridDependency, {"waits": False}, "tl::let_next_grid_start()"),
    (nodes.CommitGroup, {"engine": CP_ASYNC}, "tl::cp_async_commit()"),
    (nodes.WaitGroup, {"engine": CP_ASYNC, "left": 2}, "tl::cp_async_wait<2>()"),
    (nodes.WaitGroup, {"engine": WGMMA, "left": 1, "by_program": True}, "tl::wgmma_wait<1>()"),
]


@pytest.fixture(scope="module")
def written():
    """The statements by hand in program order, and the generated code."""
    body = by_hand.body
    while not isinstance(body, nodes.Seq):
        body = body.body
    stmts = [s for s in body.stmts if isinstance(s, tuple({of for of, _, _ in FORMS}))]
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


def test_an_arrival_of_the_tensor_core_is_one() -> None:
    """Which thread commits, only the compiler knows: until then it is an arrival of its issuer."""

    @T.prim_func
    def gemm(A: T.Tensor((128, 64), "float16"), C: T.Tensor((128, 128), "float32")):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "float16")
            c = T.alloc_tmem((128, 128), "float32")
            done = T.alloc_barrier(1)
            T.copy(A, a)
            T.tcgen05_gemm(a, a, c, transpose_B=True, mbar=None, clear_accum=True)
            T.tcgen05_mma_arrive(done)
            T.mbarrier_wait_parity(done, 0)
            out = T.alloc_fragment((128, 128), "float32")
            T.copy(c, out)
            T.copy(out, C)

    body = gemm.body
    while not isinstance(body, nodes.Seq):
        body = body.body
    arrivals = [s for s in body.stmts if isinstance(s, nodes.Arrive)]
    assert [s.arrive_kind for s in arrivals] == [ISSUER_COMMIT]
    assert "tl::tcgen05_commit(" in lower(gemm, target="sm_100a").source


def test_mbarriers_are_set_up_by_a_statement() -> None:
    """With the arrivals of a phase, of each element."""
    func = by_hand
    for name in pipeline():
        func = run_pass(name, func, "sm_90a")
    found = []

    def collect(s) -> None:
        if isinstance(s, nodes.MbarrierInit):
            found.append((int(s.mbar.indices[0].value), int(s.count.value)))
        for field in ("body", "then_case", "else_case"):
            if getattr(s, field, None) is not None:
                collect(getattr(s, field))
        for inner in getattr(s, "stmts", ()):
            collect(inner)

    collect(func.body)
    assert found == [(0, 128), (1, 128)]
