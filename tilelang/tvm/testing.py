"""``tvm.testing``: marks of tests, and what compares arrays."""

from numpy.testing import assert_allclose

from ..testing import main, requires_cuda, requires_package

__all__ = ["assert_allclose", "main", "requires_cuda", "requires_package"]
