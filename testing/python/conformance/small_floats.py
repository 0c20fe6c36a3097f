"""Floats of 4 and 6 bits (OCP Microscaling Formats): their values by code, and packing."""

from __future__ import annotations

import torch

#: Bits of an element, of its fraction, and the bias of its exponent.
FORMS = {
    "float4_e2m1fn": (4, 1, 1),
    "float6_e2m3fn": (6, 3, 1),
    "float6_e3m2fn": (6, 2, 3),
}


def values(name: str) -> torch.Tensor:
    """The value of each code, in float64: sign, exponent, fraction."""
    bits, fraction, bias = FORMS[name]
    codes = torch.arange(2 ** (bits - 1)).double()
    exponent = (codes / 2**fraction).floor()
    part = codes / 2**fraction - exponent
    normal = (1 + part) * torch.exp2(exponent - bias)
    sizes = torch.where(exponent == 0, part * 2.0 ** (1 - bias), normal)
    return torch.cat([sizes, -sizes])


def pack(codes: torch.Tensor, bits: int) -> torch.Tensor:
    """Codes (..., n) one after the other from the low bits on, as bytes (..., n * bits / 8)."""
    stream = (codes.int()[..., None] >> torch.arange(bits) & 1).flatten(-2)
    return (stream.unflatten(-1, (-1, 8)) << torch.arange(8)).sum(-1).to(torch.uint8)


def unpack(data: torch.Tensor, bits: int) -> torch.Tensor:
    """The codes in bytes."""
    stream = (data.int()[..., None] >> torch.arange(8) & 1).flatten(-2)
    return (stream.unflatten(-1, (-1, bits)) << torch.arange(bits)).sum(-1)
