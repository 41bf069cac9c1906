"""Every setting, its default and where it comes from: flags, then TGPU_… variables, then the TOML file."""

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, get_args, get_origin, get_type_hints

from tgpu.config.bounds import BOUNDS
from tgpu.config.home_path import home_path
from tgpu.config.parts import CHOICES as PART_CHOICES
from tgpu.config.parts import Parts
from tgpu.config.pools import POOL_KEYS, PoolSettings
from tgpu.config.prices import Prices, prices_of
from tgpu.config.setting import setting as _setting
from tgpu.config.settings_file import settings_file
from tgpu.config.tiers import TierSettings, tiers_of
from tgpu.config.toml_words import in_toml
from tgpu.domain.node_terms import generic_pairs
from tgpu.domain.quantities import BadQuantityError

SYSTEM_SOCKET = Path("/run/tgpu/tgpu.sock")
MAX_SOCKET_PATH = 107  # sun_path, less its closing NUL
LEAST_SILENT_S = 5.0


class SettingsError(ValueError):
    """A setting that cannot be meant; its text names it and says what would be right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings(Parts):
    """Key `x` is `x = …` in the file and `TGPU_X` in the environment."""

    home: Path
    """Where everything of this installation lives; TGPU_HOME."""
    listen: str = _setting(
        "auto",
        "Address of the server's one port, HOST:PORT, for the HTTP API, agents and other servers; port 0 is "
        "any free one. Beyond loopback only with TLS. `auto`: at the first start 127.0.0.1:7480, or any free "
        "port if that is taken; from then on the same port, or none if another process has it. `off`: only "
        "the socket.",
    )
    store: str = _setting(
        "",
        "Where facts are kept. Empty: the file tgpu.db in the home, for one server. "
        "`postgresql://USER@HOST/DATABASE`: there, for any number of servers. `@FILE`: the URL, with its "
        "password, in this file (whole path, mode 600).",
    )
    advertise: str = _setting(
        "",
        "URL under which other machines reach this server, such as `https://gpu1.example.org:7480`; empty: "
        "made from `listen` and the host's name.",
    )
    tls: str = _setting(
        "off",
        "`auto`: the port speaks TLS, with certificates of the cluster's own authority, which is made once "
        "and kept in the store. `off`: plain, on loopback only, unless there are `tls_cert` and `tls_key`.",
    )
    tls_cert: str = _setting(
        "", "Certificate chain (PEM file) to use instead of the cluster's own authority."
    )
    tls_key: str = _setting("", "The private key of `tls_cert` (PEM file).")
    public_socket: str = _setting(
        "auto",
        "A second socket for all users of the machine. `auto`: /run/tgpu/tgpu.sock when root uses the "
        "default home. `off`: none. Else its whole path, such as /run/lab/tgpu.sock.",
    )
    policy: str = _setting(
        "drf",
        "Order of the queue inside a class: `drf` (fair shares of what is in use), `fair-tree` (fair shares "
        "of past use), `priority` (priority, then time), `fifo` (time alone), or one from a plug-in.",
    )
    scorer: str = _setting(
        "tightest",
        "Which of the nodes with room is taken: `tightest` (keeps large gaps whole), `spread` (evens the "
        "load), `fragmentation` (keeps GPUs usable for what was asked lately), or one from a plug-in.",
    )
    default_limit: str = _setting("24h", "How long a job without a time limit is taken to run.")
    max_grace: str = _setting(
        "10m", "The longest grace, from SIGTERM to SIGKILL, that a job may ask for; at most 24h."
    )
    reserve: int = _setting(
        1, "How many jobs that cannot start get a reservation, in each class; at most 1000. 0: none."
    )
    aging_step: str = _setting("1h", "A job gains one point of priority for every such time it has waited.")
    aging_most: int = _setting(24, "The most points of priority that a job can gain by waiting.")
    preemption: str = _setting(
        "on", "`on`: urgent classes may stop jobs of lower ones that give way. `off`: nobody is stopped."
    )
    min_run: str = _setting("0s", "How long a job runs before it may be stopped for a more urgent one.")
    preemption_backoff: str = _setting(
        "10s", "How long a job that was stopped for another waits at least; doubled every time."
    )
    fair_half_life: str = _setting(
        "7d", "After which time past use counts half (for the policy `fair-tree`)."
    )
    cpu_overcommit: float = _setting(
        1.0, "How many times a node's CPUs may be given out, 1 to 100 with at most 3 decimals."
    )
    memory_overcommit: float = _setting(
        1.0, "How many times a node's memory may be given out, 1 to 100 with at most 3 decimals."
    )
    cluster_generic: tuple[str, ...] = _setting(
        (), "Named resources of the cluster as a whole (licences), each `name=N`."
    )
    kernel: str = _setting(
        "auto",
        "How plans are computed: `plain` (by Python), `compiled` (by machine code, which is loaded at the "
        "start), `auto`: compiled from 32 nodes on.",
    )
    shared_paths: tuple[str, ...] = _setting(
        (),
        "Directories that every node of a cluster has, such as a network drive; `/`: all. A job whose "
        "directory is below none of them runs only on the host it was submitted from.",
    )
    admins: tuple[str, ...] = _setting(
        (), "Unix users who are administrators, besides root and the user that runs the server."
    )
    others_may: tuple[str, ...] = _setting(
        (), "What users may do with each other's jobs: any of `details`, `logs`, `cancel`."
    )
    others_see: str = _setting(
        "outline",
        "What users see of jobs in tenants in which they have no role: `outline` (whose they are, what they "
        "hold and how they stand) or `nothing`.",
    )
    tenant_rules: tuple[str, ...] = _setting(
        ("*=default",),
        "Which tenant is a Unix user's home, where they may submit, and where jobs go that name none: "
        "`user:NAME=TENANT`, `group:GROUP=TENANT` or `*=TENANT`, the first that fits. `{user}` in a tenant "
        "is the user's name. The tenants must exist.",
    )
    node_name: str = _setting("", "This node's name; empty: the host name.")
    node_cpus: float = _setting(0.0, "CPUs this node offers; 0: all it has.")
    node_memory: str = _setting("", "Memory this node offers, such as `64G`; empty: all it has.")
    node_disk: str = _setting(
        "", "Disk this node offers, such as `500G`; empty: what is free below the home."
    )
    node_gpus: str = _setting(
        "all",
        "GPUs this node offers: `all`, `none`, indices such as `0,2,3`, or those that it has but cannot see, "
        "such as `4xA100:80G` or `2xT4,2xMI300:192G` (`4x`: of no known model).",
    )
    node_servers: tuple[str, ...] = _setting(
        (),
        "Servers of the cluster that this node joins, such as `https://gpu1:7480`; empty: those it joined "
        "before, else the server on this machine.",
    )
    node_pool: str = _setting("default", "The pool this node belongs to.")
    node_labels: tuple[str, ...] = _setting((), "Labels of this node, each `key=value`.")
    node_taints: tuple[str, ...] = _setting(
        (), "Taints of this node, each `key` or `key=value`: only jobs that tolerate all of them start here."
    )
    node_generic: tuple[str, ...] = _setting((), "Named resources that this node offers, each `name=N`.")
    simulate_gpus: int = _setting(
        0,
        "Pretend that this node has so many GPUs, and 4 CPUs for each if there are fewer (for a machine "
        "without).",
    )
    simulate_gpu_model: str = _setting("Simulated GPU", "What the simulated GPUs call themselves.")
    default_cpus: float = _setting(1.0, "CPUs of a job that does not say.")
    default_memory: str = _setting("0", "Memory of a job that does not say.")
    log_cap: str = _setting(
        "64M",
        "The most that each of a task's stdout and stderr keeps on disk, without the index of its times (at "
        "most a tenth of it); the oldest part goes first.",
    )
    log_keep_days: float = _setting(30.0, "How long the output of ended tasks is kept.")
    cgroups: str = _setting("auto", "`auto`: each task in a cgroup where that is possible. `off`: never.")
    heartbeat_s: float = _setting(5.0, "How often an agent says that it lives.")
    node_silent_s: float = _setting(
        15.0, "After how much silence a node counts as lost, and its tasks run elsewhere."
    )
    reconcile_s: float = _setting(
        10.0,
        "How often the picture in memory is compared with the database; in a large cluster less often, so "
        "that it takes no more than one part in 200 of the leader's time.",
    )
    log_level: str = _setting(
        "info", "How much the server and the agent log: `debug`, `info`, `warning` or `error`."
    )
    pools: tuple[PoolSettings, ...] = ()
    """From the file's tables `[pools.NAME]`; no variable and no flag says it."""
    tiers: tuple[TierSettings, ...] = ()
    """From the file's tables `[tiers.NAME]`."""
    prices: Prices = field(default_factory=Prices)
    """From the file's table `[prices]`."""

    @property
    def encrypted(self) -> bool:
        """Whether the server's port speaks TLS."""
        return self.tls != "off" or bool(self.tls_cert)

    @property
    def run_dir(self) -> Path:
        return self.home / "run"

    @property
    def socket(self) -> Path:
        return self.run_dir / "tgpu.sock"

    @property
    def owner_socket(self) -> Path:
        """For root and the server's own user alone: no crowd of other users is in front of them. Clients
        look for it beside `socket`."""
        return self.run_dir / "owner.sock"

    @property
    def agents_socket(self) -> Path:
        return self.run_dir / "agents.sock"

    @property
    def database(self) -> Path:
        return self.home / "tgpu.db"

    @property
    def agent_dir(self) -> Path:
        return self.home / "agent"

    @property
    def logs_dir(self) -> Path:
        return self.home / "logs"


