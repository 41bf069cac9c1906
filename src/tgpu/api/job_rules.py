"""Judges a job as written and turns it into the exact integers of the domain."""

import os.path
import shlex
from collections.abc import Mapping
from dataclasses import dataclass

from msgspec import UNSET

from tgpu.api.dialect_rules import dialect_of
from tgpu.api.gang_rules import gang_of, groups_of
from tgpu.api.image_rules import (
    check_way_of_life,
    container_of,
    on_nodes_with_an_engine,
    on_one_network,
    program_of,
)
from tgpu.api.job_form import MAX_NAME, JobAsked
from tgpu.api.limit_rules import cpu_limit, memory_limit
from tgpu.api.private_tmp import check_shared_tmp
from tgpu.api.problems import unprocessable
from tgpu.api.reproducible_rules import files_of, snapshot_of
from tgpu.api.secret_rules import checked_secret_env
from tgpu.api.signal_rules import stop_signal_of, warn_of
from tgpu.config.settings import Settings
from tgpu.domain.job import Group, JobSpec, Request
from tgpu.domain.label_rules import label, label_rules
from tgpu.domain.node_terms import generic, tolerations
from tgpu.domain.priority import PriorityClass
from tgpu.domain.quantities import (
    MAX_CPU_MILLI,
    MAX_GPU_MILLI,
    MAX_MIB,
    MAX_PRIORITY,
    MAX_SECONDS,
    MILLI,
    BadQuantityError,
    mib,
    milli,
    seconds,
    time_in_words,
    whole,
)

_MAX_COMMAND = 128 * 1024
_MAX_ENV = 256 * 1024
_MAX_STRING = 128 * 1024 - 1  # the longest single string that Linux passes to a program
_MAX_SELECTORS = 64


@dataclass(frozen=True, slots=True)
class Defaults:
    """What a job that does not say gets, and the most that it may ask of what no quota counts."""

    cpu_milli: int
    memory_mib: int
    max_grace_s: int
    networks: tuple[str, ...] = ()
    """Those that containers may ask for."""
    shared_tmp: bool = False
    """Whether jobs may use the /tmp of their nodes."""

    @classmethod
    def of(cls, settings: Settings) -> "Defaults":
        return cls(
            milli("default_cpus", settings.default_cpus, MAX_CPU_MILLI),
            mib("default_memory", settings.default_memory),
            seconds("max_grace", settings.max_grace),
            settings.container_networks,
            shared_tmp=settings.shared_tmp == "on",
        )


def spec_of(  # noqa: PLR0917  what else it depends on
    asked: JobAsked, user: str, cwd: str, defaults: Defaults, tenant_id: str, default_class: PriorityClass
) -> JobSpec:
    """Raises ProblemError that names the field; the caller adds the index inside a bulk."""
    groups = groups_of(asked, lambda one: _group(one, user, cwd if one.cwd is None else one.cwd, defaults))
    check_way_of_life(asked, groups)
    if asked.shared_tmp:
        check_shared_tmp(groups, allowed=defaults.shared_tmp)
    gang = gang_of(asked, groups)
    if gang is not None:
        groups = on_one_network(groups, defaults.networks)
    try:
        time_limit_s = _seconds("time_limit_s", asked.time_limit_s, low=1)
        max_wait_s = _seconds("max_wait_s", asked.max_wait_s, low=1)
        grace_s = None if asked.grace_s is None else _grace(asked.grace_s, defaults.max_grace_s)
        stop_signal, warn = stop_signal_of(asked), warn_of(asked, time_limit_s)
        dialect = dialect_of(asked)
        files, snapshot = files_of(asked, groups), snapshot_of(asked, groups)
    except BadQuantityError as error:
        field = str(error).partition(" ")[0]
        raise unprocessable(field, str(error)) from None
    if abs(asked.priority) > MAX_PRIORITY:
        raise unprocessable(
            "priority", f"priority must be from -{MAX_PRIORITY} to {MAX_PRIORITY}; got {asked.priority}"
        )
    return JobSpec(
        user=user,
        groups=groups,
        name=_name(asked.name, program_of(groups[0])),
        tenant_id=tenant_id,
        priority_class=asked.priority_class or default_class,
        priority=asked.priority,
        time_limit_s=time_limit_s,
        max_wait_s=max_wait_s,
        requeue=asked.requeue,
        once=asked.once,
        pty=asked.pty,
        shared_tmp=asked.shared_tmp,
        on_return=asked.on_return,
        grace_s=grace_s,
        gang=gang,
        fail_together=asked.fail_together,
        stop_signal=stop_signal,
        warn=warn,
        dialect=dialect,
        files=files,
        snapshot=snapshot,
    )


def _group(asked: JobAsked, user: str, cwd: str, defaults: Defaults) -> Group:
    """Of a job whose tasks are all alike."""
    container = container_of(asked, defaults.networks)
    says_nothing = asked.command in (UNSET, [], "")
    command = () if container is not None and says_nothing else _command(asked.command)
    try:
        request = _request(asked, user, defaults)
        if container is not None:
            request = on_nodes_with_an_engine(request)
        cpu_limit_milli = cpu_limit(asked.cpu_limit, request)
        memory_limit_mib = memory_limit(asked.mem_limit_mb, request)
    except BadQuantityError as error:
        raise unprocessable(str(error).partition(" ")[0], str(error)) from None
    if asked.env:
        _check_env(asked.env)
    if asked.secret_env:
        checked_secret_env(asked.secret_env, asked.env)
    return Group(
        command=command,
        request=request,
        cwd=cwd,
        env=asked.env,
        secret_env=asked.secret_env,
        cpu_limit_milli=cpu_limit_milli,
        memory_limit_mib=memory_limit_mib,
        container=container,
    )


