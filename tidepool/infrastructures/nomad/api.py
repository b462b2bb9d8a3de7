"""Nomad's HTTP API, with the standard library, and its hosts. The token comes from a file or the environment, and is in no argument."""

from __future__ import annotations

import http.client
import json
import ssl
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures.failures import by_words
from tidepool.infrastructures.nomad.jobspec import Constraint

if TYPE_CHECKING:
    from tidepool.infrastructures.nomad.options import SiteOptions


class NotAllowed(Permanent):
    """The token has not the right to it."""


class NotThere(Permanent):
    """There is no such thing."""


#: In this order. A plan that finds no place is no capacity, whatever else the text says. One that nobody knows is transient: it is
#: tried again, and not for ever.
kind_of: Final = by_words(
    (
        InsufficientCapacity,
        (
            r"no nodes were eligible|placement failure|dimension .* exhausted|resources exhausted",
            r"quota .*(?:exceeded|limit)|reserved port collision",
        ),
    ),
    (
        Permanent,
        (
            r"permission denied|\b40[0134]\b|acl token not found|validation failed|missing drivers?",
            r"no such (?:job|node|namespace)|unknown namespace|nonexistent namespace|job .* is in nonexistent",
        ),
    ),
    otherwise=Transient,
)


def read_token(file: str | None, environment: Mapping[str, str]) -> str:
    """The token of that file, else NOMAD_TOKEN; empty where there is none.

    Raises:
        Permanent: the file cannot be read, or others can read it.
    """
    if file is None:
        return environment.get("NOMAD_TOKEN", "")
    path = Path(file)
    try:
        if path.stat().st_mode & 0o077:
            raise Permanent(f"others can read the token in {file}; run: chmod 600 {file}")
        return path.read_text().strip()
    except OSError as error:
        raise Permanent(f"the token in {file} cannot be read: {error.strerror}") from error


@dataclass(frozen=True, slots=True)
class Host:
    """A host of Nomad. ``drivers`` are those that work."""

    id: str
    name: str
    datacenter: str = "dc1"
    node_pool: str = "default"
    version: str = ""
    is_up: bool = True
    is_eligible: bool = True
    drivers: frozenset[str] = frozenset()
    meta: Mapping[str, str] = field(default_factory=dict)
    attributes: Mapping[str, str] = field(default_factory=dict)


def read_host(node: Mapping[str, Any]) -> Host:
    """From what ``/v1/node/ID`` says."""
    attributes = node.get("Attributes") or {}
    drivers = node.get("Drivers") or {}
    return Host(
        id=node["ID"],
        name=node.get("Name", ""),
        datacenter=node.get("Datacenter", ""),
        node_pool=node.get("NodePool", "default"),
        version=attributes.get("nomad.version", ""),
        is_up=node.get("Status") == "ready",
        is_eligible=node.get("SchedulingEligibility") == "eligible",
        drivers=frozenset(name for name, told in drivers.items() if told.get("Healthy")),
        meta=node.get("Meta") or {},
        attributes=attributes,
    )


def version_numbers(text: str) -> tuple[int, ...]:
    """Return the numbers of a version: 2, 0 and 6 of ``2.0.6-beta.1+ent``."""
    numbers = text.partition("-")[0].partition("+")[0].split(".")
    return tuple(int(number) for number in numbers if number.isdigit())


def lacking(host: Host, constraints: Sequence[Constraint]) -> tuple[str, ...]:
    """The constraints that it does not keep, in words."""
    return tuple(
        f"{each.left} is {found or 'not there'}, and not {each.right}"
        for each in constraints
        if not _keeps(found := _value(host, each.left), each)
    )


def _value(host: Host, of: str) -> str:
    key = of.removeprefix("${").removesuffix("}")
    if key == "node.unique.name":
        return host.name
    scope, _, rest = key.partition(".")
    return (host.attributes if scope == "attr" else host.meta).get(rest, "")


def _keeps(found: str, constraint: Constraint) -> bool:
    if constraint.operand == "set_contains_any":
        return found in constraint.right.split(",")
    return found == constraint.right


