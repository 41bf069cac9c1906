"""From an order to what the engine is told: as the task's user, and within what this node allows."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from errno import ENOSPC
from typing import Any

from tgpu.domain.container import Mount
from tgpu.domain.signals import TERM
from tgpu.runner import checkpoint_folder, records
from tgpu.runner.docker import mounting
from tgpu.runner.docker.as_user import Seen, see
from tgpu.runner.docker.body import LABEL, House, body
from tgpu.runner.docker.engine import About, Json
from tgpu.runner.docker.mounting import Allowed, Bound
from tgpu.runner.docker.staging import Staging
from tgpu.runner.port import LaunchSpec
from tgpu.runner.task import ROOT, Account, Refusal


@dataclass(frozen=True, slots=True)
class Terms:
    """What has to be known of an attempt while it runs; its container's labels say it to the next agent."""

    time_limit_s: int | None
    grace_s: int
    log_cap_bytes: int
    memory_limit_mib: int
    memory_mib: int
    """What it reserved."""
    terminal: bool
    boot: str
    stop_signal: str
    warn: tuple[str, int] | None
    """A signal, and how long before its time limit."""
    checkpoint_dir: str

    @classmethod
    def of(cls, spec: LaunchSpec, boot: str) -> "Terms":
        return cls(
            time_limit_s=spec.time_limit_s,
            grace_s=spec.grace_s,
            log_cap_bytes=spec.log_cap_bytes,
            memory_limit_mib=spec.limits.memory_limit_mib,
            memory_mib=spec.limits.memory_mib,
            terminal=spec.pty,
            boot=boot,
            stop_signal=spec.stop_signal,
            warn=None if spec.warn is None else (spec.warn.signal, spec.warn.before_s),
            checkpoint_dir=spec.checkpoint_dir,
        )

    @classmethod
    def found(cls, inspected: Json) -> "Terms":
        labels = inspected["Config"].get("Labels") or {}

        def number(name: str) -> int | None:
            text = str(labels.get(f"{LABEL}/{name}", ""))
            return int(text) if text.isdigit() else None

        warning, at, before_s = str(labels.get(f"{LABEL}/warn", "")).rpartition(":")[2].partition("@")
        return cls(
            time_limit_s=number("time_limit_s"),
            grace_s=number("grace_s") or 0,
            log_cap_bytes=number("log_cap_bytes") or 1 << 20,
            memory_limit_mib=number("memory_limit_mib") or 0,
            memory_mib=number("memory_mib") or 0,
            terminal=bool(inspected["Config"].get("Tty")),
            boot=str(labels.get(f"{LABEL}/boot", "")),
            stop_signal=str(labels.get(f"{LABEL}/stop_signal", TERM)),
            warn=(warning, int(before_s)) if at else None,
            checkpoint_dir=str(labels.get(f"{LABEL}/checkpoint_dir", "")),
        )


@dataclass(slots=True)
class Prepared:
    """What the engine is told, and places to be cleared once the container has started."""

    body: dict[str, Any]
    staging: Staging
    places: list[str]

    def release(self) -> None:
        for place in self.places:
            self.staging.release(place)


@dataclass(frozen=True, slots=True)
class Preparer:
    house: House
    staging: Staging

    def prepare(self, spec: LaunchSpec, about: About, marks: Mapping[str, str]) -> Prepared:
        """Blocks. Raises Refusal, or OSError if the disk is full."""
        account = Account(spec.user)
        spec = _with_folder(spec, account)
        assert spec.container is not None
        allowed = mounting.Allowed.of(self.house.mount_allow, account)
        mounts = mounting.wanted(spec.container.mounts, spec.cwd, allowed)
        seen = see(account, [mount.source for mount in mounts], spec.secret_env)
        places: list[str] = []
        try:
            bounds = [self._bound(mount, account, seen, allowed, spec.attempt, places) for mount in mounts]
            made = body(spec, account, bounds, seen.secrets, self.house, about, marks)
        except BaseException:
            Prepared({}, self.staging, places).release()
            raise
        finally:
            seen.close()
        return Prepared(made, self.staging, places)

    def _bound(  # noqa: PLR0917  what a mount depends on
        self, mount: Mount, account: Account, seen: Seen, allowed: Allowed, attempt: str, places: list[str]
    ) -> Bound:
        """Only root serves others, and only they could change what a name means before it is mounted."""
        source = mounting.checked(mount, seen, allowed)
        if os.geteuid() == ROOT and account.uid != ROOT:
            try:
                source = self.staging.hold(seen.descriptors[mount.source], f"{attempt}-{len(places)}")
            except OSError as error:
                raise Refusal(f"cannot mount {mount.source}: {error.strerror}") from error
            places.append(source)
        return Bound(source, mount.target, mount.read_only)


def _with_folder(spec: LaunchSpec, account: Account) -> LaunchSpec:
    """Makes the folder in which it may save its work; without one it finds no such variables. Raises Refusal,
    or OSError if the disk is full."""
    env = dict(spec.env)
    try:
        checkpoint_folder.prepare(spec.checkpoint_dir, account, env)
    except OSError as error:
        if error.errno == ENOSPC:
            raise
        raise Refusal(records.no_checkpoint_folder(error)) from error
    has_one = checkpoint_folder.DIR in env
    return replace(spec, env=env, checkpoint_dir=spec.checkpoint_dir if has_one else "")
