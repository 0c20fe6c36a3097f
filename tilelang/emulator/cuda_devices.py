"""Emulates torch's "cuda" devices on a machine without a GPU, in the memory of the host.

Tensors stay ordinary tensors of the CPU. Those that the program puts on "cuda", and what is
computed from them, are marked and say that they are there; a copy between the devices is a copy.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import types
from collections.abc import Callable, Iterator
from typing import Any
from unittest import mock

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _device

from tilelang import target as targets
from tilelang.emulator.clock import Clock, ticking
from tilelang.emulator.gpus import Gpu, choosing, find
from tilelang.errors import UnsupportedError, UserError
from tilelang.runtime import outputs

_CUDA = torch.device("cuda", 0)
_CPU = torch.device("cpu")
_MARK = "_tilelang_cuda"
_MOVES = {torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu}
_SET_DATA = torch.Tensor.data.__set__  # type: ignore[attr-defined]
# What a tensor says that is on the GPU, or is not.
_PROPERTIES: dict[Any, Callable[[Any, bool], Any]] = {
    torch.Tensor.device.__get__: lambda _, on_gpu: _CUDA if on_gpu else None,  # type: ignore[attr-defined]
    torch.Tensor.is_cuda.__get__: lambda _, on_gpu: on_gpu,  # type: ignore[attr-defined]
    torch.Tensor.is_cpu.__get__: lambda _, on_gpu: not on_gpu,  # type: ignore[attr-defined]
    torch.Tensor.get_device: lambda _, on_gpu: 0 if on_gpu else -1,
    torch.Tensor.pin_memory: lambda args, _: args[0],
}


class DeviceNumber(int):
    """The number that a driver gives to the only GPU, whatever its value is."""


def _is_cuda(device: Any) -> bool:
    """Returns whether an argument names a cuda device.

    Raises:
        UserError: it is another one than the only one.
    """
    if isinstance(device, torch.device):
        _check_index(device.index if device.type == "cuda" else 0)
        return device.type == "cuda"
    if not isinstance(device, str):
        return False
    kind, _, index = device.partition(":")
    if kind == "cuda" and index.isdigit():
        _check_index(int(index))
    return kind == "cuda"


def _check_index(index: Any) -> None:
    if isinstance(index, int) and index > 0:
        raise UserError(f"there is one emulated GPU, cuda:0, and no cuda:{index}")


def _names_cuda(device: Any) -> bool:
    """Returns whether an argument that can be a device names a cuda device, also by its number."""
    return _is_number(device) or _is_cuda(device)


def _is_number(device: Any = None, *_: Any) -> bool:
    """Returns whether an argument is the number of the GPU.

    Raises:
        UserError: it is the number of another GPU.
    """
    if not isinstance(device, int) or isinstance(device, bool):
        return False
    if not isinstance(device, DeviceNumber):
        _check_index(device)
    return True


def _given_device(func: Any, kwargs: dict[str, Any]) -> Any:
    """Returns the device that the call of a function names, or the default of a constructor."""
    device = kwargs.get("device")
    if _names_cuda(device):
        return _CUDA
    if device is None and func in _device._device_constructors():
        return _device.CURRENT_DEVICE
    return device


def _tensors(values: Any) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _marked(values: Any) -> bool:
    return any(getattr(tensor, _MARK, False) for tensor in _tensors(values))


def _mark(result: Any, on_gpu: bool) -> Any:
    for tensor in _tensors([result]) if on_gpu else ():
        if tensor.device == _CPU:  # not of "meta", which torch traces with
            setattr(tensor, _MARK, True)
    return result


class _HostMemory(TorchFunctionMode):
    """Runs operations of the program on "cuda" on the CPU."""

    def __torch_function__(
        self, func: Any, kinds: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is torch.device and _is_number(*args):
            return _CUDA
        if func is torch.device or func == torch._C._nn._parse_to:
            return func(*args, **kwargs)
        if func in _MOVES:
            return self._move(func, args, kwargs)
        getter = self._property(func, args)
        if getter is not None:
            return getter
        device = _given_device(func, kwargs)
        if device is not None:
            kwargs["device"] = device
        if "pin_memory" in kwargs:
            kwargs["pin_memory"] = False  # all memory is the host's
        given = (*args, *kwargs.values())
        on_gpu = any(map(_is_cuda, given)) or _marked(given)
        if device is not None and not _is_cuda(device):
            on_gpu = False
        result = func(*map(_on_host, args), **{k: _on_host(v) for k, v in kwargs.items()})
        if func == _SET_DATA:
            setattr(args[0], _MARK, _marked(args[1:]))
        elif _is_cuda(kwargs.get("device")) and any(result is each for each in args):
            result = result if _marked([result]) else result.clone()
        return _mark(result, on_gpu)

    @staticmethod
    def _property(func: Any, args: Any) -> Any:
        """Returns what a tensor reports as its device; None if the device is not asked for."""
        answer = _PROPERTIES.get(func)
        return answer(args, _marked(args)) if answer else None

    @staticmethod
    def _move(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Copies a tensor if the device changes, else lets torch handle the other arguments."""
        tensor, rest = args[0], list(args[1:])
        before = _marked([tensor])
        if func is torch.Tensor.cuda:
            for each in (*rest, kwargs.get("device")):
                _names_cuda(each)
            after, rest, kwargs = True, [], {}
        elif func is torch.Tensor.cpu:
            after, rest, kwargs = False, [], {}
        else:
            devices = [each for each in (*rest, kwargs.get("device"))
                       if isinstance(each, torch.device | str | int)
                       and not isinstance(each, bool)]  # fmt: skip
            models = [each for each in rest if isinstance(each, torch.Tensor)]
            after = before
            if devices:
                after = _names_cuda(devices[0])
            elif models:
                after = _marked(models)
            rest = [_CPU if _names_cuda(each) else each for each in rest]
            if "device" in kwargs:
                kwargs["device"] = _CPU if _names_cuda(kwargs["device"]) else kwargs["device"]
        result = torch.Tensor.to(tensor, *rest, **kwargs) if rest or kwargs else tensor
        if after != before and result.untyped_storage().data_ptr() == _address(tensor):
            result = result.clone()
        if after == before and result is tensor:
            return tensor
        return _mark(result, after)


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _on_host(value: Any) -> Any:
    return _CPU if _is_cuda(value) else value


