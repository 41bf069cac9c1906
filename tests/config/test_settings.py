"""Settings: flag over variable over file, and clear words for what cannot be meant."""

from pathlib import Path

import pytest

from tgpu.config.pools import PoolSettings
from tgpu.config.settings import KEYS, SettingsError, load


def test_a_flag_wins_over_a_variable_and_a_variable_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "tgpu.toml").write_text(
        'policy = "fifo"\nnode_cpus = 4\nsimulate_gpus = 2\nadmins = ["ann"]\n'
    )
    environ = {"TGPU_HOME": str(tmp_path), "TGPU_NODE_CPUS": "8", "TGPU_SIMULATE_GPUS": "3"}
    settings = load(environ, {"simulate_gpus": 4, "node_name": None})
    assert (settings.policy, settings.node_cpus, settings.simulate_gpus) == ("fifo", 8.0, 4)
    assert settings.admins == ("ann",)
    assert settings.home == tmp_path


def test_the_home_is_below_the_users_data_unless_said(tmp_path: Path) -> None:
    assert load({"TGPU_HOME": str(tmp_path)}).home == tmp_path


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("colour = 1", "unknown setting 'colour'"),
        ("preemption = 'sometimes'", "preemption must be one of on, off"),
        ("default_limit = 'long'", "default_limit must be a duration such as 90s"),
        ("default_limit = '0s'", "default_limit must be at least 1s; got 0s"),
        ("max_grace = '25h'", "max_grace may be at most 24h; got 25h"),
        ("max_grace = 'long'", "max_grace must be a duration such as 90s"),
        ("aging_step = 0", "aging_step must be at least 1s"),
        ("fair_half_life = '0'", "fair_half_life must be at least 1s"),
        ("reserve = 1001", "reserve may be at most 1000; got 1001"),
        ("reserve = 1.5", "reserve must be a whole number; got 1.5"),
        ("reserve = inf", "reserve must be a number; got inf"),
        ("reserve = -1", "reserve must not be negative"),
        ("aging_most = -1", "aging_most must not be negative"),
        ("cpu_overcommit = 0.9", "cpu_overcommit must be at least 1; got 0.9"),
        ("cpu_overcommit = 100.1", "cpu_overcommit may be at most 100"),
        ("memory_overcommit = 1.2345", "memory_overcommit may have at most 3 decimals"),
        ("memory_overcommit = nan", "memory_overcommit must be a finite number"),
        ("cluster_generic = ['licence']", "cluster_generic must be given as licence=4; got 'licence'"),
        ("node_generic = ['licence=none']", "node_generic licence must be a number"),
        ("node_taints = ['*']", "node_taints must be given as key or key=value"),
        ("node_labels = ['zone']", "node_labels must be given as zone=a"),
        ("node_pool = ''", "node_pool must be 1 to 253 printable characters"),
        ("pools = 3", "tgpu.toml: pools must be written as tables, such as"),
        ("[pools]\na = 3", "tgpu.toml: pools must be written as tables"),
        ("[pools.a]\nspeed = 3", "tgpu.toml: pools.a: unknown key 'speed'; a pool has policy, scorer"),
        ("[pools.a]\nreserve = 'x'", "tgpu.toml: pools.a.reserve must be a number"),
        ("[pools.a]\nreserve = 1001", "tgpu.toml: pools.a.reserve may be at most 1000"),
        ("[pools.a]\ndefault_limit = 'x'", "tgpu.toml: pools.a.default_limit must be a duration"),
        ("[pools.'']\nreserve = 1", "tgpu.toml: pools. must be 1 to 253 printable characters"),
        ("simulate_gpus = 'many'", "simulate_gpus must be a number"),
        ("simulate_gpus = -1", "between 0 and 1024"),
        ("others_may = ['kill']", "others_may takes"),
        ("user_classes = ['urgent']", "user_classes takes at least one of real-time, high"),
        ("user_classes = []", "user_classes takes at least one of"),
        ("admins = 'ann'\nadmins = 'bob'", "not valid TOML"),
        ("heartbeat_s = 0", "heartbeat_s must be more than 0"),
        ("private_tmp = 'on'", "private_tmp must be one of auto, off; got 'on'"),
        ("pin_cpus = 'on'", "pin_cpus must be one of auto, off; got 'on'"),
        ("task_pids = -1", "task_pids must not be negative"),
        ("sample_s = 0.5", "sample_s must be between 1 and 3600 seconds; got 0.5"),
        ("sample_s = nan", "sample_s must be between 1 and 3600 seconds; got nan"),
        ("task_pids = 9999999", "task_pids may be at most 4194304"),
        ("memory_reserve = 'much'", "memory_reserve must be"),
        ("tls = 'on'", "tls must be one of off, auto"),
        (
            "tls_cert = '/c.pem'",
            'tls_cert and tls_key belong together: set both, or neither and tls = "auto"',
        ),
        ("admins = 3", r'admins must be a list of strings, such as \["a", "b"\]; got 3'),
        ("admins = [1, true]", r"admins must be a list of strings, .* got \[1, true\]"),
        ("preemption = false", 'tgpu.toml: preemption must be "on" or "off", in quotes; got false'),
        ("policy = true", "tgpu.toml: policy must be a string in quotes; got true"),
        ("reserve = true", "tgpu.toml: reserve must be a number; got true"),
        ("on_gpu_failure = 'wait'", "on_gpu_failure must be one of requeue, keep, fail; got 'wait'"),
        ("foreign_gpu_use = 'kill'", "foreign_gpu_use must be one of avoid, share, ignore; got 'kill'"),
        ("foreign_gpu_floor = 'much'", "foreign_gpu_floor must be a"),
        ("gpu_recovery = 'soon'", "gpu_recovery must be a duration such as 90s"),
        ("gpu_too_hot = -1", "gpu_too_hot must not be negative"),
        ("gpu_ecc_errors = 0.5", "gpu_ecc_errors must be a whole number; got 0.5"),
        ("[listen]\nport = 3", "tgpu.toml: listen must be a string in quotes; got a table"),
        (
            "node_generic = ['a=1', 'lic=2']\ncluster_generic = ['lic=4']",
            "node_generic and cluster_generic both name 'lic': it is either",
        ),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "tgpu.toml").write_text(text)
    with pytest.raises(SettingsError, match=says):
        load({"TGPU_HOME": str(tmp_path)})


