"""The name of a user's folder among those of others."""

from urllib.parse import quote


def user_folder(user: str) -> str:
    """One path component that is neither `..` nor like the name of a task or attempt."""
    return quote(user, safe="").replace(".", "%2E")