# torch.cuda ------------------------------------------------------------------------------------


class Stream:
    """A stream: launches are over when they return, so there is nothing to wait for."""

    cuda_stream = 0
    device = _CUDA

    def __init__(self, *_: Any, **__: Any) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def wait_stream(self, stream: Any) -> None:
        pass

    def wait_event(self, event: Any) -> None:
        pass

    def record_event(self, event: Any = None) -> Any:
        event = event or Event()
        event.record(self)
        return event

    def query(self) -> bool:
        return True

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_: object) -> None:
        pass


class _ExternalStream(Stream):
    """A stream of somebody else."""


def _record_stream(tensor: torch.Tensor, stream: Any) -> None:
    """Does nothing: launches are over when they return, so no memory is in use."""


class Event:
    """An event of the emulated clock."""

    def __init__(self, enable_timing: bool = False, **_: Any) -> None:
        self._timing = enable_timing
        self._us: float | None = None

    def record(self, stream: Any = None) -> None:
        """Remembers the time; launches from now on are timed by the model."""
        if self._timing:
            _CLOCK.running = True
        self._us = _CLOCK.us

    def elapsed_time(self, end: Event) -> float:
        """Returns the predicted milliseconds of the launches between two events.

        Raises:
            UserError: one of them was not recorded, or is no event that times.
        """
        if not (self._timing and end._timing) or self._us is None or end._us is None:
            raise UserError("elapsed_time needs two recorded events with enable_timing=True")
        _CLOCK.running = False
        return (end._us - self._us) / 1e3

    def synchronize(self) -> None:
        pass

    def wait(self, stream: Any = None) -> None:
        pass

    def query(self) -> bool:
        return True


_CLOCK = Clock(running=False)


def _unsupported(what: str) -> Callable[..., Any]:
    def refuse(*_: Any, **__: Any) -> Any:
        raise UnsupportedError(f"torch.cuda.{what} has no emulated counterpart")

    return refuse


class _CudaGraph:
    """Stands for ``torch.cuda.CUDAGraph``, from which libraries derive classes."""

    def __init__(self, *_: Any, **__: Any) -> None:
        _unsupported("CUDAGraph")()


def _set_device(device: Any) -> None:
    _check_index(torch.device(device).index if isinstance(device, str) else device)


def _eagerly(model: Any = None, **_: Any) -> Any:
    """Stands for ``torch.compile``: the function itself, which computes the same."""
    return model if model is not None else lambda function: function


@contextlib.contextmanager
def _range(*_: Any, **__: Any) -> Iterator[None]:
    yield


#: Stands for ``torch.cuda.nvtx``.
_NVTX = types.SimpleNamespace(
    range=_range, range_push=lambda *_: 0, range_pop=lambda: 0, range_start=lambda *_: 0,
    range_end=lambda *_: None, mark=lambda *_: None,
)  # fmt: skip


@contextlib.contextmanager
def _default_device() -> Iterator[None]:
    """Restores torch's default device after the block."""
    before = _device.CURRENT_DEVICE
    try:
        yield
    finally:
        if before != _device.CURRENT_DEVICE:
            torch.set_default_device(before)


def _properties(gpu: Gpu) -> Any:
    major, minor = gpu.capability
    return types.SimpleNamespace(
        name=f"NVIDIA {gpu.name} (emulated)", major=major, minor=minor,
        multi_processor_count=gpu.sms, total_memory=gpu.gigabytes * 10**9, warp_size=32,
        max_threads_per_multi_processor=gpu.threads, regs_per_multiprocessor=65536,
        shared_memory_per_block_optin=gpu.shared, L2_cache_size=gpu.l2_mib * 2**20,
        gcnArchName="", is_integrated=0, is_multi_gpu_board=0,
    )  # fmt: skip


