"""tidepool:keys:Authority and tidepool:keys:Certificate: kept in the state alone, renewed by an `up` before they end."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from ipaddress import ip_address
from typing import Any, ClassVar, Final, Generic, TypeVar

from tidepool.provider import x509
from tidepool.provider.x509 import Signed, Subject
from tidepool.resources.difference import Change, Rules, differences
from tidepool.resources.kind import AS_KNOWN, Home, Kind, Made, Task
from tidepool.resources.reading import Mistake, Reader
from tidepool.resources.values import Inputs, Plain

#: The input that tells of one that comes near its end; see `Kind.always`.
_STATE: Final = "state"
_VALID: Final = "valid"
_LONGEST_NAME: Final = 64


@dataclass(frozen=True, slots=True)
class WantedAuthority:
    """What the inputs say, and what the state has of one that is there."""

    common_name: str
    days: int
    there: Signed


@dataclass(frozen=True, slots=True)
class WantedCertificate:
    """The same of a certificate."""

    subject: Subject
    authority: Signed
    days: int
    there: Signed


_T = TypeVar("_T", WantedAuthority, WantedCertificate)


class _Lasting(Kind[_T], Generic[_T]):
    """What ends at a time, and is made anew before."""

    secrets = frozenset({"key"})
    always: ClassVar[Mapping[str, Plain]] = {_STATE: _VALID}

    def __init__(self, home: Home, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now

    def diff(self, old: Inputs, new: Inputs) -> tuple[Change, ...]:
        found: tuple[Change, ...] = differences(old, new, self.keys, self.rules)
        # Who does not look first, as plain `pulumi up`, is told as well.
        if self._due(str(old.get("certificate") or "")) and _STATE not in {change.key for change in found}:
            return (*found, Change(_STATE))
        return found

    def look(self, id: str, state: _T) -> Mapping[str, Plain] | None:
        if self._due(state.there.certificate):
            return {_STATE: f"ends {x509.ends(state.there.certificate):%Y-%m-%d}"}
        return AS_KNOWN

    def _due(self, certificate: str) -> bool:
        return bool(certificate) and x509.is_due(certificate, self._now())


class AuthorityKind(_Lasting[WantedAuthority]):
    """An authority. Its key stays when it is renewed, so that what it signed is good until that is renewed as well."""

    token = "tidepool:keys:Authority"  # noqa: S105 - a type of resource
    keys = frozenset({"commonName", "days", _STATE})
    rules = Rules(replaces=frozenset({"commonName"}), delete_first=False)
    remade = frozenset({"certificate", "ends"})

    def read(self, reader: Reader) -> WantedAuthority:
        reader.text(_STATE, _VALID)
        return WantedAuthority(_common_name(reader), reader.integer("days", least=1), _there(reader))

    def create(self, wanted: WantedAuthority, task: Task) -> Made:
        made = x509.authority(wanted.common_name, wanted.days, self._now())
        return Made(_id(made), _outputs(made))

    def update(
        self, id: str, old: WantedAuthority, wanted: WantedAuthority, task: Task
    ) -> Mapping[str, Plain]:
        return _outputs(x509.authority(wanted.common_name, wanted.days, self._now(), old.there.key))


class CertificateKind(_Lasting[WantedCertificate]):
    """A certificate that an authority signed. Every change of it is another key."""

    token = "tidepool:keys:Certificate"  # noqa: S105 - a type of resource
    keys = frozenset(
        {
            "authorityCertificate",
            "authorityKey",
            "commonName",
            "organizations",
            "names",
            "addresses",
            "usages",
            "days",
            _STATE,
        }
    )
    rules = Rules()
    remade = frozenset({"certificate", "key", "ends"})

    def read(self, reader: Reader) -> WantedCertificate:
        reader.text(_STATE, _VALID)
        usages = reader.texts("usages")
        for usage in usages:
            if usage not in x509.USAGES:
                reader.refuse("usages", f"it is {usage!r}; allowed are {', '.join(x509.USAGES)}")
        subject = Subject(
            _common_name(reader),
            reader.texts("organizations"),
            reader.texts("names"),
            reader.texts("addresses"),
            tuple(usage for usage in x509.USAGES if usage in usages),
        )
        authority = Signed(reader.text("authorityCertificate"), reader.text("authorityKey"))
        return WantedCertificate(subject, authority, reader.integer("days", least=1), _there(reader))

    def mistakes(self, wanted: WantedCertificate) -> Iterable[Mistake]:
        if not wanted.subject.usages:
            yield Mistake("usages", f"there are none; allowed are {', '.join(x509.USAGES)}")
        for at, address in enumerate(wanted.subject.addresses):
            try:
                ip_address(address)
            except ValueError:
                yield Mistake(f"addresses[{at}]", f"it is {address!r}; an IP address is wanted")
        for at, name in enumerate(wanted.subject.names):
            if not name.isascii():
                yield Mistake(f"names[{at}]", f"it is {name!r}; a host name is wanted")
        try:
            x509.refuse_unless_authority(wanted.authority)
        except x509.BadPair as error:
            yield Mistake("authorityCertificate", str(error))

    def create(self, wanted: WantedCertificate, task: Task) -> Made:
        made = self._signed(wanted)
        return Made(_id(made), _outputs(made))

    def update(
        self, id: str, old: WantedCertificate, wanted: WantedCertificate, task: Task
    ) -> Mapping[str, Plain]:
        return _outputs(self._signed(wanted))

    def _signed(self, wanted: WantedCertificate) -> Signed:
        return x509.signed(wanted.subject, wanted.authority, wanted.days, self._now())


def _common_name(reader: Reader) -> str:
    name = reader.text("commonName")
    if len(name) > _LONGEST_NAME:
        reader.refuse("commonName", f"it has {len(name)} characters; at most {_LONGEST_NAME} are allowed")
    return name


def _there(reader: Reader) -> Signed:
    """What was made, in the state; programs give None for it."""
    reader.text("ends", "")
    return Signed(reader.text("certificate", ""), reader.text("key", ""))


def _id(made: Signed) -> str:
    return hashlib.sha256(x509.public_key(made.key).encode()).hexdigest()[:16]


def _outputs(made: Signed) -> dict[str, Any]:
    return {"certificate": made.certificate, "key": made.key, "ends": x509.ends(made.certificate).isoformat()}
