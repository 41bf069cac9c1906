"""Labels, taints and generic resources: what nodes have by name."""

import pytest

from tgpu.domain.node_terms import MAX_TERMS, generic, generic_pairs, labels, taints, tolerations
from tgpu.domain.quantities import BadQuantityError


def test_a_taint_is_a_key_or_a_key_with_a_value() -> None:
    assert taints("node_taints", ["spot", "team=vision"]) == ("spot", "team=vision")


def test_taint_may_be_written_with_the_one_effect_that_there_is() -> None:
    written = ["spot:NoSchedule", "team=vision:NoSchedule", "path=a:b"]
    assert taints("node_taints", written) == ("spot", "team=vision", "path=a:b")
    assert tolerations("tolerations", written[:1]) == ("spot",)
    for effect in ("NoExecute", "PreferNoSchedule"):
        with pytest.raises(BadQuantityError, match=f"{effect} is not supported"):
            taints("node_taints", [f"team=vision:{effect}"])


def test_tolerations_that_mean_the_same_are_the_same() -> None:
    assert tolerations("tolerations", ["spot", "*", "a=b", "spot"]) == ("*", "a=b", "spot")


@pytest.mark.parametrize("text", ["", "=a", "a=", "a=b=c", "a b", "a,b", "a*", "x" * 254, "a\0b"])
def test_what_is_no_taint_is_refused(text: str) -> None:
    with pytest.raises(BadQuantityError, match="node_taints must be given as key or key=value, such as spot"):
        taints("node_taints", [text])
    with pytest.raises(BadQuantityError, match=r"tolerations must be given as key or key=value, or \*, such"):
        tolerations("tolerations", [text])


def test_a_node_cannot_be_tainted_with_everything() -> None:
    with pytest.raises(BadQuantityError, match="node_taints must be given as"):
        taints("node_taints", ["*"])


def test_generic_resources_are_sorted_whole_numbers() -> None:
    assert generic("generic", {"port": 2.0, "licence": 1}) == (("licence", 1), ("port", 2))
    assert generic_pairs("node_generic", ["port=2", "a/b.c-d_e=1"]) == (("a/b.c-d_e", 1), ("port", 2))


@pytest.mark.parametrize(
    ("amounts", "says"),
    [
        ({"licence": 0}, "generic licence must be at least 1; got 0"),
        ({"licence": -1}, "generic licence must not be negative; got -1"),
        ({"licence": 0.5}, "generic licence must be a whole number; got 0.5"),
        ({"licence": 10**10}, "generic licence may be at most 1000000000"),
        ({"licence": "many"}, "generic licence must be a number"),
        ({"": 1}, "generic must have names of up to 63"),
        ({"a b": 1}, "generic must have names of up to 63"),
        ({"x" * 64: 1}, "generic must have names of up to 63"),
        ({"GPU": 1}, "generic must not name 'GPU', which has a word of its own"),
        ({f"n{n}": 1 for n in range(MAX_TERMS + 1)}, "generic may have at most 64 entries; got 65"),
    ],
)
def test_what_is_no_amount_is_refused_by_name(amounts: dict[str, object], says: str) -> None:
    with pytest.raises(BadQuantityError) as error:
        generic("generic", amounts)
    assert says in str(error.value)


@pytest.mark.parametrize(
    ("texts", "says"),
    [
        (["zone"], "node_labels must be given as zone=a; got 'zone'"),
        (["zone=a", "zone=b"], "node_labels says 'zone' twice"),
        (["zone="], "node_labels must be 1 to 253 printable characters"),
        (["=a"], "node_labels must be 1 to 253 printable characters"),
    ],
)
def test_what_is_no_label_is_refused(texts: list[str], says: str) -> None:
    with pytest.raises(BadQuantityError) as error:
        labels("node_labels", texts)
    assert says in str(error.value)


def test_a_label_s_value_may_hold_an_equals_sign() -> None:
    assert labels("node_labels", ["zone=a", "image=x=y"]) == {"zone": "a", "image": "x=y"}
