"""Runs micro-benchmarks on a GPU through the CUDA driver, or by the emulator's timing model."""

from __future__ import annotations

import ctypes
import statistics
import warnings

import numpy as np
from program import Probe, value_of

# Larger than every L2 cache: what lies there before a launch is not the benchmark's.
_FLUSH_BYTES = 256 << 20


def filled(data: tuple[int, str]) -> np.ndarray:
    """The buffer that a program reads, of u32: zeros, random, normal, or "chase N".

    Normal: pairs of bfloat16 of the standard normal distribution.

    A chase is one cycle through all its lines of N bytes in random order: each line starts with
    the byte offset of the next one.
    """
    size, how = data
    if how == "zeros":
        return np.zeros(size // 4, np.uint32)
    rng = np.random.default_rng(7)
    if how == "random":
        return rng.integers(0, 1 << 14, size // 4, dtype=np.uint32)
    if how == "normal":
        return (
            (rng.standard_normal(size // 2, np.float32).view(np.uint32) >> 16)
            .astype(np.uint16)
            .view(np.uint32)
        )
    line = int(how.split()[1])
    array = np.zeros(size // 4, np.uint32)
    order = rng.permutation(size // line).astype(np.uint32)
    array[order * (line // 4)] = np.roll(order, -1) * np.uint32(line)
    return array


class Gpu:
    """A GPU of this machine; ``runs`` runs of each program, of which the median counts."""

    def __init__(self, runs: int = 3) -> None:
        from cuda.bindings import driver

        self._driver, self._runs = driver, runs
        self._check(driver.cuInit(0))
        device = self._check(driver.cuDeviceGet(0))
        context = self._check(driver.cuDevicePrimaryCtxRetain(device))
        self._check(driver.cuCtxSetCurrent(context))
        self._out = int(self._check(driver.cuMemAlloc(1 << 24)))
        self._flushed = int(self._check(driver.cuMemAlloc(_FLUSH_BYTES)))
        self._events = [self._check(driver.cuEventCreate(0)) for _ in range(2)]
        self._data: dict[tuple[int, str], object] = {}

    def _check(self, result):
        status, *values = result
        if status != self._driver.CUresult.CUDA_SUCCESS:
            raise RuntimeError(f"the CUDA driver says {status.name}")
        return values[0] if values else None

    def _buffer(self, data: tuple[int, str]):
        if data not in self._data:
            address = int(self._check(self._driver.cuMemAlloc(data[0])))
            if data[1] == "zeros":
                self._check(self._driver.cuMemsetD32(address, 0, data[0] // 4))
            else:
                host = filled(data)
                self._check(self._driver.cuMemcpyHtoD(address, host.ctypes.data, data[0]))
            self._data[data] = address
        return self._data[data]

    def _map(self, probe: Probe, address) -> bytes:
        """A map of rows of 8192 elements of 16 bits."""
        if probe.box is None:
            return bytes(128)
        driver = self._driver
        rows, columns, swizzle = probe.box
        modes = {"none": 0, "32B": 1, "64B": 2, "128B": 3}
        u32, u64 = driver.cuuint32_t, driver.cuuint64_t
        tensor_map = self._check(driver.cuTensorMapEncodeTiled(
            driver.CUtensorMapDataType.CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, address,
            [u64(8192), u64(probe.data[0] // 16384)], [u64(16384)], [u32(columns), u32(rows)],
            [u32(1), u32(1)], driver.CUtensorMapInterleave(0),
            driver.CUtensorMapSwizzle(modes[swizzle]), driver.CUtensorMapL2promotion(3),
            driver.CUtensorMapFloatOOBfill(0),
        ))  # fmt: skip
        return ctypes.string_at(tensor_map.getPtr(), 128)

    def measure(self, probe: Probe) -> float:
        """The value of a micro-benchmark in its unit."""
        driver = self._driver
        module = self._check(driver.cuModuleLoadData(probe.ptx.encode() + b"\0"))
        function = self._check(driver.cuModuleGetFunction(module, b"probe"))
        if probe.smem:
            attribute = driver.CUfunction_attribute
            self._check(driver.cuFuncSetAttribute(
                function, attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, probe.smem
            ))  # fmt: skip
        address = self._buffer(probe.data)
        arguments = (
            (int(self._out), address, probe.repeat, probe.value, self._map(probe, address)),
            (ctypes.c_uint64, ctypes.c_uint64, ctypes.c_uint32, ctypes.c_float, None),
        )
        values = []
        for _ in range(self._runs):
            microseconds = self._launch(function, probe, arguments)
            clocks = np.zeros((probe.warps * probe.ctas, 2), np.uint64)
            self._check(driver.cuMemcpyDtoH(clocks.ctypes.data, self._out, clocks.nbytes))
            values.append(value_of(probe, clocks, microseconds))
        self._check(driver.cuModuleUnload(module))
        return statistics.median(values)

    def _launch(self, function, probe: Probe, arguments) -> float:
        driver, (values, kinds) = self._driver, arguments
        cells = [
            (ctypes.c_char * 128).from_buffer_copy(value) if kind is None else kind(value)
            for value, kind in zip(values, kinds, strict=True)
        ]
        pointers = (ctypes.c_void_p * len(cells))(*(ctypes.addressof(cell) for cell in cells))
        self._check(driver.cuMemsetD32Async(self._flushed, 0, _FLUSH_BYTES // 4, 0))
        self._check(driver.cuEventRecord(self._events[0], 0))
        self._check(driver.cuLaunchKernel(
            function, probe.ctas, 1, 1, probe.warps * 32, 1, 1, probe.smem, 0,
            ctypes.addressof(pointers), 0,
        ))  # fmt: skip
        self._check(driver.cuEventRecord(self._events[1], 0))
        self._check(driver.cuEventSynchronize(self._events[1]))
        return self._check(driver.cuEventElapsedTime(*self._events)) * 1e3


#: Larger buffers with values in them would have to be filled on the host.
_MOST_BYTES = 1 << 26
#: Turns after which the model's clock no longer changes.
_TURNS = 100


class Emulated:
    """The emulator: in timed launches programs read the modelled clock (0: of its own MHz)."""

    def __init__(self, clock_mhz: float = 0.0) -> None:
        from tilelang.emulator import Device

        self._device, self._clock_mhz = Device("sm_90a"), clock_mhz

    def measure(self, probe: Probe) -> float:
        """The value of a micro-benchmark by the timing model, in its unit."""
        from tilelang.emulator import EmulatorWarning, TimingOptions

        if probe.data[0] > _MOST_BYTES and probe.data[1] != "zeros":
            raise RuntimeError("too much memory for the emulator")
        data = filled(probe.data)
        clocks = np.zeros((probe.warps * probe.ctas, 2), np.uint64)
        tensor_map = bytes(128)
        if probe.box is not None:
            rows, columns, swizzle = probe.box
            tensor_map = self._device.tensor_map(
                data.view(np.uint16).reshape(-1, 8192), box=(rows, columns), swizzle=swizzle
            )
        power = probe.how == "mhz"
        timing = TimingOptions(record=False, clock_mhz=self._clock_mhz, sampled=power)
        turns = min(probe.repeat, _TURNS) if power else probe.repeat
        with warnings.catch_warnings():  # what the loads read does not matter
            warnings.simplefilter("ignore", EmulatorWarning)
            report = self._device.load_ptx(probe.ptx)["probe"].launch(
                probe.ctas, probe.warps * 32, [clocks, data, turns, probe.value, tensor_map],
                smem=probe.smem, timing=timing, sanitize=False, progress=False,
            )  # fmt: skip
        assert report.timing is not None
        if power:
            return report.timing.clock_mhz * report.timing.power_factor
        return value_of(probe, clocks, report.timing.grid_us)
