"""A whole tgpu with Slurm's commands beside it, as users of Slurm would find it."""

import os
import shutil
import subprocess
from pathlib import Path

from tests.end_to_end.whole_tgpu import TGPU, Installation

SCRIPTS = Path(__file__).parent / "scripts"


class Slurm:
    """Somebody who works in `folder` and types Slurm's commands."""

    def __init__(self, tgpu: Installation, folder: Path) -> None:
        self.tgpu, self.folder = tgpu, folder
        launchers = folder / "slurm-bin"
        tgpu.tgpu("slurm", "install", "--to", str(launchers))
        path = f"{launchers}:{Path(TGPU).parent}:{os.environ['PATH']}"
        self.environ = {**tgpu.environ, "PATH": path}

    def __call__(self, line: str, *, code: int = 0, **more: str) -> str:
        done = self.typed(line, **more)
        assert done.returncode == code, f"{line} → {done.returncode}\n{done.stdout}{done.stderr}"
        return done.stdout

    def typed(self, line: str, stdin: str = "", **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            line, shell=True, cwd=self.folder, env={**self.environ, **more}, input=stdin, capture_output=True,
            text=True, timeout=60, check=False,
        )  # fmt: skip

    def sbatch(self, script: str, *options: str, **more: str) -> int:
        """A script of these tests, by its id."""
        shutil.copy(SCRIPTS / script, self.folder / script)
        return int(self(f"sbatch --parsable {' '.join(options)} {script}", **more))

    def ended(self, job_id: int, within_s: int = 40) -> str:
        """How, in Slurm's words, once it is over."""
        self.tgpu.tgpu("wait", str(job_id), "--timeout", str(within_s), check=False)
        return self(f"sacct -j {job_id} -X -n -P -o state").strip()

    def output(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")
