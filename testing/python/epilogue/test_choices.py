"""Which epilogues go in slices, how many columns these have, and what is told of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from epilogue.kernels import Problem, gemm

import tilelang
import tilelang.language as T
from tilelang import errors

BM, BN = 128, 128


def small(body, columns=None, slots=None, threads=128):
    """A gemm of one tile, and after it ``body(c, X, D, V)``."""

    @T.prim_func
    def main(
        A: T.Tensor((BM, 64), "bfloat16"),
        B: T.Tensor((BN, 64), "bfloat16"),
        X: T.Tensor((BM, BN), "float32"),
        D: T.Tensor((BM, BN), "float32"),
        V: T.Tensor((BM,), "float32"),
    ):
        with T.Kernel(1, threads=threads):
            a = T.alloc_shared((BM, 64), "bfloat16")
            b = T.alloc_shared((BN, 64), "bfloat16")
            c = T.alloc_fragment((BM, BN), "float32")
            if columns is not None or slots is not None:
                T.annotate_epilogue(c, columns=columns, slots=slots)
            T.clear(c)
            for _k in T.Pipelined(1, num_stages=2):
                T.copy(A, a)
                T.copy(B, b)
                T.gemm(a, b, c, transpose_B=True)
            body(c, X, D, V)

    return main


@T.macro
def transposed(c, X, D, V):
    for i, j in T.Parallel(BM, BN):
        D[i, j] = c[i, BN - 1 - j]


@T.macro
def scanned(c, X, D, V):
    T.cumsum(c, dim=1)
    T.copy(c, D)


@T.macro
def used_later(c, X, D, V):
    top = T.alloc_fragment((BM,), "float32")
    T.reduce_max(c, top, dim=1)
    for i, j in T.Parallel(BM, BN):
        D[i, j] = c[i, j] - top[i]


@T.macro
def summed(c, X, D, V):
    total = T.alloc_fragment((BM,), "float32")
    T.copy(c, D)
    T.reduce_sum(c, total, dim=1)
    T.copy(total, V)


@T.macro
def aliased(c, X, D, V):
    for i, j in T.Parallel(BM, BN):
        c[i, j] += D[i, (j + 1) % BN]
    T.copy(c, D)


@T.macro
def at_odds(c, X, D, V):
    for i, j in T.Parallel(BM, BN // 2):
        D[i, j] = c[i, j] * c[i, j + BN // 4]


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize(
    "body, said, line",
    [
        (transposed, "c[i, 127 - j] is in another slice of columns", "BN - 1 - j"),
        (scanned, "cumsum", "T.cumsum"),
        (used_later, "top, which T.reduce_max makes of all columns, is used", "top[i]"),
        (summed, "T.reduce_sum along the columns depends on their order", "T.reduce_sum"),
        (aliased, "tensor D is stored to, and used at other elements", "T.copy(c, D)"),
        (at_odds, "is in another slice of columns", "BN // 4]"),
    ],
    ids=lambda value: getattr(value, "name", None) or getattr(value, "__name__", None),
)
def test_what_keeps_a_tile_whole(target, body, said, line):
    lowered = tilelang.lower(small(body), target=target, pass_configs={"tl.epilogue_subtile": 32})
    (remark,) = [r for r in lowered.remarks if r.topic == "epilogue"]
    assert remark.message.startswith("the epilogue of c is not divided into slices of 32 columns: ")
    assert said in remark.message
    source = Path(__file__).read_text().splitlines()
    assert line in source[remark.span.line - 1]


@pytest.mark.parametrize(
    "body, said",
    [
        (scanned, "cumsum"),
        (used_later, "top, which T.reduce_max makes of all columns, is used beside the tile"),
        (summed, "T.reduce_sum along the columns depends on their order"),
    ],
    ids=["scan", "softmax", "row sums"],
)
def test_a_remark_names_what_keeps_a_large_tile_whole(body, said):
    for target in ("sm_90a", "sm_100a"):
        lowered = tilelang.lower(small(body), target=target)
        (remark,) = [r for r in lowered.remarks if r.topic == "epilogue"]
        assert said in remark.message
    few = tilelang.lower(small(body, threads=256), target="sm_90a")  # registers that need no slices
    assert not [r for r in few.remarks if r.topic == "epilogue"]


def test_a_result_that_is_kept_stays_whole():
    @T.prim_func
    def kept(
        A: T.Tensor((128, 64), "bfloat16"),
        D: T.Tensor((2, 128, 128), "float32"),
    ):
        with T.Kernel(1, threads=128):
            a = T.alloc_shared((128, 64), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            T.clear(c)
            for step in T.serial(2):
                T.copy(A, a)
                T.gemm(a, a, c, transpose_B=True)
                for i, j in T.Parallel(128, 128):
                    c[i, j] = c[i, j] * 0.5
                T.copy(c, D[step, 0, 0])

    for target in ("sm_90a", "sm_100a"):
        kernel = tilelang.compile(kept, target=target, pass_configs={"tl.epilogue_subtile": 32})
        told = [r.message for r in kernel.remarks if r.topic == "epilogue"]
        assert len(told) == 1 and "the whole c is used later" in told[0]
        a, d = torch.randn(128, 64).bfloat16(), torch.full((2, 128, 128), float("nan"))
        kernel(a, d)
        first = a.double() @ a.double().T / 2
        wanted = torch.stack([first, (first + 2 * first) / 2])
        torch.testing.assert_close(d.double(), wanted, rtol=1e-5, atol=1e-4)


def schedule_of(function, target="sm_100a", **configs):
    lowered = tilelang.compile(function, target=target, pass_configs=configs)
    return lowered.schedule()


def test_registers_decide_where_nothing_else_does():
    """128 of a thread's hold results, and the epilogue reads tensors."""
    heavy = Problem(parts="bias residual")
    plain = Problem(parts="")
    (launch,) = schedule_of(gemm(heavy)).launches
    assert [(e.slices, e.columns) for e in launch.epilogues] == [(8, 32)]
    (launch,) = schedule_of(gemm(plain)).launches  # a row of a swizzle at a time
    assert [(e.slices, e.columns) for e in launch.epilogues] == [(4, 64)]
    assert not schedule_of(gemm(plain), "sm_90a").launches[0].epilogues
    assert schedule_of(gemm(heavy), "sm_90a").launches[0].epilogues
    wide = Problem(parts="bias residual", dtype="float32")  # which threads store well themselves
    assert not schedule_of(gemm(wide), "sm_90a").launches[0].epilogues
    staged = replace(wide, staged=True)
    assert schedule_of(gemm(staged), "sm_90a").launches[0].epilogues
    taken = replace(wide, persistent=True, m=512)
    assert schedule_of(gemm(taken), "sm_90a").launches[0].epilogues
    (launch,) = schedule_of(gemm(Problem(parts="bias", bn=128, n=128))).launches  # in one slice
    assert [(e.slices, e.columns) for e in launch.epilogues] == [(1, 128)]


