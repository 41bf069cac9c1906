"""Stands in for systemd on a bus of the test's own: SLICE, the group of version 2 in which it makes scopes.

It knows the two methods that tgpu calls, and does as systemd does: it answers first and moves processes then,
refuses a name that is taken, and lets go of a scope in which nobody is left. What it was asked is printed.
"""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

from jeepney import HeaderFields, MessageType, new_error, new_method_return
from jeepney.bus_messages import message_bus
from jeepney.io.blocking import DBusConnection, open_dbus_connection

NAME = "org.freedesktop.systemd1"
JOB = "/org/freedesktop/systemd1/job/1"


class Systemd:
    def __init__(self, bus: DBusConnection, slice_folder: Path) -> None:
        self._bus, self._slice = bus, slice_folder

    def serve(self) -> None:
        self._bus.send_and_get_reply(message_bus.RequestName(NAME))
        print(json.dumps("ready"), flush=True)
        while True:
            call = self._bus.receive()
            if call.header.message_type is MessageType.method_call:
                member = call.header.fields[HeaderFields.member]
                print(json.dumps([member, *call.body]), flush=True)
                getattr(self, member)(call, *call.body)

    def StartTransientUnit(self, call: Any, name: str, mode: str, properties: Any, others: Any) -> None:  # noqa: N802
        scope = self._slice / name
        if (mode, others) != ("fail", []) or self._is_active(scope):
            self._refuse(call, "UnitExists", f"Unit {name} was already loaded or has a fragment file.")
            return
        scope.mkdir()
        said = {key: value for key, (_, value) in properties}
        if said["Delegate"]:
            os.setxattr(scope, "trusted.delegate", b"1")
        self._bus.send(new_method_return(call, "o", (JOB,)))
        time.sleep(0.05)
        _move(said["PIDs"], scope)

    def AttachProcessesToUnit(self, call: Any, name: str, below: str, pids: list[int]) -> None:  # noqa: N802
        if not self._is_active(self._slice / name):
            self._refuse(call, "NoSuchUnit", f"Unit {name} not loaded.")
            return
        _move(pids, Path(f"{self._slice / name}{below}"))
        self._bus.send(new_method_return(call))

    def _is_active(self, scope: Path) -> bool:
        if scope.exists() and "populated 0" in (scope / "cgroup.events").read_text():
            for folder, _, _ in os.walk(scope, topdown=False):
                Path(folder).rmdir()
        return scope.exists()

    def _refuse(self, call: Any, name: str, text: str) -> None:
        self._bus.send(new_error(call, f"{NAME}.{name}", "s", (text,)))


def _move(pids: list[int], group: Path) -> None:
    for pid in pids:
        (group / "cgroup.procs").write_text(str(pid))


if __name__ == "__main__":
    Systemd(open_dbus_connection(os.environ["DBUS_SYSTEM_BUS_ADDRESS"]), Path(sys.argv[1])).serve()