_TABLES = ("home", "pools", "tiers", "prices")
_GROUPED = {item.name for item in fields(Parts)}
KEYS = tuple(
    item
    for item in sorted(fields(Settings), key=lambda item: item.name in _GROUPED)
    if item.name not in _TABLES
)
_CHOICES = {
    "others_see": ("outline", "nothing"),
    "preemption": ("on", "off"),
    **PART_CHOICES,
    "cgroups": ("auto", "off"),
    "kernel": ("auto", "plain", "compiled"),
    "tls": ("off", "auto"),
    "log_level": ("debug", "info", "warning", "error"),
}


def default_home(environ: Mapping[str, str]) -> Path:
    return Path(home_path(environ))


def load(environ: Mapping[str, str], overrides: Mapping[str, Any] | None = None) -> Settings:
    """`overrides` are flags: those that are None were not given."""
    home = default_home(environ)
    values = dict(_file_values(environ, home))
    for item in KEYS:
        said = environ.get(f"TGPU_{item.name.upper()}")
        if said is not None:
            values[item.name] = _parse(item.name, said, f"TGPU_{item.name.upper()}")
    values.update({name: value for name, value in (overrides or {}).items() if value is not None})
    settings = Settings(home=home, **values)
    _check(settings)
    return settings


def _file_values(environ: Mapping[str, str], home: Path) -> Mapping[str, Any]:
    path = settings_file(environ, home)
    if path is None:
        return {}
    if not path.is_file():
        raise SettingsError(f"TGPU_CONFIG names {path}, which is not a file")
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path} is not valid TOML: {error}") from error
    pools = _pools(table.pop("pools", {}), path)
    try:
        tiers = tiers_of(table.pop("tiers", {}), str(path))
        prices = prices_of(table.pop("prices", {}), str(path))
    except BadQuantityError as error:
        raise SettingsError(str(error)) from None
    known = {item.name for item in KEYS}
    for key in table:
        if key not in known:
            raise SettingsError(f"{path}: unknown setting {key!r}; `tgpu doctor --settings` lists them all")
    values = {key: _parse(key, value, f"{path}: {key}") for key, value in table.items()}
    return values | {"pools": pools, "tiers": tiers, "prices": prices}


