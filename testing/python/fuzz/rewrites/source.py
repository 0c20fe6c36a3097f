"""A program as the Python source of a T.prim_func."""

from __future__ import annotations

from collections.abc import Iterator

from fuzz.rewrites import model


def _region(where: model.Corner | str, tile: model.Tile) -> str:
    """A corner where the tile spans the last dimensions, else slices."""
    if isinstance(where, str):
        return where
    rank = len(where.indices)
    last = tuple(range(rank - len(where.moving), rank))
    if where.moving == last:
        return f"{where.tensor}[{', '.join(where.indices)}]"
    parts = list(where.indices)
    for dimension, extent in zip(where.moving, tile.shape, strict=True):
        parts[dimension] = f"{parts[dimension]}:{parts[dimension]} + {extent}"
    return f"{where.tensor}[{', '.join(parts)}]"


def _copy(program: model.Program, s: model.Copy) -> str:
    tile = program.tile(s.source if isinstance(s.source, str) else str(s.target))
    return f"T.copy({_region(s.source, tile)}, {_region(s.target, tile)})"


def _lines(program: model.Program, body: tuple[model.Statement, ...], indent: str) -> Iterator[str]:
    for s in body:
        if isinstance(s, model.Bind):
            yield f"{indent}{s.name} = {s.value}"
        elif isinstance(s, model.Barrier):
            yield f"{indent}T.sync_threads()"
        elif isinstance(s, model.Clear):
            yield f"{indent}T.clear({s.tile})"
        elif isinstance(s, model.Gemm):
            flags = f", transpose_A={s.transpose_a}, transpose_B={s.transpose_b}"
            yield f"{indent}T.gemm({s.a}, {s.b}, {s.c}{flags})"
        elif isinstance(s, model.Copy):
            yield indent + _copy(program, s)
        elif isinstance(s, model.Loop):
            how = f"T.serial({s.extent})"
            if s.stages is not None:
                how = f"T.Pipelined({s.extent}, num_stages={s.stages})"
            yield f"{indent}for {s.variable} in {how}:"
            yield from _lines(program, s.body, indent + "    ")
        else:
            yield from _parallel(s, indent)


def _parallel(s: model.Parallel, indent: str) -> Iterator[str]:
    yield f"{indent}for i, j in T.Parallel({s.extents[0]}, {s.extents[1]}):"
    indent += "    "
    for name, text in s.names:
        yield f"{indent}{name} = {text}"
    for condition in s.conditions:
        yield f"{indent}if {condition}:"
        indent += "    "
    for store in s.stores:
        place = f"{store.target}[{', '.join(store.indices)}]"
        if store.adds:
            yield f"{indent}T.atomic_add({place}, {store.value})"
        else:
            yield f"{indent}{place} = {store.value}"


def kernel(program: model.Program) -> str:
    """The function ``kernel`` and the symbolic dimensions before it."""
    lines = [f'{name} = T.dynamic("{name}")' for name in program.symbols]
    lines += ["", "", "@T.prim_func", "def kernel("]
    for tensor in program.tensors:
        shape = ", ".join(tensor.shape) + ("," if len(tensor.shape) == 1 else "")
        lines.append(f'    {tensor.name}: T.Tensor(({shape}), "{tensor.dtype}"),')
    names = ", ".join(name for name, _ in program.grid)
    extents = ", ".join(extent for _, extent in program.grid)
    bound = f"({names})" if len(program.grid) > 1 else names
    lines += ["):", f"    with T.Kernel({extents}, threads={program.threads}) as {bound}:"]
    indent = " " * 8
    for tile in program.tiles:
        lines.append(f'{indent}{tile.name} = T.alloc_{tile.scope}({tile.shape}, "{tile.dtype}")')
    if program.swizzle:
        lines.append(f"{indent}T.use_swizzle({program.swizzle})")
    lines += _lines(program, program.body, indent)
    return "\n".join(lines) + "\n"


def module(program: model.Program) -> str:
    return f"import tilelang.language as T\n\n{kernel(program)}"