def test_the_schedule_tells_of_slices():
    p = Problem(staged=True, parts="scale bias residual")
    schedule = schedule_of(gemm(p), **{"tl.epilogue_subtile": 64})
    (epilogue,) = schedule.launches[0].epilogues
    assert (epilogue.tile, epilogue.slices, epilogue.columns) == ("c", 4, 64)
    assert (epilogue.slots, epilogue.bytes) == (2, 2 * 128 * 64 * 2)
    assert epilogue.before == ("scale", "bias")
    assert epilogue.ahead == ("R",)
    assert (
        "4 slices of 64 columns; staged in 2 slots (32768 bytes);"
        " scale, bias loaded before the gemm is waited for; R a slice ahead" in str(schedule)
    )


@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("persistent", [False, True])
def test_results_go_through_slots_where_there_is_room(target, persistent):
    p = Problem(m=512, parts="bias aux residual", persistent=persistent)  # aux is of 32 bits

    def bytes_of_slots(p, **configs):
        as_written = {"tl.disable_tile_choice": True}
        schedule = schedule_of(gemm(p), target, **configs, **as_written)
        (epilogue,) = schedule.launches[0].epilogues
        return epilogue.bytes

    configs = {"tl.epilogue_subtile": 64}
    ahead = persistent and target == "sm_100a"  # R comes while the next tile is computed
    tiles = 2 if ahead else 1
    aux = 2 * 128 * 64 * 4 if target == "sm_100a" else 0
    assert bytes_of_slots(p, **configs) == tiles * 2 * 128 * 64 * 2 + aux
    for off in ("tl.disable_result_staging", "tl.disable_tma_lower"):
        assert bytes_of_slots(p, **configs, **{off: True}) == 0
    assert bytes_of_slots(replace(p, n=260), **configs) == aux  # rows of 520 bytes of C
    # The only tile of a block takes the bytes of its operands.
    room = 2 * 128 * 128 * (2 + 4) if target == "sm_100a" and not persistent else 0
    assert bytes_of_slots(replace(p, k=512, stages=4), **{"tl.epilogue_subtile": 128}) == room


