"""From the Python source of a kernel to calls of the tracer."""
