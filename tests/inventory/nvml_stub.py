"""NVIDIA's library as a test likes it: compiled from `nvml_stub.c`, and ruled by a file."""

import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")


class NvmlStub:
    """Put `environ` into the environment of whatever is to see these GPUs."""

    def __init__(self, folder: Path, library: Path | None = None) -> None:
        """`library`: one that was compiled before."""
        self._control = folder / "control"
        self._control.touch()
        self.library = library or compiled(folder)
        self.environ = {
            "LD_LIBRARY_PATH": str(self.library.parent),
            "NVML_STUB_CONTROL": str(self._control),
        }

    def says(self, *lines: str) -> None:
        """From now on this, and nothing else of what was said before."""
        draft = self._control.with_suffix(".draft")
        draft.write_text("".join(f"{line}\n" for line in lines))
        draft.rename(self._control)


def compiled(folder: Path) -> Path:
    library = folder / "libnvidia-ml.so.1"
    command = ["gcc", "-shared", "-fPIC", "-Wall", "-Wextra", "-Werror", "-o", library, SOURCE]
    subprocess.run(command, check=True)
    return library
