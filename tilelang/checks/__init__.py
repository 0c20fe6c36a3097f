"""Checks of many kernels: in processes that can be killed, on borrowed machines, with a cache."""
