"""The key that a node was given when it joined: shown in every hello, kept by servers only as a digest."""

import hashlib
import secrets

PREFIX = "tgpunode_"
_KEY_BYTES = 32


def new_key() -> str:
    return PREFIX + secrets.token_urlsafe(_KEY_BYTES)


def digest_of(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()
