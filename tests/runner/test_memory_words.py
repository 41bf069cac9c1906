"""What is said of a task that ran out of memory."""

import pytest

from tgpu.runner.memory_words import verdict


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("signalled", 9, 1, True, 513, 512), ("out-of-memory", "it used 512 MiB of its limit of 512 MiB")),
        (
            ("signalled", 9, 2, False, 300, 512),
            ("out-of-memory", "the machine had no more, and it used 300 MiB"),
        ),
        (
            ("signalled", 9, 1, False, 300, 0),
            ("out-of-memory", "the machine had no more, and it used 300 MiB"),
        ),
        (("signalled", 9, 0, True, 512, 512), ("signalled", "")),
        (("exited", None, 0, True, 512, 512), ("exited", "")),
        (
            ("exited", None, 2, True, 512, 512),
            (
                "exited",
                "out of memory, 2 processes of it were killed: it used 512 MiB of its limit of 512 MiB",
            ),
        ),
        (("cancelled", 9, 1, True, 512, 512), ("cancelled", "")),
    ],
)
def test_it_is_the_kernels_count_that_says_so(given: tuple, said: tuple[str, str]) -> None:
    assert verdict(*given) == said
