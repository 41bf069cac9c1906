"""A key names its attempt, and only who has the secret can have made it."""

import pytest

from tgpu.domain.ids import AttemptId
from tgpu.protocol.job_keys import JobKeys

KEYS = JobKeys(b"secret")
OWN = KEYS.of("42.7.1")


def test_a_key_leads_back_to_its_attempt() -> None:
    assert KEYS.attempt_of(OWN) == AttemptId(42, 7, 1)
    assert JobKeys(b"secret").of("42.7.1") == OWN, "every server makes the same"


@pytest.mark.parametrize(
    "made_up",
    [
        OWN.replace("42.7.1", "42.7.2"),
        OWN.replace("42.7.1", "43.7.1"),
        OWN.replace("42.7.1", "042.7.1"),
        OWN[:-1] + ("0" if OWN[-1] != "0" else "1"),
        OWN[:-1],
        OWN + "0",
        OWN.upper(),
        OWN.removeprefix("tgpu-job."),
        JobKeys(b"other").of("42.7.1"),
        "tgpu-job.42.7.1.",
        "tgpu-job.42.7.1",
        "tgpu-job.",
        "tgpu-job.é.é",
        "",
    ],
)
def test_what_was_made_up_leads_nowhere(made_up: str) -> None:
    assert KEYS.attempt_of(made_up) is None
