"""c = a + b of arrays in HBM, by CTAs that are all resident and have been dealt their share.

None takes over what another one has not done yet, so the launch takes as long as the
multiprocessor that HBM serves worst. Beside them short CTAs, each place of which goes to the next.
"""

from __future__ import annotations

from collections.abc import Iterator

from program import Probe, registers, text

_THREADS = 256
_ARRAY = 1 << 28  # bytes of a, b, c
_WIDTHS = {4: ("f32", 1), 8: ("v2.f32", 2), 16: ("v4.f32", 4)}


def _program(width: int, loads: int, ctas: int) -> str:
    """A turn: ``loads`` of a and of b, a grid apart; the second pass goes on with the arrays."""
    kind, count = _WIDTHS[width]
    grid = ctas * _THREADS * width
    setup = [
        "mov.u32 %r8, %ctaid.x;", f"mad.lo.u32 %r8, %r8, {_THREADS}, %thread;",
        f"mul.wide.u32 %d8, %r8, {width};", "add.u64 %d8, %d8, %data;",
        f"add.u64 %d9, %d8, {_ARRAY};", f"add.u64 %d10, %d9, {_ARRAY};",
    ]  # fmt: skip
    body = []
    for array in range(2):
        body += [f"ld.global.{kind} {registers('f', 8 + 64 * array + count * i, count)}, "
                 f"[%d{8 + array}+{i * grid}];" for i in range(loads)]  # fmt: skip
    for i in range(loads):
        body += [f"add.f32 %f{8 + count * i + j}, %f{8 + count * i + j}, %f{72 + count * i + j};"
                 for j in range(count)]  # fmt: skip
        body.append(f"st.global.{kind} [%d10+{i * grid}], {registers('f', 8 + count * i, count)};")
    body += [f"add.u64 %d{8 + array}, %d{8 + array}, {loads * grid};" for array in range(3)]
    return text(body, "\n".join(setup))


def probes() -> Iterator[Probe]:
    """All of them."""
    for width, most in ((4, 8), (8, 8), (16, 4)):
        for loads in (1, 2, 4, 8):
            if loads > most:
                continue
            short = _ARRAY // 2 // (_THREADS * width * loads)
            grids = {"4 resident": 4 * 132, "8 resident": 8 * 132, "short": short}
            for name, ctas in grids.items():
                turns = _ARRAY // 2 // (ctas * _THREADS * width * loads)
                yield Probe(
                    f"a + b, 2 x {loads} loads of {width} B, {name}", "B/ns",
                    _program(width, loads, ctas), 2 * 3 * 32 * width * loads,
                    warps=_THREADS // 32, ctas=ctas, repeat=turns, data=(1 << 30, "zeros"),
                    how="bandwidth", parameters={"width": width, "loads": loads},
                )  # fmt: skip
