"""What a join token is made of."""

import pytest

from tgpu.protocol import join_tokens
from tgpu.wiring import cluster_ca


def test_a_token_carries_its_secret_and_the_authority_s_fingerprint() -> None:
    pem = cluster_ca.load(cluster_ca.found("c", cluster_ca.utc_now())).pem
    secret = join_tokens.new_secret()
    token = join_tokens.written(secret, pem)
    assert join_tokens.parse(f" {token}\n") == (secret, join_tokens.fingerprint(pem))
    assert join_tokens.parse(join_tokens.written(secret, None)) == (secret, None)
    assert len(join_tokens.fingerprint(pem)) == 32


@pytest.mark.parametrize(
    "text", ["", "tgpu_abc", "tgpujoin_abc.", "tgpujoin_abc.0123", "tgpujoin_a." + "g" * 32, "tgpujoin_ä"]
)
def test_half_a_token_is_none(text: str) -> None:
    with pytest.raises(join_tokens.BadJoinTokenError, match="copy it whole"):
        join_tokens.parse(text)


def test_what_is_no_certificate_has_no_fingerprint() -> None:
    with pytest.raises(ValueError, match="PEM"):
        join_tokens.fingerprint("hello")
