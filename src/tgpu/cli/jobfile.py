"""Jobs from a YAML file, one per document; a file from elsewhere can neither run code nor fill the memory."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

from tgpu.cli.exits import UsageError
from tgpu.cli.fields import job_fields

if TYPE_CHECKING:
    from typing import Any

_MOST_BYTES = 1 << 20
_MOST_DOCUMENTS = 10_000


class _StrictLoader(yaml.SafeLoader):
    """Safe tags only, no aliases (a few lines of them can unfold to gigabytes), no key twice."""

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            event = self.peek_event()  # type: ignore[no-untyped-call]
            raise yaml.MarkedYAMLError(None, None, "aliases (*name) are not allowed here", event.start_mark)
        return super().compose_node(parent, index)

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if key.value in seen:
                raise yaml.MarkedYAMLError(None, None, f"key {key.value!r} is given twice", key.start_mark)
            seen.add(str(key.value))
        return super().construct_mapping(node, deep=deep)


def read(path: str) -> list[dict[str, Any]]:
    """The API's fields of each job in the file; `-` is standard input."""
    text = _text(path)
    try:
        # _StrictLoader is a SafeLoader: it builds nothing but plain data.
        documents = list(yaml.load_all(text, Loader=_StrictLoader))
    except yaml.YAMLError as error:
        raise UsageError(f"{path} is not a job file: {_one_line(error)}") from None
    except RecursionError:
        raise UsageError(f"{path} is not a job file: it is nested too deeply") from None
    except ValueError as error:  # such as a number of thousands of digits
        raise UsageError(f"{path} is not a job file: {error}") from None
    jobs = [document for document in documents if document is not None]
    if not jobs or len(jobs) > _MOST_DOCUMENTS:
        raise UsageError(f"{path} holds {len(jobs)} jobs; 1 to {_MOST_DOCUMENTS} are possible")
    return [_job(path, at, job, alone=len(jobs) == 1) for at, job in enumerate(jobs, start=1)]


def _job(path: str, at: int, job: object, *, alone: bool) -> dict[str, Any]:
    where = f"{path}: " if alone else f"{path}, job {at}: "
    if not isinstance(job, dict) or not all(isinstance(key, str) for key in job):
        raise UsageError(f"{where}a job is written as `key: value` lines, such as `command: python train.py`")
    return job_fields({key: value for key, value in job.items() if value is not None}, where)


def _text(path: str) -> str:
    try:
        if path == "-":
            data = sys.stdin.buffer.read(_MOST_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(_MOST_BYTES + 1)
        if len(data) > _MOST_BYTES:
            raise UsageError(f"{path} is larger than {_MOST_BYTES >> 20} MiB, the most a job file may have")
        return data.decode("utf-8")
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text") from None


def _one_line(error: yaml.YAMLError) -> str:
    mark = getattr(error, "problem_mark", None)
    problem = getattr(error, "problem", None) or str(error)
    return f"{problem} (line {mark.line + 1})" if mark else problem
