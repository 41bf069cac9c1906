"""Command signature: what tells two jobs that run the same program from two that do not.

A signature is `PROGRAM#DIGEST`: the program or script by its file name, and a digest of the whole command of
every group. Jobs with equal signatures run the same command; jobs that differ only in arguments have the same
program.
"""

import hashlib
import shlex
from collections.abc import Sequence
from functools import lru_cache

from tgpu.domain.job import JobSpec

_LONGEST_PROGRAM = 40
_DIGEST_BYTES = 8
_SHORT = 1024
_LONGEST_SCRIPT = 4096
"""Of a script given as text, the part in which its program is looked for."""
_INTERPRETERS = ("python", "bash", "sh", "dash", "zsh", "perl", "ruby", "node", "Rscript", "julia")
_WRAPPERS = frozenset({"env", "exec", "nice", "nohup", "time", "stdbuf", "srun", "mpirun", "uv", "run"})
_INLINE = (["-c"], ["-lc"], ["-ec"])
_NOT_PROGRAMS = ("#", "set ", "cd ", "export ", "module ", "source ")
_SEPARATOR = "#"


def signature_of(spec: JobSpec) -> str:
    """Of a job as it was submitted."""
    commands = tuple([group.command for group in spec.groups])
    is_short = sum(map(len, commands)) < _SHORT and all(
        isinstance(command, str) or sum(map(len, command)) < _SHORT for command in commands
    )
    return _known(commands) if is_short else _signature(commands)


def _signature(commands: tuple[tuple[str, ...] | str, ...]) -> str:
    digest = hashlib.blake2b(digest_size=_DIGEST_BYTES)
    for command in commands:
        words = (command,) if isinstance(command, str) else command
        digest.update(repr(words).encode("utf-8", "surrogatepass"))
    program = program_of(commands[0]) if commands else ""
    return f"{program}{_SEPARATOR}{digest.hexdigest()}"


_known = lru_cache(maxsize=1024)(_signature)
"""Floods of jobs have few commands; long ones are not worth keeping."""


def program_in(signature: str) -> str:
    """The program of a signature; empty if it has none."""
    return signature.rpartition(_SEPARATOR)[0]


def program_of(command: Sequence[str] | str) -> str:
    """`train.py` of `python3 -u /home/ada/train.py --lr 0.1`; the last part of the path, cut to a length."""
    words = _words_of(command) if isinstance(command, str) else list(command)
    if words and _is_interpreter(words[0]) and words[1:2] in _INLINE:
        words = _words_of(" ".join(words[2:3])) or words
    for word in words:
        name = _file_name(word)
        if word.startswith("-") or "=" in word or _is_interpreter(word) or name in _WRAPPERS or not name:
            continue
        return _plain(name)
    return _plain(_file_name(words[0])) if words else ""


def _file_name(word: str) -> str:
    return word.rstrip("/").rpartition("/")[2]


def _plain(name: str) -> str:
    kept = "".join(letter for letter in name if letter.isprintable() and letter != _SEPARATOR)
    return kept[:_LONGEST_PROGRAM].encode("utf-8", "replace").decode()


def _words_of(script: str) -> list[str]:
    """The words of the first line that is a command."""
    for line in script[:_LONGEST_SCRIPT].splitlines():
        text = line.strip()
        if not text or text.startswith(_NOT_PROGRAMS):
            continue
        try:
            return shlex.split(text)
        except ValueError:
            return text.split()
    return []


def _is_interpreter(word: str) -> bool:
    name = _file_name(word)
    return any(name == each or name.startswith(f"{each}3") for each in _INTERPRETERS)
