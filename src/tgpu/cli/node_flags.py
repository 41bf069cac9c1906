"""The flags of `up`, `server` and `agent`, and the settings they override."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from tgpu.cli.exits import UsageError
from tgpu.cli.secret_flags import StoreFlag

if TYPE_CHECKING:
    from argparse import ArgumentParser, Namespace
    from typing import Any

    from tgpu.config.settings import Settings

_NODE = (
    "simulate_gpus",
    "simulate_gpu_model",
    "node_cpus",
    "node_memory",
    "node_name",
    "node_pool",
    "node_labels",
    "node_taints",
    "node_servers",
)
_SERVER = ("store", "listen", "tls", "advertise", "policy")


class _Suggestions(tuple[str, ...]):
    """What shells complete; other words are taken too, for plug-ins add names that only the server knows."""

    __slots__ = ()

    def __contains__(self, _word: object) -> bool:
        return True


POLICIES = _Suggestions(("drf", "fair-tree", "priority", "fifo"))


def add_node_flags(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--simulate-gpus",
        type=int,
        metavar="N",
        help="pretend to have N GPUs, and 4 CPUs for each if there are fewer",
    )
    parser.add_argument(
        "--gpu-model", dest="simulate_gpu_model", metavar="NAME", help="what those call themselves"
    )
    parser.add_argument(
        "--cpus", dest="node_cpus", type=float, metavar="N", help="offer N CPUs (default: all)"
    )
    parser.add_argument(
        "--memory", dest="node_memory", metavar="SIZE", help="offer so much memory (default: all)"
    )
    parser.add_argument(
        "--name", dest="node_name", metavar="NAME", help="this node's name (default: the host's)"
    )
    parser.add_argument("--pool", dest="node_pool", metavar="POOL", help="the pool this node belongs to")
    parser.add_argument(
        "--label",
        dest="node_labels",
        action="append",
        metavar="KEY=VALUE",
        help="a label of this node; repeatable",
    )
    parser.add_argument(
        "--taint",
        dest="node_taints",
        action="append",
        metavar="KEY[=VALUE][:NoSchedule]",
        help="only jobs that tolerate it start on this node; repeatable",
    )


def add_joining_flags(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--server",
        dest="node_servers",
        type=_urls,
        metavar="URL",
        help="the cluster's servers, https://HOST:7480, several with commas (default: the one joined before)",
    )
    parser.add_argument(
        "--join",
        metavar="@FILE|-",
        help="join it with the token from `tgpu nodes join-token` in this file (mode 600), or on stdin; "
        "or set TGPU_JOIN_TOKEN",
    )


def add_service_flag(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--install-service",
        action="store_true",
        help="write a systemd unit with these flags, and say what to type to start it",
    )


def install_service(service: str, chosen: Settings, given: dict[str, Any]) -> int:
    from tgpu.wiring import up  # noqa: PLC0415  `--help` needs none of it
    from tgpu.wiring.service_unit import Service  # noqa: PLC0415

    return up.install_service_of(Service(service), chosen, given)


def _urls(text: str) -> tuple[str, ...]:
    return tuple(url.strip() for url in text.split(",") if url.strip())


def add_server_flags(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--store",
        type=StoreFlag("--store", ", or set TGPU_STORE"),
        metavar="URL|@FILE",
        help="PostgreSQL, for several servers: postgresql://USER@HOST/NAME, or a file (mode 600) with the "
        "URL and its password (default: a file in the home)",
    )
    parser.add_argument(
        "--listen", metavar="HOST:PORT", help="address of the HTTP API; `off`: only the socket"
    )
    parser.add_argument(
        "--tls", metavar="auto|off", choices=("auto", "off"), help="whether that address speaks TLS"
    )
    parser.add_argument(
        "--advertise", metavar="URL", help="how other machines reach it (default: the host's name)"
    )
    parser.add_argument(
        "--policy",
        metavar="NAME",
        choices=POLICIES,
        help="order of the queue: drf, fair-tree, priority, fifo, or a plug-in's",
    )


def overrides(args: Namespace) -> dict[str, Any]:
    """The settings that flags have named."""
    said = {name: getattr(args, name, None) for name in (*_NODE, *_SERVER)}
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in said.items()
        if value is not None
    }


def settings(args: Namespace) -> Settings:
    """All settings, flags first; a wrong one is a usage error."""
    from tgpu.config.settings import SettingsError, load  # noqa: PLC0415  `--help` needs none of it
    from tgpu.wiring import former_home  # noqa: PLC0415

    former_home.report(os.environ)
    try:
        return load(os.environ, overrides(args))
    except SettingsError as error:
        raise UsageError(str(error)) from None


def check_policy(chosen: Settings) -> None:
    """Which policies there are is known only once plug-ins were looked for."""
    from tgpu.core.policy import UnknownPolicyError  # noqa: PLC0415  `--help` needs none of it
    from tgpu.wiring.policy_of_settings import policy_of  # noqa: PLC0415

    try:
        policy_of(chosen)
    except UnknownPolicyError as error:
        raise UsageError(str(error)) from None
