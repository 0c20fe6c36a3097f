"""The codecs of a Zarr array as functions that threads call: those of numcodecs, by their names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

#: Takes a contiguous array, or bytes, and returns bytes.
Encode = Callable[[Any], Any]

_SHUFFLES = {"noshuffle": 0, "shuffle": 1, "bitshuffle": 2}


@dataclass(frozen=True)
class Encoding:
    """How the chunks of an array become bytes.

    Attributes:
        encode: of a chunk.
        index: of the index of a shard; None without shards.
        index_at_end: where the index is.
    """

    encode: Encode
    index: Encode | None = None
    index_at_end: bool = True

    @classmethod
    def of(cls, array: Any) -> Encoding | None:
        """Returns that of an array of zarr; None if a codec is not one that threads can call."""
        metadata = array.metadata
        if metadata.zarr_format == 2:
            plain = not metadata.filters and metadata.order == "C" and array.dtype.isnative
            compressor = metadata.compressor
            if not plain or not (compressor is None or hasattr(compressor, "encode")):
                return None
            return cls(compressor.encode if compressor is not None else _plain)
        codecs = [_described(codec) for codec in metadata.codecs]
        if len(codecs) == 1 and codecs[0]["name"] == "sharding_indexed":
            settings = codecs[0]["configuration"]
            encode = _chain(settings["codecs"])
            index = _chain(settings["index_codecs"])
            if encode is None or index is None:
                return None
            return cls(encode, index, settings.get("index_location", "end") == "end")
        encode = _chain(codecs)
        return None if encode is None else cls(encode)


def _described(codec: Any) -> dict[str, Any]:
    found = codec.to_dict()
    return found if isinstance(found, dict) else {"name": found}


def _chain(codecs: Sequence[Mapping[str, Any]]) -> Encode | None:
    """Returns codecs one after the other; None if one of them is not known here."""
    first, *others = codecs
    endian = (first.get("configuration") or {}).get("endian", sys.byteorder)
    if first["name"] != "bytes" or endian not in (None, sys.byteorder):
        return None
    steps = []
    for number, codec in enumerate(others):
        step = _known(codec["name"], codec.get("configuration") or {})
        if step is None or (codec["name"] == "blosc" and number > 0):
            return None
        steps.append(step)
    if not steps:
        return _plain
    if len(steps) == 1:
        return steps[0]

    def encode(chunk: Any) -> Any:
        for step in steps:
            chunk = step(chunk)
        return chunk

    return encode


def _known(name: str, settings: Mapping[str, Any]) -> Encode | None:
    import numcodecs
    from numcodecs.checksum32 import CRC32C

    if name == "zstd":
        zstd = numcodecs.Zstd(settings.get("level", 0), settings.get("checksum", False))
        return zstd.encode
    if name == "gzip":
        return numcodecs.GZip(settings.get("level", 5)).encode
    if name == "blosc":
        blosc = numcodecs.Blosc(
            settings["cname"],
            settings["clevel"],
            _SHUFFLES[settings["shuffle"]],
            settings.get("blocksize", 0),
        )
        return blosc.encode
    return CRC32C(location="end").encode if name == "crc32c" else None


def _plain(chunk: Any) -> Any:
    return np.ascontiguousarray(chunk).reshape(-1).view(np.uint8)
