"""Kernels of clusters for the comparison of a GPU with the emulator: shared memory, mbarriers and
bulk copies of other CTAs. Each program is a random sequence of exchanges, a barrier of the cluster
between them; every thread folds what it finds into one word."""

from __future__ import annotations

import random
from collections.abc import Callable

THREADS = 64
CLUSTERS = 2
SIZES = (2, 3, 4, 8)
#: Bytes of a slot of shared memory: a word for each thread.
SLOT = 4 * THREADS
SLOTS = 4
#: 16-bit elements of the tensor that tensor copies read, and of their box: one slot.
TENSOR, BOX = (32, 64), (4, 32)

_SYNC = "barrier.cluster.arrive.release; barrier.cluster.wait.acquire;"
_SYNC_RELAXED = "fence.acq_rel.cluster; barrier.cluster.arrive.relaxed; barrier.cluster.wait;"
_FOLD = "mad.lo.u32 %v, %v, 31, %x;"


class Program:
    """Text of a kernel: ``%v`` is the thread's word, ``%rank`` and ``%thread`` its place."""

    def __init__(self, seed: int, tensor: bool) -> None:
        self.rng = random.Random(seed)
        self.size = self.rng.choice(SIZES)
        self.tensor = tensor
        self.counts: list[int] = []
        self.lines: list[str] = []

    def sync(self) -> None:
        self.lines.append(self.rng.choice([_SYNC, _SYNC, _SYNC_RELAXED]))

    def emit(self, *lines: str) -> None:
        self.lines += lines

    def slot(self) -> int:
        return SLOT * self.rng.randrange(SLOTS)

    def barrier(self, count: int) -> int:
        """The offset of an mbarrier of its own."""
        self.counts.append(count)
        return 8 * (len(self.counts) - 1)

    def other(self) -> None:
        """%to: the rank of another CTA, a permutation of the cluster."""
        step = self.rng.randrange(1, self.size)
        self.emit(f"add.u32 %to, %rank, {step}; rem.u32 %to, %to, {self.size};")

    def place(self, slot: int, generic: bool = False) -> str:
        """%at: the place of some thread in ``slot`` of CTA %to; each thread has another."""
        self.emit(
            f"xor.b32 %i, %thread, {self.rng.randrange(THREADS)}; shl.b32 %i, %i, 2;"
            f" add.u32 %i, %i, %sm; add.u32 %i, %i, {slot};"
        )
        if not generic:
            self.emit("mapa.shared::cluster.u32 %at, %i, %to;")
            return "[%at]"
        self.emit("cvt.u64.u32 %d, %i; cvta.shared.u64 %d, %d; mapa.u64 %d, %d, %to;")
        return "[%d]"

    def wait(self, barrier: int, scope: str = "") -> None:
        label = f"W{len(self.lines)}"
        kind = self.rng.choice(["try", "test"])
        self.emit(
            f"{label}: mbarrier.{kind}_wait.parity{scope}.shared::cta.b64 %p, [%bars+{barrier}], 0;"
            f" @!%p bra {label};"
        )

    def fold(self, slot: int) -> None:
        self.emit(f"ld.shared.u32 %x, [%own+{slot}];", _FOLD)


def read_other(p: Program) -> None:
    slot, generic = p.slot(), p.rng.random() < 0.4
    p.emit(f"st.shared.u32 [%own+{slot}], %v;")
    p.sync()
    p.other()
    place = p.place(slot, generic)
    p.emit(f"ld{'' if generic else '.shared::cluster'}.u32 %x, {place};", _FOLD)


def write_other(p: Program) -> None:
    slot, generic = p.slot(), p.rng.random() < 0.4
    p.other()
    place = p.place(slot, generic)
    p.emit(f"st{'' if generic else '.shared::cluster'}.u32 {place}, %v;")
    p.sync()
    p.fold(slot)


def reduce_other(p: Program) -> None:
    """Several CTAs and threads to one place, in an order that does not matter."""
    slot = p.slot()
    operation = p.rng.choice(["add.u32", "min.u32", "max.s32", "and.b32", "or.b32", "xor.b32"])
    p.emit(f"st.shared.u32 [%own+{slot}], %v;")
    p.sync()
    for _ in range(p.rng.randint(1, 3)):
        p.other()
        p.emit(
            f"shr.u32 %i, %thread, {p.rng.randrange(1, 6)}; shl.b32 %i, %i, 2; add.u32 %i, %i, %sm;"
            f" add.u32 %i, %i, {slot}; mapa.shared::cluster.u32 %at, %i, %to;"
            f" red.relaxed.cluster.shared::cluster.{operation} [%at], %w;"
        )
    p.sync()
    p.fold(slot)


