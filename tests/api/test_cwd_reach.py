"""A job's directory decides where it may run: anywhere if it is shared, else where it was submitted."""

from dataclasses import replace
from pathlib import Path

import pytest

from tgpu.api.cwd_reach import CwdReach, kept_on
from tgpu.api.problems import ProblemError
from tgpu.config.settings import Settings, SettingsError, load
from tgpu.domain.container import Container
from tgpu.domain.job import Group, JobSpec, Request

ONE_MACHINE = Settings(home=Path("/h"), shared_paths=("/data",))
CLUSTER = replace(ONE_MACHINE, store="postgresql://db/x")
SPEC = JobSpec(
    name="j",
    user="ada",
    tenant_id="default",
    groups=(Group(["true"], Request(1, 1, 0, 0, node_selector=(("zone", "a"),)), cwd="/home/ada"),),
)


@pytest.mark.parametrize(
    ("settings", "cwd", "said", "local", "host"),
    [
        (ONE_MACHINE, "/home/ada", "login1", True, None),
        (CLUSTER, "/data", None, True, None),
        (CLUSTER, "/data/run", "login1", True, None),
        (CLUSTER, "/database", "login1", True, "login1"),
        (CLUSTER, "/home/ada", "login1", False, "login1"),
        (CLUSTER, "/home/ada", None, True, "me"),
        (CLUSTER, "/home/ada", None, False, None),
        (replace(CLUSTER, shared_paths=("/",)), "/home/ada", "login1", True, None),
    ],
)
def test_where_a_directory_is(
    settings: Settings, cwd: str, said: str | None, local: bool, host: str | None
) -> None:
    assert CwdReach(settings, "me").only_host(cwd, said, local_caller=local) == host


def test_a_server_looks_only_where_it_could_see_it() -> None:
    assert CwdReach(ONE_MACHINE, "me").can_be_checked(None)
    assert CwdReach(CLUSTER, "me").can_be_checked("me")
    assert not CwdReach(CLUSTER, "me").can_be_checked("login1")
    assert not CwdReach(CLUSTER, "me").can_be_checked(None)


def test_a_job_that_is_kept_on_a_host_keeps_what_else_it_asked_for_and_can_say_why() -> None:
    kept = kept_on(SPEC, 0, "login1")
    assert kept.groups[0].request.node_selector == (("tgpu/host", "login1"), ("zone", "a"))
    assert "/home/ada is only on login1" in CwdReach(CLUSTER).remark(kept)
    assert CwdReach(CLUSTER).remark(SPEC) == ""


def test_a_host_that_was_asked_for_is_not_told_as_that_of_the_directory() -> None:
    asked = kept_on(SPEC, 0, "node7")
    assert CwdReach(ONE_MACHINE).remark(asked) == ""
    assert CwdReach(replace(CLUSTER, shared_paths=("/home",))).remark(asked) == ""
    boxed = replace(asked, groups=(replace(asked.groups[0], cwd="/", container=Container("tools:1")),))
    assert CwdReach(CLUSTER).remark(boxed) == ""


def test_a_host_that_was_asked_for_is_never_left_out_for_that_of_the_directory() -> None:
    asked = kept_on(SPEC, 0, "node7")
    assert kept_on(asked, 0, "node7") == asked
    with pytest.raises(
        ProblemError,
        match="node_selector wants the host node7, and its directory /home/ada is only on login1, ",
    ):
        kept_on(asked, 0, "login1")


def test_shared_paths_are_absolute() -> None:
    with pytest.raises(SettingsError, match="shared_paths must be absolute, such as /home; got 'data'"):
        load({"TGPU_HOME": "/h", "TGPU_SHARED_PATHS": "/home,data"})
