"""Ironic by its API: this is the one place that asks it, and that imports `openstack`."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol

from tidepool.cluster.failures import InfrastructureError, Permanent, Transient
from tidepool.infrastructures.failures import by_words
from tidepool.infrastructures.ironic.inventory import ENROLLED, EXTRA, Claim, Host, host_of, hosts_of

#: Of texts that come without their kind: all that is raised here has one.
kind_of: Final = by_words(otherwise=Transient)

#: Of Ironic's API, which every question names: that of Ironic 17 (Wallaby), with the fields that are asked for.
VERSION: Final = "1.69"
#: The first that tells what inspection found.
_OF_INVENTORY: Final = "1.81"
_ANSWER_S: Final = 60.0
_PAGE: Final = 500
_FIELDS: Final = (
    "uuid,name,provision_state,power_state,instance_uuid,extra,maintenance,maintenance_reason,fault,retired,last_error,"
    "resource_class,traits,driver,properties,boot_interface,network_interface,instance_info"
)
_PORT_FIELDS: Final = "address,node_uuid,physical_network,pxe_enabled"


class Silent(Transient):
    """Nothing answers there: Ironic is down, or not to be reached from here."""


class Locked(Transient):
    """A conductor works on the node; it may be told in a while."""


class Conflict(Transient):
    """The node is not as it was a moment ago: somebody else has it, or it is in another state."""


class NotAllowed(Permanent):
    """The user may not do that, or a person keeps it from being done."""


class NotThere(Permanent):
    """There is no such node."""


@dataclass(frozen=True, slots=True)
class IronicLocation:
    """An Ironic: the name of its cloud in a file `clouds.yaml`, which has who may use it. No secret is in it."""

    cloud: str
    clouds_file: str

    def open(self) -> Ironic:
        """Return the API of it.

        Raises:
            Permanent: the file is no such file, or does not have that cloud; the package is not installed.
        """
        return _open(self)


@dataclass(frozen=True, slots=True)
class Enrolment:
    """A host that a stack enrols: its BMC and system, and the port in the cluster's network."""

    stack: str
    name: str
    mac: str
    resource_class: str = ""
    traits: tuple[str, ...] = ()
    physical_network: str = ""


class Ironic(Protocol):
    """The API. All of it raises `InfrastructureError`, with what Ironic said and the remedy."""

    def hosts(self) -> Sequence[Host]:
        """Return all nodes that the user sees, with their ports."""
        ...

    def host(self, uuid: str) -> Host:
        """Return a node of that UUID or name as it is now, without its ports.

        Raises:
            NotThere: it is not enrolled.
        """
        ...

    def deploy_interfaces(self) -> Mapping[str, frozenset[str]]:
        """Return the deploy interfaces that are enabled, by hardware type; nothing to a user who may not ask that."""
        ...

    def claim(self, uuid: str, claim: Claim, info: Mapping[str, Any]) -> None:
        """Give a node its instance, where it has none, and what it is to boot: all of it or nothing.

        Raises:
            Conflict: it has one by now.
        """
        ...

    def tell(self, uuid: str, info: Mapping[str, Any]) -> None:
        """Write another `instance_info`."""
        ...

    def release(self, uuid: str) -> None:
        """Take the instance off a node that was not deployed."""
        ...

    def provision(self, uuid: str, target: str) -> None:
        """Have it go to that state: `active`, `deleted`."""
        ...

    def power(self, uuid: str, target: str) -> None:
        """Have its power so: `power on`."""
        ...

    def enrol(self, entry: Enrolment, driver_info: Mapping[str, Any]) -> Host:
        """Make a node of a host."""
        ...

    def equip(self, host: Host, entry: Enrolment) -> None:
        """Give a host that is enrolled the port and the traits that it lacks."""
        ...

    def drive(self, uuid: str, driver_info: Mapping[str, Any]) -> None:
        """Write another `driver_info`, which has who may use its BMC."""
        ...

    def count_cpus(self, uuid: str) -> None:
        """Write the number of processors that inspection found among its properties, as it does not do by itself."""
        ...

    def remove(self, uuid: str) -> None:
        """Forget a node. One that is gone is no error."""
        ...


Open = Callable[[IronicLocation], Ironic]


