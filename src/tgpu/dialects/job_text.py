"""The text of a pasted job file in any form: the jobs in it, warnings, and problems.

No file is read and no environment is taken over: a text says everything, or is refused.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum
from typing import Any, NamedTuple

from tgpu.dialects.kubernetes.problems import ManifestError
from tgpu.dialects.native import strict_yaml
from tgpu.dialects.native.job_file import WrittenJob, fields_of, written_jobs
from tgpu.dialects.native.output_file_fields import expanded
from tgpu.dialects.native.problems import JobFieldError
from tgpu.dialects.native.several_jobs import MOST_JOBS
from tgpu.dialects.slurm import exporting, script
from tgpu.dialects.slurm.batch_fields import batch_fields
from tgpu.dialects.slurm.given import Given, gathered
from tgpu.dialects.slurm.refusal import SlurmError
from tgpu.dialects.slurm.spreading import fitted
from tgpu.dialects.slurm.translation import Around

_MOST_PROBLEMS = 50
_LONGEST_PROBLEM = 3000
_STEP = re.compile(r"\[(\d+)\]|\[([^\]]*)\]|([^.\[\]]+)")
_AT_LINE = re.compile(r"^script line (\d+): ")
_READS_A_FILE = ("nodefile", "export-file")
_SHELLS = frozenset({"sh", "bash", "dash", "ksh", "zsh"})
_BY_TEXT = {"python": "-c", "python3": "-c", "perl": "-e", "ruby": "-e", "Rscript": "-e", "node": "-e"}
"""Interpreters that run a program given as an argument, and the option for it."""


class Format(StrEnum):
    TGPU = "tgpu"
    SLURM = "slurm"
    KUBERNETES = "kubernetes"
    SCRIPT = "script"
    """A script without options for a scheduler."""


class Problem(NamedTuple):
    text: str
    """What is wrong, and what to do."""
    line: int | None = None
    path: str = ""
    """Of the key in its job or manifest, if it has one."""
    job: int | None = None
    """Of which job of the text, counted from 0."""


class JobText(NamedTuple):
    format: Format
    jobs: list[dict[str, Any]]
    """In the API's fields; empty if there are problems."""
    warnings: list[str]
    problems: list[Problem]


class Surroundings(NamedTuple):
    """What the meaning of a text depends on beside itself."""

    around: Around
    nodes: Callable[[], Sequence[Mapping[str, Any]]]
    """As the API shows them."""
    home: str
    """Of the job's user."""
    step_key: str


def read(text: str, name: str, surroundings: Surroundings) -> JobText:
    """`name`: of the file, if it has one. Never raises for what is in the text."""
    text = text.removeprefix("\ufeff").replace("\r\n", "\n")
    data = text.encode("utf-8", "surrogatepass")
    if script.is_one(data):
        return _of_slurm(data, name, surroundings)
    if text.startswith("#!"):
        return _of_script(text, name)
    return _of_yaml(text, surroundings.home)


def _of_yaml(text: str, home: str) -> JobText:
    try:
        jobs = written_jobs(text)
    except strict_yaml.BadYamlError as error:
        return JobText(Format.TGPU, [], [], [Problem(str(error), error.line)])
    except JobFieldError as error:
        line = strict_yaml.Lines(text).of(error.document, [error.key or ""])
        return JobText(Format.TGPU, [], [], [_problem(str(error), line, error.key or "")])
    format_ = Format.KUBERNETES if jobs and all(job.is_manifest for job in jobs) else Format.TGPU
    if not 0 < len(jobs) <= MOST_JOBS:
        words = f"the text holds {len(jobs)} jobs; 1 to {MOST_JOBS} are possible"
        return JobText(format_, [], [], [Problem(words)])
    found: list[dict[str, Any]] = []
    warnings: list[str] = []
    problems: list[Problem] = []
    lines = strict_yaml.Lines(text)
    for at, job in enumerate(jobs):
        try:
            fields, some = fields_of(job)
        except (JobFieldError, ManifestError) as error:
            problems += _problems(lines, at, job, error)
            if len(problems) >= _MOST_PROBLEMS:
                break
        else:
            found.append(fields if job.is_manifest else expanded(fields, lambda path: _at_home(path, home)))
            warnings += some
    return JobText(format_, [] if problems else found, warnings, problems[:_MOST_PROBLEMS])


