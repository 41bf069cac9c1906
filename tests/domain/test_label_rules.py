"""Rules for a node's labels, as people write them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tgpu.domain.job import LabelOp, LabelRule
from tgpu.domain.label_rules import MAX_RULES, MAX_VALUES, label_rule, label_rules, written
from tgpu.domain.quantities import BadQuantityError


@pytest.mark.parametrize(
    ("text", "op", "values"),
    [
        ("zone in (a,b)", LabelOp.IN, ("a", "b")),
        ("zone in(a)", LabelOp.IN, ("a",)),
        ("  zone  notin  ( a , b c )  ", LabelOp.NOT_IN, ("a", "b c")),
        ("zone=a", LabelOp.IN, ("a",)),
        ("zone == a b", LabelOp.IN, ("a b",)),
        ("zone != a", LabelOp.NOT_IN, ("a",)),
        ("zone=a=b", LabelOp.IN, ("a=b",)),
        ("zone", LabelOp.EXISTS, ()),
        ("!zone", LabelOp.ABSENT, ()),
        ("! zone", LabelOp.ABSENT, ()),
        ("zone > 40", LabelOp.ABOVE, ("40",)),
        ("zone<-1.5", LabelOp.BELOW, ("-1.5",)),
        ("zone >= 4e1", LabelOp.AT_LEAST, ("4e1",)),
        ("zone<=40", LabelOp.AT_MOST, ("40",)),
    ],
)
def test_each_form_of_a_rule_means_what_it_says(text: str, op: LabelOp, values: tuple[str, ...]) -> None:
    assert label_rule("node_rules", text) == LabelRule("zone", op, values)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "must be rules such as `zone in"),
        ("   ", "must be rules such as"),
        ("!", "must be rules such as"),
        ("zone in", "must be rules such as"),
        ("zone within (a)", "must be rules such as"),
        ("zone=", "must be rules such as"),
        ("=a", "must be rules such as"),
        ("zone === a", "must be rules such as"),
        ("zone => 4", "must be rules such as"),
        ("a b", "must be rules such as"),
        ("zone in (a\nb)", "must be rules such as"),
        ("zone=a,b", "must be rules such as"),
        ("zone in ()", "must list plain values"),
        ("zone in (a,,b)", "must list plain values"),
        ("zone in ((a))", "must list plain values"),
        ("zone in (=a)", "must list plain values"),
        ("memory >= much", "must compare with a number"),
        ("memory >= nan", "must compare with a number"),
        ("memory < inf", "must compare with a number"),
        ("z\0ne", "must be 1 to 253 printable characters"),
        ("zone=a\nb", "must be 1 to 253 printable characters"),
        ("x" * 254, "must be 1 to 253 printable characters"),
        (f"zone={'x' * 254}", "must be 1 to 253 printable characters"),
        (f"zone in ({','.join('x' * (MAX_VALUES + 1))})", "at most 64 values in one rule; got 65"),
    ],
)
def test_what_is_no_rule_is_refused_by_name(text: str, says: str) -> None:
    with pytest.raises(BadQuantityError, match=r"^node_rules") as error:
        label_rule("node_rules", text)
    assert says in str(error.value)
    assert len(str(error.value)) < 300


def test_there_may_be_so_many_rules_and_no_more() -> None:
    assert len(label_rules("node_rules", ["ssd"] * MAX_RULES)) == MAX_RULES
    with pytest.raises(BadQuantityError, match="node_rules may have at most 64 rules; got 65"):
        label_rules("node_rules", ["ssd"] * (MAX_RULES + 1))


words = st.from_regex(r"[a-z0-9][a-z0-9./ -]{0,8}[a-z0-9]", fullmatch=True)
keys = st.from_regex(r"[a-z0-9./-]{1,9}", fullmatch=True)
many = st.lists(words, min_size=1, max_size=4).map(tuple)
rules = st.one_of(
    st.builds(LabelRule, keys, st.sampled_from([LabelOp.EXISTS, LabelOp.ABSENT])),
    st.builds(LabelRule, keys, st.sampled_from([LabelOp.IN, LabelOp.NOT_IN]), many),
    st.builds(
        LabelRule,
        keys,
        st.sampled_from([LabelOp.ABOVE, LabelOp.BELOW, LabelOp.AT_LEAST, LabelOp.AT_MOST]),
        st.integers().map(lambda number: (str(number),)),
    ),
)


@given(rules)
def test_a_rule_that_is_shown_can_be_typed_again(rule: LabelRule) -> None:
    assert label_rule("node_rules", written(rule)) == rule


@given(st.text(alphabet="az09 =!<>(),in\n\0é", max_size=30))
def test_any_text_is_a_rule_that_reads_the_same_again_or_is_refused(text: str) -> None:
    try:
        rule = label_rule("node_rules", text)
    except BadQuantityError:
        return
    assert label_rule("node_rules", written(rule)) == rule
