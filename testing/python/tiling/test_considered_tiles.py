"""The candidates for the tiles of a GEMM that ``kernel.schedule()`` lists."""

from __future__ import annotations

import pytest
from tiling.test_choose_tiles import gemm

import tilelang
import tilelang.language as T
from tilelang.target import resolve, with_sm_count


def tiles_of(target, m, n, k, sm_count=132, pass_configs=None, **options):
    """The candidates, and the schedule as text."""
    kernel = tilelang.compile(
        gemm(m, n, k, **options),
        target=with_sm_count(resolve(target), sm_count),
        pass_configs=pass_configs or {},
    )
    schedule = kernel.schedule()
    return schedule.launches[0].tiles, str(schedule), kernel


@pytest.mark.parametrize(
    ("target", "shape", "form"),
    [
        ("sm_100a", (2048, 2048, 1024), "NT"),
        ("sm_100a", (64, 2048, 4096), "NN"),
        ("sm_90a", (2048, 2048, 1024), "NN"),
        ("sm_90a", (168, 568, 7560), "NN"),
        ("sm_90a", (16, 1024, 4096), "NT"),
    ],
)
def test_one_is_chosen_and_none_that_is_possible_is_predicted_to_be_faster(target, shape, form):
    tiles, text, kernel = tiles_of(target, *shape, form=form)
    (chosen,) = [t for t in tiles if t.outcome == "chosen"]
    assert [t.microseconds for t in tiles] == sorted(t.microseconds for t in tiles)
    others = [t for t in tiles if not t.outcome]
    # On sm_90a a choice other than the program's has to be better by more than the model may err.
    slack = 0.97 if target == "sm_90a" else 1
    assert others and all(slack * chosen.microseconds <= t.microseconds for t in others)
    said = " ".join(remark.message for remark in kernel.remarks if remark.topic == "tiles")
    if f"{chosen.rows} x {chosen.columns}" != "128 x 128":
        assert f"{chosen.rows} x {chosen.columns} elements" in said
    assert "tiles considered" in text
    assert f"{chosen.rows} x {chosen.columns}" in text.split("tiles considered")[1]


def test_what_excludes_a_candidate_is_named():
    """Sums of rows need whole rows of the tile, which other tiles do not have."""

    @T.prim_func
    def main(
        A: T.Tensor((1024, 4096), "bfloat16"),
        B: T.Tensor((4096, 1024), "bfloat16"),
        S: T.Tensor((8, 1024), "float32"),
    ):
        with T.Kernel(8, 8, threads=128) as (bx, by):
            a = T.alloc_shared((128, 64), "bfloat16")
            b = T.alloc_shared((64, 128), "bfloat16")
            c = T.alloc_fragment((128, 128), "float32")
            s = T.alloc_fragment((128,), "float32")
            T.clear(c)
            for k in T.Pipelined(64, num_stages=2):
                T.copy(A[by * 128, k * 64], a)
                T.copy(B[k * 64, bx * 128], b)
                T.gemm(a, b, c)
            T.reduce_sum(c, s, dim=1)
            T.copy(s, S[bx, by * 128])

    kernel = tilelang.compile(main, target="sm_100a")
    tiles = kernel.schedule().launches[0].tiles
    assert any(t.outcome.startswith("excluded: ") for t in tiles)
    assert "excluded: " in str(kernel.schedule())


def test_no_list_without_a_choice():
    for target in ("sm_80", "sm_120a"):
        tiles, text, _ = tiles_of(target, 1024, 1024, 512)
        assert not tiles and "tiles considered" not in text
    off = {"tl.disable_tile_choice": True}
    tiles, text, _ = tiles_of("sm_100a", 1024, 1024, 512, pass_configs=off)
    assert not tiles and "tiles considered" not in text


def test_options_leave_only_what_they_allow():
    options = {"tl.tile_columns": 128, "tl.tile_pairs": False}
    tiles, _, _ = tiles_of("sm_100a", 2048, 2048, 1024, pass_configs=options)
    assert {(t.columns, t.pairs) for t in tiles} == {(128, False)}
