"""Images of OME-NGFF: levels, metadata, and images that are continued after a stop."""

from __future__ import annotations

import numpy as np
import pytest
from stream.reference import random_array

from tilelang.errors import ArgumentError
from tilelang.stream import TileStream

zarr = pytest.importorskip("zarr")


def opened(shape=(None, 3, 40, 50), tile=(2, 1, 16, 16), **options):
    return TileStream(shape, tile, "uint16", "cpu", batch=1, **options)


def test_an_image_has_levels_and_metadata(tmp_path):
    data = random_array((6, 3, 40, 50), "uint16")
    with opened() as stream:
        writers = stream.to_ome(
            tmp_path / "a.zarr",
            "tcyx",
            method="max",
            scale=(0.5, 1, 0.1, 0.2),
            units={"t": "second", "x": "micrometer"},
            shards=(4, 1, 32, 32),
            codec="blosc",
        )
        stream.append(data)
    assert len(writers) == 3  # 50, 25, 13 columns: the last one is in a tile
    group = zarr.open_group(tmp_path / "a.zarr", mode="r")
    ome = group.attrs["ome"]
    assert ome["version"] == "0.5"
    [image] = ome["multiscales"]
    assert image["axes"] == [
        {"name": "t", "type": "time", "unit": "second"},
        {"name": "c", "type": "channel"},
        {"name": "y", "type": "space"},
        {"name": "x", "type": "space", "unit": "micrometer"},
    ]
    scales = [level["coordinateTransformations"] for level in image["datasets"]]
    assert scales[0] == [{"type": "scale", "scale": [0.5, 1, 0.1, 0.2]}]
    np.testing.assert_allclose(scales[2][0]["scale"], [0.5, 1, 0.4, 0.8])
    np.testing.assert_allclose(scales[2][1]["translation"], [0, 0, 0.15, 0.3])
    level = data
    for entry in image["datasets"]:
        array = group[entry["path"]]
        assert array.metadata.dimension_names == ("t", "c", "y", "x")
        np.testing.assert_array_equal(array[:], level)
        padded = np.pad(level, [(0, 0), (0, 0), *[(0, s % 2) for s in level.shape[2:]]])
        t, c, y, x = padded.shape
        level = padded.reshape(t, c, y // 2, 2, x // 2, 2).max((3, 5))


@pytest.mark.parametrize("factors", [(1, 1, 2, 2), (2, 1, 2, 2)], ids=str)
def test_an_image_is_continued_where_all_levels_are(tmp_path, factors):
    data = random_array((23, 3, 40, 50), "uint16")
    row = 0
    for end in (9, 16, 23):
        stream = opened()
        first, *_ = stream.to_ome(
            tmp_path / "a.zarr", "tcyx", levels=2, factors=factors, method="min", at="end"
        )
        assert first.first_row <= row and (end == 9 or first.first_row > 0)
        with stream:
            stream.append(data[first.first_row : end])
        row = end
    group = zarr.open_group(tmp_path / "a.zarr", mode="r")
    np.testing.assert_array_equal(group["0"][:], data)
    padded = data if factors[0] == 1 else np.concatenate([data, data[-1:]])
    shape = len(padded) // factors[0], factors[0], 3, 20, 2, 25, 2
    np.testing.assert_array_equal(group["1"][:], padded.reshape(shape).min((1, 4, 6)))


@pytest.mark.parametrize(
    ("axes", "options", "message"),
    [
        ("tzyxq", {}, "not the 4 axes of an image"),
        ("ctyx", {}, "not the 4 axes of an image"),
        ("tczx", {}, "not the 4 axes of an image"),
        ("tcyx", {"factors": (2, 2)}, "are no 4 positive integers above 1"),
        ("tcyx", {"factors": 1}, "are no 4 positive integers above 1"),
        ("tcyx", {"levels": 0}, "levels=0 is no positive integer"),
        ("tcyx", {"scale": (1, 2)}, "has not 4 numbers"),
        ("tcyx", {"units": {"z": "meter"}}, "'z' is none of the axes"),
        ("tcyx", {"at": 4}, "an image is begun, or continued"),
        ("tcyx", {"zarr_format": 2}, "has Zarr format 3"),
    ],
)
def test_what_is_no_image(tmp_path, axes, options, message):
    with pytest.raises(ArgumentError, match=message):
        opened().to_ome(tmp_path / "a.zarr", axes, **options)


def test_an_image_is_not_overwritten(tmp_path):
    for attempt in range(2):
        stream = opened()
        if attempt:
            with pytest.raises(Exception, match=r"exist|already"):
                stream.to_ome(tmp_path / "a.zarr", "tcyx")
            return
        with stream:
            stream.to_ome(tmp_path / "a.zarr", "tcyx")
            stream.append(np.zeros((2, 3, 40, 50), "uint16"))


def test_axes_are_stored_in_the_order_of_the_specification(tmp_path):
    data = random_array((3, 4, 40, 50), "uint16")
    with opened((None, 4, 40, 50), order="ctyx->tcyx", tile=(1, 2, 16, 16)) as stream:
        stream.to_ome(tmp_path / "a.zarr", "ctyx", levels=1)
        stream.append(data)
    group = zarr.open_group(tmp_path / "a.zarr", mode="r")
    np.testing.assert_array_equal(group["0"][:], data.transpose(1, 0, 2, 3))
