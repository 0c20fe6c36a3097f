"""Equality without tolerance: kernels run on elements of a finite field.

In the algebraic mode of the emulator each float carries an element of a finite field, for which
sums, products and casts are exact. Programs that compute the same formula give the same elements,
whatever the order of their operations; others differ::

    tilelang.algebra.check(kernel, lambda a, b: a.float() @ b.float(), a, b)
"""

from tilelang.algebra.elements import Elements, concatenate, matmul, maximum, minimum, same, where
from tilelang.algebra.mode import Algebra, Remark
from tilelang.algebra.verdict import Verdict, check

__all__ = [
    "Algebra",
    "Elements",
    "Remark",
    "Verdict",
    "check",
    "concatenate",
    "matmul",
    "maximum",
    "minimum",
    "same",
    "where",
]
