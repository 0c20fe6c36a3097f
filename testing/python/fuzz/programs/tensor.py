"""Productions of tensor cores: gemms; on sm_100a, copies from and to tensor memory."""

from __future__ import annotations

from dataclasses import replace

from fuzz.programs import model
from fuzz.programs.formats import BITS
from fuzz.programs.generate import Generator
from fuzz.programs.model import Buffer, Linear, Region, Statement, times, whole
from fuzz.programs.tiles import Proposal

#: Element type of A and B -> types of C, and K of an instruction.
_FORMS = {
    "float16": (("float32", "float32", "float16"), 16),
    "bfloat16": (("float32",), 16),
    "float32": (("float32",), 8),
    "float8_e4m3fn": (("float32", "float32", "float16"), 32),
    "float8_e5m2": (("float32",), 32),
    "int8": (("int32",), 32),
    "uint8": (("int32",), 32),
}
_MOST_TILES = 5


def _tmem(g: Generator) -> list[Buffer]:
    return [b for b in g.locals if b.scope == "tmem"]


def new_tmem(g: Generator, shape: tuple[int, ...], dtype: str, use: str) -> Buffer | None:
    if g.program.target != "sm_100a" or shape[0] not in (64, 128) or len(_tmem(g)) >= _MOST_TILES:
        return None
    return g.allocate("tmem", shape, dtype, use)


