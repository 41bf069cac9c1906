"""Whether the code of jobs is copied before they are submitted, and how they name the copy."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from tgpu.cli.exits import UsageError
from tgpu.cli.screen import note

if TYPE_CHECKING:
    from typing import Any

    from tgpu.cli.snapshot.tree import Tree
    from tgpu.client import Client

OFF, AUTO, ALWAYS = "off", "auto", "always"
_MODES = (OFF, AUTO, ALWAYS)
_ASKED = "asked"
"""As always, and by a flag: who typed that is told if it means nothing."""
_DEFAULT_MB = "100"
_MOST_NAMED = 5


def mode_of(flag: bool | None) -> str:
    """`flag`: what was typed, if anything was."""
    if flag is not None:
        return _ASKED if flag else OFF
    said = _setting("snapshots", OFF)
    if said not in _MODES:
        raise UsageError(f"the setting snapshots must be one of {', '.join(_MODES)}; got {said!r}")
    return said


def with_snapshots(client: Client, jobs: list[dict[str, Any]], mode: str) -> list[dict[str, Any]]:
    """The same jobs, to be run in copies of what is there now. Each tree is copied once."""
    if mode == OFF:
        return jobs
    if mode == _ASKED and all(job.get("image") for job in jobs):
        raise UsageError(
            "--snapshot is for processes of a node: with an image, put the code into it, or mount it"
        )
    taken: dict[str, dict[str, Any] | None] = {}
    return [_with_snapshot(client, job, mode, taken) for job in jobs]


def _with_snapshot(
    client: Client, job: dict[str, Any], mode: str, taken: dict[str, dict[str, Any] | None]
) -> dict[str, Any]:
    cwd = str(job["cwd"])
    if job.get("image") or job.get("snapshot"):
        return job  # of an image, the digest says what is in it
    if cwd not in taken:
        taken[cwd] = _take(client, Path(cwd), mode)
    found = taken[cwd]
    if found is None:
        return job
    names, fields = found["names"], {key: value for key, value in found.items() if key != "names"}
    made = {**job, **fields}
    if isinstance(job.get("command"), list):
        made["command"] = [
            _in_copy(word, made["cwd"], fields["snapshot_root"], names) for word in job["command"]
        ]
    return made


def _in_copy(word: str, cwd: str, root: str, names: frozenset[str]) -> str:
    """A script is named by its whole path: in the copy, it is the copy's."""
    if not word.startswith(root.rstrip("/") + "/") or word[len(root.rstrip("/")) + 1 :] not in names:
        return word
    relative = os.path.relpath(word, cwd)
    return relative if "/" in relative else f"./{relative}"


def _take(client: Client, cwd: Path, mode: str) -> dict[str, Any] | None:
    """The job's fields about it; None: there is none."""
    from tgpu.cli.snapshot import archive, tree  # noqa: PLC0415  only who takes one

    physical = cwd.resolve()
    if not physical.is_dir():
        raise UsageError(f"{cwd} is no directory here, so there is nothing to take a snapshot of")
    root = tree.git_root(physical)
    if root is None and mode == AUTO:
        return None
    if root is None and physical == Path(physical.anchor):
        raise UsageError(
            "a snapshot of / would be one of the whole machine: go where the code is, or say --no-snapshot"
        )
    found = tree.plain_tree(physical) if root is None else tree.git_tree(root)
    try:
        packed = archive.pack(found, _most_mb())
    except archive.TooLargeError as error:
        if mode == AUTO:
            note(f"no snapshot was taken: {error}")
            return None
        raise UsageError(f"no snapshot can be taken: {error}") from None
    try:
        if packed.left_out:
            named = ", ".join(packed.left_out[:_MOST_NAMED])
            more = len(packed.left_out) - _MOST_NAMED
            rest = f" and {more} more" if more > 0 else ""
            note(f"not in the snapshot, for they lead out of it: {named}{rest}")
        client.put_snapshot(packed.digest, packed.file, packed.size)
    finally:
        packed.close()
    return {"names": packed.names, **_fields(found, cwd, physical, packed.digest)}


def _fields(found: Tree, cwd: Path, physical: Path, digest: str) -> dict[str, Any]:
    """As the caller names the directory, if the root can be named like that too."""
    below = physical.relative_to(found.root.resolve())
    depth = len(below.parts)
    named = cwd if depth == 0 else cwd.parents[depth - 1] if depth <= len(cwd.parts) - 1 else found.root
    same = named / below == cwd and named.resolve() == found.root.resolve()
    fields = {
        "cwd": str(cwd if same else physical),
        "snapshot": digest,
        "snapshot_root": str(named if same else found.root.resolve()),
        "snapshot_dirty": found.dirty,
    }
    return fields if found.commit is None else {**fields, "snapshot_commit": found.commit}


def _most_mb() -> int:
    said = _setting("snapshot_max_mb", _DEFAULT_MB)
    if not said.isdecimal() or not int(said):
        raise UsageError(f"the setting snapshot_max_mb must be a whole number of MiB; got {said!r}")
    return int(said)


def _setting(name: str, default: str) -> str:
    """As the server reads it, without all the rest: most who submit have no file."""
    said = os.environ.get(f"TGPU_{name.upper()}")
    if said is not None:
        return said
    from tgpu.config.home_path import home_path  # noqa: PLC0415  only who has no variable
    from tgpu.config.settings_file import settings_file  # noqa: PLC0415

    path = settings_file(os.environ, Path(home_path(os.environ)))
    if path is None:
        return default
    import tomllib  # noqa: PLC0415  only who has a file

    try:
        return str(tomllib.loads(path.read_text(encoding="utf-8")).get(name, default))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError):
        return default  # it may be the server's alone to read
