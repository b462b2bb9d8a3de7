"""tidepool:keys:Authority and tidepool:keys:Certificate: kept in the state alone, renewed by an `up` before they end."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any, Final, Generic, TypeVar

from tidepool.provider import x509
from tidepool.provider.x509 import Signed, Subject
from tidepool.resources.keys import Authority, AuthorityModel, Certificate, CertificateModel
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.reading import Change, Mistake, differences
from tidepool.resources.values import Inputs, Plain

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
            return {"state": f"ends {x509.ends(state.certificate):%Y-%m-%d}"}
        return AS_KNOWN

    def _due(self, certificate: str) -> bool:
        return bool(certificate) and x509.is_due(certificate, self._now())


class AuthorityKind(_Lasting[AuthorityModel]):
    """An authority. Its key stays when it is renewed, so that what it signed is good until that is renewed as well."""

    resource = Authority

    def mistakes(self, wanted: AuthorityModel) -> Iterable[Mistake]:
        return _mistakes_of_name(wanted.common_name)

    def create(self, wanted: AuthorityModel, task: Task) -> Made:
        made = x509.authority(wanted.common_name, wanted.days, self._now())
        return Made(_id(made), _outputs(made))

    def update(self, id: str, old: AuthorityModel, wanted: AuthorityModel, task: Task) -> Mapping[str, Plain]:
        return _outputs(x509.authority(wanted.common_name, wanted.days, self._now(), old.key))


class CertificateKind(_Lasting[CertificateModel]):
    """A certificate that an authority signed. Every change of it is another key."""

    resource = Certificate

    def mistakes(self, wanted: CertificateModel) -> Iterable[Mistake]:
        yield from _mistakes_of_name(wanted.common_name)
        if not wanted.usages:
            yield Mistake("usages", f"there are none; allowed are {', '.join(x509.USAGES)}")
        for at, address in enumerate(wanted.addresses):
            try:
                ip_address(address)
            except ValueError:
                yield Mistake(f"addresses[{at}]", f"it is {address!r}; an IP address is wanted")
        for at, name in enumerate(wanted.names):
            if not name.isascii():
                yield Mistake(f"names[{at}]", f"it is {name!r}; a host name is wanted")
        try:
            x509.refuse_unless_authority(_authority(wanted))
        except x509.BadPair as error:
            yield Mistake("authorityCertificate", str(error))

    def create(self, wanted: CertificateModel, task: Task) -> Made:
        made = self._signed(wanted)
        return Made(_id(made), _outputs(made))

    def update(
        self, id: str, old: CertificateModel, wanted: CertificateModel, task: Task
    ) -> Mapping[str, Plain]:
        return _outputs(self._signed(wanted))

    def _signed(self, wanted: CertificateModel) -> Signed:
        subject = Subject(
            wanted.common_name,
            tuple(wanted.organizations),
            tuple(wanted.names),
            tuple(wanted.addresses),
            tuple(usage for usage in x509.USAGES if usage in wanted.usages),
        )
        return x509.signed(subject, _authority(wanted), wanted.days, self._now())


def _mistakes_of_name(name: str) -> Iterable[Mistake]:
    if len(name) > _LONGEST_NAME:
        yield Mistake("commonName", f"it has {len(name)} characters; at most {_LONGEST_NAME} are allowed")


def _authority(wanted: CertificateModel) -> Signed:
    return Signed(wanted.authority_certificate, wanted.authority_key)


def _id(made: Signed) -> str:
    return hashlib.sha256(x509.public_key(made.key).encode()).hexdigest()[:16]


def _outputs(made: Signed) -> dict[str, Any]:
    return {"certificate": made.certificate, "key": made.key, "ends": x509.ends(made.certificate).isoformat()}
