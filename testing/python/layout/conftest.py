"""Hypothesis profile of the layout tests: no deadline on shared machines."""

from hypothesis import settings

settings.register_profile("layout", deadline=None)
settings.load_profile("layout")
