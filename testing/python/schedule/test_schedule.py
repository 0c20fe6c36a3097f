"""What ``kernel.schedule()`` tells: roles, channels, steps, the limiting engine, a picture."""

from __future__ import annotations

import functools
import re
import runpy
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest
from fuzz.pipelined_kernels import chain
from golden import compare

import tilelang
import tilelang.language as T
from tilelang.errors import ConfigError
from tilelang.schedule import RATES, Launch, Role, Schedule, Step
from tilelang.schedule.cost import occupancy
from tilelang.schedule.timeline import SHOWN, Timeline

ATTENTION = Path(__file__).parents[3] / "examples" / "flash_attention" / "attention_forward.py"
TARGETS = ("sm_90a", "sm_100a")


def gemm(M=256, N=256, K=320, m=128, n=64, k=64, stages=3, blocks=4):
    @T.prim_func
    def main(
        A: T.Tensor((M, K), "bfloat16"),
        B: T.Tensor((N, K), "bfloat16"),
        C: T.Tensor((M, N), "float32"),
    ):
        tiles = [T.ceildiv(M, m), T.ceildiv(N, n)]
        with T.Kernel(blocks, threads=128) as block:
            a = T.alloc_shared((m, k), "bfloat16")
            b = T.alloc_shared((n, k), "bfloat16")
            c = T.alloc_fragment((m, n), "float32")
            for by, bx in T.Persistent(tiles, blocks, block):
                T.clear(c)
                for i in T.Pipelined(T.ceildiv(K, k), num_stages=stages):
                    T.copy(A[by * m, i * k], a)
                    T.copy(B[bx * n, i * k], b)
                    T.gemm(a, b, c, transpose_B=True)
                T.copy(c, C[by * m, bx * n])

    return main


@functools.cache
def attention(target: str) -> Schedule:
    example = runpy.run_path(str(ATTENTION))
    shape = example["Shape"](1, 512, 512, 1, 1, 128, 128)
    tiles = example["default_tiles"](target, 128)
    return tilelang.compile(example["attention"](shape, **tiles), target=target).schedule()


@functools.cache
def gemm_schedule(target: str) -> Schedule:
    return tilelang.compile(gemm(), target=target).schedule()


def steps_of(schedule: Schedule, role: str) -> list[Step]:
    (launch,) = schedule.launches
    return [s for r in launch.roles if r.name == role for top in r.steps for s in top.walk()]


def without_lines(text: str) -> str:
    return re.sub(r"(?<=line )\d+", lambda number: "N" * len(number[0]), text)


@pytest.mark.parametrize("target", TARGETS)
def test_gemm(golden, target: str) -> None:
    golden(f"schedule_gemm_{target}", without_lines(str(gemm_schedule(target))))


@pytest.mark.parametrize("target", TARGETS)
def test_chained_gemm(golden, target: str) -> None:
    kernel = tilelang.compile(chain(), target=target)
    golden(f"schedule_chain_{target}", without_lines(str(kernel.schedule())))


@pytest.mark.parametrize("target", TARGETS)
def test_attention(golden, target: str) -> None:
    golden(f"schedule_attention_{target}", without_lines(str(attention(target))))


@pytest.mark.parametrize("target", TARGETS)
def test_work_of_a_gemm(target: str) -> None:
    """An iteration of the inner loop has the operations and bytes that its tiles say."""
    m, n, k = 128, 64, 64
    (launch,) = gemm_schedule(target).launches
    inner = next(loop for loop in launch.loops() if loop.stages == 3)
    bodies = [
        step
        for role in launch.roles
        for top in role.steps
        for loop in top.walk()
        if loop.action == "loop" and loop.loop == inner.loop
        for step in loop.body
    ]
    total: dict[str, int] = {}
    for step in bodies:
        for kind, amount in step.work.items():
            total[kind] = total.get(kind, 0) + amount
    assert total["flops"] == 2 * m * n * k
    assert total["global"] == total["shared"] == 2 * (m + n) * k
    cycles = occupancy(bodies, RATES[target])
    assert cycles["tensor"] == pytest.approx(2 * m * n * k / RATES[target].tensor[16])
    assert cycles["load"] == pytest.approx(2 * (m + n) * k / RATES[target].l2)
    assert next(iter(cycles)) == "load"


@pytest.mark.parametrize("target", TARGETS)
def test_limiting_engine_of_attention(target: str) -> None:
    """Two gemms of 2 M N D and M N exponentials an iteration: Hopper is limited by the former."""
    rows, keys = {"sm_90a": (128, 128), "sm_100a": (256, 80)}[target]
    tensor = 2 * 2 * rows * keys * 128 / RATES[target].tensor[16]
    mufu = (rows * keys + rows) / 16  # and a factor of each row
    line = next(s for s in str(attention(target)).splitlines() if "cycles an iteration" in s)
    assert f"tensor {tensor:.0f}" in line and f"mufu {mufu:.0f}" in line
    # Engines stand in the order of their cycles; masks of the last keys are counted as fp32.
    assert (line.index("tensor") < line.index("mufu")) == (tensor > mufu)


def test_next_gemm_runs_ahead() -> None:
    """Blackwell issues Q K of the next block before P V of this one; Hopper P V one block late."""
    gemms = [s.iteration for s in steps_of(attention("sm_100a"), "mma") if s.action == "gemm"]
    assert gemms == ["first", "first", "k+1", "k+1", "", ""]
    gemms = [s.iteration for s in steps_of(attention("sm_90a"), "threads") if s.action == "gemm"]
    assert gemms == ["first", "", "k-1", "last"]