def _open(location: IronicLocation) -> Ironic:
    try:
        from openstack.config import OpenStackConfig
        from openstack.connection import Connection
        from openstack.exceptions import ConfigException
    except ModuleNotFoundError as error:
        from tidepool.infrastructures.ironic import PACKAGE

        raise Permanent(
            f"the Python package {error.name} is not installed; run: {PACKAGE.install}"
        ) from error
    path = Path(location.clouds_file).expanduser()
    _check(path)
    secrets = path.with_name("secure.yaml")
    if secrets.exists():
        _check(secrets)
    try:
        # Of this file, and a `secure.yaml` beside it; not of whatever the environment says.
        read = OpenStackConfig(
            config_files=[str(path)],
            secure_files=[str(secrets)],
            vendor_files=[],
            load_envvars=False,
        )
        region = read.get_one(cloud=location.cloud, api_timeout=_ANSWER_S)
        return _Api(location, Connection(config=region))
    except ConfigException as error:
        raise Permanent(f"{path}: {error}; write the cloud {location.cloud} as it is there") from error
    except Exception as error:
        raise _failure(location, error) from error


def _check(path: Path) -> None:
    try:
        if stat.S_IMODE(path.stat().st_mode) & 0o077:
            raise Permanent(f"others may read {path}, which has passwords; run: chmod 600 {path}")
    except OSError as error:
        raise Permanent(
            f"the file of who may use Ironic, {path}, cannot be read ({error.strerror}): write a clouds.yaml there, for you alone "
            "(docs/infrastructures/ironic.md)"
        ) from error


@dataclass(frozen=True, slots=True)
class _Api:
    """`Ironic`, by `openstacksdk`."""

    location: IronicLocation
    connection: Any

    def hosts(self) -> Sequence[Host]:
        nodes = self._listed("nodes", _FIELDS)
        ports = self._listed("ports", _PORT_FIELDS)
        return hosts_of(nodes, ports)

    def host(self, uuid: str) -> Host:
        return host_of(self._ask("GET", f"/nodes/{uuid}?fields={_FIELDS}"))

    def deploy_interfaces(self) -> Mapping[str, frozenset[str]]:
        try:
            found = self._ask("GET", "/drivers?detail=true&type=dynamic")["drivers"]
        except NotAllowed:
            return {}
        return {each["name"]: frozenset(each.get("enabled_deploy_interfaces") or ()) for each in found}

    def claim(self, uuid: str, claim: Claim, info: Mapping[str, Any]) -> None:
        self._ask(
            "PATCH",
            f"/nodes/{uuid}",
            [
                {"op": "add", "path": "/instance_uuid", "value": claim.instance},
                {"op": "add", "path": f"/extra/{EXTRA}", "value": str(claim)},
                {"op": "add", "path": "/instance_info", "value": dict(info)},
            ],
        )

    def tell(self, uuid: str, info: Mapping[str, Any]) -> None:
        self._ask("PATCH", f"/nodes/{uuid}", [{"op": "add", "path": "/instance_info", "value": dict(info)}])

    def release(self, uuid: str) -> None:
        self._ask(
            "PATCH",
            f"/nodes/{uuid}",
            [
                {"op": "remove", "path": "/instance_uuid"},
                {"op": "add", "path": "/instance_info", "value": {}},
            ],
        )

    def provision(self, uuid: str, target: str) -> None:
        self._ask("PUT", f"/nodes/{uuid}/states/provision", {"target": target})

    def power(self, uuid: str, target: str) -> None:
        self._ask("PUT", f"/nodes/{uuid}/states/power", {"target": target})

    def enrol(self, entry: Enrolment, driver_info: Mapping[str, Any]) -> Host:
        told = {
            "name": entry.name,
            "driver": "redfish",
            "boot_interface": "redfish-virtual-media",
            "driver_info": dict(driver_info),
            "extra": {ENROLLED: entry.stack},
            **({"resource_class": entry.resource_class} if entry.resource_class else {}),
        }
        return host_of(self._ask("POST", "/nodes", told))

    def equip(self, host: Host, entry: Enrolment) -> None:
        ports = self._ask("GET", f"/ports?node={host.uuid}&fields=address")["ports"]
        if entry.mac not in {port["address"] for port in ports}:
            port = {"node_uuid": host.uuid, "address": entry.mac}
            where = {"physical_network": entry.physical_network} if entry.physical_network else {}
            self._ask("POST", "/ports", port | where)
        if {*entry.traits} - {*host.traits}:
            self._ask("PUT", f"/nodes/{host.uuid}/traits", {"traits": sorted({*entry.traits, *host.traits})})

    def drive(self, uuid: str, driver_info: Mapping[str, Any]) -> None:
        self._ask(
            "PATCH", f"/nodes/{uuid}", [{"op": "add", "path": "/driver_info", "value": dict(driver_info)}]
        )

    def count_cpus(self, uuid: str) -> None:
        found = self._ask("GET", f"/nodes/{uuid}/inventory", version=_OF_INVENTORY)
        count = int(((found.get("inventory") or {}).get("cpu") or {}).get("count") or 0)
        if count:
            self._ask("PATCH", f"/nodes/{uuid}", [{"op": "add", "path": "/properties/cpus", "value": count}])

    def remove(self, uuid: str) -> None:
        try:
            self._ask("DELETE", f"/nodes/{uuid}")
        except NotThere:
            return

    def _listed(self, what: str, fields: str) -> Sequence[Mapping[str, Any]]:
        found: list[Mapping[str, Any]] = []
        while True:
            after = f"&marker={found[-1]['uuid']}" if found else ""
            page = self._ask(
                "GET", f"/{what}?limit={_PAGE}&fields=uuid,{fields.removeprefix('uuid,')}{after}"
            )
            found += page[what]
            if "next" not in page:
                return found

    def _ask(self, method: str, path: str, body: Any = None, version: str = VERSION) -> Any:
        with _failures(self.location, self.connection):
            answer = self.connection.baremetal.request(
                path,
                method,
                json=body,
                microversion=version,
                raise_exc=False,
                # Whoever can wait asks again.
                connect_retries=0,
                status_code_retries=0,
            )
        if answer.status_code < 400:
            return answer.json() if answer.content else None
        raise _refused(self.location, answer.status_code, _said(answer.text))


