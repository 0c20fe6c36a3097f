"""Schedules of warp roles as data: the kernel computes what its statements say."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from conformance.running import close, equal, normal, poison, run

import tilelang
import tilelang.language as T
from tilelang import errors

Bodies = dict[str, list[Any]]


def _bodies() -> Bodies:
    return {
        "Producer": [
            T.WSSync.producer_acquire("buf"),
            "copy_in",
            T.WSSync.producer_commit("buf"),
        ],
        "Consumer": [
            T.WSSync.consumer_wait("buf", stage=1),
            T.WSOpRef("copy_frag"),
            T.WSSync.consumer_release("buf", stage=1),
            "copy_out",
        ],
    }


def _schedule(bodies: Bodies, buffers: list[Any], **changed: Any) -> Any:
    parts = {
        "num_warps": 8,
        "roles": [
            T.WSRole("Producer", warps_lo=0, warps_hi=1, max_nreg=40),
            T.WSRole("Consumer", warps_lo=4, warps_hi=8, max_nreg=224),
        ],
        "pipelines": [T.WSPipeline("buf", buffers, depth=2)],
        "scopes": [
            T.WSScope("loop", bodies),
            T.WSScope(T.WSScope.ROOT, {"Producer": ["loop"], "Consumer": ["loop"]}),
        ],
    }
    return T.WSSchedule(**{**parts, **changed})


def _copied(schedule: Callable[[Any], Any]) -> Any:
    @T.prim_func
    def main(A: T.Tensor((4, 64, 32), "float16"), B: T.Tensor((4, 64, 32), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 32), "float16")
            part = T.alloc_fragment((64, 32), "float16")
            T.annotate_ws_schedule(schedule(tile))
            for k in T.Pipelined(4, num_stages=2, annotations={T.WSID: "loop"}):
                T.copy(A[k, :, :], tile, annotations={T.WSID: "copy_in"})
                T.copy(tile, part, annotations={T.WSID: "copy_frag"})
                T.copy(part, B[k, :, :], annotations={T.WSID: "copy_out"})

    return main


def test_tiles_in_turns(target: str) -> None:
    main = _copied(lambda tile: _schedule(_bodies(), [tile]))
    a = normal(4, 64, 32, dtype="float16")
    equal(run(main, target, a, poison(4, 64, 32, dtype="float16")), a)
    remarks = tilelang.compile(main, target="sm_90a").remarks
    assert any("divides the kernel's statements among warps" in str(r.message) for r in remarks)


def _schedule_of_gemm(a: Any, b: Any) -> Any:
    sync = T.WSSync
    loads = [sync.producer_acquire("ab"), "a", "b", sync.producer_commit("ab")]
    gemms = [sync.consumer_wait("ab"), "gemm", sync.consumer_release("ab")]
    tiles = {"Load": ["tile", "k", "next"], "Math": ["tile", "zero", "k", "out", "next"]}
    everything = {"Load": ["first", "tiles"], "Math": ["first", "tiles"]}
    return T.WSSchedule(
        num_warps=8,
        roles=[
            T.WSRole("Load", warps_lo=0, warps_hi=1),
            T.WSRole("Math", warps_lo=4, warps_hi=8),
        ],
        pipelines=[T.WSPipeline("ab", [a, b], depth=2)],
        scopes=[
            T.WSScope("k", {"Load": loads, "Math": gemms}),
            T.WSScope("tiles", tiles),
            T.WSScope(T.WSScope.ROOT, everything),
        ],
    )


def _persistent_gemm() -> Any:
    @T.prim_func
    def main(
        A: T.Tensor((256, 128), "float16"),
        B: T.Tensor((128, 128), "float16"),
        C: T.Tensor((256, 128), "float32"),
    ):
        with T.Kernel(2, threads=128) as block:
            a, b = T.alloc_shared((64, 32), "float16"), T.alloc_shared((32, 64), "float16")
            c = T.alloc_fragment((64, 64), "float32")
            sched = T.PersistentTileScheduler(4, 2, swizzle_size=1)
            T.annotate_ws_schedule(_schedule_of_gemm(a, b))
            with T.ws_op("first"):
                sched.init(block)
            with T.ws_op("tiles"):
                while sched.valid():
                    with T.ws_op("tile"):
                        m = sched.m_idx
                        n = sched.n_idx
                    T.clear(c, annotations={T.WSID: "zero"})
                    for k in T.Pipelined(4, num_stages=2, annotations={T.WSID: "k"}):
                        T.copy(A[m * 64, k * 32], a, annotations={T.WSID: "a"})
                        T.copy(B[k * 32, n * 64], b, annotations={T.WSID: "b"})
                        T.gemm(a, b, c, annotations={T.WSID: "gemm"})
                    T.copy(c, C[m * 64, n * 64], annotations={T.WSID: "out"})
                    with T.ws_op("next"):
                        sched.next_tile()

    return main


def test_a_persistent_gemm(target: str) -> None:
    a, b = normal(256, 128, dtype="float16"), normal(128, 128, dtype="float16")
    actual = run(_persistent_gemm(), target, a, b, poison(256, 128))
    close(actual, a.double() @ b.double(), 1e-3)


def test_ids_of_every_operator(target: str) -> None:
    def named(what: str) -> dict[Any, str]:
        return {T.WSID: what}

    @T.prim_func
    def main(
        A: T.Tensor((32, 64)), B: T.Tensor((64, 32)), S: T.Tensor((32,)), P: T.Tensor((32, 64))
    ):
        with T.Kernel(1, threads=64):
            f = T.alloc_fragment((32, 64), "float32")
            total = T.alloc_fragment((32,), "float32")
            tile = T.alloc_shared((32, 64), "float32")
            T.fill(f, 3, annotations=named("fill"))
            T.copy(A, f, annotations=named("copy"))
            T.reduce_sum(f, total, dim=1, annotations=named("sum"))
            T.copy(total, S, annotations=named("out"))
            T.copy(A, tile, annotations=named("tile"))
            T.transpose(A, B, annotations=named("transpose"))
            T.cumsum(tile, dim=1, annotations=named("scan"))
            for i, j in T.Parallel(32, 64, annotations=named("loop")):
                P[i, j] = tile[i, j]
            for _ in T.serial(1, annotations=named("serial")):
                T.atomic_add(P, f, annotations=named("atomic"))

    a = normal(32, 64)
    b, s, p = poison(64, 32), poison(32), poison(32, 64)
    run(main, target, a, b, s, p)
    equal(b, a.T)
    close(s, a.sum(1), 1e-4)
    close(p, a.double().cumsum(1) + a, 1e-4)


_WRONG: dict[str, Callable[[Any], Any]] = {
    "is no T.WSSchedule": lambda tile: {"roles": []},
    "num_warps=6 is no multiple of 4": lambda tile: _schedule(_bodies(), [tile], num_warps=6),
    "warp 0 belongs to roles 'Producer' and 'Consumer'": lambda tile: _schedule(
        _bodies(),
        [tile],
        roles=[
            T.WSRole("Producer", warps_lo=0, warps_hi=1),
            T.WSRole("Consumer", warps_lo=0, warps_hi=4),
        ],
    ),
    "role 'Producer' has warps 7 to below 9 of 8": lambda tile: _schedule(
        _bodies(), [tile], roles=[T.WSRole("Producer", warps_lo=7, warps_hi=9)]
    ),
    "a body of 'Consumer', which is no role": lambda tile: _schedule(
        _bodies(), [tile], roles=[T.WSRole("Producer", warps_lo=0, warps_hi=4)]
    ),
    "there is no pipeline 'buf'": lambda tile: _schedule(_bodies(), [tile], pipelines=[]),
    "has depth 0": lambda tile: _schedule(
        _bodies(), [tile], pipelines=[T.WSPipeline("buf", [tile], depth=0)]
    ),
    "holds `5`, which is no buffer": lambda tile: _schedule(_bodies(), [5]),
    "no role fills pipeline 'other'": lambda tile: _schedule(
        _bodies(),
        [tile],
        pipelines=[T.WSPipeline("buf", [tile], depth=2), T.WSPipeline("other", [], depth=1)],
    ),
    "producer_commit of pipeline 'buf' at stage 1 comes after producer_acquire at stage 0": (
        lambda tile: _schedule(
            _bodies()
            | {
                "Producer": [
                    T.WSSync.producer_acquire("buf"),
                    T.WSSync.producer_commit("buf", stage=1),
                ]
            },
            [tile],
        )
    ),
    "consumer_wait at stage 0 of pipeline 'buf' is not closed": lambda tile: _schedule(
        _bodies() | {"Consumer": [T.WSSync(T.WSSyncKind.CONSUMER_WAIT, "buf"), "copy_frag"]}, [tile]
    ),
    "no statement of the kernel has the id 'copy_both'": lambda tile: _schedule(
        _bodies()
        | {
            "Consumer": [
                T.WSSync.consumer_wait("buf"),
                "copy_both",
                T.WSSync.consumer_release("buf"),
            ]
        },
        [tile],
    ),
}


@pytest.mark.parametrize("message", _WRONG)
def test_wrong_schedules(message: str) -> None:
    with pytest.raises(errors.SemanticsError) as caught:
        _copied(_WRONG[message])
    assert message in str(caught.value)
    assert "T.annotate_ws_schedule(schedule(tile))" in str(caught.value), "no source line"


def test_an_id_for_two_statements() -> None:
    with pytest.raises(errors.SemanticsError, match="two statements have the id 'a'"):

        @T.prim_func
        def main(A: T.Tensor((32, 64), "float32")):
            with T.Kernel(1, threads=64):
                T.clear(A, annotations={T.WSID: "a"})
                T.fill(A, 1, annotations={T.WSID: "a"})


def test_steps_are_kinds_of_instructions() -> None:
    step = T.WSSync.producer_acquire("x", stage=2)
    assert isinstance(step, T.WSInstr) and isinstance("x", T.WSInstr)
    assert step.kind is T.WSSyncKind.PRODUCER_ACQUIRE and step.stage == 2
    assert torch.tensor(1) is not step


def test_annotations_that_are_arguments(target: str) -> None:
    """They win over the arguments themselves."""

    @T.prim_func
    def main(A: T.Tensor((64, 64), "float16"), B: T.Tensor((64, 64), "float16")):
        with T.Kernel(1, threads=128):
            tile = T.alloc_shared((64, 64), "float16")
            T.copy(A, tile, annotations={"disable_tma": True, "coalesced_width": 2})
            T.copy(tile, B, disable_tma=False, annotations={"disable_tma": True})

    a, b = normal(64, 64, dtype="float16"), poison(64, 64, dtype="float16")
    run(main, target, a, b)
    equal(b, a)
    if target == "sm_100a":
        kernel = tilelang.compile(main, target=target)
        assert "cp.async.bulk" not in kernel.get_ptx()
        assert "ld.global.v4" not in kernel.get_ptx()
        assert not [remark for remark in kernel.remarks if remark.topic == "argument"]
