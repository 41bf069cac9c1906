"""Run with a plug-in on the path: plans for a small cluster and prints what came of it, as JSON."""

import json
import sys

from tests.core.core_story import asks, node, picture_of, task
from tgpu.config.settings import load
from tgpu.core.explain import explain
from tgpu.core.never import never_fits
from tgpu.core.picture import Picture
from tgpu.core.planner import plan
from tgpu.core.policy import Policy
from tgpu.domain.ids import TaskId
from tgpu.wiring.policy_of_settings import policy_of


def cluster(policy: Policy) -> Picture:
    """alpha, in production, has 5 CPUs free and 4 in use; beta has 2 and 1."""
    nodes = [node("alpha", cpus=9, labels={"production": "yes"}), node("beta", cpus=3)]
    placed = [
        (task(91, asks(cpus=4, user="ada")), "alpha", ()),
        (task(92, asks(cpus=1, user="ada")), "beta", ()),
    ]
    waiting = [
        task(1, asks(cpus=2, user="ada"), time_limit_s=7200),
        task(2, asks(cpus=2, user="intern"), time_limit_s=3600, user="intern"),
        task(3, asks(cpus=2, user="ada"), time_limit_s=1800),
        task(4, asks(cpus=2, user="ada")),
        task(5, asks(cpus=1, user="intern"), time_limit_s=600_000, user="intern"),
    ]
    return picture_of(nodes, waiting, placed, policy)


def main(home: str) -> None:
    policy = policy_of(load({"TGPU_HOME": home}))
    picture = cluster(policy)
    in_line = [task_id.job_id for task_id in picture.in_order()]
    too_large_for_beta = asks(cpus=4, user="intern")
    made = plan(picture, policy)
    why = explain(picture, policy, TaskId(5, 0))
    assert why is not None
    print(
        json.dumps(
            {
                "rules": list(policy.outside_rules),
                "in line": in_line,
                "starts": [(start.task_id.job_id, start.node_id) for start in made.starts],
                "faults": {fault.name: fault.text for fault in made.faults},
                "why 5": why.summary,
                "refused": never_fits(too_large_for_beta, picture),
            }
        )
    )


if __name__ == "__main__":
    main(sys.argv[1])
