"""Operands of instructions of the tensor core. ``T.gemm`` issues the instructions."""
