"""CloudStack's API by the client `cs`: calls, lists whatever a page holds, asynchronous jobs, and errors in the kinds that we know.

Keys come from where `cs` has them, the environment (CLOUDSTACK_KEY, CLOUDSTACK_SECRET) or cloudstack.ini, and are in no input.
"""

from __future__ import annotations

import configparser
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures.failures import by_words

if TYPE_CHECKING:
    from tidepool.infrastructures.cloudstack.options import SiteOptions


class NotAllowed(Permanent):
    """The keys are wrong, or their role has not this call."""


class NotThere(Permanent):
    """There is no such thing, or nobody lets these keys see it."""


class TooManyCalls(Transient):
    """The account's limit of calls is reached. Nothing was done."""


class QuotaReached(InsufficientCapacity):
    """Hosts may have room; the account, project or domain may not take more of it."""


_NO_HOST: Final = (
    r"insufficient.*capacity|unable to create a deployment|no destination found|unable to find suitable|"
    r"not enough (?:capacity|free)"
)
_QUOTA: Final = (
    r"maximum (?:number|amount) of .*exceeded|resource limit|resource ?allocation|\blimit\b.*exceeded"
)

#: A setting of the site, refused with a code that is otherwise of what may go by.
_NOT_ALLOWED: Final = r"not on the list of allowed keys"

#: Kinds by words, for who has no code. What nobody knows is transient: it is tried again, and not for ever.
kind_of: Final = by_words(
    (InsufficientCapacity, (_NO_HOST, _QUOTA, r"with 53[235]\b")),
    (
        Permanent,
        (
            r"with 4(?:01|05|30|31|32)\b|with 53[167]\b|unable to verify user credentials|does not exist",
            rf"checksum|delete protection|not available for user|{_NOT_ALLOWED}",
        ),
    ),
    otherwise=Transient,
)
_is_of_no_host: Final = by_words((InsufficientCapacity, (_NO_HOST,)), otherwise=Transient)
_is_gone: Final = by_words(
    (NotThere, (r"does not exist|unable to find|entity does not exist|could ?n.t find|invalid id",)),
    otherwise=Permanent,
)

#: Waits a little; says whether there is time left. It is told for what.
Wait = Callable[[str], bool]
#: Sites may lower what a page has at most, by default 500.
_PAGE: Final = 100
_PENDING, _DONE = 0, 1
#: The limit is so many calls in a second, unless a site says otherwise (`api.throttling.interval`).
_TRIES, _AFTER_LIMIT_S = 5, 1.0
#: A deploy is answered at once, with the number of its job; lists of a busy server take their time.
_ANSWER_S: Final = 30


def failure(what: str, code: int, text: str) -> InfrastructureError:
    """Return the failure that an error of CloudStack's is: by its code, and by its words where one code is for many things."""
    said = f"CloudStack answers {what} with {code}: {text}"
    if code in (401, 405, 432):
        return NotAllowed(said)
    if code in (532, 535):
        # Quotas, by both codes; of a lack of hosts with 535 the words tell.
        return (InsufficientCapacity if _is_of_no_host(text) is InsufficientCapacity else QuotaReached)(said)
    if code == 533 or _is_of_no_host(text) is InsufficientCapacity:
        return InsufficientCapacity(said)
    if code in (430, 431):
        return _is_gone(text)(said)
    if re.search(_NOT_ALLOWED, text):
        return Permanent(said)
    if code == 429:
        return TooManyCalls(said)
    if code in (530, 534) or code < 400 or 500 <= code < 530:
        return Transient(said)
    return Permanent(said)


