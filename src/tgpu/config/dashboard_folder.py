"""Folder of the built dashboard, in the package itself."""

from pathlib import Path

DASHBOARD = Path(__file__).parent.parent / "dashboard"
INDEX = "index.html"


def is_built(folder: Path = DASHBOARD) -> bool:
    return (folder / INDEX).is_file()
