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


LONG = "9" * 5000
"""More digits than Python reads as a number."""
SURROUNDINGS: Any = job_text.Surroundings(None, list, "/home/ann", "")  # type: ignore[arg-type]  # scripts alone use it


@pytest.mark.parametrize(
    "key", ["priority", "tasks", "nodes", "time", "grace", "retries", "completions", "ttl_after_finished"]
)
def test_number_of_thousands_of_digits_is_a_problem_of_its_key(key: str) -> None:
    found = job_text.read(f"command: x\n{key}: '{LONG}'\n", "", SURROUNDINGS)
    ((problem),) = found.problems
    assert (problem.line, problem.path) == (2, key)
    assert len(problem.text) < 4000


@pytest.mark.parametrize("begin", ["0001-01-02", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59:59-14:00"])
def test_begin_time_at_the_edge_of_the_calendar_is_read_or_refused(begin: str) -> None:
    found = job_text.read(f"command: x\nbegin: {begin}\n", "", SURROUNDINGS)
    assert [job["begin_at"] for job in found.jobs] in ([], ["0001-01-02T00:00:00Z"])
    assert len(found.jobs) + len(found.problems) == 1


def test_problem_in_json_that_is_indented_with_tabs_has_its_line() -> None:
    (problem,) = job_text.read('{\n\t"command": "x",\n\t"nonsense": 1\n}', "", SURROUNDINGS).problems
    assert (problem.line, problem.path) == (3, "nonsense")


def test_problem_in_a_later_document_has_its_line() -> None:
    (problem,) = job_text.read("command: x\n---\n\njobs: []\n", "", SURROUNDINGS).problems
    assert problem.line == 4


def test_numbers_in_an_environment_stay_as_they_were_written() -> None:
    written = {"RATE": "0.00001", "LONG": "123456789.123456789", "HUGE": "1" * 400 + ".5", "HALF": "0.5"}
    text = "command: x\nenv:\n  true: 1\n" + "".join(f"  {name}: {each}\n" for name, each in written.items())
    (job,) = job_text.read(text, "", SURROUNDINGS).jobs
    assert job["env"] == {"true": "1", **written}


def test_text_of_a_problem_does_not_repeat_all_that_was_given() -> None:
    text = f"name: [{', '.join(['x' * 90] * 2000)}]\njobs: [" + "{command: x}," * 60 + "]\n"
    problems = job_text.read(text, "", SURROUNDINGS).problems
    assert len(problems) == 50
    assert max(len(each.text) for each in problems) < 4000
