"""Computes what a reference expects, in a process of its own."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from ..checks.wire import Wire, packed, unpacked
from ..errors import TileLangError
from . import files_read
from .programs import Request, applied, names_of, raised, reference_of


def serve(wire: Wire) -> None:
    """Serves the orders of a judge until it closes the wire."""
    files_read.watch()
    orders: dict[str, Callable[..., Any]] = {}
    found: list[Callable[..., Any] | None] = [None]

    def find(fields: dict[str, Any], _: Any) -> tuple[dict[str, Any], list[np.ndarray]]:
        request = Request(Path(fields["path"]), fields["name"], tuple(fields["argv"]),
                          reference=fields["reference"])  # fmt: skip
        names = {} if "::" in request.reference else names_of(request)
        found[0] = function = reference_of(request, names)
        if function is None:
            return {"name": ""}, []
        count = len(inspect.signature(function).parameters)
        return {"name": function.__name__, "parameters": count}, []

    def expected(fields: dict[str, Any], given: Any) -> tuple[dict[str, Any], list[np.ndarray]]:
        import torch

        from ..profiler.exact import expect

        function, steps = found[0], fields["steps"]
        assert function is not None
        values = expect(
            lambda inputs: applied(function, inputs), unpacked(fields["inputs"], given),
            lambda dtype: float(steps[str(dtype).removeprefix("torch.")]),
        )  # fmt: skip
        arrays: list[np.ndarray] = []
        with torch.no_grad():
            rows = [packed([each.value, each.exact, *each.moved], arrays) for each in values]
        return {"outputs": rows}, arrays

    orders.update(find=find, expected=expected)
    while True:
        fields, arrays = wire.receive()
        try:
            answer, results = orders[fields["do"]](fields, arrays)
        except (TileLangError, OSError) as error:
            answer, results = {"refused": str(error)}, []
        except Exception as error:
            answer, results = {"refused": f"the reference raised {raised(error)}"}, []
        wire.send({**answer, "files": files_read.found(Path.cwd())}, results)
