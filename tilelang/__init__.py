"""TileLang for Blackwell: a tile-kernel compiler for NVIDIA GPUs and a machine to run it on."""

from . import _ffi as _ffi
