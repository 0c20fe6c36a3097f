"""Files of frames, and the command that streams them into Zarr."""

from __future__ import annotations

import numpy as np
import pytest
from cli.documents import command
from stream.reference import random_array

from tilelang.errors import ArgumentError
from tilelang.stream.frames import open_frames

zarr = pytest.importorskip("zarr")


def written(path, data):
    """Writes an array to a file of the kind that its name says."""
    if path.suffix == ".npy":
        np.save(path, data)
    elif path.suffix == ".tif":
        tifffile = pytest.importorskip("tifffile")
        tifffile.imwrite(path, data, photometric="minisblack", byteorder=">")
    else:
        h5py = pytest.importorskip("h5py")
        with h5py.File(path, "w") as file:
            file["deep/raw"] = data
    return str(path)


@pytest.mark.parametrize("suffix", [".npy", ".tif", ".h5"])
@pytest.mark.parametrize("shape", [(7, 20, 30), (4, 2, 10, 12)], ids=str)
def test_a_file_becomes_an_array(tmp_path, suffix, shape):
    data = random_array(shape, "uint16")
    source = written(tmp_path / f"in{suffix}", data)
    tile = ",".join(map(str, (3,) + (1,) * (len(shape) - 3) + (8, 9)))
    result = command(f"stream {source} {tmp_path}/out.zarr --tile {tile} --codec blosc")
    assert result.exit_code == 0, result.output
    assert f"{shape[0]} frames of {'x'.join(map(str, shape[1:]))} uint16" in result.output
    array = zarr.open_array(tmp_path / "out.zarr", mode="r")
    assert ",".join(map(str, array.chunks)) == tile
    np.testing.assert_array_equal(array[:], data)


def test_a_command_goes_on_and_writes_images(tmp_path):
    data = random_array((11, 20, 30), "float32")
    options = "--tile 2,8,16 --axes tyx --levels 2 --method max --scale 1,0.5,0.5"
    target = tmp_path / "out.zarr"
    first = written(tmp_path / "a.npy", data[:7])
    assert command(f"stream {first} {target} {options}").exit_code == 0
    again = command(f"stream {first} {target} {options}")
    assert again.exit_code == 2 and "--resume" in again.output
    both = written(tmp_path / "b.npy", data)
    result = command(f"stream {both} {target} {options} --resume")
    assert result.exit_code == 0 and "5 frames" in result.output
    group = zarr.open_group(target, mode="r")
    np.testing.assert_array_equal(group["0"][:], data)
    np.testing.assert_array_equal(group["1"][:], data.reshape(11, 10, 2, 15, 2).max((2, 4)))


def test_axes_of_a_file_are_taken(tmp_path):
    tifffile = pytest.importorskip("tifffile")
    data = random_array((5, 16, 18), "uint8")
    tifffile.imwrite(tmp_path / "a.tif", data, imagej=True, metadata={"axes": "TYX"})
    frames = open_frames(str(tmp_path / "a.tif"))
    assert frames.axes == "tyx" and frames.shape == data.shape
    np.testing.assert_array_equal(
        np.concatenate([b.reshape(-1, 16, 18) for b in frames.blocks(2)]), data[2:]
    )


def test_files_that_have_no_frames(tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["one"], file["two"] = [1], [2]
    for path, dataset, message in (
        ("a.h5", None, "several data sets"),
        ("a.h5", "three", "no data set 'three'"),
        ("a.czi", None, "cannot read files '.czi'"),
    ):
        with pytest.raises(ArgumentError, match=message):
            open_frames(str(tmp_path / path), dataset)
    missing = command(f"stream {tmp_path}/none.npy {tmp_path}/out.zarr")
    assert missing.exit_code == 2 and "none.npy" in missing.output
    wrong = command(f"stream {tmp_path}/a.h5 {tmp_path}/out.zarr --tile 3,x")
    assert wrong.exit_code == 2 and "is no list of numbers" in wrong.output
