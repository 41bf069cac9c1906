"""Whom those who dial a server believe: the cluster's own authority, or whom the machine trusts."""

import os
import ssl


def client_context(ca_pem: str | None) -> ssl.SSLContext:
    """Trusts the cluster's own authority alone; without one, whom the machine trusts or TGPU_CA names."""
    if ca_pem is None:
        return ssl.create_default_context(cafile=os.environ.get("TGPU_CA") or None)
    return ssl.create_default_context(cadata=ca_pem)


def unverified_context() -> ssl.SSLContext:
    """Believes anybody: only for fetching an authority whose fingerprint is known."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
