"""Small texts that would take much memory or time, pasted as job files."""

from typing import Any

import pytest
import yaml

from tgpu.dialects import job_text
from tgpu.dialects.native.job_file import written_jobs
from tgpu.dialects.native.problems import JobFieldError
from tgpu.dialects.slurm.hosts import expanded
from tgpu.dialects.slurm.refusal import SlurmError
from tgpu.domain.quantities import BadQuantityError, milli


def test_common_keys_are_bounded_before_they_are_repeated_for_each_job() -> None:
    common = "".join(f"k{n}: 1\n" for n in range(1000))
    with pytest.raises(JobFieldError, match="1000 keys beside jobs"):
        written_jobs(common + "jobs: [" + "{}," * 1000 + "]\n")


def test_jobs_of_one_document_are_counted_before_they_are_built() -> None:
    with pytest.raises(JobFieldError, match="10001 jobs"):
        written_jobs("command: x\njobs: [" + "{}," * 10_001 + "]\n")


@pytest.mark.parametrize("hosts", ["n[0-9999][0-9999]", "n[" + ",".join(["0-60000"] * 20) + "]"])
def test_host_lists_are_bounded_before_they_are_expanded(hosts: str) -> None:
    with pytest.raises(SlurmError, match="may name at most"):
        expanded("--nodelist", hosts)


def test_text_with_many_problems_is_parsed_once_more_for_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed, compose = [], yaml.compose_all

    def counting(*arguments: Any, **named: Any) -> Any:
        parsed.append(1)
        return compose(*arguments, **named)

    monkeypatch.setattr(yaml, "compose_all", counting)
    manifest = "apiVersion: batch/v1\nkind: Job\nspec:\n" + "".join(f"  unknown{n}: 1\n" for n in range(400))
    found = job_text._of_yaml(manifest, "/home/ann")
    assert 0 < len(found.problems) <= 50
    assert len(parsed) == 1


def test_number_with_a_huge_exponent_is_refused() -> None:
    with pytest.raises(BadQuantityError, match="too large"):
        milli("cpus", "1e9999999", 10**9)
