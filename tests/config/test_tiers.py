from pathlib import Path

import pytest

from tgpu.config.described import described
from tgpu.config.settings import Settings, SettingsError, load
from tgpu.config.tiers import TierSettings
from tgpu.domain.priority import PriorityClass


def loaded(tmp_path: Path, text: str) -> Settings:
    (tmp_path / "tgpu.toml").write_text(text)
    return load({"TGPU_HOME": str(tmp_path)})


def test_tiers_are_read_from_their_tables(tmp_path: Path) -> None:
    settings = loaded(
        tmp_path,
        '[tiers.gold]\ndefault_class = "high"\nclasses = ["high", "low"]\nmax_time_limit = "2d"\n'
        '[tiers.guest]\ndefault_time_limit = "1h"\n',
    )
    assert settings.tiers == (
        TierSettings(
            name="gold",
            default_class=PriorityClass.HIGH,
            classes=(PriorityClass.HIGH, PriorityClass.LOW),
            max_time_limit_s=172800,
        ),
        TierSettings(name="guest", default_time_limit_s=3600),
    )
    (row,) = [row for row in described(settings, {}) if row.name == "tiers.guest"]
    assert row.value == {"default_time_limit_s": 3600}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("tiers = 3", "tiers must be written as tables"),
        ("[tiers.gold]\nweight = 3", "unknown key 'weight'"),
        ('[tiers.gold]\nclasses = ["urgent"]', "must be of real-time"),
        ("[tiers.gold]\nclasses = []", "must be a list of classes"),
        ('[tiers.gold]\nclasses = ["low"]\ndefault_class = "high"', "must be one of its classes"),
        ('[tiers.gold]\nmax_time_limit = "0s"', "must be at least 1s"),
        ('[tiers.gold]\nmax_time_limit = "soon"', "must be a duration"),
        ('tenant_rules = ["lab"]', "tenant_rules must be rules such as"),
        ('others_see = "everything"', "others_see must be one of outline, nothing"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=sentence):
        loaded(tmp_path, text)
