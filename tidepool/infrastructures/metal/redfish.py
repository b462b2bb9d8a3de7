"""A BMC by Redfish: this is the one place that asks one, and that imports `sushy`.

What BMCs are known to do is reckoned with: some say that they did what they did not, so all that matters is read again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, TypeVar

from tidepool.cluster.failures import InfrastructureError, Permanent, Transient
from tidepool.infrastructures.boot_media.credentials import read_credentials
from tidepool.infrastructures.failures import by_words
from tidepool.infrastructures.metal.inventory import MEDIA_TARGETS, Facts, facts_of

_T = TypeVar("_T")

#: Of texts that come without their kind: all that is raised here has one.
kind_of: Final = by_words(otherwise=Transient)

_CONNECT_S: Final = 10.0
_ANSWER_S: Final = 60.0


class Silent(Transient):
    """Nothing answers there: the BMC is down, or not to be reached from here."""


class Conflict(Transient):
    """The AssetTag was written by somebody else meanwhile."""


@dataclass(frozen=True, slots=True)
class BmcLocation:
    """A BMC and its system, and the files of who may use it and of who signs its certificate; no secret is in it."""

    address: str
    credentials: str
    system: str = ""
    ca: str = ""
    verify: bool = True

    def open(self) -> Bmc:
        """Return the system.

        Raises:
            Permanent: the file of credentials is no such file; the package is not installed.
            InfrastructureError: the BMC does not answer, or not as it should.
        """
        return _open(self, *read_credentials(Path(self.credentials).expanduser()))


class Bmc(Protocol):
    """A host's BMC. All of it raises `InfrastructureError`, with what the BMC said and the remedy."""

    def facts(self, *, whole: bool = False) -> Facts:
        """Return what it says now: with ``whole`` also what takes more questions, as processors, BIOS and firmware do."""
        ...

    def tag(self, text: str, before: str) -> None:
        """Write the AssetTag, where it is still ``before``.

        Raises:
            Conflict: it is not.
        """
        ...

    def reset(self, how: str) -> None:
        """Have it do that: `On`, `ForceOff`."""
        ...

    def boot_from(self, url: str) -> None:
        """Have it boot from the image at that URL, now and after that."""
        ...

    def boot_from_disk(self) -> None:
        """Take the image out, and have it boot from its disk, now and after that."""
        ...

    def eject(self) -> None:
        """Take the image out, and have it boot as it did before."""
        ...

    def configure(self, attributes: Mapping[str, Any]) -> None:
        """Set attributes of the BIOS, which hold from the next boot on; those that are so already are left alone."""
        ...


Open = Callable[[BmcLocation], Bmc]


def _open(location: BmcLocation, user: str, password: str) -> Bmc:
    try:
        from sushy import Sushy, auth, connector
    except ModuleNotFoundError as error:
        from tidepool.infrastructures.metal import PACKAGE

        raise Permanent(
            f"the Python package {error.name} is not installed; run: {PACKAGE.install}"
        ) from error
    # It writes of each answer that it does not like; all of them are told here.
    logging.getLogger("sushy").addHandler(logging.NullHandler())
    logging.getLogger("sushy").propagate = False
    verify = (str(Path(location.ca).expanduser()) if location.ca else True) if location.verify else False
    with _failures(location):
        # Whoever cannot wait asks again: a request that is repeated in there may have been done already.
        connection = connector.Connector(
            f"{location.address.rstrip('/')}/",
            verify=verify,
            server_side_retries=1,
            server_side_retries_delay=1,
            default_request_timeout=_ANSWER_S,
            connect_timeout=_CONNECT_S,
        )
        # Not by a session: a BMC has few of them, and one of a process that was killed stays.
        root = Sushy(
            location.address,
            auth=auth.BasicAuth(username=user, password=password),
            connector=connection,
        )
        system = root.get_system(location.system or None)
    return _Redfish(location, root, system, connection)


