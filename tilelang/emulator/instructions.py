"""The instructions of PTX that the emulator knows, and how exactly it executes them."""

from __future__ import annotations

import functools
import json
import re
from typing import NamedTuple

from tilelang import _ffi

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
#: An opcode with its modifiers: what follows a guard, a label, a brace or a semicolon.
_OPCODE = re.compile(r"(?:^|[;{}:])\s*(?:@!?[%$\w]+\s+)?([a-z]\w*(?:\.[\w:]*\w)*)(?=[\s;])", re.M)


class Instruction(NamedTuple):
    """One family of instructions.

    Attributes:
        name: leading components of its opcode, such as ``"cp.async.bulk.tensor"``.
        kind: class of instructions, as in :class:`~tilelang.emulator.LaunchReport`.
        targets: architectures that have it.
        fidelity: ``"exact"``, ``"approximate"`` (results may differ from a GPU's in their last
            bits) or ``"no effect"`` (it is checked, and does nothing).
        modifiers: for which this holds; other forms are exact. Empty: all forms.
        why: the reason; "" if it is exact.
    """

    name: str
    kind: str
    targets: str
    fidelity: str
    modifiers: tuple[str, ...]
    why: str

    def of(self, opcode: str) -> str:
        """Returns the fidelity of an opcode of this family, with its modifiers."""
        parts = opcode.split(".")
        holds = not self.modifiers or not set(self.modifiers).isdisjoint(parts)
        return self.fidelity if holds else "exact"


@functools.cache
def instructions() -> dict[str, Instruction]:
    """Returns all families by name, from the emulator's own table."""
    rows = json.loads(str(_ffi.get("emulator.Instructions")()))
    return {
        row["name"]: Instruction(row["name"], row["class"], row["targets"], row["fidelity"],
                                 tuple(filter(None, row["with"].split("/"))), row["why"])
        for row in rows
    }  # fmt: skip


def fidelities(ptx: str) -> dict[str, list[str]]:
    """Returns the families of a PTX text by fidelity; those not known are ``"not modelled"``."""
    found: dict[str, set[str]] = {
        "exact": set(), "approximate": set(), "no effect": set(), "not modelled": set(),
    }  # fmt: skip
    for opcode in set(_OPCODE.findall(_COMMENT.sub(" ", ptx))):
        family = _family(opcode)
        if family is None:
            found["not modelled"].add(opcode)
        elif not family.name.startswith("tilelang."):  # a mark of the compiler
            found[family.of(opcode)].add(family.name)
    return {fidelity: sorted(names) for fidelity, names in found.items()}


def _family(opcode: str) -> Instruction | None:
    parts = opcode.split(".")
    names = (".".join(parts[:count]) for count in range(len(parts), 0, -1))
    return next((instructions()[name] for name in names if name in instructions()), None)


def page() -> str:
    """Returns the page of the documentation that lists all families."""
    lines = [
        "# Fidelity of each instruction", "",
        "This page lists the instructions of PTX that the emulator knows, from its own table.", "",
        "An *exact* instruction gives the bits of a GPU, or has the same effect on memory and",
        "order. An *approximate* one may differ in the last bits. One with *no effect* is checked,",
        "and does nothing. Every other instruction is not modelled: a kernel that contains it does",
        "not run, and its verdict is `incomplete`.", "",
        "| instruction | class | targets | fidelity |", "|---|---|---|---|",
    ]  # fmt: skip
    for each in instructions().values():
        if each.name.startswith("tilelang."):
            continue
        note = each.fidelity
        if each.modifiers:
            note += " with " + ", ".join(f"`.{name}`" for name in each.modifiers)
        note += f": {each.why}" if each.why else ""
        lines.append(f"| `{each.name}` | {each.kind} | {each.targets} | {note} |")
    return "\n".join(lines) + "\n"
