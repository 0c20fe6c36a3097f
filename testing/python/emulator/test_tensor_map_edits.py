"""tensormap.replace and tensormap.cp_fenceproxy: maps made on the device give the host's copies."""

import numpy as np
import pytest
from ptx_kernels import HEADER

from tilelang.emulator import Device, EmulatorError

# Thread 0 makes a map in shared memory; the warp publishes it in MAP; a copy uses it there.
_KERNEL = """
.visible .entry k(.param .u64 X, .param .u64 MAP, .param .u64 OUT) {{
 .shared .align 1024 .b8 tile[8192]; .shared .align 128 .b8 map[128]; .shared .align 8 .b64 bar;
 .reg .b32 %r<20>; .reg .b64 %d<20>; .reg .pred %p<9>;
 ld.param.u64 %d0, [X]; ld.param.u64 %d1, [MAP]; ld.param.u64 %d2, [OUT];
 mov.u32 %r0, %tid.x; mov.u32 %r1, tile; mov.u32 %r2, map; mov.u32 %r3, bar;
 mul.lo.u32 %r4, %r0, 4; add.u32 %r5, %r4, %r2; st.shared.u32 [%r5], 0;
 setp.eq.u32 %p0, %r0, 0; @%p0 mbarrier.init.shared::cta.b64 [%r3], 1;
 @%p0 fence.mbarrier_init.release.cluster;
 bar.sync 0;
 @!%p0 bra MADE;
 {edits}
MADE: bar.warp.sync 0xffffffff;
 tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned
   [%d1], [%r2], 128;
 bar.sync 0;
 @!%p0 bra WAIT;
 fence.proxy.tensormap::generic.acquire.gpu [%d1], 128;
 mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {bytes};
 cp.async.bulk.tensor.{rank}d.shared::cta.global.tile.mbarrier::complete_tx::bytes
   [%r1], [%d1, {{{coords}}}], [%r3];
WAIT: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r3], 0; @!%p1 bra WAIT;
 mov.u32 %r6, %r4;
COPY: add.u32 %r7, %r6, %r1; ld.shared.b32 %r8, [%r7]; cvt.u64.u32 %d3, %r6;
 add.u64 %d4, %d2, %d3; st.global.b32 [%d4], %r8;
 add.u32 %r6, %r6, 128; setp.lt.u32 %p2, %r6, {bytes}; @%p2 bra COPY;
 ret;
}}"""


def replace(field, value, ordinal=None, kind="b32"):
    where = "" if ordinal is None else f"{ordinal}, "
    name = f"tensormap.replace.tile.{field}.shared::cta.b1024.{kind}"
    if kind == "b64" and not str(value).startswith("%"):
        return f"mov.u64 %d9, {value}; {name} [%r2], {where}%d9;"
    return f"{name} [%r2], {where}{value};"


def edits(dims, strides, box, elemtype, interleave=0, swizzle=0, atom=0, fill=0, steps=None):
    """Innermost dimension first, as the instruction has them."""
    lines = [replace("global_address", "%d0", kind="b64"), replace("rank", len(dims) - 1)]
    for i, extent in enumerate(dims):
        lines += [replace("global_dim", extent, i), replace("box_dim", box[i], i)]
        lines.append(replace("element_stride", steps[i] if steps else 1, i))
    lines += [replace("global_stride", s, i, "b64") for i, s in enumerate(strides)]
    lines += [replace("elemtype", elemtype), replace("interleave_layout", interleave)]
    lines += [replace("swizzle_mode", swizzle), replace("fill_mode", fill)]
    if atom:
        lines.append(replace("swizzle_atomicity", atom))
    return "\n ".join(lines)


