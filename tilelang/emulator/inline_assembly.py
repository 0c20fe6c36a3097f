"""Source lines of inline assembly in PTX."""

from __future__ import annotations

import re

_BLOCK = re.compile(r"^[ \t]*// begin inline asm$.*?^[ \t]*// end inline asm$", re.M | re.S)
_LOCATION = re.compile(r"^[ \t]*\.loc[ \t].*$", re.M)


def as_one_statement(ptx: str) -> str:
    """Returns PTX whose blocks of inline assembly have the source line of their statement.

    LLVM counts the lines of the assembly on from there, as if they were lines of the source: an
    instruction in the third line of a block has a ``.loc`` two lines too far down. The directives
    between the marks that LLVM puts around a block become empty lines, so that the numbers of the
    others stay.
    """
    return _BLOCK.sub(lambda block: _LOCATION.sub("", block[0]), ptx)