def _pools(tables: object, path: Path) -> tuple[PoolSettings, ...]:
    if not isinstance(tables, dict) or not all(isinstance(table, dict) for table in tables.values()):
        raise SettingsError(f"{path}: pools must be written as tables, such as [pools.training]")
    return tuple(_pool(name, table, path) for name, table in tables.items())


def _pool(name: str, table: Mapping[str, object], path: Path) -> PoolSettings:
    where = f"{path}: pools.{name}"
    _bounded("node_pool", name, where)
    values = {}
    for key, value in table.items():
        if key not in POOL_KEYS:
            raise SettingsError(f"{where}: unknown key {key!r}; a pool has {', '.join(POOL_KEYS)}")
        values[key] = _parse(key, value, f"{where}.{key}")
        if key in BOUNDS:
            _bounded(key, values[key], f"{where}.{key}")
    return PoolSettings(name=name, where=where, **values)


def _bounded(name: str, value: object, where: str) -> None:
    try:
        BOUNDS[name](where, value)
    except BadQuantityError as error:
        raise SettingsError(str(error)) from None


_HINTS = get_type_hints(Settings)


def _parse(name: str, value: object, where: str) -> Any:  # noqa: ANN401  each setting has its own type
    kind = _HINTS[name]
    if get_origin(kind) is tuple:
        parts = value.split(",") if isinstance(value, str) else value
        if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            raise SettingsError(
                f'{where} must be a list of strings, such as ["a", "b"]; got {in_toml(value)}'
            )
        assert get_args(kind)[0] is str
        return tuple(part.strip() for part in parts if part.strip())
    if kind in (int, float) and isinstance(value, int | float | str) and not isinstance(value, bool):
        try:
            number = kind(value)
        except (ValueError, OverflowError):
            raise SettingsError(f"{where} must be a number; got {in_toml(value)}") from None
        if kind is int and isinstance(value, float) and number != value:
            raise SettingsError(f"{where} must be a whole number; got {in_toml(value)}")
        return number
    if kind is str and isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise SettingsError(f"{where} must be {_wanted(name)}; got {in_toml(value)}")


