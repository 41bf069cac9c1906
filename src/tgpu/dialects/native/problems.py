"""Problems of a job file, with the key and line that caused them."""

from __future__ import annotations


class JobFieldError(ValueError):
    """One sentence that says what to do; `key` is where it stands, as it was written, in which `document` of
    the text."""

    def __init__(self, text: str, key: str | None = None) -> None:
        super().__init__(text)
        self.key = key
        self.document = 0
