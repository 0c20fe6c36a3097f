"""What runs compiled kernels: driver, launching, toolchain."""
