"""Templates: kinds of kernels whose sizes :meth:`Template.recommend_hints` suggests."""

from .attention import FlashAttentionTemplate
from .base import Template
from .matmul import ConvTemplate, GEMVTemplate, MatmulTemplate
from .sweep import ElementwiseTemplate, GeneralReductionTemplate

__all__ = [
    "ConvTemplate",
    "ElementwiseTemplate",
    "FlashAttentionTemplate",
    "GEMVTemplate",
    "GeneralReductionTemplate",
    "MatmulTemplate",
    "Template",
]
