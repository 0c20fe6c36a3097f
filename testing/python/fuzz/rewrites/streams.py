"""Loops that copy tiles from one tensor to another, by one block: what is stored is loaded later
where the two lie in the same memory."""

from __future__ import annotations

import random

from fuzz.rewrites.model import (
    Call,
    Copy,
    Corner,
    Loop,
    Parallel,
    Program,
    Statement,
    Store,
    Tensor,
    Tile,
)


def program(seed: int, rng: random.Random) -> Program:
    """B[f(n)] = g(A[h(n)]) in a loop over n; A and B overlap in most programs."""
    pick = lambda values: values[rng.randrange(len(values))]  # noqa: E731
    rows, columns = pick(((1, 512), (4, 256), (16, 64), (32, 64), (8, 100)))
    count, stages = pick((2, 3, 5, 8)), pick((None, None, 2, 3))
    dtype, scope = pick(("float32", "float16")), pick(("shared", "shared", "fragment"))
    load, store = (pick((f"n * {rows}", f"(n + 1) * {rows}", f"n * {rows} + 2")) for _ in "ab")
    height = (count + 1) * rows + 2
    shape = (str(height), str(columns))
    tensors = [Tensor("A", shape, dtype), Tensor("B", shape, dtype, written=True)]
    tiles = [Tile("a", (rows, columns), dtype, scope)]
    change = Parallel((rows, columns), (Store("a", ("i", "j"), f"a[i, j] + {pick((1, 2))}"),))
    body: list[Statement] = [Copy(Corner("A", (load, "0"), (0, 1)), "a"), change]
    source = "a"
    if rng.random() < 0.3:
        tiles.append(Tile("b", (rows, columns), dtype, pick(("shared", "fragment"))))
        body.append(Copy("a", "b"))
        source = "b"
    if rng.random() < 0.3:
        at = (f"{store} + i", "j")
        body.append(Parallel((rows, columns), (Store("B", at, f"{source}[i, j]"),)))
    else:
        body.append(Copy(source, Corner("B", (store, "0"), (0, 1))))
    if rng.random() < 0.3:
        tensors.append(Tensor("C", shape, dtype, written=True))
        body.append(Copy("a", Corner("C", (pick((load, store)), "0"), (0, 1))))
    loop = Loop("n", str(count), stages, tuple(body))
    places = {}
    if rng.random() < 0.8:
        places["B"] = ("A", pick((0, 0, columns, rows * columns, 8)))
    if len(tensors) > 2 and rng.random() < 0.5:
        places["C"] = (pick(("A", "A")), pick((0, rows * columns)))
    # Copies of tiles that lie behind the tensor's end move nothing.
    return Program(
        seed, pick(("sm_90a", "sm_100a", "sm_80")), 0, tuple(tensors), tuple(tiles),
        (("bx", "1"),), pick((64, 128, 256)), (loop,), (), (Call({}, places),),
    )  # fmt: skip