@T.macro
def biased(c, X, D, V):
    for i, j in T.Parallel(BM, BN):
        c[i, j] += X[i, j]
    T.copy(c, D)


@pytest.mark.parametrize("option", [0, 64, "auto"])
def test_an_annotation_counts_before_the_option(option):
    function = small(biased, columns=32)
    launch = schedule_of(function, **{"tl.epilogue_subtile": option}).launches[0]
    assert [e.columns for e in launch.epilogues] == [32]
    whole = schedule_of(small(biased, columns=0), **{"tl.epilogue_subtile": option})
    assert not whole.launches[0].epilogues


def test_sm_80_keeps_tiles_whole():
    lowered = tilelang.lower(small(biased, columns=32), target="sm_80")
    assert not [r for r in lowered.remarks if r.topic == "epilogue"]
    (told,) = [r.message for r in lowered.remarks if "annotate_epilogue" in r.message]
    assert told.endswith("of c has no effect: tiles stay whole without wgmma and tcgen05.mma")


def test_a_tile_that_no_gemm_writes_has_no_epilogue():
    @T.prim_func
    def copied(X: T.Tensor((BM, BN), "float32"), D: T.Tensor((BM, BN), "float32")):
        with T.Kernel(1, threads=128):
            c = T.alloc_fragment((BM, BN), "float32")
            T.annotate_epilogue(c, columns=32)
            T.copy(X, c)
            T.copy(c, D)

    lowered = tilelang.lower(copied, target="sm_100a")
    (told,) = [r.message for r in lowered.remarks if "annotate_epilogue" in r.message]
    assert "of c has no effect: no gemm accumulates in it" in told


@pytest.mark.parametrize(
    "options, error, said",
    [
        ({"columns": 12}, errors.ShapeError, "columns must be a multiple of 8, got 12"),
        ({"columns": -8}, errors.ShapeError, "must be a multiple of 8, got"),
        ({"slots": 0}, errors.ShapeError, "slots must be a positive integer, got 0"),
    ],
)
def test_wrong_numbers(options, error, said):
    with pytest.raises(error, match=said):
        small(biased, **options)


def test_a_tensor_has_no_epilogue():
    with pytest.raises(errors.ScopeError, match="takes a fragment or tensor memory"):

        @T.prim_func
        def wrong(D: T.Tensor((BM, BN), "float32")):
            with T.Kernel(1, threads=128):
                T.annotate_epilogue(D, columns=32)


@pytest.mark.parametrize("value", [16, True, "always", 1.5])
def test_wrong_options(value):
    with pytest.raises(errors.ConfigError, match="epilogue_subtile"):
        tilelang.lower(small(biased), target="sm_90a", pass_configs={"tl.epilogue_subtile": value})
