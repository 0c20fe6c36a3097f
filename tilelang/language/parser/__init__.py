"""Rewrites the Python source of a kernel into calls of the tracer."""