def _said(text: str) -> str:
    """Return what an answer says of a failure: a text in JSON, which may be JSON itself."""
    try:
        found = json.loads(text)
        found = found.get("error_message") or found.get("error") or found
        found = json.loads(found) if isinstance(found, str) and found.startswith("{") else found
        found = (found.get("faultstring") or found.get("message")) if isinstance(found, dict) else found
    except (ValueError, AttributeError):
        found = text
    return " ".join(str(found or "without a word").split())


def _refused(location: IronicLocation, status: int, said: str) -> InfrastructureError:
    where = f"the Ironic of the cloud {location.cloud}"
    if status == 401:
        return Permanent(
            f"{where} does not take the user and the password in {location.clouds_file}: correct them there"
        )
    if status == 403:
        return NotAllowed(f"{where} does not let that be done: {said}")
    if status == 404:
        return NotThere(f"{where}: {said}")
    if status == 406:
        return Permanent(f"{where} has no API {VERSION}: Ironic 17 or newer is wanted ({said})")
    if status == 409:
        return Locked(f"{where}: {said}") if "is locked by" in said else Conflict(f"{where}: {said}")
    if status == 400 and "can not be performed on node" in said:
        return Conflict(f"{where}: {said}")
    if status >= 500 or status in (408, 429):
        return Transient(f"{where} answers with {status}: {said}; it may work in a while")
    return Permanent(f"{where}: {said}")


@contextmanager
def _failures(location: IronicLocation, connection: Any) -> Iterator[None]:
    """Raise what goes wrong within it, before Ironic answers, as an `InfrastructureError`, with the remedy."""
    from keystoneauth1.exceptions import ClientException, DiscoveryFailure
    from openstack.exceptions import SDKException

    try:
        yield
    except DiscoveryFailure as error:
        raise _failure(location, _cause(connection) or error) from error
    except (ClientException, SDKException) as error:
        raise _failure(location, error) from error


def _cause(connection: Any) -> Exception | None:
    """Return why there is no answer at an endpoint, which who discovers what it serves does not tell; None where there is one."""
    from keystoneauth1.exceptions import ClientException

    config = connection.config
    try:
        url = config.get_endpoint("baremetal") or connection.session.get_endpoint(
            service_type="baremetal",
            interface=config.get_interface("baremetal"),
            region_name=config.get_region_name("baremetal"),
            skip_discovery=True,
        )
        connection.session.get(url, authenticated=False)
    except ClientException as error:
        return error
    return None


def _failure(location: IronicLocation, error: Exception) -> InfrastructureError:
    from keystoneauth1 import exceptions

    said = " ".join(str(error).split())
    where = f"the cloud {location.cloud} in {location.clouds_file}"
    if isinstance(error, exceptions.SSLError) or "CERTIFICATE_VERIFY_FAILED" in said:
        return Permanent(
            f"the certificate of {where} is not trusted ({said}): name who signs it there, in cacert"
        )
    if isinstance(error, exceptions.Unauthorized):
        return Permanent(
            f"{where}: Keystone does not take the user and the password there: correct them ({said})"
        )
    if isinstance(error, exceptions.ConnectionError):
        return Silent(
            f"nothing answers at {where} ({said}): see whether Ironic is up, and to be reached from here"
        )
    if isinstance(error, exceptions.EndpointNotFound | exceptions.DiscoveryFailure):
        return Permanent(f"{where} has no bare metal service ({said}): correct its endpoint or its region")
    if isinstance(error, exceptions.HttpError):
        return _refused(location, error.http_status, said)
    return Permanent(f"{where} is nothing to work with ({said}): correct it there")