def _request(asked: JobAsked, user: str, defaults: Defaults) -> Request:
    cpu = asked.cpu_request
    cpu_milli = defaults.cpu_milli if cpu is None else milli("cpu_request", cpu, MAX_CPU_MILLI)
    if cpu_milli == 0:
        raise BadQuantityError("cpu_request must be more than 0, such as 0.5 or 2")
    if asked.gpu_type and not asked.gpu_request and not asked.gpu_memory_mb:
        raise BadQuantityError("gpu_type says which GPU: ask for some, with gpu_request or gpu_memory_mb")
    memory = asked.mem_request_mb
    return Request(
        cpu_milli=cpu_milli,
        memory_mib=defaults.memory_mib if memory is None else whole("mem_request_mb", memory, MAX_MIB),
        disk_mib=whole("disk_request_mb", asked.disk_request_mb, MAX_MIB) if asked.disk_request_mb else 0,
        gpu_milli=_gpu_milli(asked.gpu_request) if asked.gpu_request else 0,
        gpu_type=label("gpu_type", asked.gpu_type) if asked.gpu_type is not None else None,
        exclusive=asked.exclusive,
        pool=label("pool", asked.pool) if asked.pool is not None else None,
        user=user,
        node_selector=_selector(asked.node_selector) if asked.node_selector else (),
        node_rules=label_rules("node_rules", asked.node_rules) if asked.node_rules else (),
        tolerations=tolerations("tolerations", asked.tolerations) if asked.tolerations else (),
        generic=generic("generic", asked.generic) if asked.generic else (),
        gpu_memory_mib=whole("gpu_memory_mb", asked.gpu_memory_mb, MAX_MIB) if asked.gpu_memory_mb else 0,
    )


def _gpu_milli(value: float) -> int:
    gpu = milli("gpu_request", value, MAX_GPU_MILLI)
    above, fraction = divmod(gpu, MILLI)
    if above and fraction:
        raise BadQuantityError(
            f"gpu_request must be a fraction below 1 or a whole number: ask for {fraction / MILLI:g} or "
            f"{above + 1}; got {value}"
        )
    return gpu


def _seconds(name: str, value: float | None, low: int) -> int | None:
    if value is None:
        return None
    number = whole(name, value, MAX_SECONDS)
    if number < low:
        raise BadQuantityError(f"{name} must be at least {low}; got {value}")
    return number


def _grace(value: float, most_s: int) -> int:
    number = whole("grace_s", value, MAX_SECONDS)
    if number > most_s:
        raise BadQuantityError(
            f"grace_s may be at most {time_in_words(most_s)} here, by the setting max_grace; got "
            f"{time_in_words(number)}: ask for less, or save the work from time to time instead of at the end"
        )
    return number


def _command(command: object) -> tuple[str, ...] | str:
    if command is UNSET:
        raise unprocessable(
            "command", "command is missing: a list such as ['python', 'train.py'], or a string"
        )
    assert isinstance(command, str | list)
    parts = [command] if isinstance(command, str) else command
    if not parts or not parts[0].strip():
        raise unprocessable("command", "command is empty: say which program to run")
    whole = "\n".join(parts)
    if "\0" in whole:
        raise unprocessable("command", "command must not contain a NUL character")
    if len(whole.encode()) >= _MAX_COMMAND:
        raise unprocessable(
            "command", f"command may have at most {_MAX_COMMAND // 1024} KiB; put the rest into a script"
        )
    return command if isinstance(command, str) else tuple(command)


def _check_env(env: Mapping[str, str]) -> None:
    total = 0
    for key, value in env.items():
        if not key or "=" in key or "\0" in key or "\0" in value:
            raise unprocessable(
                "env", f"env: {key[:80]!r} must be a name without '=' and NUL, its value without NUL"
            )
        size = len(key.encode()) + len(value.encode()) + 2
        if size > _MAX_STRING:
            raise unprocessable("env", f"env: {key[:80]!r} is longer than the 128 KiB that Linux allows")
        total += size
    if total > _MAX_ENV:
        raise unprocessable("env", f"env may have at most {_MAX_ENV // 1024} KiB in all; got {total} bytes")


def _selector(labels: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    if len(labels) > _MAX_SELECTORS:
        raise unprocessable("node_selector", f"node_selector may have at most {_MAX_SELECTORS} labels")
    return tuple(
        sorted((label("node_selector", key), label("node_selector", value)) for key, value in labels.items())
    )


def _name(name: str | None, command: tuple[str, ...] | str) -> str:
    if not name:
        return _program(command)
    if len(name) > MAX_NAME or not name.isprintable():
        raise unprocessable("name", f"name must be at most {MAX_NAME} printable characters")
    return name


def _program(command: tuple[str, ...] | str) -> str:
    """`OMP=1 /usr/bin/python x.py` → `python`."""
    words = _shell_words(command) if isinstance(command, str) else command
    program = next((word for word in words if "=" not in word), words[0])
    name = os.path.basename(program.strip().rstrip("/"))[:MAX_NAME]  # noqa: PTH119  text, not a file here
    if name.isprintable():
        return name or "job"
    return "".join(char if char.isprintable() else "?" for char in name)


def _shell_words(line: str) -> list[str]:
    try:
        return shlex.split(line[:4096]) or ["job"]
    except ValueError:  # an open quote is the shell's to complain about
        return line.split(maxsplit=1)[:1]
