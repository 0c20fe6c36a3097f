"""The names of :mod:`tilelang.sparse` under another module."""

from ..sparse import compress, decompress, get_e_factor, randint_semi_sparse, randn_semi_sparse

__all__ = ["compress", "decompress", "get_e_factor", "randint_semi_sparse", "randn_semi_sparse"]
