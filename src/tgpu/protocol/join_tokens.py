"""What a join token is: a secret, and a digest of the authority by which the node will know the servers."""

import hashlib
import secrets
import ssl

PREFIX = "tgpujoin_"
FINGERPRINT_DIGITS = 32
_SECRET_BYTES = 32
_MOST = 200


class BadJoinTokenError(ValueError):
    """What was given is no join token; the text says what one looks like."""


def new_secret() -> str:
    return PREFIX + secrets.token_urlsafe(_SECRET_BYTES)


def digest_of(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def written(secret: str, ca_pem: str | None) -> str:
    return secret if ca_pem is None else f"{secret}.{fingerprint(ca_pem)}"


def parse(token: str) -> tuple[str, str | None]:
    """The secret, and the authority's fingerprint if it names one."""
    secret, dot, mark = token.strip().partition(".")
    is_mark = len(mark) == FINGERPRINT_DIGITS and all(digit in "0123456789abcdef" for digit in mark)
    if not secret.startswith(PREFIX) or len(secret) > _MOST or not secret.isascii() or (dot and not is_mark):
        raise BadJoinTokenError(
            f"a join token looks like {PREFIX}…, as `tgpu nodes join-token` prints it: copy it whole"
        )
    return secret, mark or None


def fingerprint(ca_pem: str) -> str:
    """Enough of a digest that nobody can make another authority with it. Raises ValueError."""
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(ca_pem)).hexdigest()[:FINGERPRINT_DIGITS]