@dataclass(frozen=True, slots=True)
class _Redfish:
    """`Bmc`, by `sushy`."""

    location: BmcLocation
    root: Any
    system: Any
    connection: Any

    def facts(self, *, whole: bool = False) -> Facts:
        with _failures(self.location):
            self.system.invalidate()
            self.system.refresh()
            said = self.system.json
            if not whole:
                return facts_of(said)
            interfaces = self._there(lambda: [*self.system.ethernet_interfaces.get_members()]) or ()
            return facts_of(
                said,
                media=[each.json for each in self._media()],
                interfaces=[each.json for each in interfaces],
                attributes=self._there(lambda: dict(self.system.bios.attributes or {})),
                threads=self._there(lambda: self.system.processors.summary.count),
                firmware=self._there(self._firmware),
            )

    def tag(self, text: str, before: str) -> None:
        with _failures(self.location):
            self.system.invalidate()
            self.system.refresh()
            now = str(self.system.json.get("AssetTag") or "")
            if now == text:
                return
            if now != before:
                raise Conflict(f"{self.location.address}: its AssetTag is {now!r} by now, and was {before!r}")
            etag = self.system._get_etag()
            # sushy's own way to give it tries again without it.
            headers = {"If-Match": etag} if etag else None
            self.connection.patch(self.system.path, data={"AssetTag": text}, headers=headers)
            self.system.invalidate()
            self.system.refresh()
            kept = str(self.system.json.get("AssetTag") or "")
        if kept == text:
            return
        if kept != before:
            raise Conflict(
                f"{self.location.address}: its AssetTag is {kept!r}, right after {text!r} was written"
            )
        raise Permanent(
            f"{self.location.address} says that it wrote the AssetTag, by which stacks know whose a host is, and has {kept!r}: update "
            "its firmware, or leave the host out"
        )

    def reset(self, how: str) -> None:
        import sushy

        with _failures(self.location):
            self.system.reset_system(sushy.ResetType(how))

    def boot_from(self, url: str) -> None:
        with _failures(self.location):
            device = self._device()
            if device.json.get("Image") != url or not device.json.get("Inserted"):
                if device.json.get("Inserted"):
                    device.eject_media()
                device.insert_media(url)
            boots_from = facts_of(self.system.json).boots_from
            self._override(next((each for each in MEDIA_TARGETS if each in boots_from), "Cd"))

    def boot_from_disk(self) -> None:
        self.eject()
        with _failures(self.location):
            self._override("Hdd")

    def _override(self, target: str) -> None:
        import sushy

        try:
            self.system.set_system_boot_options(
                target=sushy.BootSource(target), enabled=sushy.BootSourceOverrideEnabled.CONTINUOUS
            )
        except sushy.exceptions.BadRequestError:
            # Some firmware does it for one boot at a time.
            self.system.set_system_boot_options(
                target=sushy.BootSource(target), enabled=sushy.BootSourceOverrideEnabled.ONCE
            )

    def eject(self) -> None:
        import sushy

        with _failures(self.location):
            for device in self._media():
                if device.json.get("Inserted"):
                    device.eject_media()
            if "Hdd" in facts_of(self.system.json).boots_from:
                self.system.set_system_boot_options(
                    target=sushy.BootSource.HDD, enabled=sushy.BootSourceOverrideEnabled.DISABLED
                )

    def configure(self, attributes: Mapping[str, Any]) -> None:
        if not attributes:
            return
        with _failures(self.location):
            there = self.system.bios.attributes or {}
            changes = {key: value for key, value in attributes.items() if there.get(key) != value}
            if changes:
                self.system.bios.set_attributes(changes)

    def _media(self) -> list[Any]:
        """All virtual media: newer firmware has them with the system, older with its manager."""
        found = self._there(lambda: [*self.system.virtual_media.get_members()])
        return self._there(self._managers_media) or [] if found is None else found

    def _managers_media(self) -> list[Any]:
        return [each for manager in self.system.managers for each in manager.virtual_media.get_members()]

    def _device(self) -> Any:
        for each in self._media():
            if {"CD", "DVD"} & {*(each.json.get("MediaTypes") or ())}:
                return each
        raise Permanent(
            f"{self.location.address} has no virtual CD, which hosts boot from: update its firmware, or its licence; or leave the "
            "host out"
        )

    def _firmware(self) -> Mapping[str, str]:
        inventory = self.root.get_update_service().firmware_inventory.get_members()
        return {str(each.name): str(each.version) for each in inventory if each.version}

    @staticmethod
    def _there(ask: Callable[[], _T]) -> _T | None:
        """Return what it gives; None where this BMC has no such thing."""
        import sushy

        try:
            return ask()
        except (sushy.exceptions.ResourceNotFoundError, sushy.exceptions.MissingAttributeError):
            return None


@contextmanager
def _failures(location: BmcLocation) -> Iterator[None]:
    """Raise what goes wrong within it as an `InfrastructureError`, with the remedy."""
    import requests
    from sushy import exceptions

    where = location.address
    try:
        yield
    except exceptions.ConnectionError as error:
        if isinstance(error.__context__, requests.exceptions.SSLError):
            raise Permanent(
                f"the certificate of {where} is not trusted ({_last(error.__context__)}): name who signs it in ca, or write verify: "
                "false where nobody is between"
            ) from error
        raise Silent(
            f"nothing answers at {where} ({_last(error.__context__ or error)}): see whether the BMC is up, and to be reached from here"
        ) from error
    except exceptions.AccessError as error:
        if error.status_code == 401:
            raise Permanent(
                f"{where} does not take the user and the password in {location.credentials}: correct them there"
            ) from error
        raise Permanent(
            f"{where} does not let the user in {location.credentials} do that (403, {error.detail or 'without a word'}): give it "
            "the role Operator or Administrator on the BMC"
        ) from error
    except exceptions.ResourceNotFoundError as error:
        raise Permanent(
            f"{where} has no {location.system or 'system'}: {error}; write system as it says"
        ) from error
    except exceptions.UnknownDefaultError as error:
        raise Permanent(f"{where} has several systems: write in system which one is meant") from error
    except exceptions.HTTPError as error:
        said = f"{where} answers with {error.status_code}: {error.detail or 'without a word'}"
        if error.status_code == 412:
            raise Conflict(said) from error
        busy = error.status_code >= 500 or error.status_code in (408, 409, 423, 429)
        raise (Transient(f"{said}; it may work in a while") if busy else Permanent(said)) from error
    except exceptions.SushyError as error:
        raise Permanent(f"{where} does not do what Redfish says: {error}") from error


def _last(error: BaseException) -> str:
    return str(error).rpartition("Caused by ")[2].strip("()") or type(error).__name__


def of_host(host: str, error: InfrastructureError) -> InfrastructureError:
    """Return the same failure, said of that host."""
    return type(error)(f"the host {host}: {error}")
