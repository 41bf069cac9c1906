"""The compiled kernel decides as the plain one does, and all of it is there once it is loaded."""

import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings

from tests.core.core_story import carry_out
from tests.core.kernel.compiled_here import SIGNATURES, compiled_engine
from tests.core.strategies import Story, policies, stories
from tests.core.test_plan_properties import SLOW, in_lines
from tgpu.core import engine as engine_module
from tgpu.core.engine import PLAIN, Engine
from tgpu.core.exercise import exercise
from tgpu.core.planner import plan
from tgpu.wiring import kernel_cache

CORE = Path(engine_module.__file__).parent


def entrances() -> set[str]:
    """The functions of the kernel that the rest of the core calls."""
    text = "".join(path.read_text(encoding="utf-8") for path in CORE.glob("*.py"))
    return set(re.findall(r"engine\.([a-z_]+)\(", text)) & vars(PLAIN).keys()


@settings(max_examples=120, deadline=None, suppress_health_check=SLOW)
@given(policies().flatmap(stories))
def test_compiled_or_not_the_plan_is_the_same(story: Story) -> None:
    picture, policy = story.picture, story.policy
    plain = plan(picture, policy, whole=True)
    assert in_lines(plan(picture, policy, whole=True, engine=compiled_engine())) == in_lines(plain)
    carry_out(picture, plain)
    picture.now_ms += 1000
    assert in_lines(plan(picture, policy, engine=compiled_engine())) == in_lines(plan(picture, policy))


def test_the_exercise_goes_through_every_entrance_with_one_kind_of_arguments() -> None:
    """Another kind of arguments would be compiled when somebody waits for it."""
    called: dict[str, set[tuple[str, ...]]] = {}

    def recording(name: str) -> Any:
        def call(*arguments: Any) -> Any:
            called.setdefault(name, set()).add(tuple(type(each).__name__ for each in arguments))
            return vars(PLAIN)[name](*arguments)

        return call

    exercise(Engine(**{name: recording(name) for name in vars(PLAIN)}))
    assert entrances() <= called.keys()
    assert {name: kinds for name, kinds in called.items() if len(kinds) > 1} == {}


def test_nothing_is_compiled_after_it_was_loaded() -> None:
    loaded = vars(compiled_engine())
    before = {name: len(loaded[name].signatures) for name in entrances()}
    exercise(compiled_engine())
    assert {name: len(loaded[name].signatures) for name in entrances()} == before
    assert {SIGNATURES[name] for name in entrances()} == {1}


def test_where_nothing_can_be_written_there_is_no_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_file = tmp_path / "file"
    a_file.write_text("")
    monkeypatch.setattr("sys.prefix", str(a_file))
    assert kernel_cache.directory({"HOME": str(a_file)}) is None
    kept = kernel_cache.directory({"HOME": str(tmp_path)})
    assert kept == tmp_path / ".cache" / "tgpu" / "kernel" / kernel_cache.fingerprint()
