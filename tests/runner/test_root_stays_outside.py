"""A root process does nothing among mounts or keys that a job's user controls."""

import ctypes
import os
import pwd
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.runner.conftest import Machine
from tests.runner.test_inside import enter, running, stop
from tgpu.runner import keyring, namespaces, private_tmp
from tgpu.runner.private_tmp import PrivateTmp
from tgpu.runner.task import Account

pytestmark = pytest.mark.skipif(bool(private_tmp.why_not()), reason="this machine does not let us")
THEY = "nobody"
PLANTED_GID = 4242
NEW_USERS, NEW_MOUNTS = 0x10000000, 0x20000
SESSION_KEYRING = (keyring.number(), 0, -3, 0)
PRINT_KEYRING = f"python3 -S -c 'import ctypes; print(ctypes.CDLL(None).syscall{SESSION_KEYRING})'"


def in_child(work: Callable[[], object]) -> str:
    """What `work` returns in a process of its own, as text."""
    answer, tell = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(tell, repr(work()).encode())
        except BaseException:  # noqa: BLE001  the parent reports it
            os.write(tell, traceback.format_exc().encode())
        finally:
            os._exit(0)
    os.close(tell)
    os.waitpid(child, 0)
    with os.fdopen(answer) as said:
        return said.read()


def test_groups_are_not_looked_up_among_the_mounts_of_a_task() -> None:
    """A lookup there would read the user's files, and load libraries that they name, as root."""

    def become() -> list[int]:
        account = Account(THEY)
        namespaces.unshare()
        namespaces.mount("tmpfs", "/etc", "tmpfs", 0)
        Path("/etc/nsswitch.conf").write_text("passwd: files\ngroup: files\n")
        Path("/etc/group").write_text(f"planted:x:{PLANTED_GID}:{THEY}\n")
        account.assume()
        return os.getgroups()

    assert in_child(become) == repr(sorted(os.getgrouplist(THEY, pwd.getpwnam(THEY).pw_gid)))


def test_no_file_is_opened_between_entering_a_tasks_mounts_and_becoming_its_user(tmp_path: Path) -> None:
    """All of /usr, /lib and /etc is gone there, and no descriptor is left to open anything with."""

    class Empty:
        def enter(self) -> None:
            namespaces.unshare()
            namespaces.mount("tmpfs", str(tmp_path), "tmpfs", 0)
            os.chroot(tmp_path)
            os.chdir("/")

    def become() -> tuple[int, int]:
        account = Account(THEY)
        account.assume(Empty())  # type: ignore[arg-type]
        return os.getuid(), os.geteuid()

    uid = pwd.getpwnam(THEY).pw_uid
    assert in_child(become) == repr((uid, uid))


def test_a_mount_namespace_that_a_user_has_made_is_refused() -> None:
    def verified() -> str:
        told, tell = os.pipe()
        done, finish = os.pipe()
        if os.fork() == 0:
            os.close(finish)
            Account(THEY).assume()
            made = ctypes.CDLL(None).unshare(NEW_USERS | NEW_MOUNTS) == 0
            os.write(tell, str(os.getpid() if made else 0).encode())
            os.read(done, 1)
            os._exit(0)
        os.close(done)
        pid = os.read(told, 16).decode()
        try:
            namespaces.verify(os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY))
        except PermissionError as error:
            return str(error.strerror)
        return "accepted"

    assert in_child(verified) == repr("this mount namespace belongs to another user namespace")
    own = namespaces.open_own()
    namespaces.verify(own)
    os.close(own)


def test_a_verified_descriptor_must_be_a_mount_namespace(tmp_path: Path) -> None:
    for path in ("/proc/self/ns/pid", str(tmp_path)):
        descriptor = os.open(path, os.O_RDONLY)
        with pytest.raises(PermissionError, match="not a mount namespace"):
            namespaces.verify(descriptor)
        os.close(descriptor)


@pytest.fixture
def private(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path, private_tmp=True)
    machine.open()
    yield machine
    machine.close()
    machine.loop.close()


def test_exec_sees_the_mounts_that_the_supervisor_made_whatever_the_task_has_done_to_its_own(
    private: Machine,
) -> None:
    """The task moves to a namespace of its own, in which its user is root."""
    script = (
        "touch /tmp/mine && exec unshare --user --map-root-user --mount sh -c 'touch /tmp/moved && sleep 100'"
    )
    attempt = running(private, "sh", "-c", script, user=THEY)
    folder = private.home / "records" / "tmp" / attempt
    private.until((folder / "moved").exists)
    inside = enter(private, attempt, "sh", "-c", "ls /tmp; id -u; readlink /proc/self/ns/user")
    assert inside.read_to_end().exit_code == 0
    users = str(Path("/proc/self/ns/user").readlink())
    assert inside.printed[1].decode().split() == ["mine", "moved", str(pwd.getpwnam(THEY).pw_uid), users]
    stop(private, attempt)


def test_descriptors_of_one_task_reach_nothing_of_the_next(tmp_path: Path) -> None:
    """As a job could pass them to a process outside of it."""

    def reached() -> list[list[str]]:
        os.chdir(tmp_path)
        tmp = PrivateTmp()
        tmp.prepare("1.0.1", 1)
        tmp.enter()
        kept = [os.open(path, os.O_RDONLY) for path in ("/", *private_tmp.SHARED)]
        tmp.leave()
        os.chdir(tmp_path)
        tmp.release()
        tmp.clear()
        tmp.prepare("2.0.1", 1)
        tmp.enter()
        for path in private_tmp.SHARED:
            Path(path, "secret").touch()
        tmp.leave()
        ways = [*kept, *(os.open(path[1:], os.O_RDONLY, dir_fd=kept[0]) for path in private_tmp.SHARED)]
        return [[name for name in os.listdir(way) if name == "secret"] for way in ways]  # noqa: PTH208  by descriptor

    assert in_child(reached) == repr([[]] * 5)


def test_every_task_and_exec_session_has_a_keyring_of_its_own(machine: Machine) -> None:
    found = [int(in_child(lambda: ctypes.CDLL(None).syscall(*SESSION_KEYRING)))]
    for user in ("root", THEY):
        attempt = machine.shell(f"{PRINT_KEYRING}; sleep 100", user=user)
        machine.until_printed(attempt, b"\n")
        found.append(int(machine.output(attempt)))
        inside = enter(machine, attempt, "sh", "-c", PRINT_KEYRING)
        inside.read_to_end()
        found.append(int(inside.printed[1]))
        stop(machine, attempt)
    assert len(set(found)) == len(found), found
