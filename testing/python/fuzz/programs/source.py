"""A program as TileLang source text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fuzz.programs import model, pairs

_ALLOC = {"shared": "alloc_shared", "fragment": "alloc_fragment", "tmem": "alloc_tmem"}


def linear(value: model.Linear | model.Indirect, plus: int = 0) -> str:
    """``by * 8 + 3``, ``A1[by] * 8``"""
    if isinstance(value, model.Indirect):
        text = expression(value.load)
        text = text if value.factor == 1 else f"{text} * {value.factor}"
        return f"{text} + {plus}" if plus else text
    value = value.plus(plus)
    parts = [name if factor == 1 else f"{name} * {factor}" for name, factor in value.terms]
    if value.const or not parts:
        parts.append(str(value.const))
    return " + ".join(parts).replace("+ -", "- ")


def region(r: model.Region) -> str:
    """The whole buffer, a slice, or a corner."""
    if r.is_whole:
        return r.buffer.name
    if r.corner:
        return f"{r.buffer.name}[{', '.join(map(linear, r.mins))}]"
    parts = []
    for position, (low, extent) in enumerate(zip(r.mins, r.extents, strict=True)):
        if extent == 1 and position < len(r.extents) - 2:
            parts.append(linear(low))
        else:
            parts.append(f"{linear(low)} : {linear(low, extent)}")
    return f"{r.buffer.name}[{', '.join(parts)}]"


def number(value: float, dtype: str) -> str:
    return repr(float(value)) if dtype.startswith(("float", "bfloat")) else str(int(value))


def expression(e: model.Expression) -> str:
    if isinstance(e, model.Load):
        return f"{e.buffer.name}[{', '.join(map(linear, e.indices))}]"
    if isinstance(e, model.Constant):
        return f'T.cast({number(e.value, e.dtype)}, "{e.dtype}")'
    if isinstance(e, model.Index):
        return f"({linear(e.value)})"
    if isinstance(e, model.Cast):
        return f'T.cast({expression(e.value)}, "{e.dtype}")'
    if isinstance(e, model.Unary):
        return f"T.abs({expression(e.a)})" if e.op == "abs" else f"(-{expression(e.a)})"
    if isinstance(e, model.Binary):
        a, b = expression(e.a), expression(e.b)
        return f"T.{e.op}({a}, {b})" if e.op in ("min", "max") else f"({a} {e.op} {b})"
    test = f"{expression(e.left)} {e.op} {expression(e.right)}"
    return f"T.if_then_else({test}, {expression(e.a)}, {expression(e.b)})"


def condition(c: model.Condition) -> str:
    value = linear(c.value)
    if c.modulus:
        value = f"({value}) % {c.modulus}"
    return f"{value} {c.op} {c.const}"


def _lines(body: Sequence[model.Statement], depth: int) -> Iterator[str]:
    pad = "    " * depth
    for statement in body:
        for line in _STATEMENTS[type(statement)](statement):
            if isinstance(line, tuple):
                yield from _lines(line, depth + 1)
            else:
                yield pad + line
    if not body:
        yield pad + "pass"


def _copy(s: model.Copy) -> Iterator[str]:
    extra = ", disable_tma=True" if s.disable_tma else ""
    yield f"T.copy({region(s.src)}, {region(s.dst)}{extra})"


def _fill(s: model.Fill) -> Iterator[str]:
    if s.value == 0:
        yield f"T.clear({region(s.dst)})"
    else:
        yield f"T.fill({region(s.dst)}, {number(s.value, s.dst.buffer.dtype)})"


def _parallel(s: model.Parallel) -> Iterator[str]:
    yield f"for {', '.join(s.variables)} in T.Parallel({', '.join(map(str, s.extents))}):"
    for store in s.stores:
        pad = "    "
        if store.guard:
            yield f"{pad}if {store.guard[0]} < {store.guard[1]}:"
            pad += "    "
        place = f"{store.buffer.name}[{', '.join(map(linear, store.indices))}]"
        if store.atomic:
            yield f"{pad}T.atomic_{store.atomic}({place}, {expression(store.value)})"
        else:
            yield f"{pad}{place} = {expression(store.value)}"


def _reduce(s: model.Reduce) -> Iterator[str]:
    clear = "" if s.clear else ", clear=False"
    yield f"T.reduce_{s.op}({region(s.src)}, {region(s.dst)}, dim={s.dim}{clear})"


def _cumsum(s: model.Cumsum) -> Iterator[str]:
    target = "" if s.src == s.dst else f", {s.dst.name}"
    yield f"T.cumsum({s.src.name}{target}, dim={s.dim}, reverse={s.reverse})"


def _transpose(s: model.Transpose) -> Iterator[str]:
    yield f"T.transpose({s.src.name}, {s.dst.name})"


def _gemm(s: model.Gemm) -> Iterator[str]:
    options = [f"transpose_{n}=True" for n in "AB" if getattr(s, f"transpose_{n.lower()}")]
    if s.clear:
        given = condition(s.clear) if isinstance(s.clear, model.Condition) else "True"
        options.append(f"clear_accum={given}")
    columns = s.b.extents[-2 if s.transpose_b else -1]
    if 2 * columns == s.c.extents[-1]:
        options.append("use_2cta=True")
    name = "tcgen05_gemm" if s.barrier else "gemm"
    if s.barrier:
        options.append(f"mbar={s.barrier}")
    operands = [region(r) for r in (s.a, s.b, s.c)]
    yield f"T.{name}({', '.join(operands + options)})"
    if s.barrier:
        yield f"T.mbarrier_wait_parity({s.barrier}, {s.barrier}_phase)"
        yield f"{s.barrier}_phase = 1 - {s.barrier}_phase"


def _atomic(s: model.Atomic) -> Iterator[str]:
    yield f"T.atomic_{s.op}({region(s.dst)}, {region(s.src)})"


def _sync(s: model.Sync) -> Iterator[str]:
    yield "T.sync_threads()"


def _assign(s: model.Assign) -> Iterator[str]:
    yield f"{s.variable} = {linear(s.value)}"


def _leave(s: model.Leave) -> Iterator[str]:
    yield f"if {condition(s.condition)}:"
    yield f"    {s.word}"


def _for(s: model.For) -> Iterator[object]:
    bounds = linear(s.stop) if s.start == 0 else f"{s.start}, {linear(s.stop)}"
    stages = f", num_stages={s.num_stages}" if s.kind == "Pipelined" else ""
    yield f"for {s.variable} in T.{s.kind}({bounds}{stages}):"
    yield s.body


def _persistent(s: model.Persistent) -> Iterator[object]:
    domain = ", ".join(map(str, s.domain))
    scheduler = ', scheduler="counter"' if s.counted else ""
    yield (
        f"for {', '.join(s.variables)} in "
        f"T.Persistent([{domain}], {s.wave}, bx, group_size={s.group}{scheduler}):"
    )
    yield s.body


def _if(s: model.If) -> Iterator[object]:
    yield f"if {condition(s.condition)}:"
    yield s.then
    if s.orelse:
        yield "else:"
        yield s.orelse


def _role(s: model.Role) -> Iterator[object]:
    for n, (test, body) in enumerate(zip(s.conditions, s.bodies, strict=True)):
        if test.startswith("T.ws("):
            yield f"with {test}:"
        elif not test:
            yield "else:"
        else:
            yield f"{'elif' if n and s.chained else 'if'} {test}:"
        yield body


def _handshake(s: model.Handshake) -> Iterator[object]:
    v, d, ring = s.variable, s.stage, f"{s.variable} // {s.stages}"
    yield f"full_{v} = T.alloc_barrier([{s.producer_count}] * {s.stages})"
    yield f"empty_{v} = T.alloc_barrier([{s.consumer_count}] * {s.stages})"
    loop = f"for {v} in T.serial({linear(s.trips)}):"
    yield f"if {s.producer}:"
    yield f"    {loop}"
    yield f"        {d} = {v} % {s.stages}"
    yield f"        T.mbarrier_wait_parity(empty_{v}[{d}], ({ring} + 1) % 2)"
    yield from _inner(s.fill)
    yield f"        T.mbarrier_arrive(full_{v}[{d}])"
    yield f"elif {s.consumer}:" if s.consumer else "else:"
    if s.start:
        yield s.start
    yield f"    {loop}"
    yield f"        {d} = {v} % {s.stages}"
    yield f"        T.mbarrier_wait_parity(full_{v}[{d}], ({ring}) % 2)"
    yield from _inner(s.drain)
    yield f"        T.mbarrier_arrive(empty_{v}[{d}])"
    if s.finish:
        yield s.finish


def _inner(body: tuple[model.Statement, ...]) -> Iterator[str]:
    yield from _lines(body, 2)


_STATEMENTS = {
    model.Copy: _copy,
    model.Fill: _fill,
    model.Parallel: _parallel,
    model.Reduce: _reduce,
    model.Cumsum: _cumsum,
    model.Transpose: _transpose,
    model.Gemm: _gemm,
    model.Atomic: _atomic,
    model.Sync: _sync,
    model.Assign: _assign,
    model.Leave: _leave,
    model.For: _for,
    model.Persistent: _persistent,
    model.If: _if,
    model.Role: _role,
    model.Handshake: _handshake,
}


def _parameters(program: model.Program) -> list[str]:
    tensors = [b for b in model.buffers(program.body) if b.is_global]
    result = [f'{b.name}: T.Tensor({b.shape!r}, "{b.dtype}")' for b in tensors]
    return result + [f"{name}: T.int32" for name in program.scalars]


def kernel(program: model.Program, name: str = "kernel") -> str:
    """The decorated function."""
    if program.in_pairs:
        program = pairs.of(program)
    lines = ["@T.prim_func", f"def {name}("]
    lines += [f"    {parameter}," for parameter in _parameters(program)]
    names, grid, options = ["bx", "by"], list(program.grid), f"threads={program.threads}"
    body = ["tid = T.get_thread_binding()"]
    if program.in_pairs:
        names[0], grid[0], options = "block", 2 * grid[0], options + ", cluster_dims=2"
        body += ["rank = T.block_rank_in_cluster()", "bx = block // 2"]
    blocks = ", ".join(names[: len(grid)])
    blocks = blocks if len(grid) == 1 else f"({blocks})"
    lines += ["):", f"    with T.Kernel({', '.join(map(str, grid))}, {options}) as {blocks}:"]
    for b in model.buffers(program.body):
        if not b.is_global:
            body.append(f'{b.name} = T.{_ALLOC[b.scope]}({b.shape!r}, "{b.dtype}")')
    body += [f'{n} = T.alloc_var("int32", {value})' for n, value in program.variables.items()]
    for statement in model.walk(program.body):
        if isinstance(statement, model.Gemm) and statement.barrier:
            body.append(f"{statement.barrier} = T.alloc_barrier(1)")
            body.append(f'{statement.barrier}_phase = T.alloc_var("int32", 0)')
    lines += ["        " + line for line in body]
    lines += _lines(program.body, 2)
    return "\n".join(lines) + "\n"


def module(program: model.Program) -> str:
    """The text of a file that defines ``kernel``."""
    head = "import tilelang.language as T\n\n\n"
    return head + kernel(program)
