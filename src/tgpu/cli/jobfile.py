"""Jobs from YAML files, one per document or several: in tgpu's own form, or as Kubernetes has them."""

from __future__ import annotations

import os.path
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tgpu.cli.exits import UsageError
from tgpu.cli.screen import note
from tgpu.dialects.kubernetes.problems import ManifestError
from tgpu.dialects.native import strict_yaml
from tgpu.dialects.native.job_file import MOST_BYTES, WrittenJob, fields_of, written_jobs
from tgpu.dialects.native.output_file_fields import expanded
from tgpu.dialects.native.problems import JobFieldError
from tgpu.dialects.native.several_jobs import MOST_JOBS

if TYPE_CHECKING:
    from typing import Any


def read(paths: list[str]) -> list[dict[str, Any]]:
    """The API's fields of each job in the files; `-` is standard input."""
    jobs = [job for path in paths for job in _of_file(path)]
    if len(jobs) > MOST_JOBS:
        raise UsageError(f"{', '.join(paths)} hold {len(jobs)} jobs; {MOST_JOBS} are possible at once")
    return jobs


def _of_file(path: str) -> list[dict[str, Any]]:
    text = _text(path)
    try:
        jobs = written_jobs(text)
    except strict_yaml.BadYamlError as error:
        raise UsageError(f"{path} is not a job file: {error}") from None
    except JobFieldError as error:
        raise UsageError(f"{path}: {error}") from None
    if not jobs or len(jobs) > MOST_JOBS:
        raise UsageError(f"{path} holds {len(jobs)} jobs; 1 to {MOST_JOBS} are possible")
    alone = len(jobs) == 1
    return [_fields(job, f"{path}: " if alone else f"{path}, job {at}: ") for at, job in enumerate(jobs, 1)]


def _fields(job: WrittenJob, where: str) -> dict[str, Any]:
    try:
        fields, warnings = fields_of(job)
    except (JobFieldError, ManifestError) as error:
        raise UsageError(f"{where}{error}") from None
    for text in warnings:
        note(f"{where}{text}")
    return fields if job.is_manifest else expanded(fields, os.path.expanduser)


def _text(path: str) -> str:
    try:
        if path == "-":
            data = sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(path).open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise UsageError(f"{path} is larger than {MOST_BYTES >> 20} MiB, the most a job file may have")
        return data.decode("utf-8")
    except IsADirectoryError:
        raise UsageError(f"{path} is a folder: name its files, each with -f") from None
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise UsageError(f"{path} is not UTF-8 text") from None
