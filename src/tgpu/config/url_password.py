"""Passwords in URLs: found, and masked wherever a URL is shown or stored."""

import re

MASK = "***"
_IN_AUTHORITY = re.compile(r"(?<=://)([^:/@\s]*):\S+@")
"""To the last @: a password that was not escaped may contain some, too."""
_IN_QUERY = re.compile(r"([?&]\w*passw[a-z]*=)[^&\s]+", re.IGNORECASE)


def has_password(url: str) -> bool:
    """Also true for a password that is masked already: `is_masked` tells those apart."""
    return _IN_AUTHORITY.search(url) is not None or _IN_QUERY.search(url) is not None


def is_masked(url: str) -> bool:
    return has_password(url) and masked(url) == url


def masked(url: str) -> str:
    """The same URL with `***` for its password."""
    return _IN_QUERY.sub(rf"\1{MASK}", _IN_AUTHORITY.sub(rf"\1:{MASK}@", url))
