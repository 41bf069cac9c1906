"""Keeps the tasks of a group of version 2 from device files: a small program, which the kernel asks at every
opening. It is attached to the group and goes with it, so nobody has to hold on to it.

This is what systemd and container engines do, too; all programs around a task must agree.
"""

import ctypes
import os
import struct

_SYSCALLS = {"x86_64": 321, "aarch64": 280, "riscv64": 280, "ppc64le": 361}
"""The number of bpf(2) by machine."""
_LOAD, _ATTACH = 5, 8
_CGROUP_DEVICE_PROGRAM, _CGROUP_DEVICE_HOOK = 15, 6
_ALLOW_MULTI = 2
"""Beside the programs of others, above and below."""
_NAME, _LICENSE = b"tgpu_gpus", b"GPL\0"
_READ, _AND, _UNLESS, _SET, _EXIT = 0x61, 0x54, 0x55, 0xB7, 0x95
"""Load 32 bits, 32-bit and, jump if not equal, set, and return what is in the first register."""
_ANSWER, _ASKED, _KIND, _MAJOR, _MINOR = range(5)
"""Registers; what the kernel asks about comes in the second."""
_KIND_MASK, _CHARACTER = 0xFFFF, 2
_STEPS_PER_DEVICE = 4
_PROBE = "probe"

_syscall = ctypes.PyDLL(None, use_errno=True).syscall


def keep_from(group: int, barred: list[str]) -> None:
    """`group`: a descriptor of its folder. `barred`: `major:minor` of character devices; all else stays open.
    Raises OSError where the kernel does not let us."""
    code = program(barred)
    steps, license_ = ctypes.create_string_buffer(code, len(code)), ctypes.create_string_buffer(_LICENSE)
    about = (_CGROUP_DEVICE_PROGRAM, len(code) // 8, ctypes.addressof(steps), ctypes.addressof(license_))
    loaded = _bpf(_LOAD, struct.pack("=IIQQIIQII16s", *about, 0, 0, 0, 0, 0, _NAME))
    try:
        _bpf(_ATTACH, struct.pack("=IIII", group, loaded, _CGROUP_DEVICE_HOOK, _ALLOW_MULTI))
    finally:
        os.close(loaded)


def why_not(base: str) -> str:
    """Whether a group below this folder can be fenced, found by trying; empty if so."""
    folder = f"{base}/{_PROBE}"
    try:
        os.makedirs(folder, exist_ok=True)  # noqa: PTH103  as the rest of this package
        group = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            keep_from(group, ["0:0"])
        finally:
            os.close(group)
            os.rmdir(folder)  # noqa: PTH106  as the rest of this package
    except OSError as error:
        return error.strerror or str(error)
    return ""


def program(barred: list[str]) -> bytes:
    """Yes, unless it is a character device with one of these pairs of numbers."""
    each = b"".join(_refuse(*map(int, device.split(":"))) for device in barred)
    numbers = _step(_READ, _MAJOR, _ASKED, offset=4) + _step(_READ, _MINOR, _ASKED, offset=8)
    return (
        _step(_READ, _KIND, _ASKED)
        + _step(_AND, _KIND, value=_KIND_MASK)  # above it stands whether to read, to write or to make it
        + _step(_UNLESS, _KIND, offset=len(numbers + each) // 8, value=_CHARACTER)
        + numbers
        + each
        + _answer(1)
    )


def _refuse(major: int, minor: int) -> bytes:
    return (
        _step(_UNLESS, _MAJOR, offset=_STEPS_PER_DEVICE - 1, value=major)
        + _step(_UNLESS, _MINOR, offset=_STEPS_PER_DEVICE - 2, value=minor)
        + _answer(0)
    )


def _answer(value: int) -> bytes:
    return _step(_SET, _ANSWER, value=value) + _step(_EXIT)


def _step(what: int, to: int = 0, of: int = 0, *, offset: int = 0, value: int = 0) -> bytes:
    return struct.pack("=BBhi", what, to | of << 4, offset, value)


def _bpf(command: int, attributes: bytes) -> int:
    number = _SYSCALLS.get(os.uname().machine)
    if number is None:
        raise OSError(f"no fence is known for {os.uname().machine}")
    buffer = ctypes.create_string_buffer(attributes, len(attributes))
    answer: int = _syscall(number, command, buffer, len(attributes))
    if answer < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return answer
