"""Eager functions: called with tensors, they are compiled for them and run at once."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter, itemgetter
from types import FunctionType
from typing import Any

from .. import target as targets
from ..errors import ArgumentError, ConfigError, TargetError, boundary
from ..ir.evaluate import variables
from ..ir.expr import Var
from ..language.eager import (
    Argument,
    Call,
    EagerParameters,
    Traced,
    constants,
    declarations,
    trace,
)
from ..language.tensor import TensorType
from ..runtime.arguments import describe
from ..transform import pass_context
from . import compiler, torch_op
from .freeze import freeze
from .kernel import JITKernel
from .style import declared_parameters

_whole = attrgetter("shape", "dtype", "device")


class _Plan:
    """The kernels for all calls with the same constants.

    Attributes:
        read: gives what the compiled code depends on, besides constants; hashable.
        kernels: by that: what to call, and what takes its arguments from those of a call.
        places: where the parameters are declared.
    """

    def __init__(self, positions: list[int], parameters: EagerParameters) -> None:
        names = parameters.names
        self.kernels: dict[Any, tuple[Callable[..., Any], _Selection]] = {}
        self.places = parameters.places
        self._readers = [
            (position, _reader(parameters, names[position]))
            for position in positions
            if names[position] in parameters.types
        ]

    def read(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple([read(args[position]) for position, read in self._readers])


# Constants of a call that are compared with defaults by value; 1 and True, 0.0 and -0.0 differ.
_SCALARS = frozenset({int, str})
_Selection = Callable[[tuple[Any, ...]], tuple[Any, ...]]


def _select(positions: list[int]) -> _Selection:
    if len(positions) > 1:
        return itemgetter(*positions)
    return lambda args: tuple(args[position] for position in positions)


def _reader(parameters: EagerParameters, name: str) -> Callable[[Any], Any]:
    """Returns a function that reads from a tensor the properties that the code depends on."""
    declared = parameters.types[name]
    if parameters.asked:
        return lambda arg: (*_whole(arg), _strides(arg))
    constant = [i for i, extent in enumerate(declared.shape) if _is_constant(extent, parameters)]
    strided = any(_is_constant(stride, parameters) for stride in declared.strides)
    if len(constant) == len(declared.shape) and not strided:
        return _whole
    if strided:
        return lambda arg: (*_whole(arg), _strides(arg))
    if not constant:
        return attrgetter("dtype", "device")
    pick = itemgetter(*constant)
    return lambda arg: (pick(arg.shape), arg.dtype, arg.device)


def _strides(arg: Any) -> Any:
    return arg.stride() if hasattr(arg, "stride") else arg.strides


def _is_constant(extent: Any, parameters: EagerParameters) -> bool:
    if isinstance(extent, str):
        return extent in parameters.consts
    consts = [each for each in parameters.consts.values() if isinstance(each, Var)]
    return not isinstance(extent, int) and any(
        used.same_as(each) for used in variables(extent) for each in consts
    )


class EagerFunction:
    """A function whose body is a kernel.

    Called with tensors it compiles what they need, once for all calls with the same constants,
    shapes (of dimensions that are no ``T.dynamic``), element types and device, runs it and returns
    the tensors that the body returns.

    Attributes:
        signature: of the function.
        func: the function itself.
    """

    def __init__(
        self, function: FunctionType, options: Mapping[str, Any], types: Mapping[str, Any]
    ) -> None:
        functools.update_wrapper(self, function)
        if options.get("out_idx") is not None:
            raise ConfigError(
                f"out_idx={options['out_idx']} for {function.__name__}, whose body is the kernel",
                notes=["allocate outputs with T.empty and return them"],
            )
        torch_op.register_types()
        self.func = function
        self._options = {key: value for key, value in options.items() if key != "out_idx"}
        self._types = dict(types)
        self.signature = inspect.signature(function)
        self._names = list(self.signature.parameters)
        self._defaults = tuple(each.default for each in self.signature.parameters.values())
        # The number of required arguments. A call with only these needs no search of names.
        missing = [i for i, each in enumerate(self._defaults) if each is inspect.Parameter.empty]
        self._required = missing[-1] + 1 if missing else 0
        self._plans: dict[Any, _Plan] = {}
        # The plan of calls with only the required arguments, if they are tensors.
        self._usual: _Plan | None = None
        # The launcher of the only kernel, if it is for such calls. The launcher checks by itself
        # which tensors it takes, and most functions are called with tensors of one kind.
        self._only: Callable[..., Any] | None = None
        self._kernels: dict[Any, JITKernel] = {}
        self._ops: dict[Any, str] = {}
        self._inside: dict[Any, EagerFunction] = {}
        # Functions that arrange the arguments, by the number of positional ones and the names.
        self._orders: dict[Any, _Selection] = {}
        self._lock = threading.RLock()
        # Parameters that a kernel may take. None for such a parameter is a constant.
        self._runtime = frozenset(self._types) | declared_parameters(function)
        self._constant_positions = self._positions(lambda name: name not in self._runtime)
        self._runtime_positions = self._positions(lambda name: name in self._runtime)

    def _positions(self, chosen: Callable[[str], bool]) -> list[int]:
        return [i for i, name in enumerate(self._names) if chosen(name)]

    @boundary
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the kernel; returns what the body returns: None, a tensor, or a list of them.

        Args:
            args, kwargs: arguments of the function; values of ``T.const`` too, by name.

        Raises:
            CompileError: the kernel cannot be compiled for these arguments.
            ArgumentError: an argument does not fit its declaration.
        """
        if torch_op.is_compiling():
            return self._in_graph(args, kwargs)
        if targets.entered() or pass_context.entered():
            return self._surrounded(args, kwargs)
        consts: tuple[Any, ...] = ()
        if kwargs:
            args, consts = self._arranged(args, kwargs)
            if not consts and self._has_defaults(args):
                args = args[: self._required]
        if self._only is not None and len(args) == self._required and not consts:
            try:
                if not _has_none(args):
                    return self._only(*args)
            except (ArgumentError, TargetError):
                pass  # another kernel, or an error that the rest of this function places
        if self._usual is not None and len(args) == self._required and not consts:
            try:
                run, select = self._usual.kernels[self._usual.read(args)]
            except (LookupError, AttributeError, TypeError):
                pass
            else:
                return self._run(run, select(args), self._usual)
        if len(args) != len(self._defaults):
            args, _ = self._completed(args, {})
        try:
            plan = self._plans[self._constants(args), consts]
            run, select = plan.kernels[plan.read(args)]
        except (LookupError, AttributeError, TypeError):  # unknown, or an argument of another kind
            return self._prepare(args, consts)
        return self._run(run, select(args), plan)

    def _surrounded(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Calls its own kernel inside ``with target:`` or ``with PassContext(...)``."""
        options = pass_context.surroundings(self._options)
        key = str(options["target"]), freeze(options["pass_configs"])
        if key not in self._inside:
            self._inside[key] = EagerFunction(self.func, options, self._types)
        with pass_context.outside():
            return self._inside[key](*args, **kwargs)

    def _run(self, run: Callable[..., Any], args: tuple[Any, ...], plan: _Plan) -> Any:
        try:
            return run(*args)
        except ArgumentError as error:
            raise _placed(error, plan) from None

    def compile(self, *args: Any, **kwargs: Any) -> JITKernel:
        """Returns the kernel for arguments, without running it.

        Args:
            args, kwargs: as for a call, but tensors may be left out where the values of ``T.const``
                are given by name, or be described: ``fn.compile(A=T.Tensor((64, 64), T.float16))``.

        Raises:
            CompileError: the kernel cannot be compiled.
        """
        return self._compiled(self._call(args, kwargs), _device((*args, *kwargs.values())))[0]

    @boundary
    def get_tir(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the function in the IR, without compiling it; arguments as for ``compile``."""
        return trace(self.func, self._call(args, kwargs)).func

    def describe(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, Any]:
        """Returns the function in the IR, and the options to compile it with."""
        traced = trace(self.func, self._call(args, kwargs))
        device = _device((*args, *kwargs.values()))
        return traced.func, {**self._options, "target": self._target(device)}

    def constants_of(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, int]:
        """Returns the values of ``T.const`` that follow from arguments; others may be missing."""
        return constants(self._declared(args, kwargs))

    def dynamic_axes(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> dict[str, dict[int, str]]:
        """Returns the dimensions that a call chooses: names of variables, by parameter and axis."""
        declared = self._declared(args, kwargs)
        found = {}
        for name, kind in declared.types.items():
            names = {
                i: str(getattr(each, "name", each))
                for i, each in enumerate(kind.shape)
                if isinstance(each, (Var, str))
            }
            found[name] = {i: each for i, each in names.items() if each not in declared.consts}
        return {name: axes for name, axes in found.items() if axes}

    def _declared(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> EagerParameters:
        call = self._call(args, kwargs)
        defaults = zip(self._names, self._defaults, strict=True)
        missing = {
            name: None if default is inspect.Parameter.empty else default
            for name, default in defaults
            if name not in self._runtime
        }
        return declarations(self.func, call._replace(constants={**missing, **call.constants}))

    def kernel_arguments(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """Returns what a call may pass to the kernel, by name; None if it has no tensors."""
        defaults = zip(self._names, self._defaults, strict=True)
        named = {**dict(defaults), **dict(zip(self._names, args, strict=False)), **kwargs}
        given = {name: value for name, value in named.items() if name in self._runtime}
        tensors = [value for value in given.values() if hasattr(value, "__dlpack__")]
        return given if tensors else None

    def get_kernel_source(self, *args: Any, **kwargs: Any) -> str:
        """Returns the generated CUDA C++; arguments as for ``compile``."""
        return self.compile(*args, **kwargs).get_kernel_source()

    def par_compile(
        self, configs: Iterable[Any], num_workers: int | None = None
    ) -> list[JITKernel]:
        """Compiles for several sets of arguments at once, each a tuple or a mapping."""
        given = [((), dict(c)) if isinstance(c, Mapping) else (tuple(c), {}) for c in configs]
        with ThreadPoolExecutor(num_workers) as pool:
            return list(pool.map(lambda each: self.compile(*each[0], **each[1]), given))

    def __reduce__(self) -> str:
        return self.func.__qualname__  # by name, as functions

    def __copy__(self) -> EagerFunction:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> EagerFunction:
        return self

    # In graphs of torch.compile -------------------------------------------------------------

    def _in_graph(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
        """Calls the operator of the kernel for these arguments while torch.compile traces."""
        full, consts = self._completed(args, kwargs)
        described = tuple([torch_op.description(full[i]) for i in self._runtime_positions])
        # Defaults need not be constants to torch.
        given = tuple(
            [
                (i, full[i])
                for i in self._constant_positions
                if i < len(args) or self._names[i] in kwargs
            ]
        )
        kind, name, *positions = self._op_for(described, given, consts).split()
        result = torch_op.call(name, [full[int(i)] for i in positions])
        if kind == "single":
            return [result]
        return list(result) if isinstance(result, (tuple, list)) else result

    def _op_for(self, described: Any, given: Any, consts: Any) -> str:
        """Returns words that name an operator; torch.compile takes them for a constant.

        "single" where it returns a tensor that is to be a list, else "plain"; its name; which
        arguments it takes.
        """
        values = dict(given)
        constants = tuple([values.get(i, self._defaults[i]) for i in self._constant_positions])
        key = "op", described, freeze(constants), consts
        if key not in self._ops:
            call, device = self._call_of(described, constants, dict(consts))
            kernel, traced = self._compiled(call, device)
            single = traced.is_tuple and len(traced.outputs) == 1
            taken = self._positions(lambda name: name in traced.parameters.values)
            self._ops[key] = " ".join(
                ["single" if single else "plain", kernel.own_op(), *map(str, taken)]
            )
        return self._ops[key]

    # torch.compile calls it while it traces, instead of looking into it.
    _op_for._dynamo_marked_constant = True  # type: ignore[attr-defined]

    def _call_of(self, described: Any, constants: Any, consts: Any) -> tuple[Call, Any]:
        names = [self._names[i] for i in self._constant_positions]
        values = dict(zip(names, constants, strict=True))
        arguments, device = {}, None
        for i, each in zip(self._runtime_positions, described, strict=True):
            if each is None:
                values[self._names[i]] = None
            elif isinstance(each, str):
                arguments[self._names[i]] = Argument(None, None, each)
            else:
                arguments[self._names[i]] = Argument(*each[:3])
                device = device or torch_op.device(each[3])
        return Call(values, arguments, self._types, consts), device

    # Arguments ------------------------------------------------------------------------------

    def _constants(self, args: tuple[Any, ...]) -> Any:
        """Returns the part of a call that selects the plan; hashable."""
        values = [args[i] for i in self._constant_positions]
        missing = [args[i] is None for i in self._runtime_positions]
        key = (*map(type, values), *values, *missing)
        try:
            hash(key)
        except TypeError:
            return freeze(key)
        return key

    def _completed(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Does what :meth:`_arranged` does, and is faster without keywords."""
        if kwargs or not self._required <= len(args) <= len(self._defaults):
            return self._arranged(args, kwargs)
        return (*args, *self._defaults[len(args) :]), ()

    def _arranged(
        self, args: tuple[Any, ...], kwargs: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Returns an argument for each parameter, and the values of ``T.const`` given by name."""
        pick = self._orders.get((len(args), *kwargs))
        if pick is not None:
            return pick((*args, *kwargs.values(), *self._defaults)), ()
        names, rest = self._names, dict(kwargs)
        if len(args) > len(names):
            raise ArgumentError(
                f"{self.func.__name__} takes ({', '.join(names)}), {len(names)} arguments, "
                f"but {len(args)} were given"
            )
        for name in names[: len(args)]:
            if name in rest:
                raise ArgumentError(f"{self.func.__name__} got two values of {name}")
        full = list(args)
        for name, default in zip(names[len(args) :], self._defaults[len(args) :], strict=True):
            value = rest.pop(name, default)
            if value is inspect.Parameter.empty:
                raise ArgumentError(
                    f"{self.func.__name__} takes ({', '.join(names)}): {name!r} is missing"
                )
            full.append(value)
        if not rest and len(names) > 1 and not torch_op.is_compiling():
            pattern = (len(args), *kwargs)
            self._orders[pattern] = self._order(len(args), list(kwargs))
        return tuple(full), tuple(sorted(rest.items()))

    def _order(self, count: int, keywords: list[str]) -> _Selection:
        """Returns a function that orders given arguments and defaults by parameter."""
        given = self._names[:count] + keywords
        rest = len(given)
        return _select(
            [
                given.index(name) if name in given else rest + position
                for position, name in enumerate(self._names)
            ]
        )

    def _has_defaults(self, args: tuple[Any, ...]) -> bool:
        """Returns whether the arguments that have defaults are these."""
        pairs = zip(args[self._required :], self._defaults[self._required :], strict=True)
        for arg, default in pairs:
            if arg is not default and not (type(arg) in _SCALARS and arg == default):
                return False
        return True

    def _call(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Call:
        """Returns the description of a call to compile for; tensors may be missing or described."""
        given = {**dict(zip(self._names, args, strict=False)), **kwargs}
        optional = {
            name: default
            for name, default in zip(self._names, self._defaults, strict=True)
            if name in self._runtime and default is not inspect.Parameter.empty
        }
        values = {**optional, **{name: given.pop(name) for name in self._names if name in given}}
        for name in self._runtime - optional.keys():
            if values.get(name, name) is None:  # stands for a tensor that is not there yet
                del values[name]
        return self._described(values, given)

    def _described(self, values: Mapping[str, Any], consts: Mapping[str, Any]) -> Call:
        constants, arguments = {}, {}
        for name, value in values.items():
            if isinstance(value, TensorType):
                arguments[name] = Argument(tuple(value.shape), value.strides or None, value.dtype)
            elif hasattr(value, "__dlpack__") or (name in self._runtime and value is not None):
                arguments[name] = Argument(*describe(value))
            else:
                constants[name] = value
        return Call(constants, arguments, self._types, consts)

    # Compiling ------------------------------------------------------------------------------

    def _prepare(self, args: tuple[Any, ...], consts: tuple[Any, ...]) -> Any:
        """Compiles the kernel at the first call of its kind, keeps it, and runs it."""
        call = self._described(dict(zip(self._names, args, strict=True)), dict(consts))
        device = _device(args)
        with self._lock:
            kernel, traced = self._compiled(call, device)
            positions = self._positions(lambda name: name in traced.parameters.values)
            plan = self._plan((self._constants(args), consts), positions, call, traced)
            run = _listed(kernel) if traced.is_tuple else kernel.run
            select = _select(positions)
            # Arrays that do not tell their device (NumPy before 2.0) are prepared for every call.
            with contextlib.suppress(AttributeError):
                plan.kernels[plan.read(args)] = run, select
            if self._is_usual(args, consts, positions):
                self._usual = plan
            only = self._usual is plan and sum(len(p.kernels) for p in self._plans.values()) == 1
            self._only = run if only and not traced.parameters.asked else None
        return self._run(run, select(args), plan)

    def _is_usual(
        self, args: tuple[Any, ...], consts: tuple[Any, ...], positions: list[int]
    ) -> bool:
        """Returns whether only arguments without defaults are given, and the kernel takes them."""
        is_first = positions == list(range(self._required))
        return is_first and self._has_defaults(args) and not consts

    def _plan(self, key: Any, positions: list[int], call: Call, traced: Traced) -> _Plan:
        plan = self._plans.get(key)
        if plan is None or traced.parameters.asked:
            declared = declarations(self.func, call)
            declared.asked = traced.parameters.asked
            kernels = plan.kernels if plan else {}
            plan = self._plans[key] = _Plan(positions, declared)
            plan.kernels = kernels
        return plan

    @boundary
    def _compiled(self, call: Call, device: Any) -> tuple[JITKernel, Traced]:
        self._check_names(call)
        traced = trace(self.func, call)
        unknown = [name for name in call.consts if name not in traced.parameters.consts]
        if unknown:
            raise ArgumentError(
                f"{self.func.__name__} has neither a parameter nor a T.const {unknown[0]!r}",
                notes=[f"its parameters are {', '.join(self._names)}"],
            )
        target = targets.resolve(self._target(device))
        configs = pass_context.with_surrounding(self._options.get("pass_configs"))
        options = {**self._options, "pass_configs": configs, "target": target}
        key = str(traced.func), str(target), freeze(configs)
        if key not in self._kernels:
            self._kernels[key] = compiler.compile(traced.func, **options)
        return self._kernels[key], traced

    def _check_names(self, call: Call) -> None:
        for name, value in call.consts.items():
            if not isinstance(value, bool) and hasattr(value, "__index__"):
                continue
            function = self.func.__name__
            if name in self._options:
                raise ArgumentError(
                    f"{name}={value!r} is an option of the compilation, not of {function}",
                    notes=[f"write @tilelang.jit({name}={value!r}) above {function}"],
                )
            raise ArgumentError(f"{name}={value!r} for {function} is no integer")

    def _target(self, device: Any) -> Any:
        target = self._options["target"]
        index = getattr(device, "index", None)
        if getattr(device, "type", None) != "cuda" or target not in ("auto", "cuda", None):
            return target
        return targets.device_target(index or 0) or target


def _has_none(args: tuple[Any, ...]) -> bool:
    """Returns whether an argument stands for an absent tensor; tensors are not compared."""
    for arg in args:  # noqa: SIM110, a generator costs more than the loop
        if arg is None:
            return True
    return False


def _device(values: Iterable[Any]) -> Any:
    """Returns the device of the first tensor; the launch compares the devices of all others."""
    tensors = (each for each in values if hasattr(each, "__dlpack__"))
    return next((each.device for each in tensors if hasattr(each, "device")), None)


def _listed(kernel: JITKernel) -> Callable[..., Any]:
    def run(*args: Any) -> list[Any]:
        result = kernel.run(*args)
        return result if isinstance(result, list) else [result]

    return run


def _placed(error: ArgumentError, plan: _Plan) -> ArgumentError:
    """Adds to an error about an argument the place where the argument is declared."""
    match = re.search(r"argument '(\w+)'", error.message)
    if error.span is None and match:
        error.span = plan.places.get(match[1])
    return error