def _wanted(name: str) -> str:
    """In the words of a TOML file."""
    if name in _CHOICES:
        return " or ".join(in_toml(choice) for choice in _CHOICES[name]) + ", in quotes"
    return "a string in quotes" if _HINTS[name] is str else "a number"


def _check(settings: Settings) -> None:
    for name, choices in _CHOICES.items():
        if getattr(settings, name) not in choices:
            raise SettingsError(
                f"{name} must be one of {', '.join(choices)}; got {getattr(settings, name)!r}"
            )
    for name in BOUNDS:
        _bounded(name, getattr(settings, name), name)
    _check_owners(settings)
    for path in settings.shared_paths:
        if not path.startswith("/"):
            raise SettingsError(f"shared_paths must be absolute, such as /home; got {path!r}")
    if bool(settings.tls_cert) != bool(settings.tls_key):
        raise SettingsError('tls_cert and tls_key belong together: set both, or neither and tls = "auto"')
    if not 0 <= settings.simulate_gpus <= 1024:  # noqa: PLR2004
        raise SettingsError(f"simulate_gpus must be between 0 and 1024; got {settings.simulate_gpus}")
    _check_timers(settings)
    if len(os.fsencode(settings.socket)) > MAX_SOCKET_PATH:
        raise SettingsError(
            f"the socket's path {settings.socket} is longer than the {MAX_SOCKET_PATH} bytes that Linux "
            "allows; set TGPU_HOME to a shorter directory"
        )


def _check_owners(settings: Settings) -> None:
    """A task that asks for a resource by name must not have to say whose it means."""
    nodes, cluster = (
        {resource for resource, _ in generic_pairs(name, getattr(settings, name))}
        for name in ("node_generic", "cluster_generic")
    )
    for resource in sorted(nodes & cluster):
        raise SettingsError(
            f"node_generic and cluster_generic both name {resource!r}: it is either a resource of this node "
            "or a licence of the whole cluster; rename one of them, or leave it out"
        )


def _check_timers(settings: Settings) -> None:
    for name in ("heartbeat_s", "node_silent_s", "reconcile_s", "gang_start_s"):
        if not 0 < getattr(settings, name) <= 3600:  # noqa: PLR2004
            raise SettingsError(f"{name} must be more than 0 and at most 3600 seconds")
    if settings.node_silent_s < 2 * settings.heartbeat_s:
        raise SettingsError(
            f"node_silent_s must be at least twice heartbeat_s, or a node would count as offline between two "
            f"heartbeats; got {settings.node_silent_s:g} and {settings.heartbeat_s:g}"
        )
    if settings.node_silent_s < LEAST_SILENT_S:
        raise SettingsError(
            f"node_silent_s must be at least {LEAST_SILENT_S:g}: a task submitted with --once is frozen when "
            f"four fifths of it are over, before another attempt starts; got {settings.node_silent_s:g}"
        )
