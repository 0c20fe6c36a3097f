"""An array that arrives element by element leaves as tiles."""

from __future__ import annotations

import math
import os
import threading
import time
import weakref
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..errors import ArgumentError, boundary
from ..math import cdiv
from .device import Source, open_device
from .errors import StreamError, WouldBlock
from .ingest import Ingest
from .ome import Multiscale
from .ome import write as write_image
from .plan import Memory, Plan
from .pools import Batch, Consumer, Part, Pools, check_timeout
from .progress import Progress, most_lost
from .pyramid import Level, check_method
from .schedule import StreamSchedule
from .targets import Creation, open_target
from .threads import thread_count
from .windows import Windows
from .writer import Writer


class _Held:
    """A lock that was acquired, as a context that releases it; a generator takes a microsecond."""

    def __init__(self, lock: threading.RLock) -> None:
        self._lock = lock

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exception: object) -> None:
        self._lock.release()


class TileStream:
    """Cuts an array that arrives in row-major order into tiles, in a bounded memory.

    Elements go into pools of tiles; a pool whose tiles are all complete is a batch, which every
    consumer gets and releases. A pool that a consumer holds is never overwritten: ``append`` waits.

    Args:
        shape: extents in the order of arrival, the slowest first; the first one may be None: the
            array grows for as long as elements come.
        tile: extents of a tile.
        dtype: of an element; a type of numbers of NumPy, as anything that names it.
        device: "cuda", "cuda:1" and so on; "cpu", compiled loops on the host; or "emulator".
        order: axes in the order in which tiles hold them, if that is not the order of arrival: a
            permutation, or names as in ``"tcyx->ctyx"``.
        batch: epochs of a batch, an epoch being tiles that live at once (docs/stream.md); "auto":
            so many that a batch has 1024 tiles, if they take less than 256 MiB (8 MiB on the CPU).
        pad: of the elements of tiles that lie outside of the array.
        pools: how many batches are filled or held at once.
        target: what kernels are compiled for, as of ``tilelang.compile``.
        threads: of the CPU, that fill tiles there and compress them anywhere; None: as many as the
            process has cores.

    Attributes:
        position: elements that were appended.

    Raises:
        ArgumentError: an argument does not fit, or there is no such device.
    """

    @boundary
    def __init__(
        self,
        shape: Sequence[int | None],
        tile: Sequence[int],
        dtype: Any,
        device: str = "cuda",
        order: str | Sequence[int] | None = None,
        batch: int | str = "auto",
        pad: Any = 0,
        pools: int = 2,
        target: str = "auto",
        threads: int | None = None,
    ) -> None:
        self._device = machine = open_device(device, target, threads)
        options = machine.staged, machine.batch_bytes
        self.plan = Plan.of(shape, tile, dtype, order, batch, pools, pad, *options)
        self.device, self.threads = device, threads
        self.position = 0
        self.pools = Pools(self.plan.pools, self._device)
        self._ingest: Ingest | None = None
        self._part: Part | None = None
        self._default: Consumer | None = None
        self._batches = self._epoch = self._finished = 0
        self._ended = False
        self._interrupted = False
        self._workers: list[Any] = []
        self._feeder: Level | None = None
        self._lock = threading.RLock()
        self._held = _Held(self._lock)
        self._process = os.getpid()
        # Threads of consumers, which know the pools only, end with the stream.
        weakref.finalize(self, self.pools.close)

    @property
    def memory(self) -> Memory:
        """Bytes that the stream allocates with the first append."""
        memory, feeder = self.plan.memory, self._feeder
        if feeder is None:
            return memory
        return memory._replace(staging=memory.staging + feeder.coarse_bytes)

    @property
    def slots(self) -> int:
        """Tiles that the pools hold."""
        return self.plan.pools * self.plan.pool_slots

    @property
    def live(self) -> int:
        """The most tiles that are begun and not complete at any time; of an epoch."""
        return self.plan.geometry.live

    @property
    def tiles_per_epoch(self) -> int:
        """Tiles that are complete together."""
        return self.plan.geometry.live

    @boundary
    def append(self, data: Any, timeout: float | None = None) -> Any:
        """Takes the next elements of the array.

        Args:
            data: an array of any shape of the stream's type, taken in row-major order: of NumPy,
                torch or another library that speaks DLPack; on the host or on the stream's GPU.
            timeout: seconds to wait for consumers that hold all pools; None: as long as it takes.

        Returns:
            The point up to which ``data`` must not be changed, if it is in pinned memory: an event
            with ``done`` and ``synchronize()``. Else None: an array of the host was copied, one of
            the device is read in the order of the caller's current stream.

        Raises:
            ArgumentError: not an array of this type; or more elements than the array has left.
            WouldBlock: the pools were not released in time. Its ``appended`` tells how many
                elements were taken; ``append`` continues with the rest.
            StreamError: the stream has ended, or a writer failed.
        """
        if self._feeder is not None:
            raise StreamError(f"the stream is fed by {self._feeder.name}: append to that one")
        return self.extend(self._device.source(data, self.plan.dtype), timeout)

    def extend(self, source: Source, timeout: float | None) -> Any:
        """Appends what :meth:`append` was given."""
        with self._exclusive(timeout):
            self._check_sound()
            self._check_room(source.elements)
            if not source.elements:
                return None
            ingest, done = self._allocated(), 0
            while done < source.elements:
                part = self._open_part(timeout, done)
                count = min(source.elements - done, part.end - self.position)
                # An exception in between, as of Ctrl-C, leaves a position that nobody knows.
                self._interrupted = True
                ingest.put(part, source, done, count, self.position)
                done += count
                self.position += count
                if self.position == part.end:
                    self._finish()
                self._interrupted = False
            return ingest.last_copy(source) if source.kind == "pinned" else None

    def _exclusive(self, timeout: float | None = None) -> _Held:
        """Lets one thread at a time change the stream: until the end of a ``with``."""
        check_timeout(timeout)
        if os.getpid() != self._process:
            raise StreamError(
                f"the stream was opened by process {self._process}, of which this is a fork",
                notes=["open a stream in the process that appends to it"],
            )
        if not self._lock.acquire(blocking=False):
            self._wait_for_lock(timeout)
        return self._held

    def _wait_for_lock(self, timeout: float | None) -> None:
        since = time.monotonic()
        rest = math.inf if timeout is None else timeout
        while not self._lock.acquire(timeout=min(rest, 0.1)):
            waited = time.monotonic() - since
            if timeout is not None:
                rest = max(timeout - waited, 0.0)
            if rest == 0:
                raise WouldBlock(f"another thread is appending, after {timeout:g} s")
            if self.pools.stuck(threading.get_ident(), waited):
                raise WouldBlock(
                    "another thread's append waits for batches that this thread holds",
                    notes=["release them first"],
                )

    def _check_sound(self) -> None:
        self.pools.check()
        if self._interrupted:
            raise StreamError(
                f"an append at element {self.position} was interrupted: what comes next would not "
                "be in its place",
                notes=["batches before it are right; open another stream"],
            )

    def _check_room(self, count: int) -> None:
        if self._ended:
            raise StreamError(
                f"the stream has ended at element {self.position}: its last tiles are padded",
                notes=["open another stream for what comes next"],
            )
        total = self.plan.geometry.total
        if total is not None and self.position + count > total:
            raise ArgumentError(
                f"{count} elements are appended at {self.position} to an array of {total}: "
                f"{self.position + count - total} too many"
            )

    def _allocated(self) -> Ingest:
        if self._ingest is None:
            try:
                self._ingest = Ingest(self.plan, self._device)
            except (MemoryError, RuntimeError) as error:
                memory = self.plan.memory
                raise StreamError(
                    f"cannot allocate {memory.device} bytes on {self.device} and {memory.host} of "
                    f"the host: {error}",
                    cause=error,
                    notes=["smaller tiles, batch= or pools= need less; see .memory"],
                ) from None
        return self._ingest

    def _open_part(self, timeout: float | None, appended: int) -> Part:
        if self._part is None:
            if not self.pools.consumers:
                self._default = self.pools.consumer("ready()")
            try:
                pool, idle = self.pools.acquire(timeout)
            except WouldBlock as error:
                error.appended = appended
                raise
            self._part = self.plan.part(self._batches, pool, self._epoch)
            self._part.idle = idle
            self._allocated().open(self._part)
        return self._part

    def _finish(self) -> None:
        """Hands over the tiles of the part that ends at the current position."""
        part, self._part = self._part, None
        assert part is not None
        geometry = self.plan.geometry
        event = self._allocated().finish(part, self.position)
        if self.position < part.end:
            part.end, part.end_epoch = self.position, geometry.epoch_of(self.position - 1) + 1
        index = geometry.tiles(part.epoch, part.end_epoch)
        extents = geometry.extents(index)
        self._epoch, self._batches = part.end_epoch, self._batches + 1
        self._finished = part.end
        order = list(self.plan.order)
        begin = part.pool * self.plan.pool_bytes
        pools = self._allocated().pools
        memory = pools[begin : begin + len(index) * self.plan.tile_bytes]
        tiles = self._device.tiles(memory, self.plan.dtype, (len(index), *self.plan.tile_shape))
        places = index[:, order], extents[:, order]
        is_last = self._ended or self.position == geometry.total
        self.pools.hand_over(Batch(part, pools, memory, tiles, places, event, is_last))

    @boundary
    def consumer(self, name: str) -> Consumer:
        """Adds a consumer, which gets every batch, with a ``ready()`` of its own.

        Raises:
            StreamError: elements were appended already, so that it would miss tiles.
        """
        with self._exclusive():
            self._check_unused(f"consumer {name!r}")
            return self.pools.consumer(name)

    @boundary
    def ready(self, timeout: float | None = 0.0) -> Iterator[Batch]:
        """Yields the batches that are finished; each is released when the next one is asked for.

        Args:
            timeout: seconds to wait for a batch; 0: only those that are finished; None: until the
                stream is closed, for a thread of its own.

        Raises:
            StreamError: the first elements were appended when there were other consumers only.
        """
        if self._default is None:
            self._default = self.consumer("ready()")
        check_timeout(timeout)
        return self._default.ready(timeout)

    @boundary
    def to(
        self,
        target: Any,
        codec: Any = "auto",
        at: int | str | None = None,
        name: str | None = None,
        path: str | None = None,
        sync: str = "never",
        **options: Any,
    ) -> Writer:
        """Writes all tiles to an array, in threads of its own; called before the first append.

        The array's axes are in the order in which tiles are stored. One of Zarr or TensorStore
        grows with the stream, by rows that are complete; others have a fixed size.

        Args:
            target: an array of Zarr, TensorStore, NumPy or what else has ``shape``, ``dtype`` and
                assignment; or a path, a URL or a store of zarr, where an array is created whose
                chunks are the tiles.
            codec: of an array that is created: "zstd", "blosc", "gzip", an object of
                ``zarr.codecs``, None for none, "auto" for what zarr takes.
            at: index along the stream's first axis at which it begins, a multiple of the tile;
                "end": behind the tiles that are complete, of an array that is created if need be.
            name: in messages.
            path: of the array in the store, if the store holds several.
            sync: when files are forced onto the disk, so that they survive a loss of power:
                "never", at each "flush", or with each "batch" before readers see its rows.
            options: more for ``zarr.create_array``: shards, storage_options, overwrite, attributes.

        Returns:
            The writer: ``rows`` tells how far it is, ``first_row`` where it began in the array,
            ``retry()`` repeats what failed.

        Raises:
            ArgumentError: the array has another shape or type, or holds something already.
            ModuleNotFoundError: zarr is needed and not installed.
            StreamError: elements were appended already.
        """
        self._check_unused("a writer")
        creation = Creation(self.plan, codec, path, at is not None, options)
        chosen = open_target(target, creation, sync)
        name = name or f"writer {len(self._workers)}"
        threads = thread_count(self.threads)
        args = self.plan, chosen, at, sync, threads, self.pools, self._device
        return self._with_worker(Writer(name, *args))

    @boundary
    def to_ome(
        self,
        target: Any,
        axes: str,
        levels: int | None = None,
        factors: int | Sequence[int] = 2,
        method: str = "mean",
        scale: Sequence[float] | None = None,
        units: Mapping[str, str] | None = None,
        at: str | None = None,
        path: str | None = None,
        **options: Any,
    ) -> list[Writer]:
        """Writes a multiscale image of OME-NGFF 0.5: a group with an array for each level.

        Args:
            target: a path, a URL or a store of zarr.
            axes: a letter of "tczyx" for each axis in the order of arrival; stored in this order.
            levels: of the pyramid; None: until a level is a tile along the axes of space.
            factors: from a level to the next along each axis, or along those of space.
            method: of the pyramid, as of :meth:`pyramid`.
            scale: size of an element along each axis, in the order of arrival.
            units: names of units by letters of axes: ``{"t": "second", "x": "micrometer"}``.
            at: "end" continues an image from the row on that all levels have.
            path: of the image in the store.
            options: more for :meth:`to`, for each level: codec, sync, shards and so on.

        Returns:
            The writers of all levels; ``first_row`` of the first one is where to go on.

        Raises:
            ArgumentError: the axes or factors make no image of OME-NGFF.
            ModuleNotFoundError: zarr is needed and missing.
            StreamError: elements were appended already.
        """
        self._check_unused("an image")
        image = Multiscale(self, axes, levels, factors, scale, units)
        return write_image(self, image, target, method, path, at, options)

    @boundary
    def pyramid(
        self,
        factors: int | Sequence[int] = 2,
        method: str = "mean",
        tile: Sequence[int] | None = None,
        batch: int | str = "auto",
        pools: int = 2,
    ) -> TileStream:
        """Returns a stream of the array at a coarser resolution; called before the first append.

        Each of its elements is made of the window of this array that begins at ``factors`` times
        its index, clipped to the array, by a kernel on the device. The result is a stream like any
        other, which this one feeds and closes: it has ``ready()``, ``to()`` and ``pyramid()``.

        Args:
            factors: extents of a window in the order of arrival; one number is that of all axes
                but the first. Windows that reach over several epochs make batches longer, so that
                they end with windows.
            method: "mean", "min", "max" or "median". A mean of integers is the nearest integer, of
                two the larger, as is the median of an even number, the mean of the two in the
                middle. Minimum and maximum do not see NaN where there are numbers; to a median, NaN
                is larger than numbers.
            tile, batch, pools: of the coarser stream; the tile is this one's by default.

        Raises:
            ArgumentError: elements of this type have no such pyramid, or windows are too large.
            StreamError: elements were appended already.
        """
        plan = self.plan
        windows = Windows.of(plan.geometry, factors)
        check_method(method, plan.dtype, windows, self.device == "cpu")
        self._check_unused("a pyramid")
        plan.align(windows.epochs)
        coarse = TileStream(
            windows.shape,
            plan.geometry.tile if tile is None else tile,
            plan.dtype,
            self.device,
            plan.order,
            batch,
            plan.pad.item(),
            pools,
            self._device.target,
            self.threads,
        )
        name = f"{method} of {'x'.join(map(str, windows.factors))}"
        coarse._feeder = Level(name, plan, windows, method, coarse, self.pools, self._device)
        self._with_worker(coarse._feeder)
        return coarse

    def _with_worker(self, worker: Any) -> Any:
        self._workers.append(worker)
        worker.start()
        return worker

    def _check_unused(self, what: str) -> None:
        if self.position or self._ended:
            raise StreamError(
                f"{what} comes after {self.position} elements: it would miss tiles",
                notes=["add consumers before the first append"],
            )

    @boundary
    def flush(self, timeout: float | None = None) -> None:
        """Hands over the tiles begun so far.

        Where the stream is within an epoch or a window of its pyramid, what is missing is padded,
        and the stream ends: nothing can be appended any more. Otherwise it may go on.

        Args:
            timeout: seconds to wait for a writer to have written all; None: as long as it takes.

        Raises:
            StreamError: a writer failed, or did not end in time.
            WouldBlock: a pyramid waits for tiles that only this thread could release.
        """
        with self._exclusive():
            self._check_sound()
            if self._part is not None:
                epoch = self.plan.geometry.epoch_of(self.position)
                self._ended = (
                    self.position != self.plan.geometry.start(epoch) or epoch % self.plan.unit != 0
                )
                self._finish()
        self.publish(timeout)

    def publish(self, timeout: float | None) -> None:
        """Waits until batches are written, and lets readers see all rows that are complete."""
        for worker in self._workers:
            worker.drain(timeout)
            worker.publish()

    @property
    def progress(self) -> Progress:
        """How many indices of the first axis were received, written, and are lost by a kill."""
        stride = self.plan.geometry.strides[0]
        writers = [worker for worker in self._workers if isinstance(worker, Writer)]
        return Progress(
            cdiv(self.position, stride),
            cdiv(self._finished, stride) if self._ended else self._finished // stride,
            min((writer.rows for writer in writers), default=0),
            min((writer.safe for writer in writers), default=0),
        )

    @property
    def most_lost(self) -> int:
        """The most indices of the first axis that a kill can lose: received, and not written."""
        writers = [worker for worker in self._workers if isinstance(worker, Writer)]
        together = max((writer.rows_together for writer in writers), default=1)
        return most_lost(self.plan, together)

    @boundary
    def close(self) -> None:
        """Flushes and ends the stream; what consumers have not taken stays for them.

        Raises:
            StreamError: a writer failed.
            WouldBlock: a pyramid waits for tiles that only this thread could release.
        """
        try:
            self.flush()
        finally:
            self._end()
        self.pools.check()

    def _end(self) -> None:
        with self._exclusive():
            self._ended = True
            self.pools.close()
            for worker in self._workers:
                worker.stop()

    def retry(self) -> None:
        """Lets writers and pyramids that failed do again what failed."""
        for worker in self._workers:
            worker.retry()

    def schedule(self) -> StreamSchedule:
        """Returns the queues, buffers and edges of the stream; ``print`` it."""
        names = [consumer.name for consumer in self.pools.consumers] or ["ready()"]
        return StreamSchedule(self.plan, self.device, tuple(names))

    def __enter__(self) -> TileStream:
        return self

    def __exit__(self, kind: Any, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self._end()

    def __repr__(self) -> str:
        geometry = self.plan.geometry
        return (
            f"<TileStream {geometry.shape} of {self.plan.dtype} in tiles of {geometry.tile} on "
            f"{self.device}, {self.position} elements so far>"
        )
