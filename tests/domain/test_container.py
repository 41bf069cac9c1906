"""Names of images, mounts and networks, as people write them."""

import pytest

from tgpu.domain.container import (
    Mount,
    image,
    is_pinned,
    mount,
    mounts,
    network,
    pinned,
    repository,
    short_name,
)
from tgpu.domain.quantities import BadQuantityError

DIGEST = "sha256:" + 64 * "a"


@pytest.mark.parametrize(
    "text",
    [
        "ubuntu",
        "ubuntu:24.04",
        "team/train_1-x:v1.2_3",
        "localhost/x",
        "127.0.0.1:5000/a/b:x",
        "[::1]:5000/x",
        "ghcr.io/team/train@" + DIGEST,
        "ghcr.io/team/train:1@" + DIGEST,
    ],
)
def test_names_that_are_good(text: str) -> None:
    assert image("image", text) == text


@pytest.mark.parametrize(
    "text",
    [
        "", " ", "Ubuntu", "a;reboot", "a b", "$(x)", "`x`", "a//b", "a:", "a@", "-a", "a\n", "../a", "/a",
        "a|b", "a@sha256:abc", "a:" + 129 * "x", 501 * "x", "a&b", "a>b", "a\0b", "https://ghcr.io/a",
    ],
)  # fmt: skip
def test_names_that_are_not(text: str) -> None:
    with pytest.raises(BadQuantityError, match="image must be the name of an image"):
        image("image", text)


def test_what_a_name_is_made_of() -> None:
    assert repository("127.0.0.1:5000/a/b:x") == "127.0.0.1:5000/a/b"
    assert pinned("a/b:1", DIGEST) == f"a/b@{DIGEST}"
    assert (is_pinned("a/b:1"), is_pinned(f"a/b@{DIGEST}")) == (False, True)
    assert short_name("ghcr.io/team/train:1.2") == "train"


def test_mounts() -> None:
    assert mount("mounts", "/data/sets:/data:ro") == Mount("/data/sets", "/data", read_only=True)
    assert str(mount("mounts", "/a:/b")) == "/a:/b"
    for text in (
        "/a",
        "a:/b",
        "/a:b",
        "/:/b",
        "/a:/",
        "/a/../b:/c",
        "//a:/b",
        "/a:/proc",
        "/a:/dev/x",
        "/a:/b:x",
    ):
        with pytest.raises(BadQuantityError, match="mounts"):
            mount("mounts", text)
    with pytest.raises(BadQuantityError, match="two things at /b"):
        mounts("mounts", ["/a:/b", "/c:/b"])
    with pytest.raises(BadQuantityError, match="at most 64"):
        mounts("mounts", [f"/a:/b{number}" for number in range(65)])


def test_networks() -> None:
    assert network("network", "team_net-1") == "team_net-1"
    for text in ("container:x", "a b", "", "../x", "ns:/proc/1"):
        with pytest.raises(BadQuantityError, match="network"):
            network("network", text)
