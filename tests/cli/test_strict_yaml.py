"""YAML from anywhere: what is read, and what is refused in one line."""

import json
import time

import pytest

from tgpu.dialects.native.strict_yaml import BadYamlError, documents


def test_plain_data_of_several_documents() -> None:
    text = "a: [1, -2.5, 0, 1.0, True, null]\n---\n---\n{b: &unused 'yes'}\r\n"
    assert documents(text) == [{"a": [1, -2.5, 0, 1.0, True, None]}, None, {"b": "yes"}]


def test_json_may_be_indented_by_tabs() -> None:
    value = {"a": [1, {"b": "a\tb\n\tc"}], "d": "é"}
    assert documents(json.dumps(value, indent="\t")) == [value]
    assert documents("\ufeff\n" + json.dumps(value, indent="\t", ensure_ascii=False)) == [value]


def test_dates_and_times_of_day_stay_text() -> None:
    text = "[16:00, 2026-01-20, 2026-01-20T12:34:00Z, 1:30:00.5, =]"
    assert documents(text) == [["16:00", "2026-01-20", "2026-01-20T12:34:00Z", "1:30:00.5", "="]]


def test_what_would_be_printed_otherwise_than_it_is_written_stays_text() -> None:
    written = [
        "010",
        "0x10",
        "1_000",
        "+5",
        "-0",
        "3.10",
        ".5",
        "5.",
        "1.5e+3",
        ".inf",
        "yes",
        "no",
        "On",
        "off",
    ]
    assert documents(f"[{', '.join(written)}]") == [written]


BOMB = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 30))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (BOMB, "aliases (*name) are not allowed here (line 2)"),
        ("a: &x {b: 1}\nc: {<<: *x}", "merging (<<) is not allowed here: write it out (line 2)"),
        ("<<: {a: 1}", "merging (<<) is not allowed here: write it out (line 1)"),
        ("a: 1\nb: 2\na: 3", "key 'a' is given twice (line 3)"),
        ("{1: a, '1': b}", "key '1' is given twice (line 1)"),
        ("a: [{b: 1, b: 1}]", "key 'b' is given twice (line 1)"),
        ("? [a, b]\n: c", "a key must be a word, not a list or a mapping (line 1)"),
        ("? {a: b}\n: c", "a key must be a word, not a list or a mapping (line 1)"),
        ("a:\n\tb: 1", "a tab cannot stand here: indent with spaces (line 2)"),
        ("a:\n  b: 1\n\tc: 2", "a tab cannot stand here: indent with spaces (line 3)"),
        (
            "!!python/name:os.system",
            "the tag 'tag:yaml.org,2002:python/name:os.system' is not allowed here: leave it out (line 1)",
        ),
        ("a: !!set {b}", "the tag 'tag:yaml.org,2002:set' is not allowed here: leave it out (line 1)"),
        ("a: !!binary aGk=", "the tag 'tag:yaml.org,2002:binary' is not allowed here: leave it out (line 1)"),
        ("a: !mine x", "the tag '!mine' is not allowed here: leave it out (line 1)"),
        ("[" * 100_000, "it is nested too deeply: 64 levels are possible (line 1)"),
        ("{a: " * 100_000, "it is nested too deeply: 64 levels are possible (line 1)"),
        ("- " * 100_000, "it is nested too deeply: 64 levels are possible (line 1)"),
        ("a: " + "9" * 5000, "a value looks like a number and is none: put quotes around it"),
        ("a: !!int x", "a value looks like a number and is none: put quotes around it"),
        ("a: \0", "unacceptable character #x0000: special characters are not allowed"),
        ("a: 'b", "found unexpected end of stream (line 1)"),
    ],
)
def test_what_is_refused_is_told_in_one_line(text: str, said: str) -> None:
    began = time.process_time()
    with pytest.raises(BadYamlError) as refused:
        documents(text)
    assert str(refused.value) == said
    assert time.process_time() - began < 20  # a bomb would not end at all
