"""Layouts: where the elements of a tile lie in memory, registers and tensor memory.

See ``docs/layouts.md``. Every layout maps logical coordinates (last dimension fastest) to
hardware coordinates; :class:`Layout` to one integer, :class:`Fragment` to (thread, register).
"""

from tilelang.layout.formula import FormulaLayout
from tilelang.layout.fragment import Conversion, Fragment, conversion
from tilelang.layout.layout import (
    Layout,
    coalesce,
    complement,
    composition,
    concatenate,
    left_inverse,
    logical_divide,
    logical_product,
    right_inverse,
    tiled_divide,
    zipped_divide,
)
from tilelang.layout.shared import (
    MatrixOperand,
    bank_cycles,
    make_full_bank_swizzled_layout,
    make_half_bank_swizzled_layout,
    make_linear_layout,
    make_padded_layout,
    make_quarter_bank_swizzled_layout,
    make_swizzled_layout,
    matrix_operand,
    plain_byte_offset,
    shared_access_cost,
)
from tilelang.layout.tmem import (
    TmemAtom,
    TmemCopyPlan,
    TmemCpInstruction,
    TmemInstruction,
    TmemLayout,
    nearest_tmem_fragment,
    plan_tmem_copy,
    plan_tmem_cp,
    tmem_atoms,
    tmem_fragment,
)

__all__ = [
    "Conversion",
    "FormulaLayout",
    "Fragment",
    "Layout",
    "MatrixOperand",
    "TmemAtom",
    "TmemCopyPlan",
    "TmemCpInstruction",
    "TmemInstruction",
    "TmemLayout",
    "bank_cycles",
    "coalesce",
    "complement",
    "composition",
    "concatenate",
    "conversion",
    "left_inverse",
    "logical_divide",
    "logical_product",
    "make_full_bank_swizzled_layout",
    "make_half_bank_swizzled_layout",
    "make_linear_layout",
    "make_padded_layout",
    "make_quarter_bank_swizzled_layout",
    "make_swizzled_layout",
    "matrix_operand",
    "nearest_tmem_fragment",
    "plain_byte_offset",
    "plan_tmem_copy",
    "plan_tmem_cp",
    "right_inverse",
    "shared_access_cost",
    "tiled_divide",
    "tmem_atoms",
    "tmem_fragment",
    "zipped_divide",
]
