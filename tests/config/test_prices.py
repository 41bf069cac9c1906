"""What things cost, as it is written in the file."""

from pathlib import Path

import pytest

from tgpu.config.described import described
from tgpu.config.prices import Prices
from tgpu.config.settings import Settings, SettingsError, load


def loaded(home: Path, text: str) -> Settings:
    (home / "tgpu.toml").write_text(text, encoding="utf-8")
    return load({"TGPU_HOME": str(home)})


def test_the_longest_part_of_a_model_s_name_that_fits_has_the_price(tmp_path: Path) -> None:
    prices = loaded(
        tmp_path,
        '[prices]\ngpu = 1.5\ncpu = 0.02\nmemory_gb = 0.005\ncurrency = "EUR"\n'
        '[prices.models]\nA100 = 2.5\n"A100 80GB" = 3\n',
    ).prices
    assert prices == Prices(
        gpu=1_500_000,
        cpu=20_000,
        memory_gb=5000,
        models=(("a100", 2_500_000), ("a100 80gb", 3_000_000)),
        currency="EUR",
    )
    assert [prices.of_model(name) for name in ("NVIDIA A100", "NVIDIA A100 80GB PCIe", "T4", "")] == [
        2_500_000,
        3_000_000,
        1_500_000,
        1_500_000,
    ]


def test_without_prices_nothing_costs_anything(tmp_path: Path) -> None:
    settings = loaded(tmp_path, "")
    assert not settings.prices
    assert "prices" not in {row.name for row in described(settings, {})}


def test_prices_are_shown_among_the_settings(tmp_path: Path) -> None:
    rows = {
        row.name: row.value
        for row in described(loaded(tmp_path, "[prices]\ngpu = 2\nmodels = {T4 = 0.5}"), {})
    }
    assert rows["prices"] == {"gpu": 2.0, "models.t4": 0.5}


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("prices = 3", "prices must be written as a table, [prices]"),
        ("[prices]\ngpu = -1", "prices.gpu must be a price per hour, from 0 to 1000000; got -1"),
        ("[prices]\ngpu = true", "prices.gpu must be a price per hour"),
        ("[prices]\ntpu = 1", "unknown key 'tpu'; it takes gpu, cpu, memory_gb, currency"),
        ("[prices]\nmodels = 2", "prices.models must be a table"),
        ("[prices]\ncurrency = 7", "prices.currency must be a short word in quotes"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, text: str, sentence: str) -> None:
    with pytest.raises(SettingsError, match=r"tgpu\.toml") as refused:
        loaded(tmp_path, text)
    assert sentence in str(refused.value)
