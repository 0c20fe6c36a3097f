"""Runs compiled kernels: driver, launching, toolchain."""
