"""The eager style: the body of a ``@tilelang.jit`` function is the kernel.

``T.const`` names dimensions that are constants of the compiled code and follow from the tensors of
a call. A function is executed twice: the statements that declare its tensors, with variables in
place of the constants, which tell how the constants follow from the shapes; then, with their
values, all of it, as a ``T.prim_func``.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from types import FunctionType
from typing import Any, NamedTuple

from .. import errors
from ..ir import span
from ..ir.dtype import DType, dtype_of
from ..ir.evaluate import evaluate, solve, variables
from ..ir.expr import Var, var
from ..ir.stmt import Func
from .absence import absences, absent, described_type
from .builder import Builder, current
from .outputs import function_of
from .parameters import Parameters, Undeclared, check_fixed, place_of
from .parser.compiled import Compiled, bind_tracer, compiled, declaring
from .tensor import PointerType, TensorType
from .tracing import definition_span, explained, tracer_of, tracing


class Argument(NamedTuple):
    """An argument of a call, as far as the compiled code may depend on it.

    Attributes:
        shape: extents; None for a scalar or an address.
        strides: in elements; None if the tensor is contiguous.
        dtype: the name of the element type.
    """

    shape: tuple[int, ...] | None
    strides: tuple[int, ...] | None
    dtype: str


class Call(NamedTuple):
    """The call that an eager function is compiled for.

    Attributes:
        constants: arguments that are Python values, by name of the parameter.
        arguments: of parameters that the compiled code takes; without tensors fewer than those.
        types: what annotations of parameters say, also of those for which None is passed.
        consts: values of ``T.const`` that are given by name.
    """

    constants: Mapping[str, Any]
    arguments: Mapping[str, Argument]
    types: Mapping[str, Any]
    consts: Mapping[str, int]


class Traced(NamedTuple):
    """An eager function in the IR.

    Attributes:
        func: its parameters are those of the function, then what it returns.
        outputs: the indices of what it returns.
        is_tuple: whether it returns a tuple, not one tensor.
        parameters: as they were declared.
    """

    func: Func
    outputs: list[int]
    is_tuple: bool
    parameters: EagerParameters


class Argued(Undeclared):
    """A parameter not yet declared, whose argument is known: its shape may be asked for."""

    __slots__ = ("_parameters",)

    def __init__(self, name: str, parameters: EagerParameters) -> None:
        super().__init__(name)
        self._parameters = parameters

    def _argument(self) -> Argument:
        self._parameters.asked = True
        found = self._parameters.call.arguments.get(self.parameter)
        if found is None or found.shape is None:
            self._raise()
        return found  # type: ignore[return-value]

    @property
    def shape(self) -> Any:  # type: ignore[override]
        return self._argument().shape

    @property
    def dtype(self) -> Any:  # type: ignore[override]
        return dtype_of(self._argument().dtype)

    @property
    def ndim(self) -> int:
        return len(self.shape)


class EagerParameters(Parameters):
    """The parameters of an eager function.

    Attributes:
        call: what it is compiled for.
        consts: the values of ``T.const``, or variables where they are yet to be found.
        types: the declared tensors, by name of the parameter.
        asked: whether the body asked for the shape or the type of an argument itself.
    """

    def __init__(self, name: str, names: list[str], call: Call, found: Mapping[str, int] | None):
        super().__init__(name, names)
        self.call = call
        self.consts: dict[str, Any] = {}
        self.types: dict[str, TensorType] = {}
        self.asked = False
        self._found = found

    def const(self, name: str, dtype: DType) -> Any:
        if name not in self.consts:
            self.consts[name] = self._value(name, dtype)
            self.symbols.setdefault(name, self.consts[name])
        return self.consts[name]

    def _value(self, name: str, dtype: DType) -> Any:
        known = self.call.consts if self._found is None else self._found
        if name in known:
            return known[name]
        if self._found is None:
            return var(name, dtype)
        raise errors.SemanticsError(
            f"no argument determines the value of {name}",
            span=span.here(),
            notes=[
                f"pass it by name, {self.name}(..., {name}=64), or declare a tensor that has "
                f"{name} in its shape"
            ],
        )

    def declare(self, name: str, annotation: Any, value: Any) -> Any:
        if value is None:
            raise absent(name, annotation, span.here())
        return super().declare(name, annotation, value)

    def _make(self, name: str, annotation: Any) -> Any:
        made = super()._make(name, annotation)
        if isinstance(annotation, TensorType):
            self.types[name] = annotation
            self._check(name, annotation)
        return made

    def _check(self, name: str, declared: TensorType) -> None:
        """Refuses an argument whose rank or type is not the declared one."""
        argument = self.call.arguments.get(name)
        if argument is None:
            return
        text = f"{name} is declared as {described_type(declared)}"
        if argument.shape is None:
            raise errors.ArgumentError(
                f"{text}, but the argument is not a tensor: {argument.dtype}",
                span=self.places[name],
            )
        if len(argument.shape) != len(declared.shape):
            raise errors.ArgumentError(
                f"{text}, with {len(declared.shape)} dimensions, but the argument has "
                f"{len(argument.shape)}: shape {argument.shape}",
                span=self.places[name],
            )
        if declared.narrow is None and argument.dtype != str(declared.dtype):
            raise errors.ArgumentError(
                f"{text}, but the argument has dtype {argument.dtype}",
                span=self.places[name],
                notes=[
                    f"convert the argument to {declared.dtype}, or make the dtype a parameter of "
                    f"{self.name}: dtype=T.{argument.dtype}"
                ],
            )


def const(name: str, dtype: Any = "int32") -> Any:
    """Names dimensions that follow from the tensors of a call: ``M, N = T.const("M, N")``.

    They are Python ints while the function is traced: another shape is another kernel. Values
    may be given by name as well, as in ``fn.compile(M=1024, N=1024)``.

    Args:
        name: one or more names, separated by commas or spaces.
        dtype: accepted for compatibility.

    Returns:
        An int; a tuple of them for several names.

    Raises:
        SemanticsError: no declared tensor determines the value, or the function is not eager.
    """
    parameters = current("T.const").parameters
    names = name.replace(",", " ").split()
    if not names or not all(each.isidentifier() for each in names):
        raise errors.SemanticsError(
            f"T.const({name!r}) needs names of dimensions",
            span=span.here(),
            notes=['M, N = T.const("M, N")'],
        )
    values = tuple(parameters.const(each, dtype_of(dtype)) for each in names)
    return values[0] if len(values) == 1 else values


def trace(function: FunctionType, call: Call) -> Traced:
    """Traces an eager function for one call.

    Raises:
        CompileError: the function is not a valid kernel.
        ArgumentError: the arguments contradict the declarations.
    """
    where = definition_span(function)
    declared = declarations(function, call)
    found = constants(declared)
    builder = Builder()
    annotated = {
        name: kind for name, kind in call.types.items() if call.constants.get(name, name) is None
    }
    with absences(annotated), explained(), tracing(builder, lambda: where):
        parameters = EagerParameters(function.__name__, _names(function), call, found)
        parameters.asked = declared.asked
        result = _execute(function, compiled(function), builder, parameters)
        span.set_place(lambda: where)
        func, indices = function_of(builder, function.__name__, result, where)
    return Traced(func, indices, isinstance(result, (tuple, list)), parameters)


def declarations(function: FunctionType, call: Call) -> EagerParameters:
    """Returns the declared parameters, with variables for the constants that are not given."""
    where = definition_span(function)
    builder = Builder()
    with explained(), tracing(builder, lambda: where):
        parameters = EagerParameters(function.__name__, _names(function), call, None)
        _execute(function, declaring(function), builder, parameters)
    return parameters


def _names(function: FunctionType) -> list[str]:
    return list(inspect.signature(function).parameters)


def _execute(
    function: FunctionType, code: Compiled, builder: Builder, parameters: EagerParameters
) -> Any:
    builder.parameters = parameters
    tracer = tracer_of(code, builder)
    builder.push("function")
    values = dict(_values(function, code, parameters))
    span.set_place(tracer.span)
    return bind_tracer(function, code, tracer)(**values)


def _values(
    function: FunctionType, code: Compiled, parameters: EagerParameters
) -> Iterator[tuple[str, Any]]:
    """Gives what the body sees of each parameter at its start."""
    call = parameters.call
    for name, parameter in inspect.signature(function).parameters.items():
        place = errors.Span(code.tables.file, *code.tables.arguments[name])
        span.set_place(place_of(code.tables, name))
        check_fixed(function, parameter, place)
        if name in call.constants:
            yield name, call.constants[name]
        elif name in call.types:
            yield name, parameters.annotated(name, call.types[name], place)
        elif name in compiled(function).tables.declared:
            yield name, Argued(name, parameters)
        elif name in call.arguments:
            raise errors.SemanticsError(
                f"a tensor is passed for {name}, but {function.__name__} does not declare it",
                span=place,
                notes=[
                    f"declare it in the body: {name}: T.Tensor((M, N), dtype); "
                    f"for a constant pass a number, {name}.item()"
                ],
            )
        elif parameter.default is not parameter.empty:
            yield name, parameter.default
        else:
            raise errors.ArgumentError(f"{function.__name__} needs a value of {name}", span=place)


class _Equation(NamedTuple):
    """One dimension or stride of a tensor that was passed."""

    expr: Any
    value: int
    what: str
    place: errors.Span | None


def _equations(parameters: EagerParameters) -> Iterator[_Equation]:
    for name, declared in parameters.types.items():
        argument = parameters.call.arguments.get(name)
        if argument is None or argument.shape is None:
            continue
        shape = argument.shape
        if declared.narrow is not None:
            elements, size = declared.narrow.packing
            shape = (*shape[:-1], shape[-1] // size * elements)
        sides = [("dimension", declared.shape, shape)]
        if declared.strides:
            strides = argument.strides or _contiguous(argument.shape)
            if declared.narrow is not None:
                elements, size = declared.narrow.packing
                strides = (*(stride // size * elements for stride in strides[:-1]), strides[-1])
            sides.append(("stride", declared.strides, strides))
        for side, exprs, values in sides:
            for i, (expr, value) in enumerate(zip(exprs, values, strict=True)):
                if isinstance(expr, str):
                    expr = parameters.symbols.get(expr, expr)
                text = f"{side} {i} of {name}"
                yield _Equation(expr, value, text, parameters.places[name])


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.insert(0, strides[0] * extent)
    return tuple(strides[: len(shape)])


def constants(parameters: EagerParameters) -> dict[str, int]:
    """Returns the values of ``T.const``: given by name, or following from the tensors.

    Raises:
        ArgumentError: two tensors ask for different values.
    """
    unknown = {each: name for name, each in parameters.consts.items() if isinstance(each, Var)}
    equations = list(_equations(parameters))
    values: dict[Var, int] = {}
    origins: dict[Var, str] = {}
    while True:
        before = len(values)
        for equation in equations:
            missing = [v for v in variables(equation.expr) if v not in values]
            if len(missing) == 1 and missing[0] in unknown:
                value = solve(equation.expr, missing[0], equation.value, values)
                if value is not None:
                    values[missing[0]] = value
                    origins[missing[0]] = f"{equation.what} is {equation.value}"
        if len(values) == before:
            break
    for equation in equations:
        _check_equation(equation, values, origins)
    given = {name: int(value) for name, value in parameters.call.consts.items()}
    return {**given, **{unknown[each]: value for each, value in values.items()}}


def _check_equation(
    equation: _Equation, values: Mapping[Var, int], origins: Mapping[Var, str]
) -> None:
    used = variables(equation.expr)
    if isinstance(equation.expr, str) or any(v not in values for v in used):
        return  # of dimensions known at run time: the launch checks them
    expected = evaluate(equation.expr, values)
    if expected != equation.value:
        alone = isinstance(equation.expr, Var)
        because = "; ".join(
            origins[v] if alone else f"{v.name} is {values[v]}, as {origins[v]}" for v in used
        )
        text = f"{equation.expr} = {expected}" if used else str(expected)
        raise errors.ArgumentError(
            f"{equation.what} is {equation.value}, but must be {text}"
            + (f" ({because})" if because else ""),
            span=equation.place,
        )


__all__ = [
    "Argument",
    "Call",
    "PointerType",
    "Traced",
    "const",
    "constants",
    "declarations",
    "trace",
]
