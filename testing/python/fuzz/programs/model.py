"""Programs as data: what the generator makes, the reference interprets, and ``source`` prints.

A program is one kernel. Its statements mean what they say, one after the other, for every block of
the grid: tiles are tensors, and threads appear only where roles divide them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Buffer:
    """A tensor or tile.

    Attributes:
        scope: "input", "output", "shared", "fragment" or "tmem".
        owner: of a fragment, the role whose threads hold it; "" is the whole block.
        use: of tensor memory, "accumulator" or "operand".
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    scope: str
    owner: str = ""
    use: str = ""

    @property
    def is_global(self) -> bool:
        return self.scope in ("input", "output")


@dataclass(frozen=True)
class Linear:
    """``const`` plus coefficients times variables: block indices, loop and scalar variables."""

    const: int = 0
    terms: tuple[tuple[str, int], ...] = ()

    @property
    def is_constant(self) -> bool:
        return not self.terms

    def plus(self, const: int) -> Linear:
        return Linear(self.const + const, self.terms)


def times(name: str, factor: int, const: int = 0) -> Linear:
    return Linear(const, ((name, factor),)) if factor else Linear(const)


@dataclass(frozen=True)
class Indirect:
    """``load`` times ``factor``: a place that is looked up in a tensor or tile of int32."""

    load: Load
    factor: int = 1


@dataclass(frozen=True)
class Region:
    """A box of a buffer. ``corner``: written as ``A[i, j]``, extents taken from the other side."""

    buffer: Buffer
    mins: tuple[Linear | Indirect, ...]
    extents: tuple[int, ...]
    corner: bool = False

    @property
    def is_whole(self) -> bool:
        origin = all(low == Linear() for low in self.mins)
        return origin and self.extents == self.buffer.shape


def whole(buffer: Buffer) -> Region:
    return Region(buffer, (Linear(),) * len(buffer.shape), buffer.shape)


# ---------------------------------------------------------------------------------- expressions


@dataclass(frozen=True)
class Load:
    buffer: Buffer
    indices: tuple[Linear | Indirect, ...]

    @property
    def dtype(self) -> str:
        return self.buffer.dtype


@dataclass(frozen=True)
class Constant:
    value: float
    dtype: str


@dataclass(frozen=True)
class Index:
    """A linear expression as a value, int32."""

    value: Linear
    dtype: str = "int32"


@dataclass(frozen=True)
class Cast:
    value: Expression
    dtype: str


@dataclass(frozen=True)
class Binary:
    """``+ - * min max``; both operands have the same type, which is the result's."""

    op: str
    a: Expression
    b: Expression

    @property
    def dtype(self) -> str:
        return self.a.dtype


@dataclass(frozen=True)
class Unary:
    """``neg`` or ``abs``."""

    op: str
    a: Expression

    @property
    def dtype(self) -> str:
        return self.a.dtype


@dataclass(frozen=True)
class Where:
    """``a if left op right else b``."""

    op: str
    left: Expression
    right: Expression
    a: Expression
    b: Expression

    @property
    def dtype(self) -> str:
        return self.a.dtype


Expression = Load | Constant | Index | Cast | Binary | Unary | Where


@dataclass(frozen=True)
class Condition:
    """``value op const``, or ``value % modulus op const``; the same in all threads."""

    value: Linear
    op: str
    const: int
    modulus: int = 0


# ----------------------------------------------------------------------------------- statements


@dataclass(frozen=True)
class Copy:
    src: Region
    dst: Region
    disable_tma: bool = False


@dataclass(frozen=True)
class Fill:
    dst: Region
    value: float


@dataclass(frozen=True)
class Store:
    """``buffer[indices] = value`` in a T.Parallel, where ``guard`` (variable < bound) holds."""

    buffer: Buffer
    indices: tuple[Linear, ...]
    value: Expression
    guard: tuple[str, int] | None = None
    atomic: str = ""


@dataclass(frozen=True)
class Parallel:
    variables: tuple[str, ...]
    extents: tuple[int, ...]
    stores: tuple[Store, ...]


@dataclass(frozen=True)
class Reduce:
    op: str
    src: Region
    dst: Region
    dim: int
    clear: bool = True


@dataclass(frozen=True)
class Cumsum:
    src: Buffer
    dst: Buffer
    dim: int
    reverse: bool


@dataclass(frozen=True)
class Transpose:
    src: Buffer
    dst: Buffer


@dataclass(frozen=True)
class Gemm:
    """``barrier``: the mbarrier on which a T.tcgen05_gemm arrives, and which is waited for."""

    a: Region
    b: Region
    c: Region
    transpose_a: bool
    transpose_b: bool
    clear: bool | Condition
    barrier: str = ""


@dataclass(frozen=True)
class Atomic:
    op: str
    src: Region
    dst: Region


@dataclass(frozen=True)
class Sync:
    pass


@dataclass(frozen=True)
class Assign:
    """``variable = value``, of a T.alloc_var."""

    variable: str
    value: Linear


@dataclass(frozen=True)
class Leave:
    """``if condition: break`` (or continue) of the innermost loop."""

    word: str
    condition: Condition


@dataclass(frozen=True)
class For:
    """``kind``: serial, unroll or Pipelined; ``stop`` may be known at run time only."""

    kind: str
    variable: str
    start: int
    stop: Linear
    body: tuple[Statement, ...]
    num_stages: int = 0


