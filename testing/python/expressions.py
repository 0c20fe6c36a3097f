"""Evaluates printed integer expressions of the IR in Python, independently of our folding."""

import tvm_ffi

from tilelang import _ffi


def variable(name):
    """An int32 variable."""
    return _ffi.get("ir.Var")(name, "int32", None)


def evaluate(expression, **values):
    """The value of an expression whose variables have these values."""
    text = str(tvm_ffi.get_global_func("tl.ir.Print")(expression))
    text = text.replace("&&", " and ").replace("||", " or ")
    return eval(text, {"__builtins__": {}, "true": True, "false": False}, values)
