"""What things cost by the hour, from the file's table `[prices]`: reports show what use comes to."""

from collections.abc import Mapping
from dataclasses import dataclass

from tgpu.domain.quantities import BadQuantityError

MILLION = 1_000_000
_MOST = 1_000_000
_MOST_CURRENCY = 12
_NUMBERS = ("gpu", "cpu", "memory_gb")


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """Per hour, in millionths of the currency; zero is free."""

    gpu: int = 0
    """Of a GPU whose model has no price of its own."""
    cpu: int = 0
    memory_gb: int = 0
    """Of 1024 MiB."""
    models: tuple[tuple[str, int], ...] = ()
    """GPUs by a part of their model's name, written small; the longest that fits counts."""
    currency: str = ""

    def __bool__(self) -> bool:
        return bool(self.gpu or self.cpu or self.memory_gb or self.models)

    def of_model(self, model: str) -> int:
        folded = model.lower()
        fitting = [(len(part), price) for part, price in self.models if part in folded]
        return max(fitting)[1] if fitting else self.gpu


def prices_of(table: object, where: str) -> Prices:
    """Raises BadQuantityError, whose text begins with `where`: the file's name."""
    if not isinstance(table, dict):
        raise BadQuantityError(f"{where}: prices must be written as a table, [prices]")
    unknown = next((key for key in table if key not in (*_NUMBERS, "models", "currency")), None)
    if unknown is not None:
        raise BadQuantityError(
            f"{where}: prices: unknown key {unknown!r}; it takes {', '.join(_NUMBERS)}, currency, and the "
            "table [prices.models]"
        )
    models = table.get("models", {})
    if not isinstance(models, dict):
        raise BadQuantityError(f"{where}: prices.models must be a table, such as [prices.models] A100 = 2.5")
    return Prices(
        **{name: _price(f"{where}: prices.{name}", table[name]) for name in _NUMBERS if name in table},
        models=_models(models, where),
        currency=_currency(f"{where}: prices.currency", table.get("currency", "")),
    )


def _models(table: Mapping[str, object], where: str) -> tuple[tuple[str, int], ...]:
    said = {part.lower(): _price(f"{where}: prices.models.{part}", price) for part, price in table.items()}
    return tuple(sorted(said.items()))


def _price(where: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= _MOST:
        raise BadQuantityError(f"{where} must be a price per hour, from 0 to {_MOST}; got {value!r}")
    return round(value * MILLION)


def _currency(where: str, value: object) -> str:
    if not isinstance(value, str) or len(value) > _MOST_CURRENCY or not value.isprintable():
        raise BadQuantityError(f'{where} must be a short word in quotes, such as "EUR"; got {value!r}')
    return value
