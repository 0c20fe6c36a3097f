"""``tvm.transform.PassContext``: options of the compiler for what is compiled inside."""

from ..transform.pass_context import PassContext

__all__ = ["PassContext"]
