"""What a check of `tgpu doctor` finds."""

from typing import NamedTuple

OK, WARN, FAIL = "ok", "warn", "FAIL"


class Finding(NamedTuple):
    """One line of the report."""

    name: str
    level: str
    text: str
    advice: str = ""
