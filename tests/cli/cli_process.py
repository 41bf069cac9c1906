"""How tests run the real command."""

import subprocess
import sys
from collections.abc import Callable

Tgpu = Callable[..., "subprocess.CompletedProcess[str]"]
TGPU = [sys.executable, "-m", "tgpu.cli"]
