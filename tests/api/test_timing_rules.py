"""How long a job may wait that does not say so itself."""

from pathlib import Path

import pytest

from tgpu.api.timing_rules import with_wait_of_pool
from tgpu.config.settings import Settings, SettingsError, load
from tgpu.domain.job import Group, JobSpec, Request

FILE = 'max_wait = "1h"\n[pools.interactive]\nmax_wait = "15s"\n[pools.patient]\nmax_wait = ""\n'


def settings(tmp_path: Path, text: str) -> Settings:
    (tmp_path / "tgpu.toml").write_text(text)
    return load({"TGPU_HOME": str(tmp_path)})


@pytest.mark.parametrize(
    ("pool", "own_s", "expected_s"),
    [(None, None, 3600), ("interactive", None, 15), ("interactive", 40, 40), ("patient", None, None)],
)
def test_the_pool_says_it_or_the_setting_for_all(
    tmp_path: Path, pool: str | None, own_s: int | None, expected_s: int | None
) -> None:
    spec = JobSpec("ann", (Group("true", Request(pool=pool)),), max_wait_s=own_s)
    assert with_wait_of_pool(spec, settings(tmp_path, FILE)).max_wait_s == expected_s
    if own_s is None:
        assert with_wait_of_pool(spec, settings(tmp_path, "")).max_wait_s is None


def test_of_several_groups_the_most_impatient_pool_says_it_whichever_comes_first(tmp_path: Path) -> None:
    head, worker = (Group("true", Request(pool=pool)) for pool in ("patient", "interactive"))
    for groups in ((head, worker), (worker, head)):
        spec = JobSpec("ann", groups)
        assert with_wait_of_pool(spec, settings(tmp_path, FILE)).max_wait_s == 15
    assert with_wait_of_pool(JobSpec("ann", (head, head)), settings(tmp_path, FILE)).max_wait_s is None


def test_a_wait_that_is_no_time_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"pools.fast.max_wait"):
        settings(tmp_path, '[pools.fast]\nmax_wait = "soon"\n')
