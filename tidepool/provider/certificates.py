"""tidepool:keys:Authority and tidepool:keys:Certificate: kept in the state alone, renewed by an `up` before they end.

All as PEM texts; keys are of the curve P-256.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import Any, Final, Generic, Literal, TypeVar

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from tidepool.resources.declarations import Authority, AuthorityModel, Certificate, CertificateModel
from tidepool.resources.kind import AS_KNOWN, Home, IdempotentKind, Kind, Made, Task
from tidepool.resources.reading import Change, Mistake, differences
from tidepool.resources.values import Inputs, Plain

Usage = Literal["server", "client"]
USAGES: Final[tuple[Usage, ...]] = ("server", "client")
_OIDS: Final = {"server": ExtendedKeyUsageOID.SERVER_AUTH, "client": ExtendedKeyUsageOID.CLIENT_AUTH}
#: Clocks of machines differ.
_BEFORE: Final = timedelta(minutes=5)
#: A certificate that has less of its time left than one part in so many is renewed.
_RENEWED_IN_LAST: Final = 3


@dataclass(frozen=True, slots=True)
class Subject:
    """The owner of a certificate, and its uses. ``names`` are host names, ``addresses`` IP addresses of a server."""

    common_name: str
    organizations: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    addresses: tuple[str, ...] = ()
    usages: tuple[Usage, ...] = ()


@dataclass(frozen=True, slots=True)
class Signed:
    """A certificate and its private key."""

    certificate: str
    key: str = field(repr=False)


class BadPair(Exception):
    """A certificate and a key that do not belong together, or are none."""


def new_key() -> str:
    """A private key."""
    return _pem(ec.generate_private_key(ec.SECP256R1()))


def public_key(key: str) -> str:
    """The public key of a private one."""
    return _loaded(key).public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode()


def authority(common_name: str, days: int, now: datetime, key: str | None = None) -> Signed:
    """An authority that signs certificates, and no other authorities; of ``key``, where it is renewed.

    What it signed before is then still good for who trusts the new certificate, and the other way round.
    """
    private = _loaded(key) if key else ec.generate_private_key(ec.SECP256R1())
    name = _name(Subject(common_name))
    made = (
        _begun(name, name, private, days, now)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(_key_usage(is_authority=True), critical=True)
        .sign(private, hashes.SHA256())
    )
    return Signed(_text(made), _pem(private))


def signed(subject: Subject, by: Signed, days: int, now: datetime) -> Signed:
    """A certificate with a key of its own, by the authority ``by``; it does not outlive that.

    Raises:
        BadPair: ``by`` is no authority.
    """
    issuer, issuer_key = _authority(by)
    private = ec.generate_private_key(ec.SECP256R1())
    builder = (
        _begun(_name(subject), issuer.subject, private, days, now, last=issuer.not_valid_after_utc)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_key_usage(is_authority=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([_OIDS[usage] for usage in subject.usages]), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key()), critical=False
        )
    )
    if subject.names or subject.addresses:
        alternatives: list[x509.GeneralName] = [x509.DNSName(name) for name in subject.names]
        alternatives += [x509.IPAddress(ip_address(each)) for each in subject.addresses]
        builder = builder.add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
    return Signed(_text(builder.sign(issuer_key, hashes.SHA256())), _pem(private))


def ends(certificate: str) -> datetime:
    """Return when a certificate ends; UTC."""
    return x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc


def is_due(certificate: str, now: datetime) -> bool:
    """Return whether a certificate is to be renewed: the last third of its time has begun."""
    read = x509.load_pem_x509_certificate(certificate.encode())
    lasts = read.not_valid_after_utc - read.not_valid_before_utc
    return read.not_valid_after_utc - now < lasts / _RENEWED_IN_LAST


def _authority(pair: Signed) -> tuple[x509.Certificate, ec.EllipticCurvePrivateKey]:
    """Read an authority; raises BadPair where ``pair`` is not its certificate and its key."""
    try:
        certificate = x509.load_pem_x509_certificate(pair.certificate.encode())
        key = _loaded(pair.key)
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (ValueError, TypeError, x509.ExtensionNotFound) as error:
        raise BadPair(f"it is not an authority's certificate and key in PEM ({error})") from None
    if not constraints.ca:
        raise BadPair("the certificate is not an authority's")
    if certificate.public_key() != key.public_key():
        raise BadPair("the key is not that of the certificate")
    return certificate, key


def _begun(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    days: int,
    now: datetime,
    last: datetime | None = None,
) -> x509.CertificateBuilder:
    end = now + timedelta(days=days)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _BEFORE)
        .not_valid_after(min(end, last) if last else end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
    )


def _key_usage(*, is_authority: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=is_authority,
        crl_sign=is_authority,
        encipher_only=False,
        decipher_only=False,
    )


def _name(subject: Subject) -> x509.Name:
    organizations: Sequence[x509.NameAttribute[str]] = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in subject.organizations
    ]
    return x509.Name([*organizations, x509.NameAttribute(NameOID.COMMON_NAME, subject.common_name)])


def _loaded(key: str) -> ec.EllipticCurvePrivateKey:
    loaded = load_pem_private_key(key.encode(), None)
    if not isinstance(loaded, ec.EllipticCurvePrivateKey):
        raise TypeError("it is no key of an elliptic curve")
    return loaded


def _pem(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def _text(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


_LONGEST_NAME: Final = 64


_T = TypeVar("_T", AuthorityModel, CertificateModel)


class _Lasting(Kind[_T], Generic[_T]):
    """A kind of what ends at a time, and is made anew before."""

    def __init__(self, home: Home, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now

    def diff(self, old: Inputs, new: Inputs) -> tuple[Change, ...]:
        found: tuple[Change, ...] = differences(self.resource.model, old, new)
        # Who does not look first, as plain `pulumi up`, is told as well.
        if self._due(str(old.get("certificate") or "")) and "state" not in {change.key for change in found}:
            return (*found, Change("state"))
        return found

    def look(self, id: str, state: _T) -> Mapping[str, Plain] | None:
        if self._due(state.certificate):
            return {"state": f"ends {ends(state.certificate):%Y-%m-%d}"}
        return AS_KNOWN

    def _due(self, certificate: str) -> bool:
        return bool(certificate) and is_due(certificate, self._now())


class AuthorityKind(_Lasting[AuthorityModel]):
    """An authority. Its key stays when it is renewed, so that what it signed is good until that is renewed as well."""

    resource = Authority

    def mistakes(self, wanted: AuthorityModel) -> Iterable[Mistake]:
        return _mistakes_of_name(wanted.common_name)

    def create(self, wanted: AuthorityModel, task: Task) -> Made:
        made = authority(wanted.common_name, wanted.days, self._now())
        return Made(_id(made), _outputs(made))

    def update(self, id: str, old: AuthorityModel, wanted: AuthorityModel, task: Task) -> Mapping[str, Plain]:
        return _outputs(authority(wanted.common_name, wanted.days, self._now(), old.key))


class CertificateKind(_Lasting[CertificateModel], IdempotentKind[CertificateModel]):
    """A certificate that an authority signed. Every change of it is another key."""

    resource = Certificate

    def mistakes(self, wanted: CertificateModel) -> Iterable[Mistake]:
        yield from _mistakes_of_name(wanted.common_name)
        if not wanted.usages:
            yield Mistake("usages", f"there are none; allowed are {', '.join(USAGES)}")
        for at, address in enumerate(wanted.addresses):
            try:
                ip_address(address)
            except ValueError:
                yield Mistake(f"addresses[{at}]", f"it is {address!r}; an IP address is wanted")
        for at, name in enumerate(wanted.names):
            if not name.isascii():
                yield Mistake(f"names[{at}]", f"it is {name!r}; a host name is wanted")
        try:
            _authority(_issuer(wanted))
        except BadPair as error:
            yield Mistake("authorityCertificate", str(error))

    def create(self, wanted: CertificateModel, task: Task) -> Made:
        subject = Subject(
            wanted.common_name,
            tuple(wanted.organizations),
            tuple(wanted.names),
            tuple(wanted.addresses),
            tuple(usage for usage in USAGES if usage in wanted.usages),
        )
        made = signed(subject, _issuer(wanted), wanted.days, self._now())
        return Made(_id(made), _outputs(made))


def _mistakes_of_name(name: str) -> Iterable[Mistake]:
    if len(name) > _LONGEST_NAME:
        yield Mistake("commonName", f"it has {len(name)} characters; at most {_LONGEST_NAME} are allowed")


def _issuer(wanted: CertificateModel) -> Signed:
    return Signed(wanted.authority_certificate, wanted.authority_key)


def _id(made: Signed) -> str:
    return hashlib.sha256(public_key(made.key).encode()).hexdigest()[:16]


def _outputs(made: Signed) -> dict[str, Any]:
    return {"certificate": made.certificate, "key": made.key, "ends": ends(made.certificate).isoformat()}
