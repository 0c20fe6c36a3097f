"""Sizes of tiles for kinds of kernels, from their shape and the limits of a GPU.

A template's :meth:`~template.Template.recommend_hints` lists the best ones by an estimate; what is
asked of the hardware is in :mod:`tilelang.carver.arch`.
"""

from . import arch, roller, template
from .hint import Hint
from .template import (
    ConvTemplate,
    ElementwiseTemplate,
    FlashAttentionTemplate,
    GEMVTemplate,
    GeneralReductionTemplate,
    MatmulTemplate,
)

__all__ = [
    "ConvTemplate",
    "ElementwiseTemplate",
    "FlashAttentionTemplate",
    "GEMVTemplate",
    "GeneralReductionTemplate",
    "Hint",
    "MatmulTemplate",
    "arch",
    "roller",
    "template",
]
