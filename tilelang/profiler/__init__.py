"""Profiling: making arguments, measuring, comparing with a reference."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..errors import ArgumentError
from . import compare
from .bench import do_bench
from .supply import TensorSupplyType, supply

__all__ = ["Profiler", "TensorSupplyType", "do_bench"]


class Profiler:
    """Runs one kernel with arguments that it makes itself."""

    def __init__(self, kernel: Any, tensor_supply_type: TensorSupplyType) -> None:
        self.kernel = kernel
        self.tensor_supply_type = tensor_supply_type
        self._symbols: dict[str, int] = {}

    @property
    def func(self) -> Any:
        """The kernel, which can be called."""
        return self.kernel

    def with_symbols(self, symbols: Mapping[str, int] | None) -> Profiler:
        """Sets values of symbolic dimensions and scalars by name."""
        self._symbols.update(symbols or {})
        return self

    def get_inputs(self, device: Any = None, *, repeats: bool = False) -> list[Any]:
        """Returns new arguments for a call, without the ones that the kernel allocates.

        They are on the GPU if there is one that can run the kernel, else on the CPU. With
        ``repeats`` large tensors repeat some values: made in a tenth of the time, to be timed. On
        the CPU these are the same each time: the model's predictions follow values, such as those
        that choose a tile.
        """
        outputs = self.kernel.out_idx or []
        params = [p for i, p in enumerate(self.kernel.params) if i not in outputs]
        device = device or self._device()
        with contextlib.ExitStack() as stack:
            if repeats and str(device) == "cpu":
                import torch

                stack.enter_context(torch.random.fork_rng(devices=[]))
                torch.default_generator.manual_seed(0)
            return supply(params, self.tensor_supply_type, device, self._symbols, repeats=repeats)

    def run_once(self, func: Callable[..., Any] | None = None) -> Any:
        """Calls the kernel, or another function, once with new arguments."""
        return (func or self.kernel)(*self.get_inputs())

    def do_bench(
        self,
        func: Callable[..., Any] | None = None,
        warmup: float = 25,
        rep: float = 100,
        n_warmup: int = 0,
        n_repeat: int = 0,
        input_tensors: Sequence[Any] | None = None,
        backend: str = "event",
        quantiles: Sequence[float] | None = None,
        return_mode: Any = "mean",
        dynamic_symbolic_constraints: Mapping[str, int] | None = None,
    ) -> Any:
        """Measures the kernel, or another function of the same arguments; see :func:`do_bench`."""
        self.with_symbols(dynamic_symbolic_constraints)
        inputs = list(input_tensors) if input_tensors is not None else self.get_inputs()
        run = func or self.kernel
        return do_bench(
            lambda: run(*inputs),
            warmup,
            rep,
            n_warmup,
            n_repeat,
            quantiles,
            backend=backend,
            return_mode=return_mode,
        )

    def assert_allclose(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        atol: float = 1e-2,
        rtol: float = 1e-2,
        max_mismatched_ratio: float = 0.01,
    ) -> None:
        """Compares the outputs (``out_idx``) with what a function of the same arguments returns.

        Raises:
            AssertionError: they differ.
            ArgumentError: the kernel returns nothing to compare.
        """
        inputs = list(input_tensors) if input_tensors is not None else self.get_inputs()
        expected = compare.as_list(reference_program(*inputs))
        actual = self._outputs(inputs)
        compare.assert_close(actual, expected, rtol, atol, max_mismatched_ratio)

    def manual_assert_close(
        self,
        reference_program: Callable[..., Any],
        input_tensors: Sequence[Any] | None = None,
        manual_check_prog: Callable[..., Any] | None = None,
    ) -> None:
        """Hands (outputs, expected outputs) to a function of the user that checks them."""
        inputs = list(input_tensors) if input_tensors is not None else self.get_inputs()
        expected = compare.as_list(reference_program(*inputs))
        if manual_check_prog is None:
            raise ArgumentError("manual_assert_close needs manual_check_prog")
        manual_check_prog(self._outputs(inputs), expected)

    def assert_consistent(self, repeat: int = 10) -> None:
        """Checks that the outputs are the same, bit by bit, in every one of some runs."""
        inputs = self.get_inputs()
        first = [output.clone() for output in self._outputs(inputs)]
        for _ in range(repeat):
            for once, again in zip(first, self._outputs(inputs), strict=True):
                assert bool((once == again).all()), "two runs gave different results"

    def _outputs(self, inputs: Sequence[Any]) -> list[Any]:
        outputs = compare.as_list(self.kernel(*inputs))
        if not outputs:
            raise ArgumentError(
                f"kernel {self.kernel.name!r} returns nothing to compare",
                notes=["name its outputs with out_idx"],
            )
        return outputs

    def _device(self) -> str:
        from ..target import device_target

        found = device_target()
        return "cuda" if found is not None and str(found) == str(self.kernel.target) else "cpu"
