"""``tvm.error``: the errors of this compiler by the names of TVM."""

from __future__ import annotations

from ..errors import TileLangError

#: A kernel that cannot be compiled raises these, whatever is wrong with it.
TVMError = InternalError = TileLangError

__all__ = ["InternalError", "TVMError"]
