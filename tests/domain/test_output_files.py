"""Names of output files: each sign stands for one thing, and none leads elsewhere."""

import pytest

from tgpu.domain.output_files import OpenMode, OutputFiles, OutputPaths, checked_pattern, paths_of
from tgpu.domain.quantities import BadQuantityError


def paths(files: OutputFiles, *, alone: bool = True, first: bool = True, name: str = "run") -> OutputPaths:
    return paths_of(files, "/home/ann", 42, 7, name, "n1", "ann", alone=alone, first=first)


def test_every_sign_is_known() -> None:
    found = paths(OutputFiles("%j-%A-%a-%x-%N-%u-%%j", "/tmp/e"))
    assert found == OutputPaths("/home/ann/42-42-7-run-n1-ann-%j", "/tmp/e", append=False)


def test_numbers_are_filled_up_with_zeros() -> None:
    assert checked_pattern("output", "%4j-%3a-%1A") == "%4j-%3a-%1A"
    assert paths(OutputFiles("%4j-%3a-%1A-%%3a")).output == "/home/ann/0042-007-42-%3a"
    assert paths(OutputFiles("%3a"), alone=False).append is False


def test_a_name_with_slashes_or_signs_is_taken_as_it_is() -> None:
    assert paths(OutputFiles("%x.txt"), name="../%j/x").output == "/home/ann/.._%j_x.txt"
    assert paths(OutputFiles("%x/out.txt"), name="..").output == "/home/ann/__/out.txt"


def test_errors_go_with_the_output_unless_they_have_a_file() -> None:
    assert paths(OutputFiles("o")) == OutputPaths("/home/ann/o", "/home/ann/o", append=False)
    assert paths(OutputFiles(None, "e")) == OutputPaths("", "/home/ann/e", append=False)


@pytest.mark.parametrize(
    ("pattern", "alone", "first", "mode", "append"),
    [
        ("o", True, True, None, False),
        ("o", True, False, None, True),
        ("o", False, True, None, True),
        ("o-%a", False, True, None, False),
        ("o-%%a", False, True, None, True),
        ("o-%a", False, False, None, True),
        ("o", False, False, OpenMode.TRUNCATE, False),
        ("o", True, True, OpenMode.APPEND, True),
    ],
)
def test_nothing_is_lost_that_another_wrote(
    pattern: str, alone: bool, first: bool, mode: OpenMode | None, append: bool
) -> None:
    assert paths(OutputFiles(pattern, None, mode), alone=alone, first=first).append is append


@pytest.mark.parametrize(
    "text", ["", "  ", "a\n", "x" * 2000, "dir/", "%", "%q", "a%", "%5x", "%11j", "%5", "a\0"]
)
def test_what_cannot_be_meant_is_refused(text: str) -> None:
    with pytest.raises(BadQuantityError, match=r"^output "):
        checked_pattern("output", text)