T = TypeVar("T")
U = TypeVar("U")

_ANSWER_S: Final = 15.0
#: Hosts are asked for one by one, as lists of them leave their metadata out.
_AT_ONCE: Final = 16


@dataclass(frozen=True, slots=True)
class Api:
    """The API at ``address``. All may be called from many threads."""

    address: str
    token: str = field(default="", repr=False)
    region: str | None = None
    ca_file: str | None = None
    answer_s: float = _ANSWER_S

    def call(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        """Return the answer, from JSON; None where that is nothing.

        Raises:
            NotAllowed, NotThere: it says so.
            InsufficientCapacity, Transient, Permanent: otherwise, with its words. After one that is transient it may
                have done what it was asked for.
        """
        asked = {**query, **({"region": self.region} if self.region else {})}
        url = f"{self.address}/v1/{path}" + (f"?{urllib.parse.urlencode(asked)}" if asked else "")
        # The scheme is one of HTTP's: options let no other in.
        request = urllib.request.Request(url, method=method)  # noqa: S310
        if self.token:
            request.add_header("X-Nomad-Token", self.token)
        if body is not None:
            request.data = json.dumps(body).encode()
        what = f"{method} {url}"
        trusted = self._trusted()
        try:
            with urllib.request.urlopen(request, timeout=self.answer_s, context=trusted) as answer:  # noqa: S310
                said = answer.read()
            return json.loads(said) if said else None
        except urllib.error.HTTPError as error:
            with error:
                words = error.read().decode(errors="replace").strip()
            raise _failure(error.code, what, words) from error
        except (OSError, http.client.HTTPException, json.JSONDecodeError) as error:
            reason = getattr(error, "reason", error)
            raise Transient(f"Nomad does not answer {what}: {reason}") from error

    def _trusted(self) -> ssl.SSLContext | None:
        """Return the authority that vouches for servers; None where nobody is asked to."""
        if not self.address.startswith("https"):
            return None
        try:
            return ssl.create_default_context(cafile=self.ca_file)
        except OSError as error:
            reason = error.strerror or error
            raise Permanent(f"the certificates in {self.ca_file} cannot be read: {reason}") from error

    def hosts(self, **filters: str) -> tuple[Host, ...]:
        """The hosts whose metadata says all of ``filters`` (empty: it does not say it at all), by their names."""
        told = [
            f'Meta["{key}"] == "{value}"' if value else f'"{key}" not in Meta'
            for key, value in filters.items()
        ]
        listed = self.call("GET", "nodes", **({"filter": " and ".join(told)} if told else {}))
        found = self.at_once(self.host, [each["ID"] for each in listed or ()])
        return tuple(sorted((host for host in found if host is not None), key=lambda host: host.name))

    def at_once(self, ask: Callable[[T], U], of: Sequence[T]) -> Sequence[U]:
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return tuple(pool.map(ask, of))

    def host(self, id: str) -> Host | None:
        """One of them; None where Nomad knows no such host."""
        try:
            return read_host(self.call("GET", f"node/{id}"))
        except NotThere:
            return None


@dataclass(frozen=True, slots=True)
class ApiLocation:
    """The address of the API, and the file of the token; the token itself is in no input."""

    address: str
    region: str | None = None
    token_file: str | None = None
    ca_file: str | None = None

    @classmethod
    def of(cls, site: SiteOptions) -> ApiLocation:
        return cls(site.address, site.region, site.token_file, site.ca_file)

    def open(self, environment: Mapping[str, str]) -> Api:
        """Return the API, with its token.

        Raises:
            Permanent: that cannot be read.
        """
        token = read_token(self.token_file, environment)
        return Api(self.address, token, region=self.region, ca_file=self.ca_file)


def _failure(status: int, what: str, words: str) -> Exception:
    said = f"Nomad answers {what} with {status}: {words}"
    if status == 403:
        return NotAllowed(said)
    if status == 404:
        return NotThere(said)
    if status == 429 or status >= 500:
        kind = kind_of(words)
        # What an error of a server is of, its words say at best.
        return (kind if kind is InsufficientCapacity else Transient)(said)
    return Permanent(said)
