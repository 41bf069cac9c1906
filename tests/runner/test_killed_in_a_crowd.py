"""An agent is killed while many tasks begin and end: those that go tidy up, and nobody is hurt by it."""

import random
import subprocess
import sys
import time
import uuid
from collections import Counter
from pathlib import Path

from tests.runner.conftest import Machine
from tgpu.domain.lifecycle import Cause
from tgpu.runner.cgroups.detect import detect
from tgpu.runner.journal import Journals

ROOT = Path(__file__).parents[2]
ROUNDS, TASKS = 6, 60


def test_whoever_began_runs_to_its_end_and_no_group_is_left(tmp_path: Path) -> None:
    cluster, chance = f"test-{uuid.uuid4().hex}", random.Random(1)
    bases = detect(cluster).cgroups.bases.values()
    for number in range(ROUNDS):
        words = [str(tmp_path), cluster, str(1 + number * TASKS), str(TASKS)]
        command = [sys.executable, "-m", "tests.runner.crowded_agent", *words]
        with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as agent:
            assert agent.stdout.readline() == b"launched\n"
            time.sleep(chance.uniform(0, 0.3))
            agent.kill()
    last = Machine(tmp_path, cgroups=True)
    last.cluster = cluster
    last.open()
    begun = [path.name for path in (tmp_path / "records" / "claims").iterdir()]
    exits = {attempt: last.end_of(attempt) for attempt in begun}
    last.close()
    last.loop.close()
    assert len(exits) > TASKS
    assert Counter((end.cause, end.exit_code, end.detail) for end in exits.values()) == {
        (Cause.EXITED, 0, ""): len(exits)
    }
    assert Journals(tmp_path / "records").read().exits.keys() == exits.keys()
    assert not [base for base in bases if Path(base).exists()]