def test_channels_of_a_gemm() -> None:
    (launch,) = gemm_schedule("sm_100a").launches
    tiles, results, turns = launch.channels
    assert (tiles.tiles, tiles.slots, tiles.memory) == (("a", "b"), 3, "shared")
    assert tiles.slot_bytes == 2 * (128 + 64) * 64
    assert (tiles.producer, tiles.consumer, tiles.release) == ("load", "mma", "tcgen05.commit")
    assert (results.slots, results.memory) == (2, "tensor memory")
    assert (results.producer, results.consumer) == ("mma", "threads")
    assert (turns.tiles, turns.producer, turns.consumer) == ((), "threads", "mma")
    waits = [s.barrier for s in steps_of(gemm_schedule("sm_100a"), "load") if s.action == "wait"]
    assert waits == [tiles.empty]


def test_registers_and_warps() -> None:
    (launch,) = attention("sm_90a").launches
    load, threads = launch.roles
    assert (load.name, load.first, load.threads) == ("load", 256, 32)
    assert (threads.name, threads.first, threads.threads) == ("threads", 0, 256)
    # 384 threads are launched, of 168 registers each: a warpgroup of them is there to load.
    assert 128 * load.registers + 256 * threads.registers <= 384 * 168


@pytest.mark.parametrize("target", TARGETS)
def test_declined_loop(target: str) -> None:
    """One role, the steps in order."""
    kernel = tilelang.compile(
        gemm(), target=target, pass_configs={"tl.disable_warp_specialized": True}
    )
    (launch,) = kernel.schedule().launches
    assert [role.name for role in launch.roles] == ["threads"] and not launch.channels


def test_remarks_say_what_was_declined() -> None:
    options = {"tl.disable_warp_specialized": True}
    kernel = tilelang.compile(gemm(), target="sm_90a", pass_configs=options)
    assert "num_stages=3 has no effect: the pass option" in str(kernel.schedule())


def test_kernel_without_loops() -> None:
    @T.prim_func
    def main(A: T.Tensor((128,), "float32")):
        with T.Kernel(1, threads=128):
            for i in T.Parallel(128):
                A[i] = T.exp2(A[i])

    schedule = tilelang.compile(main, target="sm_90a").schedule()
    assert "loop" not in str(schedule)
    (step,) = steps_of(schedule, "threads")
    assert step.work["mufu"] == 128
    ElementTree.fromstring(schedule.svg())


@pytest.mark.parametrize("target", TARGETS)
def test_picture(target: str) -> None:
    schedule = attention(target)
    texts = [e.text for e in ElementTree.fromstring(schedule.svg()).iter() if e.text]
    assert "load: TMA" in texts
    assert any("attention" in text or schedule.name in text for text in texts)
    assert schedule._repr_html_().startswith("<svg")


@pytest.mark.parametrize("target", TARGETS)
def test_timeline_overlaps(target: str) -> None:
    """Every load lands before its gemm begins; the next ones are under way while it runs."""
    (launch,) = gemm_schedule(target).launches
    timeline = Timeline(launch, RATES[target])
    loads = [b for b in timeline.boxes if b.step.subject == "A -> a"]
    gemms = [b for b in timeline.boxes if b.step.action == "gemm"]
    assert len(loads) == len(gemms) == 2 * SHOWN  # of two tiles
    latency = RATES[target].latency
    assert all(g.start >= load.end + latency for g, load in zip(gemms, loads, strict=True))
    assert loads[1].start < gemms[0].start and loads[2].start < gemms[0].end


def test_picture_of_the_documentation(request) -> None:
    """docs/pipelining.md shows what the schedule is; --update-golden draws it anew."""
    picture = ATTENTION.parents[2] / "docs" / "pictures" / "attention_sm_100a.svg"
    update = request.config.getoption("--update-golden")
    compare(picture, attention("sm_100a").svg(), update)


def test_blocks_of_rows_take_turns() -> None:
    """While one warpgroup has its exponentials, the tensor core works for the other."""
    (launch,) = attention("sm_100a").launches
    timeline = Timeline(launch, RATES["sm_100a"])
    softmax = [
        [b for b in timeline.boxes if b.lane == f"threads {n}" and b.step.work.get("mufu", 0) > 999]
        for n in range(2)
    ]
    gemms = [b for b in timeline.boxes if b.step.action == "gemm"]
    for other in softmax:
        beside = [g for g in gemms for s in other[1:-1] if g.start < s.end and s.start < g.end]
        assert beside


def test_figure_needs_matplotlib(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ConfigError, match="needs matplotlib"):
        gemm_schedule("sm_90a").plot()


def test_table_of_a_made_schedule() -> None:
    """A loop whose trip count is not known, in a role of several warps."""
    body = (Step("gemm", "a, b -> c", work={"flops": 4096, "bits": 16}, engine="wgmma"),)
    role = Role("threads", 32, 128, 232, (Step("loop", "k", stages=2, body=body, line=7),))
    text = str(Schedule("f", "sm_90a", (Launch((role,), ()),), ()))
    assert "threads  1..4   232" in text
    assert "loop k at line 7, num_stages=2\n" in text
    assert "cycles an iteration: tensor 1; limited by tensor" in text
