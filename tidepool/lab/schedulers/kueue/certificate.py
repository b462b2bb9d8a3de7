"""The certificate of Kueue's webhooks, by which the API server knows them on the loopback that both are on."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Address
from typing import Final

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

#: A campaign takes hours; clocks may differ a little.
_VALID: Final = timedelta(days=365)
_EARLY: Final = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate that is signed by itself, and its key, PEM."""

    certificate: str
    key: str = field(repr=False)


def loopback_certificate() -> Pair:
    """Make a certificate for a server on 127.0.0.1."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "tidepool lab: kueue")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLY)
        .not_valid_after(now + _VALID)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(IPv4Address("127.0.0.1"))]), critical=False
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    return Pair(
        certificate.public_bytes(Encoding.PEM).decode(),
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
    )
