"""`tgpu.Executor`: functions that run as jobs, in the shape of `concurrent.futures`.

A function and its arguments travel by cloudpickle in a file below a folder that the job's node sees, and what
it returns or raises comes back the same way. Both are authenticated with a key that only the caller and the
job have, before they are unpickled.
"""

import concurrent.futures
import copy
import os
import pickle
import sys
import sysconfig
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, ParamSpec, Self, TypeVar

import cloudpickle

from tgpu.client import Client, private_folder
from tgpu.client.surroundings import exported, here, host
from tgpu.futures import parcels
from tgpu.futures.desk import Desk
from tgpu.futures.errand import remove
from tgpu.futures.future import Future

P = ParamSpec("P")
T = TypeVar("T")

_Call = tuple[tuple[Any, ...], dict[str, Any]]
_OURS = frozenset({"command", "array", "completions", "parallelism", "nodes", "tasks", "groups"})
_MOST_TASKS = 1_000_000
_KEY_BYTES = 32


class Executor(concurrent.futures.Executor):
    """Runs each call as a job, or many as an array.

    `fields` are those of a job, as `Client.submit` takes them: `gpu_request=1, mem_request_mb=16384,
    time_limit_s=3600`. `folder` must be visible on the nodes where jobs may run, and no other user may be
    able to change it; the default is `.tgpu/calls` in the caller's home. `at_once`: the most tasks of
    an array that run at a time. `python`: what runs them, by default this interpreter, or the
    image's `python3`.

    Functions may be of any kind that cloudpickle takes, lambdas too. What a job needs beyond that (modules,
    data) it finds as on this machine: its directory, environment and module path are those of the caller.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str] | None = None,
        *,
        server: str | None = None,
        token: str | None = None,
        python: str | None = None,
        at_once: int | None = None,
        **fields: object,
    ) -> None:
        self._folder = Path(here(os.environ), folder or Path.home() / ".tgpu" / "calls")
        self._python = python or ("python3" if fields.get("image") else sys.executable)
        self._at_once = at_once
        self._fields = _checked(fields)
        self._desk = Desk(lambda: Client(server, token=token))

    def asking(self, **fields: object) -> Self:
        """The same executor for calls that need something else: `executor.asking(gpu_request=4)`. Either
        shuts down both."""
        other = copy.copy(self)
        other._fields = {**self._fields, **_checked(fields)}
        return other

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """A job that calls it; durable when this returns."""
        [future] = self._submitted(fn, [[(args, kwargs)]], array=False, in_chunks=False)
        return future

    def submit_each(self, fn: Callable[..., T], *iterables: Iterable[Any]) -> list[Future[T]]:
        """A call for each item (of several iterables: for the first items, the second ones, and so on), as
        one array: a Future each, in their order."""
        calls: list[list[_Call]] = [[(args, {})] for args in zip(*iterables, strict=False)]
        return self._submitted(fn, calls, array=True, in_chunks=False) if calls else []

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[Any],
        timeout: float | None = None,
        chunksize: int = 1,
    ) -> Iterator[T]:
        """What the calls return, in the order of their arguments. All are submitted at once, as one array;
        with `chunksize`, each task makes so many of them. Those that nobody waits for any more, because one
        has raised or the time is over, are cancelled."""
        if chunksize < 1:
            raise ValueError(f"chunksize must be at least 1; got {chunksize}")
        deadline = None if timeout is None else time.monotonic() + timeout
        calls: list[_Call] = [(args, {}) for args in zip(*iterables, strict=False)]
        chunks = [calls[start : start + chunksize] for start in range(0, len(calls), chunksize)]
        futures = self._submitted(fn, chunks, array=True, in_chunks=True) if chunks else []
        return self._results(futures, deadline)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Nothing more is submitted. `cancel_futures`: what does not run yet is cancelled. Whether or not
        this waits, what runs goes on: its job needs nobody here."""
        self._desk.refuse_more()
        if cancel_futures:
            self._desk.stop_all([future for future in self._desk.futures() if not future.running()])
        if wait:
            concurrent.futures.wait(self._desk.futures())
            self._desk.close()

    def _results(self, futures: list[Future[list[T]]], deadline: float | None) -> Iterator[T]:
        try:
            for future in futures:
                yield from future.result(None if deadline is None else deadline - time.monotonic())
        finally:
            self._desk.stop_all(futures)

    def _submitted(
        self, fn: Callable[..., Any], chunks: Sequence[Sequence[_Call]], *, array: bool, in_chunks: bool
    ) -> list[Future[Any]]:
        if len(chunks) > _MOST_TASKS:
            raise ValueError(f"at most {_MOST_TASKS:,} tasks at once; got {len(chunks):,}: use chunksize")
        parts = [pickle.dumps(_module_path()), cloudpickle.dumps(fn), *map(cloudpickle.dumps, chunks)]
        folder, key = self._folder / f"{time.time_ns():x}-{os.urandom(4).hex()}", os.urandom(_KEY_BYTES)
        private_folder.make(folder)
        try:
            digest = parcels.write_program(folder)
            parcels.write_calls(folder, key, parts)
            fields = self._job(fn, folder, digest)
            fields["env"] = {**fields.get("env", {}), parcels.KEY_VARIABLE: key.hex()}
            if array:
                cap = f"%{self._at_once}" if self._at_once is not None else ""
                fields["array"] = f"0-{len(chunks) - 1}{cap}"
            return self._desk.submit(folder, key, fields, len(chunks), array=array, in_chunks=in_chunks)
        except BaseException:
            remove(folder)
            raise

    def _job(self, fn: Callable[..., Any], folder: Path, digest: str) -> dict[str, Any]:
        name = getattr(fn, "__name__", type(fn).__name__)
        fields: dict[str, Any] = {
            "name": name if name.isidentifier() else "call",
            "cwd": here(os.environ),
            "submit_host": host(),
            **self._fields,
            "command": [self._python, "-c", parcels.BOOTSTRAP, str(folder), digest],
        }
        if fields.get("image"):  # which has an environment of its own
            fields["mounts"] = [*fields.get("mounts", ()), f"{folder}:{folder}"]
        else:
            secret = fields.get("secret_env", {})
            env = {key: value for key, value in exported(os.environ).items() if key not in secret}
            fields["env"] = {**env, **fields.get("env", {})}
        return fields


def _checked(fields: dict[str, object]) -> dict[str, object]:
    wrong = sorted(fields.keys() & _OURS)
    if wrong:
        raise TypeError(f"{wrong[0]} is what an executor says itself: it submits a task for each call")
    return fields


def _module_path() -> list[str]:
    """Where modules are found here and not by every such interpreter."""
    own = [Path(path) for key, path in sysconfig.get_paths().items() if "lib" in key]
    found = [str(Path(entry or here(os.environ)).absolute()) for entry in sys.path]
    return [entry for entry in found if not any(Path(entry).is_relative_to(path) for path in own)]