def exchange_other(p: Program) -> None:
    """Atomics that return what was there: each thread has a place of its own."""
    slot = p.slot()
    operation = p.rng.choice(["add.u32", "exch.b32", "max.u32", "inc.u32", "cas.b32"])
    p.emit(f"st.shared.u32 [%own+{slot}], %v;")
    p.sync()
    p.other()
    place = p.place(slot)
    third = ", %v" if operation.startswith("cas") else ""
    p.emit(f"atom.acq_rel.cluster.shared::cluster.{operation} %x, {place}, %w{third};", _FOLD)
    p.sync()
    p.fold(slot)


def store_async(p: Program) -> None:
    slot, barrier = p.slot(), p.barrier(1)
    reduction = p.rng.choice(["", "", ".add.u32", ".min.u32", ".max.s32", ".and.b32", ".xor.b32"])
    p.emit(
        f"st.shared.u32 [%own+{slot}], %v;",
        f"@%first mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bars+{barrier}], {SLOT};",
    )
    p.sync()
    p.other()
    place = p.place(slot)
    opcode = f"red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes{reduction}"
    if not reduction:
        opcode = "st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.u32"
    p.emit(
        f"add.u32 %i, %bars, {barrier}; mapa.shared::cluster.u32 %to, %i, %to;",
        f"{opcode} {place}, %w, [%to];",
    )
    p.wait(barrier)
    p.fold(slot)


def arrive_other(p: Program) -> None:
    """Stores to another CTA that its own barrier makes known there."""
    slot, twice = p.slot(), p.rng.random() < 0.5
    barrier = p.barrier(THREADS * (2 if twice else 1))
    p.other()
    place = p.place(slot)
    count = ", 2" if twice else ""
    p.emit(
        f"st.shared::cluster.u32 {place}, %v;",
        f"add.u32 %i, %bars, {barrier}; mapa.shared::cluster.u32 %to, %i, %to;",
        f"mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%to]{count};",
    )
    p.wait(barrier, ".acquire.cluster")
    p.fold(slot)


