"""Hints of templates: what fits, what is ranked first, and what is refused."""

from __future__ import annotations

import math

import pytest

from tilelang.carver import (
    ConvTemplate,
    ElementwiseTemplate,
    FlashAttentionTemplate,
    GEMVTemplate,
    GeneralReductionTemplate,
    MatmulTemplate,
)
from tilelang.carver.arch import CUDA
from tilelang.carver.roller.rasterization import NoRasterization
from tilelang.errors import ConfigError, DTypeError, TargetError

ARCHES = ["sm_80", "sm_90a", "sm_100a", "sm_120a"]
SHAPES = [(4096, 4096, 4096), (2048, 2048, 512), (128, 4096, 4096), (1, 4096, 14336), (77, 40, 24)]


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", ["float16", "float32", "float8_e4m3fn"])
def test_tiles_of_a_product_fit(arch, shape, dtype):
    gpu = CUDA(arch)
    hints = MatmulTemplate(*shape, in_dtype=dtype).with_arch(gpu).recommend_hints(topk=20)
    assert 0 < len(hints) <= 20
    assert [hint.seconds for hint in hints] == sorted(hint.seconds for hint in hints)
    size = {"float16": 2, "float32": 4, "float8_e4m3fn": 1}[dtype]
    for hint in hints:
        (m, n), (k,) = hint.block, hint.rstep
        assert hint.pipeline_stage * (m + n) * k * size <= gpu.smem_cap
        assert hint.threads in (128, 256)
        assert m % hint.warp[0] == 0 and n % hint.warp[1] == 0
        assert (m // hint.warp[0]) * (n // hint.warp[1]) * 32 == hint.threads
        assert hint.warp[0] % 16 == 0 and hint.warp[1] % 8 == 0


#: What hand-written kernels of an H200 were fastest with: docs of the timing model and speed.
MEASURED = [
    ((4096, 4096, 4096), [128, 256]),
    ((8192, 8192, 8192), [128, 256]),
    ((512, 4096, 4096), [128, 128]),
    ((128, 4096, 4096), [64, 64]),
    ((64, 4096, 4096), [64, 32]),
]


@pytest.mark.parametrize(("shape", "block"), MEASURED)
def test_the_first_tile_is_the_one_that_an_h200_prefers(shape, block):
    assert MatmulTemplate(*shape).with_arch("sm_90a").recommend_hints(1)[0].block == block


@pytest.mark.parametrize(("arch", "rows"), [("sm_80", 16), ("sm_90a", 64)])
def test_few_rows_are_those_of_the_instruction(arch, rows):
    hints = MatmulTemplate(8, 4096, 4096).with_arch(arch).recommend_hints(5)
    assert {hint.block[0] for hint in hints} == {rows}


def test_small_grids_have_no_plan_of_their_order():
    (hint,) = MatmulTemplate(64, 512, 512).with_arch("sm_90a").recommend_hints(1)
    assert isinstance(hint.rasterization_plan, NoRasterization)


def test_a_convolution_is_its_product():
    conv = ConvTemplate(8, 64, 56, 56, 128, 3, 1, 1, 1).with_arch("sm_90a").recommend_hints(3)
    gemm = MatmulTemplate(8 * 56 * 56, 128, 3 * 3 * 64).with_arch("sm_90a").recommend_hints(3)
    assert [hint.block for hint in conv] == [hint.block for hint in gemm]


@pytest.mark.parametrize("arch", ARCHES)
def test_rows_of_a_product_with_a_vector_are_shared_by_threads(arch):
    for hint in GEMVTemplate(4096, 1024).with_arch(arch).recommend_hints():
        assert hint.threads == hint.block[0] * hint.reduce_thread[0]
        assert 32 <= hint.threads <= 512 and hint.threads % 32 == 0
        assert hint.rstep[0] % (8 * hint.reduce_thread[0]) == 0  # whole vectors of 16 bytes


@pytest.mark.parametrize("shape", [(4096, 1000), (7,), (3, 5, 100_003), (1, 1)])
def test_elements_are_spread_over_threads(shape):
    for hint in ElementwiseTemplate(shape).with_arch("sm_90a").recommend_hints():
        assert len(hint.block) == len(hint.thread) == len(shape)
        assert hint.threads in (64, 128, 256, 512)


@pytest.mark.parametrize("structure", ["SR", "RS", "SSR", "R"])
def test_reductions_name_both_kinds_of_extents(structure):
    shape = [512, 1000, 64][: len(structure)]
    kept = structure.count("S")
    for hint in GeneralReductionTemplate(structure, shape).with_arch("sm_90a").recommend_hints():
        assert len(hint.block) == kept and len(hint.rstep) == structure.count("R")
        assert math.prod(hint.reduce_thread) >= 1


def test_attention_takes_three_warpgroups_of_long_sequences():
    template = FlashAttentionTemplate(4, 16, 128, 4096, 4096).with_arch("sm_90a")
    hint = template.recommend_hints(1)[0]
    assert hint.block == [192, 128] and hint.threads == 384
    short = FlashAttentionTemplate(1, 1, 64, 40, 4096).with_arch("sm_90a").recommend_hints(1)[0]
    assert short.block[0] == 64


@pytest.mark.parametrize("arch", ARCHES)
def test_sums_of_float64_have_registers(arch):
    template = MatmulTemplate(4096, 4096, 4096, True, True, "float64", "float64", "float64")
    for hint in template.with_arch(arch).recommend_hints(20):
        if arch != "sm_100a":
            assert 2 * math.prod(hint.block) // hint.threads <= 255 - 48


@pytest.mark.parametrize("arch", ARCHES)
@pytest.mark.parametrize("dims", [64, 128, 256])
def test_attention_has_rows_of_its_instruction(arch, dims):
    for hint in FlashAttentionTemplate(4, 16, dims, 4096, 4096).with_arch(arch).recommend_hints():
        assert hint.block[0] in ((64, 128, 256) if arch == "sm_100a" else (64, 128, 192))
        # Of three warpgroups each thread has 160 registers, of which 96 for sums.
        if arch in ("sm_90a", "sm_120a") and hint.threads == 384:
            assert hint.block[0] * dims // hint.threads <= 96


@pytest.mark.parametrize("arch", ARCHES)
def test_sweeps_are_of_some_thousand_elements(arch):
    """Blocks of one vector a thread take longer to start than to run; few large ones end apart."""
    hint = ElementwiseTemplate((4096, 4096)).with_arch(arch).recommend_hints(1)[0]
    assert 1024 <= math.prod(hint.block) <= 16384
    assert GEMVTemplate(4096, 4096).with_arch(arch).recommend_hints(1)[0].threads >= 64


WRONG = {
    "size": lambda: MatmulTemplate(0, 1, 1),
    "no number": lambda: MatmulTemplate("m", 1, 1),
    "topk": lambda: MatmulTemplate(64, 64, 64).recommend_hints(topk=0),
    "letters": lambda: GeneralReductionTemplate("SX", (4, 4)),
    "nothing reduced": lambda: GeneralReductionTemplate("SS", (4, 4)),
    "lengths": lambda: GeneralReductionTemplate("SR", (4,)),
    "no shape": lambda: ElementwiseTemplate(()),
    "negative extent": lambda: ElementwiseTemplate((64, -1)),
    "shape is a number": lambda: GeneralReductionTemplate("SR", 64),
    "padding": lambda: ConvTemplate(1, 16, 8, 8, 16, 3, P=-1),
    "heads": lambda: FlashAttentionTemplate(1, -2, 64, 64, 64),
    "kernel beyond the image": lambda: ConvTemplate(1, 8, 2, 2, 8, 5),
    "does not fit": lambda: FlashAttentionTemplate(1, 1, 4096, 64, 64).recommend_hints(),
}


@pytest.mark.parametrize("case", list(WRONG))
def test_wrong_sizes_are_refused(case):
    with pytest.raises(ConfigError):
        WRONG[case]()


MISSPELT = {
    "MatmulTemplate(in_dtype='float61')": lambda: MatmulTemplate(64, 64, 64, in_dtype="float61"),
    "GEMVTemplate(out_dtype='half_')": lambda: GEMVTemplate(64, 64, out_dtype="half_"),
    "ElementwiseTemplate(dtype='flot')": lambda: ElementwiseTemplate([64], dtype="flot"),
}


@pytest.mark.parametrize("case", list(MISSPELT))
def test_types_that_there_are_not_are_refused(case):
    with pytest.raises(DTypeError) as caught:
        MISSPELT[case]()
    message = str(caught.value)
    assert message.startswith(f"{case}: unknown data type")
    assert "did you mean" in message or "known types" in message


def test_an_unknown_architecture_is_refused_with_those_that_are_known():
    with pytest.raises(TargetError, match=r"unknown target 'sm_77'\n.*\"sm_90a\""):
        MatmulTemplate(64, 64, 64).with_arch("sm_77")