def _available(g: Generator, scopes: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(s for s in scopes if s != "tmem" or g.program.target == "sm_100a")


def _operand(
    g: Generator, shape: tuple[int, int], dtype: str, scopes: tuple[str, ...]
) -> tuple[list[Statement], Buffer] | None:
    """A defined tile to multiply, with the statements that make it."""
    scopes = _available(g, scopes)
    old = g.readable(
        lambda b: b.shape == shape and b.dtype == dtype and b.scope in scopes
        and (b.scope != "tmem" or b.use == "operand")
    )  # fmt: skip
    if old and g.chance(0.5):
        return [], g.pick(old)
    scope = g.pick(scopes)
    if scope == "tmem":
        tile = new_tmem(g, shape, dtype, "operand")
        if tile is None:
            return None
        made = _operand(g, shape, dtype, ("shared", "fragment"))
        if made is None:
            return None
        return [*made[0], model.Copy(whole(made[1]), whole(tile))], tile
    if not g.fits(shape, scope):
        return None
    tile = g.allocate(scope, shape, dtype)
    source = g.input_tile(shape, dtype if g.chance(0.8) else g.pick(g.types))
    return [model.Copy(source, whole(tile), disable_tma=g.chance(0.15))], tile


def _accumulator(g: Generator, shape: tuple[int, int], dtype: str) -> Buffer | None:
    scopes = _available(g, ("tmem", "fragment"))
    old = g.writable(
        lambda b: b.shape == shape and b.dtype == dtype and b.scope in scopes
        and (b.scope != "tmem" or b.use == "accumulator")
    )  # fmt: skip
    if old and g.chance(0.6):
        return g.pick(old)
    if g.pick(scopes) == "tmem":
        return new_tmem(g, shape, dtype, "accumulator")
    return g.allocate("fragment", shape, dtype) if g.fits(shape, "fragment") else None


def gemm(g: Generator) -> Proposal:
    types = [t for t in g.types if t in _FORMS]
    if not types:
        return None
    dtype = g.pick(types)
    results, least_k = _FORMS[dtype]
    m, n, k = g.pick((64, 128)) if g.chance(0.2) else g.rows, g.columns, least_k * g.pick((1, 1, 2))
    ta, tb = g.chance(0.25), g.chance(0.5)
    a_scopes = ("shared",) if ta else ("shared", "shared", "tmem", "fragment")
    a = _operand(g, (k, m) if ta else (m, k), dtype, a_scopes)
    b = _operand(g, (n, k) if tb else (k, n), dtype, ("shared",))
    if a is None or b is None:
        return None
    c = _accumulator(g, (m, n), g.pick(results))
    if c is None or c in (a[1], b[1]):
        return None
    fresh = not g.defined(c)
    clear: bool | model.Condition = fresh or g.chance(0.4)
    if clear and g.context.loops and g.chance(0.6):
        clear = model.Condition(times(g.context.loops[-1][0], 1), "==", 0)
    before: list[Statement] = []
    if clear is True and fresh and c.scope == "fragment" and g.chance(0.5):
        before, clear = [model.Fill(whole(c), 0)], False
    statement = model.Gemm(whole(a[1]), whole(b[1]), whole(c), ta, tb, clear)
    if c.scope == "tmem" and a[1].scope != "fragment" and g.chance(0.2) and not g.context.owner:
        statement = _asynchronous(g, statement)
    return [*a[0], *b[0], *before, statement]


def _asynchronous(g: Generator, s: model.Gemm) -> model.Gemm:
    return replace(s, barrier=g.name("bar"))


def _columns(g: Generator, buffer: Buffer, width: int | None = None) -> Region:
    """The whole tile, or some of its columns, perhaps chosen by a loop's variable."""
    per_cell = 32 // BITS[buffer.dtype] if buffer.use == "operand" else 1
    columns = buffer.shape[1]
    if width is None:
        halves = [w for w in (columns // 2, columns // 4, 8) if w >= 8 and w % (2 * per_cell) == 0]
        if not halves or g.chance(0.6):
            return whole(buffer)
        width = g.pick(halves)
    places = columns // width
    loop = next((v for v, n in g.context.loops if 0 < n <= places), None)
    fixed = Linear(g.rng.randrange(places) * width)
    low = times(loop, width) if loop and g.chance(0.6) else fixed
    return Region(buffer, (Linear(), low), (buffer.shape[0], width))


def _use(dtype: str) -> str:
    return "accumulator" if BITS[dtype] == 32 else "operand"


def from_tmem(g: Generator) -> Proposal:
    """Tensor memory to a fragment, shared memory, an output, or other tensor memory."""
    choices = g.readable(lambda b: b.scope == "tmem")
    if not choices:
        return into_tmem(g)
    src = g.pick(choices)
    part = _columns(g, src)
    if g.chance(0.15):
        return [model.Copy(part, g.output_tile(part.extents, src.dtype))]
    if g.chance(0.2):
        return _tmem_to_tmem(g, src, part)
    scope = g.pick(("fragment", "fragment", "shared"))
    old = g.writable(lambda b: b.scope == scope and b.shape == part.extents)
    dtype = src.dtype if g.chance(0.7) else g.pick(g.types)
    if g.chance(0.3):
        wide = g.writable(
            lambda b: b.scope == scope and b.shape == (src.shape[0], 2 * part.extents[1])
        )
        if wide:
            return [model.Copy(part, _columns(g, g.pick(wide), part.extents[1]))]
    if old and g.chance(0.5):
        return [model.Copy(part, whole(g.pick(old)))]
    if not g.fits(part.extents, scope):
        return None
    return [model.Copy(part, whole(g.allocate(scope, part.extents, dtype)))]


def _tmem_to_tmem(g: Generator, src: Buffer, part: Region) -> Proposal:
    old = [b for b in g.writable(lambda b: b.scope == "tmem" and b != src)
           if b.shape[0] == src.shape[0] and b.shape[1] % part.extents[1] == 0]  # fmt: skip
    if old:
        return [model.Copy(part, _columns(g, g.pick(old), part.extents[1]))]
    dtype = src.dtype if g.chance(0.5) else g.pick(g.types)
    dst = new_tmem(g, part.extents, dtype, src.use if dtype == src.dtype else _use(dtype))
    return [model.Copy(part, whole(dst))] if dst else None


def into_tmem(g: Generator) -> Proposal:
    """A tile of a fragment, shared memory or an input to tensor memory."""
    rows = g.pick((64, 128))
    choices = g.readable(
        lambda b: b.scope in ("shared", "fragment") and len(b.shape) == 2
        and b.shape[0] in (64, 128) and b.shape[1] % 8 == 0
    )  # fmt: skip
    if choices and g.chance(0.85):
        src = whole(g.pick(choices))
        dtype = src.buffer.dtype
    else:
        dtype = g.pick(g.types)
        src = g.input_tile((rows, g.columns), dtype)
    if g.chance(0.25):
        dtype = g.pick(g.types)
    old = g.writable(lambda b: b.scope == "tmem" and b.shape[0] == src.extents[0])
    wide = [b for b in old if b.shape[1] % src.extents[1] == 0]
    if wide and g.chance(0.5):
        return [model.Copy(src, _columns(g, g.pick(wide), src.extents[1]))]
    if dtype == "int16":
        return None
    dst = new_tmem(g, src.extents, dtype, _use(dtype))
    return [model.Copy(src, whole(dst))] if dst else None


def fill_tmem(g: Generator) -> Proposal:
    old = g.writable(lambda b: b.scope == "tmem")
    if not old:
        return None
    return [model.Fill(_columns(g, g.pick(old)), g.pick((0, 0, 1, 2)))]


def chained(g: Generator) -> Proposal:
    """Two gemms; the first one's result is A of the second: by way of a fragment, in tensor memory.

    This is the heart of attention.
    """
    types = [t for t in ("float16", "bfloat16", "float8_e4m3fn") if t in g.types]
    if not types or g.columns % _FORMS[types[0]][1] or g.rows * g.columns > 64 * g.context.threads:
        return None
    dtype = types[0]
    m, s, k = g.rows, g.columns, _FORMS[dtype][1]
    n = g.pick((16, 32, 48))
    q, keys = _operand(g, (m, k), dtype, ("shared",)), _operand(g, (s, k), dtype, ("shared",))
    values = _operand(g, (s, n), dtype, ("shared",))
    scores = _accumulator(g, (m, s), "float32")
    out = _accumulator(g, (m, n), "float32")
    if q is None or keys is None or values is None or scores is None or out is None:
        return None
    narrow = g.allocate("fragment", (m, s), dtype)
    body: list[Statement] = [
        *q[0], *keys[0], *values[0],
        model.Gemm(whole(q[1]), whole(keys[1]), whole(scores), False, True, True),
        model.Copy(whole(scores), whole(narrow)),
    ]  # fmt: skip
    weights = narrow
    if g.program.target == "sm_100a" and g.chance(0.5):
        tile = new_tmem(g, (m, s), dtype, "operand")
        if tile is None:
            return None
        body.append(model.Copy(whole(narrow), whole(tile)))
        weights = tile
    clear: bool | model.Condition = True
    if g.context.loops:
        clear = model.Condition(times(g.context.loops[-1][0], 1), "==", 0)
    return [*body, model.Gemm(whole(weights), whole(values[1]), whole(out), False, False, clear)]


PRODUCTIONS = (
    (14, gemm),
    (4, chained),
)

TENSOR_MEMORY = (
    (10, from_tmem),
    (7, into_tmem),
    (2, fill_tmem),
)