@dataclass(frozen=True)
class Api:
    """CloudStack as its owner has it: a project, an account of a domain, or who the keys are of.

    ``client`` is `cs.CloudStack`. All may be called from many threads.
    """

    client: Any = field(repr=False)
    project: str = ""
    account: str = ""
    domain: str = ""
    sleep: Callable[[float], None] = time.sleep

    def call(self, command: str, **parameters: Any) -> dict[str, Any]:
        """Return what CloudStack answers at once: of an asynchronous command its ``jobid``.

        Raises:
            NotAllowed, NotThere: it says so.
            InsufficientCapacity, Transient, Permanent: otherwise, with its words. After one that is transient it may
                have done what it was asked for.
        """
        return dict(self._request(command, parameters) or {})

    def listed(self, command: str, **parameters: Any) -> list[dict[str, Any]]:
        """Return all that a list has, page by page. Of nothing CloudStack answers with nothing at all."""
        found = self._request(command, {"pagesize": _PAGE, "fetch_list": True, **parameters})
        # By page and page something may have come or gone.
        return [*{str(each.get("id", at)): each for at, each in enumerate(found)}.values()]

    def do(self, command: str, wait: Wait, **parameters: Any) -> dict[str, Any]:
        """Have an asynchronous command done, and return its result.

        Raises:
            Transient: it takes longer than one waits; CloudStack goes on with it.
        """
        return self.result(command, str(self.call(command, **parameters)["jobid"]), wait)

    def result(self, command: str, job: str, wait: Wait) -> dict[str, Any]:
        """Wait for a job that was begun. A question that is not answered is asked again."""
        silent: Transient | None = None
        while True:
            try:
                said = self.call("queryAsyncJobResult", jobid=job)
                silent = None
            except Transient as error:
                said, silent = {"jobstatus": _PENDING}, error
            result = said.get("jobresult") or {}
            if int(said["jobstatus"]) == _DONE:
                return dict(result)
            if int(said["jobstatus"]) != _PENDING:
                raise failure(
                    command, int(result.get("errorcode", 530)), str(result.get("errortext", result))
                )
            if not wait(command):
                why = f" ({silent})" if silent else ""
                raise Transient(f"{command} is not done yet{why}: CloudStack goes on with its job {job}")

    @cached_property
    def owner(self) -> Mapping[str, str]:
        """The parameters that say whose something is to be, and whose are listed.

        Raises:
            NotThere: there is no such project or domain.
        """
        if self.project:
            return {"projectid": self._named("listProjects", "project", self.project)["id"]}
        if self.account:
            return {"account": self.account, "domainid": self._domain()}
        return {}

    def own(self, command: str, **parameters: Any) -> list[dict[str, Any]]:
        """List what is the owner's."""
        return self.listed(command, **self.owner, **parameters)

    def zone(self, name: str) -> dict[str, Any]:
        """Return the zone of that name."""
        return self._named("listZones", "zone", name)

    def _domain(self) -> str:
        """A domain by its path, as `ROOT/science`, or by its name alone where there is one of it."""
        wanted = self.domain or "ROOT"
        found = [
            each
            for each in self.listed("listDomains", listall=True)
            if wanted in (each.get("path"), each.get("name"))
        ]
        if len(found) != 1:
            raise NotThere(f"{len(found)} domains are called {wanted}; write its path, as in ROOT/science")
        return str(found[0]["id"])

    def _named(self, command: str, what: str, name: str) -> dict[str, Any]:
        listed = self.listed(command, **({"listall": True} if what == "project" else {}))
        found = [each for each in listed if each.get("name") == name]
        if not found:
            known = ", ".join(sorted(str(each.get("name")) for each in listed)[:8]) or "none"
            raise NotThere(f"there is no {what} {name} that these keys may see; there are {known}")
        return found[0]

    def _request(self, command: str, parameters: Mapping[str, Any]) -> Any:
        """Ask; where that is too often, some more times, for many machines are made at once."""
        for _ in range(_TRIES - 1):
            try:
                return self._answer(command, parameters)
            except TooManyCalls:
                self.sleep(_AFTER_LIMIT_S)
        return self._answer(command, parameters)

    def _answer(self, command: str, parameters: Mapping[str, Any]) -> Any:
        import requests
        from cs.client import CloudStackApiException, CloudStackException

        given = {key: value for key, value in parameters.items() if value not in (None, "")}
        try:
            return getattr(self.client, command)(**given)
        except CloudStackApiException as error:
            said = error.error if isinstance(error.error, dict) else {}
            code = int(said.get("errorcode") or error.response.status_code)
            raise failure(command, code, str(said.get("errortext") or error.error)) from error
        except CloudStackException as error:
            code = getattr(error.response, "status_code", 0)
            words = "; ".join(map(str, error.args))
            # A proxy in between answers in its own words.
            raise (Transient if code >= 500 else Permanent)(
                f"{self.client.endpoint} answers {command} as no CloudStack does: {words}"
            ) from error
        except requests.exceptions.SSLError as error:
            raise Permanent(
                f"the certificate of {self.client.endpoint} is not trusted ({error}); name who signs in CLOUDSTACK_VERIFY"
            ) from error
        except (requests.exceptions.RequestException, OSError) as error:
            raise Transient(
                f"CloudStack does not answer {command} at {self.client.endpoint}: {error}"
            ) from error


@dataclass(frozen=True, slots=True)
class ApiLocation:
    """The address of the API, and whose things are there; the keys themselves are in no input."""

    endpoint: str
    project: str | None = None
    account: str | None = None
    domain: str | None = None

    @classmethod
    def of(cls, site: SiteOptions) -> ApiLocation:
        return cls(site.endpoint, site.project, site.account, site.domain)

    def open(self) -> Api:
        """Return the API, with the keys that `cs` finds.

        Raises:
            Permanent: there are none, or those of another CloudStack; the package is not installed.
        """
        try:
            from cs.client import CloudStack, read_config
        except ModuleNotFoundError as error:
            from tidepool.infrastructures.cloudstack import PACKAGE

            raise Permanent(
                f"the Python package {error.name} is not installed; run: {PACKAGE.install}"
            ) from error
        remedy = "set CLOUDSTACK_ENDPOINT, CLOUDSTACK_KEY and CLOUDSTACK_SECRET, or write them to ~/.cloudstack.ini"
        try:
            config = read_config()
        except (SystemExit, ValueError, configparser.Error) as error:
            raise Permanent(f"there are no keys of CloudStack ({error}); {remedy}") from error
        if config.get("endpoint") != self.endpoint:
            raise Permanent(
                f"the keys are those of {config.get('endpoint')}, and the spec says {self.endpoint}; correct one of them: {remedy}"
            )
        if not (config.get("key") and config.get("secret")):
            raise Permanent(f"there is no key or no secret of {self.endpoint}; {remedy}")
        config.pop("theme", None)
        # User data is more than a URL holds; and what is in one, logs have.
        config |= {"method": "post", "trace": False, "timeout": max(int(config["timeout"]), _ANSWER_S)}
        return Api(CloudStack(**config), self.project or "", self.account or "", self.domain or "")
