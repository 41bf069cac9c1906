"""Settings: flag over variable over file, and clear words for what cannot be meant."""

from pathlib import Path

import pytest

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
    assert load({"HOME": str(tmp_path)}).home == tmp_path / ".local/share/tgpu"
    assert load({"HOME": "/x", "XDG_DATA_HOME": str(tmp_path)}).home == tmp_path / "tgpu"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("colour = 1", "unknown setting 'colour'"),
        ("policy = 'best'", "policy must be one of priority, fifo"),
        ("simulate_gpus = 'many'", "simulate_gpus must be a number"),
        ("simulate_gpus = -1", "between 0 and 1024"),
        ("others_may = ['kill']", "others_may takes"),
        ("admins = 'ann'\nadmins = 'bob'", "not valid TOML"),
        ("heartbeat_s = 0", "heartbeat_s must be more than 0"),
        ("admins = 3", "must be a list of strings"),
    ],
)
def test_a_bad_file_is_refused_by_name(tmp_path: Path, text: str, says: str) -> None:
    (tmp_path / "tgpu.toml").write_text(text)
    with pytest.raises(SettingsError, match=says):
        load({"TGPU_HOME": str(tmp_path)})


def test_a_config_that_does_not_exist_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="not a file"):
        load({"TGPU_HOME": str(tmp_path), "TGPU_CONFIG": str(tmp_path / "none.toml")})


def test_a_socket_path_longer_than_linux_allows_is_refused_with_advice(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="shorter directory"):
        load({"TGPU_HOME": str(tmp_path / ("x" * 120))})


def test_every_setting_says_what_it_means() -> None:
    for item in KEYS:
        assert len(item.metadata["doc"]) > 20, item.name
