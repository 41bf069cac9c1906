"""The Dockerfile and the compose file belong together, and to the program: checked without an engine."""

import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tgpu.cli.commands import agent, server
from tgpu.config.settings import KEYS, load

TREE = Path(__file__).parent.parent.parent
DOCKERFILE = (TREE / "deploy" / "Dockerfile").read_text()
COMPOSED: dict[str, Any] = yaml.safe_load((TREE / "deploy" / "compose.yaml").read_text())
SERVICES: dict[str, Any] = COMPOSED["services"]
SERVERS = [name for name in SERVICES if name.startswith("server-")]
NODES = [name for name in SERVICES if name.startswith("node-")]
VARIABLE = re.compile(r"\$\{(\w+)(?::([-?])([^}]*))?\}")


def filled(text: str) -> str:
    """As compose does it, with a password and nothing else in the environment."""

    def value(found: "re.Match[str]") -> str:
        return "pw" if found[1] == "POSTGRES_PASSWORD" else found[3]

    return VARIABLE.sub(value, text)


def environ_of(name: str) -> dict[str, str]:
    return {key: filled(str(value)) for key, value in SERVICES[name]["environment"].items()}


def test_there_are_a_database_three_servers_and_three_nodes() -> None:
    assert (len(SERVERS), len(NODES)) == (3, 3)
    assert set(SERVICES) == {"postgres", "join-token", *SERVERS, *NODES}


@pytest.mark.parametrize("name", [*SERVERS, *NODES])
def test_every_variable_is_a_setting_with_a_value_that_it_takes(name: str, tmp_path: Path) -> None:
    settings = load({"TGPU_HOME": str(tmp_path), **environ_of(name)})
    known = {f"TGPU_{item.name.upper()}" for item in KEYS}
    assert set(environ_of(name)) <= known
    assert settings.encrypted == (name in SERVERS)


def test_servers_share_the_database_and_are_reached_as_they_say() -> None:
    assert len({environ_of(name)["TGPU_STORE"] for name in SERVERS}) == 1
    assert "postgresql://tgpu:pw@postgres/tgpu" in environ_of("server-1")["TGPU_STORE"]
    for name in SERVERS:
        assert environ_of(name)["TGPU_ADVERTISE"] == f"https://{name}:7480"
    told = environ_of("node-1")["TGPU_NODE_SERVERS"].split(",")
    assert told == [environ_of(name)["TGPU_ADVERTISE"] for name in SERVERS]


def test_no_two_services_want_the_same_port_and_none_is_open_to_the_world() -> None:
    ports = [port for service in SERVICES.values() for port in service.get("ports", [])]
    assert all(port.startswith("127.0.0.1:") for port in ports)
    assert len({port.split(":")[1] for port in ports}) == len(ports) == 3
    assert {port.split(":")[2] for port in ports} == {"7480"}


def test_every_volume_is_declared_and_every_home_belongs_to_one_part() -> None:
    used = [volume.split(":")[:2] for service in SERVICES.values() for volume in service["volumes"]]
    assert {name for name, _ in used} == set(COMPOSED["volumes"])
    homes = [name for name, path in used if path == "/var/lib/tgpu"]
    assert sorted(homes) == sorted([*SERVERS, *NODES, "server-1"]), "only the token's maker shares one"


def test_services_wait_only_for_those_there_are() -> None:
    for service in SERVICES.values():
        assert set(service.get("depends_on", {})) <= set(SERVICES)
    for name in NODES:
        assert SERVICES[name]["depends_on"] == {"join-token": {"condition": "service_completed_successfully"}}


def test_join_token_of_the_containers_is_for_their_user_alone() -> None:
    (script,) = SERVICES["join-token"]["command"]
    assert script.startswith("umask 077;")
    assert subprocess.run(["sh", "-n", "-c", script], check=False).returncode == 0


def test_what_containers_run_is_what_the_program_understands() -> None:
    for name in NODES:
        word, *flags = SERVICES[name]["command"]
        assert word == "agent"
        agent.parser().parse_args(flags)
    assert 'ENTRYPOINT ["tgpu"]' in DOCKERFILE
    commands = re.findall(r"^CMD \[\"(\w+)\"\]$", DOCKERFILE, re.MULTILINE)
    assert commands == ["server", "agent"]
    server.parser().parse_args([])


def test_each_image_is_a_target_and_the_server_has_no_rights() -> None:
    targets = re.findall(r"^FROM \S+ AS (\w+)$", DOCKERFILE, re.MULTILINE)
    built = {service["build"]["target"] for service in SERVICES.values() if "build" in service}
    assert built <= set(targets)
    as_server = DOCKERFILE.split("AS server\n")[1].split("\nFROM ")[0]
    assert as_server.startswith("USER tgpu\n")
    assert "USER" not in DOCKERFILE.split("AS agent\n")[1], "an agent runs jobs as whoever submitted them"


def test_everything_that_is_copied_is_in_the_tree_and_not_ignored() -> None:
    allowed = {line[1:] for line in (TREE / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = [
        word for line in re.findall(r"^COPY (.*)$", DOCKERFILE, re.MULTILINE) for word in line.split()[:-1]
    ]
    assert set(copied) == allowed
    for name in copied:
        assert (TREE / name).exists()
