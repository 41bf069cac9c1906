"""Settings become a policy, and plug-ins add to it."""

import json
import sys
from pathlib import Path

import pytest

from tgpu.config.settings import Settings, load
from tgpu.core.policy import OnGpuFailure, Policy, PoolPolicy, UnknownPolicyError
from tgpu.wiring.policy_of_settings import policy_of

POINTS = """
[tgpu.orders]
shortest = shortest_first:order
drf = shortest_first:order
broken = no_such_module:order
[tgpu.scorers]
coolest = shortest_first:score
number = shortest_first:NUMBER
[tgpu.rules]
weekend = shortest_first:weekend
"""
MODULE = """
NUMBER = 3
def order(task, now_ms): return (task.time_limit_s or 0,)
def score(request, node, left): return 0.0
def weekend(request, node): return None
"""


def settings(tmp_path: Path, text: str = "") -> Settings:
    (tmp_path / "tgpu.toml").write_text(text)
    return load({"TGPU_HOME": str(tmp_path)})


@pytest.fixture
def plug_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package as pip would have installed it."""
    site = tmp_path / "site"
    (site / "shortest_first-1.dist-info").mkdir(parents=True)
    (site / "shortest_first-1.dist-info" / "METADATA").write_text("Name: shortest-first\nVersion: 1\n")
    (site / "shortest_first-1.dist-info" / "entry_points.txt").write_text(POINTS)
    (site / "shortest_first.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(site))
    monkeypatch.delitem(sys.modules, "shortest_first", raising=False)


def test_the_default_settings_are_the_default_policy(tmp_path: Path) -> None:
    assert policy_of(settings(tmp_path)) == Policy()


def test_every_setting_reaches_the_policy(tmp_path: Path) -> None:
    text = """
policy = "fair-tree"
scorer = "spread"
default_limit = "2h"
reserve = 3
aging_step = "30m"
aging_most = 5
preemption = "off"
min_run = "5m"
preemption_backoff = "1m"
fair_half_life = "1d"
cpu_overcommit = 1.5
memory_overcommit = 1.1
cluster_generic = ["licence=4"]
on_gpu_failure = "keep"
[pools.batch]
policy = "fifo"
reserve = 0
memory_overcommit = 2
[pools.rest]
"""
    default = PoolPolicy("fair-tree", "spread", 1500, 1100, 7200, 3)
    assert policy_of(settings(tmp_path, text)) == Policy(
        default=default,
        pools={"batch": PoolPolicy("fifo", "spread", 1500, 2000, 7200, 0), "rest": default},
        aging_step_s=1800,
        aging_most=5,
        preemption=False,
        min_run_s=300,
        backoff_s=60,
        half_life_s=86400,
        cluster_generic={"licence": 4},
        on_gpu_failure=OnGpuFailure.KEEP,
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("policy = 'best'", "there is no policy 'best'; take one of drf, fair-tree, priority, fifo"),
        ("scorer = 'best'", "there is no scorer 'best'; take one of tightest, spread, fragmentation"),
        (
            "[pools.a]\npolicy = 'lifo'",
            "tgpu.toml: pools.a.policy: there is no policy 'lifo'; take one of drf, fair-tree, priority",
        ),
        ("[pools.a]\nscorer = 'best'", "tgpu.toml: pools.a.scorer: there is no scorer 'best'; take one of"),
    ],
)
def test_a_policy_that_is_nowhere_is_refused_with_those_there_are(
    tmp_path: Path, text: str, says: str
) -> None:
    with pytest.raises(UnknownPolicyError) as error:
        policy_of(settings(tmp_path, text))
    assert says in str(error.value)


@pytest.mark.usefixtures("plug_in")
def test_a_plug_in_s_names_can_be_chosen(tmp_path: Path) -> None:
    policy = policy_of(settings(tmp_path, "policy = 'shortest'\n[pools.a]\nscorer = 'coolest'"))
    assert (policy.default.order, policy.pools["a"].scorer) == ("shortest", "coolest")
    assert (list(policy.outside_orders), list(policy.outside_scorers)) == (["shortest"], ["coolest"])
    assert list(policy.outside_rules) == ["weekend"]
    assert policy.outside_scorers["coolest"].__module__ == "shortest_first"


@pytest.mark.usefixtures("plug_in")
@pytest.mark.parametrize(
    ("text", "says"),
    [("policy = 'broken'", "there is no policy 'broken'"), ("scorer = 'number'", "there is no scorer 'num")],
)
def test_a_plug_in_that_cannot_be_used_is_left_out(tmp_path: Path, text: str, says: str) -> None:
    with pytest.raises(UnknownPolicyError, match=says):
        policy_of(settings(tmp_path, text))


@pytest.mark.usefixtures("plug_in")
def test_what_is_left_out_is_told_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[dict[str, object]] = []

    class Log:
        def error(self, event: str, **about: object) -> None:
            told.append({"event": event, **about})

    monkeypatch.setattr("tgpu.wiring.policy_of_settings.logger", lambda _part: Log())
    policy_of(settings(tmp_path))
    assert {(line["name"], line["event"]) for line in told} == {
        ("broken", "left out: it cannot be imported"),
        ("drf", "left out: its name is taken"),
        ("number", "left out: it cannot be called"),
    }
    assert "No module named 'no_such_module'" in json.dumps(told)