@dataclass(frozen=True)
class Persistent:
    """``for y, x in T.Persistent([rows, columns], wave, bx)``: tiles shared among the blocks.

    With ``counted`` a counter gives them out.
    """

    variables: tuple[str, str]
    domain: tuple[int, int]
    wave: int
    group: int
    body: tuple[Statement, ...]
    counted: bool = False


@dataclass(frozen=True)
class If:
    condition: Condition
    then: tuple[Statement, ...]
    orelse: tuple[Statement, ...] = ()


@dataclass(frozen=True)
class Role:
    """Parts of the block at work: ``conditions[i]`` selects the threads of ``bodies[i]``.

    ``chained``: one ``if``/``elif``/``else``, whose bodies run at the same time; else ``if`` after
    ``if``, in order. A condition "" is the ``else``.
    """

    conditions: tuple[str, ...]
    bodies: tuple[tuple[Statement, ...], ...]
    chained: bool


@dataclass(frozen=True)
class Handshake:
    """A producer and a consumer with mbarriers between them, ``stages`` tiles in flight.

    Threads of ``producer`` execute ``fill`` and then arrive on ``full``; those of ``consumer`` wait
    for it, execute ``drain`` and arrive on ``empty``; around their loop they execute ``start`` and
    ``finish``. In both bodies ``variable`` counts, and ``stage`` is the place in the ring.
    """

    variable: str
    stage: str
    trips: Linear
    stages: int
    producer: str
    consumer: str
    producer_count: int
    consumer_count: int
    start: tuple[Statement, ...]
    fill: tuple[Statement, ...]
    drain: tuple[Statement, ...]
    finish: tuple[Statement, ...]


Statement = (
    Copy
    | Fill
    | Parallel
    | Reduce
    | Cumsum
    | Transpose
    | Gemm
    | Atomic
    | Sync
    | Assign
    | Leave
    | For
    | Persistent
    | If
    | Role
    | Handshake
)

#: The fields of statements that hold statements.
BODIES = {
    For: ("body",),
    Persistent: ("body",),
    If: ("then", "orelse"),
    Role: ("bodies",),
    Handshake: ("start", "fill", "drain", "finish"),
}


@dataclass(frozen=True)
class Program:
    """A kernel with its inputs.

    Attributes:
        ranges: of each input, the least and greatest integer and a factor for its random values.
        scalars: parameters by name with the value of the call.
        variables: T.alloc_var of int32 with their initial values.
        seed: of the data.
        in_pairs: both blocks of a pair carry it out, their gemms together (fuzz.programs.pairs).
    """

    target: str
    grid: tuple[int, ...]
    threads: int
    body: tuple[Statement, ...]
    ranges: dict[str, tuple[int, int, float]] = field(default_factory=dict)
    scalars: dict[str, int] = field(default_factory=dict)
    variables: dict[str, int] = field(default_factory=dict)
    pass_configs: dict[str, object] = field(default_factory=dict)
    seed: int = 0
    in_pairs: bool = False


def children(statement: Statement) -> Iterator[tuple[Statement, ...]]:
    """The bodies of a statement."""
    for name in BODIES.get(type(statement), ()):
        value = getattr(statement, name)
        yield from value if name == "bodies" else (value,)


def walk(body: tuple[Statement, ...]) -> Iterator[Statement]:
    """All statements, outer ones first."""
    for statement in body:
        yield statement
        for inner in children(statement):
            yield from walk(inner)


def loads(expression: Expression) -> Iterator[Load]:
    """The loads of an expression."""
    if isinstance(expression, Load):
        yield expression
        yield from looked_up(expression.indices)
    for name in ("value", "a", "b", "left", "right"):
        inner = getattr(expression, name, None)
        if isinstance(inner, (Load, Constant, Index, Cast, Binary, Unary, Where)):
            yield from loads(inner)


def looked_up(places: tuple[Linear | Indirect, ...]) -> Iterator[Load]:
    """The loads that say where something is."""
    for place in places:
        if isinstance(place, Indirect):
            yield from loads(place.load)


def touched(statement: Statement) -> tuple[list[Buffer], list[Buffer]]:
    """The buffers that a statement itself reads and writes."""
    if isinstance(statement, (Copy, Atomic)):
        places = (*statement.src.mins, *statement.dst.mins)
        where = [load.buffer for load in looked_up(places)]
        return [statement.src.buffer, *where], [statement.dst.buffer]
    if isinstance(statement, Fill):
        return [], [statement.dst.buffer]
    if isinstance(statement, Reduce):
        target = statement.dst.buffer
        return [statement.src.buffer, *([] if statement.clear else [target])], [target]
    if isinstance(statement, (Cumsum, Transpose)):
        return [statement.src], [statement.dst]
    if isinstance(statement, Gemm):
        c = statement.c.buffer
        return [statement.a.buffer, statement.b.buffer, c], [c]
    if isinstance(statement, Parallel):
        read = [load.buffer for store in statement.stores for load in loads(store.value)]
        return read, [store.buffer for store in statement.stores]
    return [], []


def effects(body: tuple[Statement, ...]) -> tuple[set[Buffer], set[Buffer]]:
    """The buffers that statements read and write."""
    read: set[Buffer] = set()
    written: set[Buffer] = set()
    for statement in walk(body):
        r, w = touched(statement)
        read.update(r)
        written.update(w)
    return read, written


def buffers(body: tuple[Statement, ...]) -> list[Buffer]:
    """All buffers in the order of their names, which is that of their making."""
    read, written = effects(body)
    return sorted(read | written, key=lambda b: (b.name[0], int(b.name[1:])))
