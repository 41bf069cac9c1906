"""What a plug-in gets to see is true, and nothing that it answers can do more harm than an error."""

from tests.core.core_story import NOW_MS, asks, node, picture_of, start, task
from tgpu.core.explain import explain
from tgpu.core.planner import plan
from tgpu.core.policy import Left, Policy, PoolPolicy
from tgpu.core.rules import Rule
from tgpu.domain.ids import TaskId
from tgpu.domain.job import Request, TaskBrief
from tgpu.domain.node import Node
from tgpu.domain.views import Reason


def with_rule(rule: Rule) -> Policy:
    return Policy(PoolPolicy("fifo"), outside_rules={"mine": rule})


def test_a_rule_sees_whose_task_it_is_where_nodes_serve_everybody() -> None:
    def only_ada(request: Request, _node: Node) -> Reason | None:
        return None if request.user == "ada" else Reason("not-ada", "only for ada")

    policy = with_rule(only_ada)
    waiting = [task(1, asks(user="bob"), user="bob"), task(2, asks(user="ada"))]
    assert plan(picture_of([node()], waiting, policy=policy), policy).starts == (start(2),)


def test_a_scorer_sees_whose_task_it_is_where_nodes_serve_everybody() -> None:
    def at_home(request: Request, candidate: Node, _left: Left) -> float:
        return 1.0 if candidate.node_id == request.user else 0.0

    policy = Policy(PoolPolicy("fifo", "at-home"), outside_scorers={"at-home": at_home})
    waiting = [task(1, asks(user="bob"), user="bob"), task(2, asks(user="ada"))]
    made = plan(picture_of([node("ada"), node("bob")], waiting, policy=policy), policy)
    assert made.starts == (start(1, "bob"), start(2, "ada"))


def test_a_rule_is_asked_again_when_a_node_is_described_anew() -> None:
    def not_old(_request: Request, candidate: Node) -> Reason | None:
        return Reason("old", "too old") if candidate.labels.get("age") == "old" else None

    policy = with_rule(not_old)
    picture = picture_of([node()], [task(1)], policy=policy)
    picture.set_node(node(labels={"age": "old"}))
    assert plan(picture, policy).starts == ()
    picture.set_node(node(labels={"age": "new"}))
    assert plan(picture, policy).starts == (start(1),)


def test_the_rules_of_this_tree_are_asked_again_too() -> None:
    policy = with_rule(lambda _request, _node: None)
    picture = picture_of([node()], [task(1)], policy=policy)
    assert plan(picture, policy).starts == (start(1),)
    picture.set_node(node(taints=("broken",)))
    assert plan(picture, policy).starts == ()


def test_a_rule_that_answers_something_else_has_failed() -> None:
    policy = with_rule(lambda _request, _node: False)  # type: ignore[arg-type,return-value]  # a plug-in may
    picture = picture_of([node()], [task(1)], policy=policy)
    made = plan(picture, policy)
    assert (made.starts, [fault.name for fault in made.faults]) == ((), ["mine"])
    why = explain(picture, policy, TaskId(1, 0))
    assert why is not None
    assert "it answered False, neither a Reason nor None" in str(why.reasons)


def test_an_order_whose_keys_cannot_be_compared_has_failed() -> None:
    def by_limit(each: TaskBrief, _now_ms: int) -> tuple[int, ...]:
        return (each.time_limit_s, each.submitted_ms)  # type: ignore[return-value]  # None: has no limit

    policy = Policy(PoolPolicy("by-limit"), outside_orders={"by-limit": by_limit})
    waiting = [task(1, time_limit_s=60), task(2), task(3, time_limit_s=30)]
    made = plan(picture_of([node()], waiting, policy=policy), policy)
    assert {each.task_id.job_id for each in made.starts} == {1, 2, 3}
    assert [fault.name for fault in made.faults] == ["by-limit"]
    assert "failed on job 2: TypeError" in made.faults[0].text


def test_an_order_that_changes_its_mind_leaves_the_queue_in_order() -> None:
    asked: list[int] = []

    def fickle(each: TaskBrief, _now_ms: int) -> tuple[int, ...]:
        asked.append(each.task_id.job_id)
        if len(asked) % 3 == 0:
            raise RuntimeError("not today")
        return (len(asked) * 7 % 5,)

    policy = Policy(PoolPolicy("fickle"), outside_orders={"fickle": fickle})
    picture = picture_of([], [task(job_id) for job_id in range(1, 30)], policy=policy)
    for job_id in range(1, 30, 2):
        picture.remove_waiting(TaskId(job_id, 0))
    picture.now_ms = NOW_MS + 60_000
    picture.set_node(node())
    picture.set_reachable("n1", reachable=True)
    left = sorted(task_id.job_id for task_id in picture.in_order())
    assert left == list(range(2, 30, 2))
    assert len(plan(picture, policy).starts) == 8