def replacements(gpu: Gpu) -> dict[str, Any]:
    """Returns what stands for names of ``torch.cuda``."""
    found = _properties(gpu)
    stream = Stream()

    def answer(value: Any = None) -> Callable[..., Any]:
        """Returns a separate function for each name: torch._dynamo lists functions by object."""
        return lambda *_, **__: value

    def seed(number: int) -> torch.Generator:
        return torch.default_generator.manual_seed(number)

    return {
        "is_available": answer(True), "is_initialized": answer(True), "device_count": answer(1),
        "current_device": answer(0), "is_bf16_supported": answer(True),
        "get_device_name": answer(found.name), "get_device_properties": answer(found),
        "get_device_capability": answer((found.major, found.minor)),
        "get_arch_list": answer([gpu.arch]), "mem_get_info": answer((found.total_memory,) * 2),
        "memory_allocated": answer(0), "max_memory_allocated": answer(0),
        "memory_reserved": answer(0), "init": answer(), "_lazy_init": answer(),
        "synchronize": answer(), "set_device": _set_device, "empty_cache": answer(),
        "reset_peak_memory_stats": answer(), "set_stream": answer(),
        "manual_seed": seed, "manual_seed_all": lambda number: seed(number),
        "initial_seed": lambda: torch.initial_seed(),
        "get_rng_state": lambda device=0: torch.get_rng_state(),
        "get_rng_state_all": lambda: [torch.get_rng_state()],
        "set_rng_state": lambda new_state, device=0: torch.set_rng_state(new_state),
        "set_rng_state_all": lambda new_states: torch.set_rng_state(new_states[0]),
        "current_stream": answer(stream), "default_stream": answer(stream),
        "stream": answer(stream), "device": lambda _: contextlib.nullcontext(),
        "Stream": Stream, "Event": Event, "ExternalStream": _ExternalStream,
        "nvtx": _NVTX, "CUDAGraph": _CudaGraph, "graph": _unsupported("graph"),
        "is_current_stream_capturing": answer(False),
    }  # fmt: skip


def interface(arch: str) -> Any:
    """Returns what Triton takes for ``torch.cuda``."""
    return types.SimpleNamespace(**replacements(find(arch)))


_given = outputs.to_user  # also where that of the module is replaced


def _to_user(result: Any, args: Any) -> Any:
    """Outputs of our own kernels lie where their arguments do."""
    return _mark(_given(result, args), _marked(args))


class _Generator(torch.Generator):
    """A random generator for either device; it gives the numbers of the CPU."""

    def __new__(cls, device: Any = "cpu") -> _Generator:
        return super().__new__(cls, device=_on_host(device))  # type: ignore[call-arg]


_new_parameter = torch.nn.Parameter.__new__


def _parameter(cls: Any, data: Any = None, requires_grad: bool = True) -> Any:
    """Makes a parameter, which lies where its data do."""
    return _mark(_new_parameter(cls, data, requires_grad), _marked([data]))


_depth = 0


def active() -> bool:
    """Returns whether "cuda" means the emulator here."""
    return _depth > 0


@contextlib.contextmanager
def as_cuda(arch: str = "sm_100a", gpu: str = "") -> Iterator[None]:
    """Makes torch's "cuda" devices mean the emulator inside of the block.

    Tensors of ``device="cuda"`` lie in the memory of the host, kernels with them run on the
    emulator, those of Triton too, and events tell the predicted time of the launches between them
    (docs/foreign_kernels.md tells what is not covered). It changes ``torch.cuda`` for the whole
    process, and ``"auto"`` targets are ``arch``.

    Args:
        arch: an architecture of :class:`~tilelang.emulator.Device`, as ``"sm_90a"``.
        gpu: which GPU of it torch reports and launches are timed for, as ``"GB200"``; "": the
            usual one.

    Raises:
        UserError: no such architecture, or no such GPU of it.
    """
    global _depth
    from tilelang.emulator.triton import emulate

    device = find(arch, gpu)
    with contextlib.ExitStack() as stack:
        stack.enter_context(choosing(device))
        for name, value in replacements(device).items():
            stack.enter_context(mock.patch.object(torch.cuda, name, value, create=True))
        stack.enter_context(_default_device())
        stack.enter_context(mock.patch.object(torch, "Generator", _Generator))
        stack.enter_context(mock.patch.object(torch, "compile", _eagerly))
        parameter = staticmethod(_parameter)
        stack.enter_context(mock.patch.object(torch.nn.Parameter, "__new__", parameter))
        stack.enter_context(mock.patch.object(torch.Tensor, "record_stream", _record_stream))
        # Compiled functions keep their kernels by the target that their thread has entered; for
        # other threads the variable tells the target.
        if arch in targets.architectures():
            stack.enter_context(targets.resolve(arch))
        stack.enter_context(mock.patch.dict(os.environ, {"TILELANG_DEFAULT_TARGET": arch}))
        stack.enter_context(mock.patch.object(outputs, "to_user", _to_user))
        if importlib.util.find_spec("triton") is not None:
            stack.enter_context(emulate(arch))
        stack.enter_context(ticking(_CLOCK))
        stack.enter_context(_HostMemory())
        _depth += 1
        try:
            yield
        finally:
            _depth -= 1