def _problems(
    lines: strict_yaml.Lines, at: int, job: WrittenJob, error: JobFieldError | ManifestError
) -> list[Problem]:
    if isinstance(error, JobFieldError):
        steps = [*job.path, *([] if error.key is None else [error.key])]
        line = lines.of(job.document, steps)
        return [_problem(str(error), line, error.key or "", at)]
    return [
        _problem(
            str(refusal),
            lines.of(job.document, [*job.path, *_steps(refusal.path)]),
            refusal.path,
            at,
        )
        for refusal in error.refusals[:_MOST_PROBLEMS]
    ]


def _problem(text: str, line: int | None, path: str, job: int | None = None) -> Problem:
    """Texts repeat what was given, which may be long, and wrong in every job."""
    brief = text if len(text) <= _LONGEST_PROBLEM else f"{text[:_LONGEST_PROBLEM]}…"
    return Problem(brief, line, path[:_LONGEST_PROBLEM], job)


def _steps(path: str) -> list[str | int]:
    """`spec.containers[0].limits[cpu]` → spec, containers, 0, limits, cpu."""
    return [int(index) if index else key or name for index, key, name in _STEP.findall(path)]


def _at_home(path: str, home: str) -> str:
    return f"{home}{path[1:]}" if path == "~" or path.startswith("~/") else path


def _of_slurm(data: bytes, name: str, surroundings: Surroundings) -> JobText:
    try:
        fields, warnings = _slurm_fields(script.text_of("script", data), name, surroundings)
    except SlurmError as error:
        return JobText(Format.SLURM, [], [], [_slurm_problem(str(error))])
    return JobText(Format.SLURM, [fields], [_AT_LINE.sub(r"line \1: ", text) for text in warnings], [])


def _slurm_problem(words: str) -> Problem:
    match = _AT_LINE.match(words)
    return Problem(words) if match is None else Problem(words[match.end() :], int(match[1]))


def _slurm_fields(text: str, name: str, surroundings: Surroundings) -> tuple[dict[str, Any], list[str]]:
    given, _ = gathered(script.directives("script", text), {}, ())
    _refuse_files(given)
    made = fitted(given, surroundings.around, surroundings.nodes)
    env = exporting.environment(given.get("export"), {}, dict)
    fields = batch_fields(made, given, text, (), env, surroundings.step_key)
    fields.setdefault("name", name or "script")
    if (chdir := given.get("chdir")) is not None:
        if not chdir.startswith(("/", "~/")):
            raise given.refuse(
                "chdir", f"must be a whole path: a pasted script has no directory; got {chdir}"
            )
        fields["cwd"] = _at_home(chdir, surroundings.home)
    return fields, made.warnings


def _refuse_files(given: Given) -> None:
    for option in _READS_A_FILE:
        if given.has(option):
            raise given.refuse(option, "names a file, which a pasted script does not have: write it out")
    for option in ("nodelist", "exclude"):
        if "/" in (given.get(option) or ""):
            raise given.refuse(option, "names a file, which a pasted script has not: write the nodes out")


def _of_script(text: str, name: str) -> JobText:
    first, *rest = script.interpreter(text) or [""]
    program = first.rpartition("/")[2]
    if program == "env" and rest:
        first, *rest = rest[0].split()
        program = first.rpartition("/")[2]
    option = "-c" if program in _SHELLS else _BY_TEXT.get(program)
    if option is None:
        known = ", ".join(sorted({*_SHELLS, *_BY_TEXT}))
        words = f"a pasted script can be run by {known}; write others to a file and run that: `command: …`"
        return JobText(Format.SCRIPT, [], [], [Problem(words, 1)])
    command = [first, *rest, option, text]
    return JobText(Format.SCRIPT, [{"command": command, "name": name or program}], [], [])
