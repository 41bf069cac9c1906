"""A job in Slurm's words made ready for tgpu: the script, what is said about it, and where it is said."""

from __future__ import annotations

import os
import re
import shutil
from pathlib import Path

from tgpu.client import Client
from tgpu.client.surroundings import exported
from tgpu.dialects.slurm import exporting, hosts, moments, script
from tgpu.dialects.slurm.batch_fields import batch_fields
from tgpu.dialects.slurm.given import gathered
from tgpu.dialects.slurm.refusal import SlurmError
from tgpu.dialects.slurm.spreading import fitted
from tgpu.dialects.slurm.translation import Around

TYPE_CHECKING = False  # see tgpu.client.errors
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tgpu.dialects.slurm.given import Given
    from tgpu.dialects.slurm.layout import Layout


_CALLED = re.compile(r"^[ \t]*(srun|scontrol|sbatch|squeue|scancel|sacct|sinfo)(?=\s)", re.MULTILINE)


class Source:
    """A script: what it is called, where it is (if it is a file), and what is in it."""

    def __init__(self, name: str, path: str, text: str, typed: str = "") -> None:
        """`typed`: as whoever has to be told of a mistake in it calls it."""
        self.name, self.path, self.text, self.typed = name, path, text, typed or name

    @classmethod
    def of_file(cls, path: Path) -> Source:
        try:
            data = path.read_bytes()
        except OSError as error:
            raise SlurmError(f"Unable to open file {path}: {error.strerror}") from None
        return cls(path.name, str(path.absolute()), script.text_of(str(path), data), str(path))


class Prepared:
    """The API's fields, and what was said to make them."""

    def __init__(self, fields: dict[str, Any], given: Given, layout: Layout, warnings: list[str]) -> None:
        self.fields, self.given, self.layout, self.warnings = fields, given, layout, warnings


def prepared(
    source: Source,
    arguments: Sequence[str],
    words: Sequence[str],
    more: Sequence[tuple[str, str | None]] = (),
    *,
    directives: bool = True,
) -> Prepared:
    """`words`: options of the command line; `more`: others of it, by name."""
    lines = script.directives(source.typed, source.text) if directives else []
    given, _ = gathered(lines, os.environ, words)
    for name, value in more:
        given.say(name, value, "command line")
    _read_nodefile(given)
    made = fitted(given, _around(given), _nodes)
    env, step_key = _environment(given), os.urandom(16).hex()
    fields = batch_fields(made, given, source.text, arguments, env, step_key)
    fields["cwd"] = str(Path(here(), given.get("chdir") or ""))
    fields["submit_host"] = os.uname().nodename
    fields.setdefault("name", source.name)
    kept: dict[str, str] = fields["annotations"]
    kept |= {"submit-dir": here(), "submit-host": os.uname().nodename}
    if source.path:
        kept["script"] = source.path
    return Prepared(fields, given, made.layout, [*made.warnings, *_not_found(source, fields["env"])])


def _not_found(source: Source, env: dict[str, str]) -> list[str]:
    """A command of Slurm's that the script calls, and would not find."""
    called = _CALLED.search(source.text)
    if called is None or "PATH" not in env or shutil.which(called[1], path=env["PATH"]) is not None:
        return []
    line = source.text.count("\n", 0, called.start(1)) + 1
    told = (
        f"{source.typed} line {line}: {called[1]} is not on PATH: `tgpu slurm install --to DIR` writes it; "
        "put DIR on PATH, and submit again"
    )
    return [told]


def found(name: str, chdir: str | None) -> Path:
    """Where a script of this name is: where the job will run, along PATH, or here, in Slurm's order."""
    folders = [chdir or ""]
    if not name.startswith(("/", ".")):
        folders += [folder for folder in os.environ.get("PATH", "").split(":") if folder]
    paths = [Path(folder, name) for folder in folders]
    return next((path for path in paths if path.is_file()), Path(name))


def here() -> str:
    """As the shell names it."""
    said = os.environ.get("PWD", "")
    try:
        physical = os.getcwd()  # noqa: PTH109  as a string
        return said if said.startswith("/") and os.path.samefile(said, physical) else physical  # noqa: PTH121
    except OSError:
        raise SlurmError("the current directory is gone: say --chdir=DIR") from None


def _nodes() -> list[dict[str, Any]]:
    with Client() as client:
        return client.nodes()


def _around(given: Given) -> Around:
    """Asks only if it matters which pools and tenants there are."""
    pools = tenants = None
    if given.has("partition") or given.has("account"):
        with Client() as client:
            if given.has("partition"):
                pools = sorted({str(node["pool"]) for node in client.nodes()})
            if given.has("account"):
                tenants = [str(tenant["tenant_id"]) for tenant in client.tenants()]
    return Around(moments.local_now, pools, tenants)


def _environment(given: Given) -> dict[str, str]:
    env = exporting.environment(given.get("export"), os.environ, _exported_as_slurm_does)
    if (path := given.get("export-file")) is not None:
        if path.isdigit():
            raise given.refuse("export-file", f"must be a file, not a descriptor; got {path}")
        try:
            env |= exporting.of_file(Path(path).read_bytes())
        except OSError as error:
            raise given.refuse("export-file", f"cannot be read: {path}: {error.strerror}") from None
        except SlurmError as error:
            raise error.at(given.where("export-file")) from None
    return env


def _exported_as_slurm_does(environ: Mapping[str, str]) -> dict[str, str]:
    """With TERM, which scripts need for `tput` and `clear`."""
    return {name: environ[name] for name in ("TERM",) if name in environ} | exported(environ)


def _read_nodefile(given: Given) -> None:
    """A file of nodes, one on each line, is a list of them; and so is what names a path."""
    for name in ("nodefile", "nodelist", "exclude"):
        text = given.get(name)
        if text is None or (name != "nodefile" and "/" not in text):
            continue
        try:
            lines = Path(text).read_text(encoding="utf-8").split()
        except (OSError, UnicodeDecodeError):
            raise given.refuse(name, f"cannot be read: {text}") from None
        target = "exclude" if name == "exclude" else "nodelist"
        given.say(target, ",".join(host for line in lines for host in hosts.expanded(f"--{name}", line)),
                  given.where(name))  # fmt: skip