def copy_other(p: Program) -> None:
    """A bulk copy from shared memory to that of another CTA, which it tells of the bytes."""
    from_slot, to_slot = (SLOT * s for s in p.rng.sample(range(SLOTS), 2))
    barrier, first = p.barrier(1), 16 * p.rng.randrange(SLOT // 16)
    size = 16 * p.rng.randint(1, (SLOT - first) // 16)
    p.emit(f"st.shared.u32 [%own+{from_slot}], %v; st.shared.u32 [%own+{to_slot}], %w;")
    p.emit("fence.proxy.async.shared::cta;")
    p.sync()
    p.other()
    p.emit(
        f"add.u32 %i, %sm, {to_slot + first}; mapa.shared::cluster.u32 %at, %i, %to;",
        f"add.u32 %i, %bars, {barrier}; mapa.shared::cluster.u32 %to, %i, %to;"
        f" add.u32 %i, %sm, {from_slot + first};",
        f"@%first mbarrier.arrive.expect_tx.release.cluster.shared::cluster.b64 _, [%to], {size};",
        "@%first cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
        f" [%at], [%i], {size}, [%to];",
    )
    p.wait(barrier)
    p.fold(to_slot)


def _members(p: Program, barrier: int, size: int) -> int:
    """A mask; its CTAs expect the bytes. The CTA of a rank, %p, copies."""
    mask = p.rng.randrange(1, 1 << p.size)
    p.emit(
        f"mov.u32 %i, {mask}; shr.u32 %i, %i, %rank; and.b32 %i, %i, 1; setp.ne.u32 %in, %i, 0;",
        "and.pred %q, %in, %first;",
        f"@%q mbarrier.arrive.expect_tx.shared::cta.b64 _, [%bars+{barrier}], {size};",
    )
    return mask


def _wait_as_member(p: Program, barrier: int) -> None:
    label = f"S{len(p.lines)}"
    p.emit(f"@!%in bra {label};")
    p.wait(barrier)
    p.emit(f"{label}:")


def multicast(p: Program) -> None:
    slot, barrier = p.slot(), p.barrier(1)
    size, first = 16 * p.rng.randint(1, SLOT // 16), 16 * p.rng.randrange(32)
    p.emit(f"st.shared.u32 [%own+{slot}], %v; fence.proxy.async.shared::cta;")
    mask = _members(p, barrier, size)
    p.sync()
    p.emit(
        f"setp.eq.u32 %q, %rank, {p.rng.randrange(p.size)}; and.pred %q, %q, %first;",
        f"add.u32 %at, %sm, {slot}; add.u64 %d, %source, {first}; add.u32 %i, %bars, {barrier};",
        "@%q cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        f" [%at], [%d], {size}, [%i], {mask};",
    )
    _wait_as_member(p, barrier)
    p.fold(slot)


def tensor_multicast(p: Program) -> None:
    slot, barrier = p.slot(), p.barrier(1)
    p.emit(f"st.shared.u32 [%own+{slot}], %v; fence.proxy.async.shared::cta;")
    mask = _members(p, barrier, SLOT)
    row, column = p.rng.randint(-2, TENSOR[0]), 8 * p.rng.randint(-2, TENSOR[1] // 8)
    p.sync()
    p.emit(
        f"setp.eq.u32 %q, %rank, {p.rng.randrange(p.size)}; and.pred %q, %q, %first;",
        f"add.u32 %at, %sm, {slot}; add.u32 %i, %bars, {barrier};"
        f" mov.u32 %to, {column}; mov.u32 %x, {row};",
        "@%q cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        f".multicast::cluster [%at], [%map, {{%to, %x}}], [%i], {mask};",
    )
    _wait_as_member(p, barrier)
    p.fold(slot)


def registers(p: Program) -> None:
    """What a CTA is told of its place; the rank of a mapped address."""
    names = ["%cluster_ctaid.x", "%cluster_nctaid.x", "%clusterid.x", "%nclusterid.x",
             "%cluster_ctarank", "%cluster_nctarank", "%cluster_ctaid.y"]  # fmt: skip
    for name in p.rng.sample(names, 3):
        p.emit(f"mov.u32 %x, {name};", _FOLD)
    p.other()
    p.place(p.slot())
    p.emit("getctarank.shared::cluster.u32 %x, %at;", _FOLD)


EXCHANGES: list[Callable[[Program], None]] = [
    read_other, write_other, reduce_other, exchange_other, store_async, arrive_other, copy_other,
    multicast, registers,
]  # fmt: skip


def program(seed: int) -> tuple[str, int, bool]:
    """The text of an entry ``k``, its CTAs, and whether its first parameter is a tensor map; its
    other parameters are a source of 1024 bytes, the words of all threads and the output."""
    tensor = seed % 3 == 0
    p = Program(seed, tensor)
    exchanges = [*EXCHANGES, tensor_multicast] if tensor else EXCHANGES
    steps = [p.rng.choice(exchanges) for _ in range(p.rng.randint(3, 7))]
    for step in steps + [tensor_multicast] * tensor:
        step(p)
        p.sync()
    body = "\n ".join(p.lines)
    init = "".join(
        f"@%first mbarrier.init.shared::cta.b64 [%bars+{8 * i}], {count};\n "
        for i, count in enumerate(p.counts)
    )
    map_param = ".param .align 64 .b8 M[128], " if tensor else ""
    map_address = "mov.u64 %map, M; cvta.param.u64 %map, %map;" if tensor else ""
    text = f"""
.visible .entry k({map_param}.param .u64 P0, .param .u64 P1, .param .u64 P2)
 .reqnctapercluster {p.size}, 1, 1 {{
 .shared .align 128 .b8 memory[{SLOT * SLOTS}]; .shared .align 8 .b64 barriers[16];
 .reg .b32 %v, %w, %x, %i, %at, %to, %thread, %rank, %sm, %own, %bars;
 .reg .b64 %d, %source, %in_at, %out_at, %map; .reg .pred %p, %q, %in, %first;
 mov.u32 %thread, %tid.x; mov.u32 %rank, %cluster_ctarank; setp.eq.u32 %first, %thread, 0;
 mov.u32 %sm, memory; mad.lo.u32 %own, %thread, 4, %sm; mov.u32 %bars, barriers; {map_address}
 mov.u32 %i, %ctaid.x; mad.lo.u32 %i, %i, {THREADS}, %thread; ld.param.u64 %source, [P0];
 ld.param.u64 %in_at, [P1]; ld.param.u64 %out_at, [P2];
 mad.wide.u32 %in_at, %i, 4, %in_at; mad.wide.u32 %out_at, %i, 4, %out_at;
 ld.global.u32 %v, [%in_at]; mul.lo.u32 %w, %v, 0x9E3779B1;
 {init}@%first fence.mbarrier_init.release.cluster;
 st.shared.u32 [%own], %v; st.shared.u32 [%own+{SLOT}], %w; st.shared.u32 [%own+{2 * SLOT}], %w;
 st.shared.u32 [%own+{3 * SLOT}], %v;
 {_SYNC}
 {body}
 st.global.u32 [%out_at], %v;
 {_SYNC}
 ret;
}}"""
    return text, CLUSTERS * p.size, tensor
