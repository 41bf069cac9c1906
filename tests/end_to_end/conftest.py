"""A whole tgpu per test, or one for all tests that leave it as it was."""

from collections.abc import Iterator

import pytest

from tests.end_to_end.whole_tgpu import Installation, an_installation


@pytest.fixture
def installation() -> Iterator[Installation]:
    with an_installation() as one:
        yield one


@pytest.fixture
def up(installation: Installation) -> Installation:
    installation.up()
    return installation


@pytest.fixture(scope="session")
def one_for_all() -> Iterator[Installation]:
    with an_installation() as one:
        one.up()
        yield one


@pytest.fixture
def shared(one_for_all: Installation) -> Iterator[Installation]:
    """For a test that stops nothing and changes nobody's terms. Nothing runs or waits before and after it."""
    yield one_for_all
    with one_for_all.client() as client:
        live = [job["job_id"] for job in client.jobs(status="pending,scheduled,running,preempted")]
        if live:
            client.cancel_many(live, now=True)
            client.wait(live, timeout=30)
