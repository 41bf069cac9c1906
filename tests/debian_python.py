"""Debian's own Python, which is recommended to users, and older than the one that usually runs the tests."""

import subprocess
import sys
from pathlib import Path

import pytest

DEBIAN_PYTHON = "/usr/bin/python3"
_ROOT = Path(__file__).parents[1]


def needs_debian_python(python: str = DEBIAN_PYTHON) -> None:
    """Skips where the system is not Debian; a Debian without it fails, so that nothing goes untested."""
    if Path(python).exists():
        return
    if Path("/etc/debian_version").exists():
        pytest.fail(f"{python} is missing: ./scripts/install-debian python3")
    pytest.skip(f"there is no {python} on this system")


def make_environment(folder: Path) -> Path:
    """The Python of a virtual environment on Debian's, with what tgpu needs and tgpu itself."""
    needs_debian_python()
    subprocess.run([DEBIAN_PYTHON, "-m", "venv", "--without-pip", folder], check=True)
    python = folder / "bin" / "python"
    ask = "import sys, sysconfig; print(*sys.version_info[:2]); print(sysconfig.get_path('purelib'))"
    said = subprocess.run([python, "-c", ask], check=True, capture_output=True, text=True).stdout
    version, packages = said.splitlines()
    paths = [str(_ROOT / "src")]
    if version == f"{sys.version_info.major} {sys.version_info.minor}":  # compiled modules fit
        paths += [path for path in sys.path if path.endswith("site-packages")]
    else:
        pip = [sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--require-hashes"]
        subprocess.run([*pip, "-r", _ROOT / "requirements" / "runtime.lock"], check=True)
    Path(packages, "tgpu.pth").write_text("\n".join(paths))
    return python
