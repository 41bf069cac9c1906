"""Xids as they happen: a thread that waits for NVIDIA's library to tell them."""

import threading
import time
from collections import deque
from typing import Any

from tgpu.agent.inventory.gpus import Reported
from tgpu.observe.logs import logger

WAIT_MS = 1000
PAUSE_S = 5.0
"""After an error: a driver that is being replaced would be asked without end."""


class XidEvents:
    """Devices are registered by the thread itself, between two waits."""

    def __init__(self, nvml: Any) -> None:  # noqa: ANN401  the library comes without types
        self._nvml = nvml
        self._asked: deque[tuple[str, Any]] = deque()
        self._watched: set[str] = set()
        self._found: deque[Reported] = deque()
        self._thread: threading.Thread | None = None
        self._log = logger("gpus")

    def watch(self, uuid: str, handle: Any) -> None:  # noqa: ANN401  an opaque pointer
        """Harmless if it is watched already."""
        if uuid in self._watched:
            return
        self._watched.add(uuid)
        self._asked.append((uuid, handle))
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="xids", daemon=True)
            self._thread.start()

    def left(self, uuid: str) -> None:
        """It does not answer: when it is back, it has to be registered again."""
        self._watched.discard(uuid)

    def take(self) -> list[Reported]:
        found = []
        while self._found:
            found.append(self._found.popleft())
        return found

    def _run(self) -> None:
        nvml = self._nvml
        try:
            events = nvml.nvmlEventSetCreate()
        except nvml.NVMLError as error:
            self._log.warning("Xids cannot be heard", error=str(error))
            return
        while True:
            while self._asked:
                self._register(events, *self._asked.popleft())
            try:
                event = nvml.nvmlEventSetWait_v2(events, WAIT_MS)
                uuid = nvml.nvmlDeviceGetUUID(event.device)
            except nvml.NVMLError as error:
                if error.value != nvml.NVML_ERROR_TIMEOUT:
                    time.sleep(PAUSE_S)
                continue
            name = uuid.decode() if isinstance(uuid, bytes) else str(uuid)
            self._log.warning("Xid", xid=int(event.eventData), gpu=name)
            self._found.append(Reported(name, int(event.eventData)))

    def _register(self, events: Any, uuid: str, handle: Any) -> None:  # noqa: ANN401  opaque pointers
        nvml = self._nvml
        try:
            nvml.nvmlDeviceRegisterEvents(handle, nvml.nvmlEventTypeXidCriticalError, events)
        except nvml.NVMLError as error:
            self._log.info("this GPU tells no Xids", gpu=uuid, error=str(error))