def run(text, array, nbytes, coords):
    """Returns the copy's bytes and the published map."""
    body = HEADER + _KERNEL.format(
        edits=text, bytes=nbytes, rank=len(coords), coords=", ".join(map(str, coords))
    )
    published, out = np.zeros(128, np.uint8), np.zeros(-(-nbytes // 128) * 128, np.uint8)
    Device("sm_100a").load_ptx(body)["k"].launch(1, 32, [array, published, out])
    return out[:nbytes], published


def check(array, text, host_map, nbytes, coords):
    _, published = run(text, array, nbytes, coords)
    assert published.tobytes()[8:] == host_map.encoded[8:]


DTYPES = {"u8": (0, np.uint8), "u16": (1, np.uint16), "s32": (3, np.int32), "f16": (6, np.float16),
          "f32": (7, np.float32), "f32_ftz": (8, np.float32), "f64": (9, np.float64),
          "tf32": (11, np.float32), "tf32_ftz": (12, np.float32)}  # fmt: skip


@pytest.mark.parametrize("name", DTYPES)
def test_element_types(name):
    code, dtype = DTYPES[name]
    size = np.dtype(dtype).itemsize
    array = np.random.default_rng(1).integers(1, 100, (20, 256 // size)).astype(dtype)
    text = edits((256 // size, 20), (256,), (64 // size, 8), code)
    out, _ = run(text, array, 512, (32 // size, 5))
    expected = array[5:13, 32 // size : 96 // size]
    np.testing.assert_array_equal(out.view(dtype).reshape(8, -1), expected)
    host = Device("sm_100a").tensor_map(array, box=(8, 64 // size), dtype=name)
    check(array, text, host, 512, (0, 0))


@pytest.mark.parametrize(
    ("name", "mode", "atom"),
    [("32B", 1, 0), ("64B", 2, 0), ("128B", 3, 0), ("128B_atom32B", 3, 1),
     ("128B_atom32B_flip8B", 3, 2)],
)  # fmt: skip
def test_swizzles(name, mode, atom):
    array = np.zeros((20, 128), np.uint16)
    width = {1: 32, 2: 64, 3: 128}[mode]
    text = edits((128, 20), (256,), (width // 2, 8), 1, swizzle=mode, atom=atom)
    host = Device("sm_100a").tensor_map(array, box=(8, width // 2), swizzle=name)
    check(array, text, host, 8 * width, (0, 0))


def test_fill_strides_and_interleave():
    device = Device("sm_100a")
    array = np.ones((20, 64), np.float16)
    text = edits((64, 20), (128,), (16, 8), 6, fill=1, steps=(1, 3))
    host = device.tensor_map(array, box=(8, 16), oob_fill="nan", element_strides=(3, 1))
    check(array, text, host, 3 * 32, (0, 0))
    slices = np.random.default_rng(2).integers(0, 99, (2, 4, 10, 16)).astype(np.float16)
    text = edits((10, 4, 2), (320, 1280), (8, 1, 1), 6, interleave=2, swizzle=1)
    host = device.tensor_map(slices, box=(1, 1, 8), interleave="32B", swizzle="32B")
    check(slices, text, host, 256, (1, 2, 1))


def test_long_strides_keep_their_upper_bits():
    view = np.lib.stride_tricks.as_strided(np.zeros(64, np.uint16), (1, 32), (0, 2))
    stride = 3 << 36
    text = edits((32, 1), (stride,), (16, 1), 1)
    _, published = run(text, view, 32, (0, 0))
    words = published.view(np.uint64)
    assert int(words[1] >> np.uint64(32)) == (stride >> 4) & 0xFFFFFFFF
    assert int(words[3] >> np.uint64(32)) & 0xF == stride >> 36


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        (replace("rank", 9), "holds no 9"),
        (replace("box_dim", 257, 0), "holds no 257"),
        (replace("box_dim", 0, 0), "holds no 0"),
        (replace("element_stride", 9, 1), "holds no 9"),
        (replace("elemtype", 16), "holds no 16"),
        (replace("interleave_layout", 4), "holds no 4"),
        (replace("swizzle_mode", 4), "96-byte"),
        (replace("swizzle_mode", 5), "holds no 5"),
        (replace("fill_mode", 2), "holds no 2"),
        (replace("global_stride", 24, 0, "b64"), "multiple of 16"),
        (replace("global_dim", 3, 5), "does not have this dimension"),
        (replace("global_stride", 32, 4, "b64"), "does not have this dimension"),
        (replace("rank", "%d0", kind="b64"), "wrong type"),
        ("tensormap.replace.tile.rank.shared::cta.b32 [%r2], 1;", "b1024"),
        ("tensormap.replace.im2col.rank.shared::cta.b1024.b32 [%r2], 1;", "tensormap.replace"),
        ("tensormap.replace.tile.box_dims.shared::cta.b1024.b32 [%r2], 0, 1;", "box_dims"),
    ],
)
def test_wrong_edits(line, complaint):
    array = np.zeros((20, 64), np.uint16)
    text = edits((64, 20), (128,), (16, 8), 1) + "\n " + line
    with pytest.raises(EmulatorError, match=complaint) as caught:
        run(text, array, 256, (0, 0))
    assert caught.value.ptx_line > 0


def test_a_change_is_acquired_before_it_is_used(monkeypatch):
    """TMA may take a map from its cache without the fence."""
    array = np.zeros((20, 64), np.uint16)
    fence = " fence.proxy.tensormap::generic.acquire.gpu [%d1], 128;\n"
    for text in ("", fence.replace("%d1", "%d2")):
        monkeypatch.setitem(globals(), "_KERNEL", _KERNEL.replace(fence, text))
        with pytest.raises(EmulatorError, match=r"tensor map at .* this CTA has changed") as caught:
            run(edits((64, 20), (128,), (16, 8), 1), array, 256, (0, 0))
        assert caught.value.kind == "missing-proxy-fence" and caught.value.ptx_line
        monkeypatch.undo()


def test_a_map_that_breaks_a_rule_is_an_error_where_it_is_used():
    array = np.zeros((20, 64), np.uint16)
    text = edits((64, 20), (128,), (12, 8), 1)
    with pytest.raises(EmulatorError, match="multiple of 16") as caught:
        run(text, array, 192, (0, 0))
    assert caught.value.kind == "tensor-map"
