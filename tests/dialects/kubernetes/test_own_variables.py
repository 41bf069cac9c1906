"""Variables that a task gets of tgpu in any case: a manifest is not taken that says otherwise."""

import pytest

from tests.agent.test_environment import launch
from tests.dialects.kubernetes.manifest_story import fields, refusal
from tgpu.agent.environment import task_variables
from tgpu.dialects.kubernetes.own_variables import OWN
from tgpu.domain.index_set import parse_indices
from tgpu.domain.series import Series
from tgpu.runner import checkpoint_folder
from tgpu.runner.docker import gpus

C = "spec.template.spec.containers[0]"
ONE_GPU = {"limits": {"nvidia.com/gpu": 1}}
INDEXED = {"spec__completions": 2, "spec__completionMode": "Indexed"}
OF_INDEX = {"fieldRef": {"fieldPath": "metadata.annotations['batch.kubernetes.io/job-completion-index']"}}


def test_they_are_all_that_a_task_finds() -> None:
    of_series = Series(parse_indices("array", "0-3")).variables(0)
    of_folder = checkpoint_folder.variables("/x")
    assert {*task_variables(launch()), *of_series, *of_folder, *gpus.variables(())} == OWN


@pytest.mark.parametrize(
    ("name", "value", "changes"),
    [
        ("CUDA_VISIBLE_DEVICES", "7", {"c__resources": ONE_GPU}),
        ("CUDA_VISIBLE_DEVICES", "", {"c__resources": ONE_GPU}),
        ("CUDA_VISIBLE_DEVICES", "0", {}),
        ("NVIDIA_VISIBLE_DEVICES", "all", {}),
        ("JOB_COMPLETION_INDEX", "99", INDEXED),
        ("TGPU_JOB_ID", "x", {}),
    ],
)
def test_another_value_is_refused_by_its_path(name: str, value: str, changes: dict[str, object]) -> None:
    said = f"{C}.env[0].name cannot be {name} here: tgpu sets that itself in every task; leave it out"
    assert refusal(c__env=[{"name": name, "value": value}], **changes) == said
    secret = {"secretKeyRef": {"name": "a", "key": "b"}}
    assert refusal(c__env=[{"name": name, "valueFrom": secret}], **changes) == said


@pytest.mark.parametrize(
    ("name", "value", "changes"),
    [
        ("CUDA_DEVICE_ORDER", "PCI_BUS_ID", {}),
        ("CUDA_VISIBLE_DEVICES", "", {}),
        ("NVIDIA_VISIBLE_DEVICES", "void", {}),
        ("NVIDIA_VISIBLE_DEVICES", "all", {"c__resources": ONE_GPU}),
        ("NVIDIA_VISIBLE_DEVICES", "all", {"c__image": "", "c__command": ["true"]}),
        ("TGPU_SERVER", "https://elsewhere:7480", {}),
    ],
)
def test_what_holds_anyway_is_let_pass(name: str, value: str, changes: dict[str, object]) -> None:
    assert fields(c__env=[{"name": name, "value": value}], **changes)["env"] == {name: value}


def test_the_index_may_be_asked_for_under_its_own_name() -> None:
    asked = [{"name": "JOB_COMPLETION_INDEX", "valueFrom": OF_INDEX}]
    assert not refusal(c__env=asked, **INDEXED).startswith(C)
