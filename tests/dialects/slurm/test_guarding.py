"""What becomes of a step's processes when its `srun` is killed, and when its tasks are over."""

from collections.abc import Iterator

import pytest

from tests.dialects.slurm.slurm_story import Slurm
from tests.end_to_end.gang_cluster import a_gang_cluster


@pytest.fixture(scope="module")
def pair() -> Iterator[Slurm]:
    """On two nodes, n1 and n2, of 4 CPUs and 4 GPUs each."""
    with a_gang_cluster() as cluster:
        work = cluster.folder / "work"
        work.mkdir()
        yield Slurm(cluster.server, work)


_LOOK = """look() {
  for pid in $(cat $1.*); do readlink /proc/$pid/exe && echo lives; done
  echo $1 looked at
}
"""
_KILLED = f"""#!/bin/bash
#SBATCH -N2 -n2 --gpus-per-node=1 -o killed.txt
{_LOOK}
srun -n2 --gpus-per-node=1 sh -c 'sleep 60 & echo $! >killed.$SLURM_PROCID; wait; true' &
while [ ! -s killed.0 ] || [ ! -s killed.1 ]; do sleep 0.05; done
kill -9 $!
srun -n2 --gpus-per-node=1 true
sleep 0.5
look killed
"""


def test_what_the_tasks_of_a_killed_step_have_started_is_killed_with_them_on_all_its_nodes(
    pair: Slurm,
) -> None:
    assert pair.ended(int(pair("sbatch --parsable", stdin=_KILLED))) == "COMPLETED"
    said = pair.output("killed.txt")
    assert "killed looked at" in said
    assert "lives" not in said
    assert "Traceback" not in said


_LEFT = f"""#!/bin/bash
#SBATCH --gpus=1 -o left.txt
{_LOOK}
srun -n1 --gpus=1 sh -c 'setsid sleep 60 & echo $! >left.0'
look left
srun -n1 sh -c 'trap "exit 3" TERM; sleep 60 & echo $! >told.0; wait' &
while [ ! -s told.0 ]; do sleep 0.05; done
kill $!; wait $!; echo ends with $?
look told
"""


def test_what_tasks_leave_behind_is_gone_with_their_step(pair: Slurm) -> None:
    assert pair.ended(int(pair("sbatch --parsable", stdin=_LEFT))) == "COMPLETED"
    said = [line for line in pair.output("left.txt").splitlines() if "srun" not in line]
    assert said == ["left looked at", "ends with 3", "told looked at"]
