"""Whatever stands in a manifest: it becomes a job, or is refused in one line that names a path."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.dialects.kubernetes.test_table import full
from tgpu.dialects.kubernetes import ManifestError, job_fields

KEYS = st.none() | st.booleans() | st.integers() | st.text(max_size=8)
ANYTHING = st.recursive(
    KEYS | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)


def places(found: Any) -> list[tuple[Any, Any]]:
    """Everything in it, as (what holds it, its key there)."""
    keys = list(found) if isinstance(found, dict) else range(len(found)) if isinstance(found, list) else []
    return [(found, key) for key in keys] + [place for key in keys for place in places(found[key])]


def outcome(made: dict[str, Any]) -> dict[str, Any] | ManifestError:
    try:
        return job_fields(made)
    except ManifestError as error:
        return error


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_manifest_with_anything_anywhere(data: st.DataObject) -> None:
    made = full()
    for _ in range(data.draw(st.integers(1, 3))):
        holder, key = data.draw(st.sampled_from(places(made)))
        holder[key] = data.draw(ANYTHING)
        if isinstance(holder, dict) and data.draw(st.booleans()):
            holder[data.draw(KEYS)] = data.draw(ANYTHING)
    found = outcome(made)
    if isinstance(found, ManifestError):
        assert found.refusals[0].path
        assert str(found).isprintable()
    else:
        assert found["dialect"] == "kubernetes"
