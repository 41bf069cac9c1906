"""The cluster's own certificate authority, and the certificates that it signs for servers."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

AUTHORITY_LASTS = timedelta(days=3653)
CERTIFICATE_LASTS = timedelta(days=365)
BACKDATED = timedelta(days=7)
"""A node whose clock is behind joins all the same."""
_MOST_COMMON_NAME = 64


@dataclass(frozen=True, slots=True)
class Authority:
    """Who signs; the whole of it is the secret that all servers share."""

    certificate: x509.Certificate
    key: ec.EllipticCurvePrivateKey

    @property
    def pem(self) -> str:
        """What everybody may know, and must, to trust the cluster's servers."""
        return self.certificate.public_bytes(serialization.Encoding.PEM).decode()


def found(name: str, now: datetime) -> bytes:
    """A new authority, as it is kept in the store: its key, then its certificate, both PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name(f"tgpu cluster {name}")
    certificate = (
        _from(now, AUTHORITY_LASTS)
        .subject_name(subject)
        .issuer_name(subject)
        .public_key(key.public_key())
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_usage(signs_certificates=True), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .sign(key, hashes.SHA256())
    )
    return _private(key) + certificate.public_bytes(serialization.Encoding.PEM)


def load(kept: bytes) -> Authority:
    key = serialization.load_pem_private_key(kept, password=None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return Authority(x509.load_pem_x509_certificate(kept), key)


def issue(authority: Authority, names: Iterable[str], now: datetime) -> bytes:
    """A certificate for a server that is called by these names: its key, then its chain, PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    called = list(dict.fromkeys(names))
    signed = (
        _from(now, CERTIFICATE_LASTS)
        .subject_name(_name(called[0]))
        .issuer_name(authority.certificate.subject)
        .public_key(key.public_key())
        .add_extension(x509.SubjectAlternativeName([_alternative(name) for name in called]), critical=False)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.key.public_key()), critical=False
        )
        .sign(authority.key, hashes.SHA256())
    )
    return _private(key) + signed.public_bytes(serialization.Encoding.PEM)


def expires(pem: bytes) -> datetime:
    return x509.load_pem_x509_certificate(pem).not_valid_after_utc


def utc_now() -> datetime:
    return datetime.now(UTC)


def _from(now: datetime, lasts: timedelta) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - BACKDATED)
        .not_valid_after(now + lasts)
    )


def _name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:_MOST_COMMON_NAME])])


def _alternative(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


def _usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _private(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