def test_pools_have_settings_of_their_own_from_the_file_alone(tmp_path: Path) -> None:
    (tmp_path / "tgpu.toml").write_text("reserve = 2\n[pools.a]\ncpu_overcommit = 2\n[pools.b]\n")
    settings = load({"TGPU_HOME": str(tmp_path), "TGPU_POOLS": "x"})
    assert settings.reserve == 2
    assert settings.pools == (PoolSettings(name="a", cpu_overcommit=2.0), PoolSettings(name="b"))


def test_lists_are_read_from_variables_too(tmp_path: Path) -> None:
    environ = {
        "TGPU_HOME": str(tmp_path),
        "TGPU_NODE_TAINTS": "spot, team=vision",
        "TGPU_NODE_GENERIC": "licence=2",
    }
    settings = load(environ)
    assert (settings.node_taints, settings.node_generic) == (("spot", "team=vision"), ("licence=2",))


def test_a_config_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="not a file"):
        load({"TGPU_HOME": str(tmp_path), "TGPU_CONFIG": str(tmp_path / "none.toml")})


def test_a_socket_path_longer_than_linux_allows_is_refused_with_advice(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="shorter directory"):
        load({"TGPU_HOME": str(tmp_path / ("x" * 120))})


def test_every_setting_says_what_it_means() -> None:
    for item in KEYS:
        assert len(item.metadata["doc"]) > 20, item.name


def test_the_port_speaks_tls_by_one_setting_or_by_two_files(tmp_path: Path) -> None:
    home = {"TGPU_HOME": str(tmp_path)}
    assert not load(home).encrypted
    assert load({**home, "TGPU_TLS": "auto"}).encrypted
    assert load({**home, "TGPU_TLS_CERT": "/c.pem", "TGPU_TLS_KEY": "/k.pem"}).encrypted


def test_an_agent_s_servers_are_read_from_a_variable(tmp_path: Path) -> None:
    environ = {"TGPU_HOME": str(tmp_path), "TGPU_NODE_SERVERS": "https://a:7480, https://b:7480"}
    assert load(environ).node_servers == ("https://a:7480", "https://b:7480")
