"""pulumi-nomad 2.6.1 for the tests: jobs and variables, by Nomad's HTTP API.

Checks, defaults, waits, replacement and texts are those of terraform-provider-nomad 2.6.1, which the real plugin is made of
(nomad/resource_job.go, nomad/resource_variable.go). Jobs are taken as JSON alone. Of a job's outputs there are those that
tell which job it is, and how it is.
"""

from __future__ import annotations

import json
import re
import ssl
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Protocol

from tests.plugins.serving import Configuration, Kinds
from tidepool.resources.kind import IdempotentKind, Made, Refusal, Task, Unfinished
from tidepool.resources.model import Field, Model, Resource, given, output
from tidepool.resources.reading import Change, Mistake, differences
from tidepool.resources.values import Inputs, Plain

#: Whether something waits is looked at so often; the real plugin does every 3 to 10 s.
_AGAIN_S: Final = 0.5
_ANSWER_S: Final = 60.0


class ApiError(Exception):
    """An answer that is an error, in the words of Nomad's Go client."""

    def __init__(self, status: int, words: str) -> None:
        super().__init__(f"Unexpected response code: {status} ({words})")
        self.status = status


@dataclass(frozen=True, slots=True)
class Client:
    """Nomad's API, as the provider's configuration has it."""

    address: str
    token: str
    region: str
    trusted: ssl.SSLContext | None

    @classmethod
    def of(cls, configuration: Configuration) -> Client:
        """Return the client of a provider; a setting that these tests do not use is refused."""
        known = {"address", "caFile", "region", "secretId", "version"}
        if unknown := configuration.keys() - known:
            raise Refusal(f"this plugin of the tests does not know the settings {', '.join(sorted(unknown))}")
        address = str(configuration["address"])
        ca_file = configuration.get("caFile")
        trusted = ssl.create_default_context(cafile=ca_file) if address.startswith("https") else None
        token, region = (str(configuration.get(name) or "") for name in ("secretId", "region"))
        return cls(address, token, region, trusted)

    def call(self, method: str, path: str, body: Any = None, **query: str) -> Any:
        """Return the answer.

        Raises:
            ApiError: it is an error.
        """
        asked = {**query, **({"region": self.region} if self.region else {})}
        request = urllib.request.Request(
            f"{self.address}/v1/{path}?{urllib.parse.urlencode(asked)}",
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"X-Nomad-Token": self.token} if self.token else {},
        )
        try:
            with urllib.request.urlopen(request, timeout=_ANSWER_S, context=self.trusted) as answer:
                said = answer.read()
        except urllib.error.HTTPError as error:
            with error:
                raise ApiError(error.code, error.read().decode(errors="replace").strip()) from None
        return json.loads(said) if said else None


class Calls(Protocol):
    """What asks Nomad: a `Client`."""

    def call(self, method: str, path: str, body: Any = None, **query: str) -> Any: ...


class JobModel(Model):
    """Properties of a job: the inputs that the graph uses, and outputs that tell of it."""

    jobspec: Field[str] = given()
    json: Field[bool] = given(default=False)
    detach: Field[bool] = given(default=True)
    purge_on_destroy: Field[bool] = given(default=False)
    rerun_if_dead: Field[bool] = given(default=False)
    name: Field[str] = output()
    namespace: Field[str] = output()
    type: Field[str] = output()
    region: Field[str] = output()
    modify_index: Field[str] = output()
    status: Field[str] = output()
    version: Field[int] = output(default=0)
    deployment_id: Field[str] = output()
    deployment_status: Field[str] = output()


class Job(Resource, JobModel, token="nomad:index/job:Job", delete_first=False):
    """A job of Nomad."""


class JobKind(IdempotentKind[JobModel]):
    """A job: registered, waited for where it is not detached, and purged or left dead."""

    resource = Job
    timeout_s = 300.0

    def __init__(
        self, configuration: Configuration, client: Callable[[Configuration], Calls] = Client.of
    ) -> None:
        self._client = client(configuration)

    def mistakes(self, wanted: JobModel) -> Iterable[Mistake]:
        if not wanted.json:
            yield Mistake("json", "this plugin of the tests takes jobs as JSON alone: set it to true")
        try:
            _job(wanted.jobspec)
        except ValueError as error:
            yield Mistake("jobspec", str(error))

    def diff(self, old: Inputs, new: Inputs) -> tuple[Change, ...]:
        found = differences(JobModel, old, new)
        before, after = old.get("jobspec"), new.get("jobspec")
        if isinstance(before, str) and isinstance(after, str):
            was, will = _job(before), _job(after)
            if was == will:
                found = tuple(each for each in found if each.key != "jobspec")
            else:
                found = (*found, *self._of_another(old, will))
        if old.get("status") == "dead" and new.get("rerunIfDead"):
            found = (*found, Change("status"))
        return found

    def _of_another(self, old: Inputs, will: Mapping[str, Any]) -> tuple[Change, ...]:
        """Return what replaces it, where another job is asked for; of the same one nobody else is to have registered another."""
        if old.get("namespace") != _namespace(will):
            return (Change("namespace", replaces=True),)
        if old.get("name") != will["ID"]:
            return (Change("name", replaces=True),)
        try:
            planned = self._client.call(
                "POST", f"job/{will['ID']}/plan", {"Job": will}, namespace=_namespace(will)
            )
        except ApiError:
            return ()  # registering it says why
        if str(planned["JobModifyIndex"]) != old.get("modifyIndex"):
            raise Refusal("job modify index has changed since last refresh")
        return ()

    def create(self, wanted: JobModel, task: Task) -> Made:
        job = _job(wanted.jobspec)
        id, namespace = job["ID"], _namespace(job)
        body = {"Job": job, "Submission": {"Source": wanted.jobspec, "Format": "json"}}
        try:
            registered = self._client.call("PUT", "jobs", body, namespace=namespace)
        except ApiError as error:
            raise Refusal(f"error applying jobspec: {error}") from error
        outputs: dict[str, Plain] = {"deploymentId": "", "deploymentStatus": ""}
        if not wanted.detach and registered["EvalID"]:
            try:
                outputs |= self._wait(registered["EvalID"], namespace, task)
            except _Failed as failed:
                outputs |= self._told(id, namespace) or {}
                # What was registered is known: another one that Nomad has since put in its place is not.
                outputs["modifyIndex"] = str(registered["JobModifyIndex"])
                raise Unfinished(
                    id, f"error waiting for job '{id}' to schedule/deploy successfully: {failed}", outputs
                ) from failed
        return Made(id, {**outputs, **(self._told(id, namespace) or {})})

    def look(self, id: str, state: JobModel) -> Mapping[str, Plain] | None:
        found = self._told(id, state.namespace or "default")
        if found is None:
            return None
        known = {each.wire: getattr(state, name) for name, each in JobModel.properties.items()}
        try:
            version = str(found["version"])
            there = self._client.call(
                "GET", f"job/{id}/submission", version=version, namespace=found["namespace"]
            )
            if _job(there["Source"]) != _job(state.jobspec):
                found["jobspec"] = there["Source"]
        except ApiError:
            pass  # Nomad has none of versions that it made itself
        return {key: value for key, value in found.items() if known[key] != value}

    def delete(self, id: str, state: JobModel, task: Task) -> None:
        purge = "true" if state.purge_on_destroy else "false"
        try:
            self._client.call("DELETE", f"job/{id}", purge=purge, namespace=state.namespace or "default")
        except ApiError as error:
            raise Refusal(f"error deregistering job: {error}") from error

    def _told(self, id: str, namespace: str) -> dict[str, Plain] | None:
        """What Nomad says of it; None where it is not there."""
        try:
            job = self._client.call("GET", f"job/{id}", namespace=namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise Refusal(f"error checking for job: {error}") from error
        return {
            "name": job["ID"],
            "namespace": job["Namespace"],
            "type": job["Type"],
            "region": job["Region"],
            "modifyIndex": str(job["JobModifyIndex"]),
            "status": job["Status"],
            "version": job["Version"],
        }

    def _wait(self, evaluation: str, namespace: str, task: Task) -> dict[str, Plain]:
        """Wait until it is placed, and its deployment, where there is one, is well."""
        while True:
            found = self._until(
                f"evaluation/{evaluation}",
                namespace,
                task,
                lambda each: each["Status"] in ("complete", "failed", "cancelled"),
            )
            if found["Status"] != "complete":
                raise _Failed(
                    f"error waiting for evaluation: evaluation failed: {found.get('StatusDescription', '')}"
                )
            if not found.get("NextEval"):
                break
            evaluation = found["NextEval"]
        if not found.get("DeploymentID"):
            return {}
        deployment = self._until(
            f"deployment/{found['DeploymentID']}",
            namespace,
            task.anew(),
            lambda each: each["Status"] in ("successful", "failed", "cancelled"),
        )
        if deployment["Status"] != "successful":
            raise _Failed(
                f"error waiting for evaluation: deployment '{deployment['ID']}' terminated with status "
                f"'{deployment['Status']}': '{deployment['StatusDescription']}'"
            )
        return {"deploymentId": deployment["ID"], "deploymentStatus": deployment["Status"]}

    def _until(self, path: str, namespace: str, task: Task, ended: Callable[[Any], bool]) -> Any:
        while True:
            try:
                found = self._client.call("GET", path, namespace=namespace)
            except ApiError as error:
                raise _Failed(f"error waiting for evaluation: {error}") from error
            if ended(found):
                return found
            if task.left_s <= _AGAIN_S or task.cancelled():
                raise _Failed(
                    f"error waiting for evaluation: timeout while waiting for state (timeout: {task.timeout_s:g}s)"
                )
            time.sleep(_AGAIN_S)


class _Failed(Exception):
    """A job that was registered, and is not well."""


def _job(jobspec: str) -> dict[str, Any]:
    """The job of a specification, with and without the root that `nomad job run -output` gives it.

    Raises:
        ValueError: it is none.
    """
    read = json.loads(jobspec)
    job = read.get("Job", read) if isinstance(read, dict) else None
    if not isinstance(job, dict) or not isinstance(job.get("ID"), str):
        raise ValueError("it is no job of Nomad's: a map with an ID is wanted")
    return job


def _namespace(job: Mapping[str, Any]) -> str:
    return str(job.get("Namespace") or "default")


class VariableModel(Model):
    """Properties of a variable."""

    path: Field[str] = given(replaces=True)
    namespace: Field[str] = given(default="default", replaces=True)
    items: Field[Mapping[str, str] | None] = given(default=None, secret=True)
    items_wo: Field[str | None] = given(default=None, secret=True)
    items_wo_version: Field[int | None] = given(default=None, least=1)


class Variable(Resource, VariableModel, token="nomad:index/variable:Variable", delete_first=False):
    """A variable of Nomad: read and compared, or with ``items_wo`` only written."""


_PATH: Final = re.compile(r"[a-zA-Z0-9\-_~/]+")
_LONGEST_PATH: Final = 128


class VariableKind(IdempotentKind[VariableModel]):
    """A variable, written whole."""

    resource = Variable

    def __init__(
        self, configuration: Configuration, client: Callable[[Configuration], Calls] = Client.of
    ) -> None:
        self._client = client(configuration)

    def mistakes(self, wanted: VariableModel) -> Iterable[Mistake]:
        if len(wanted.path) > _LONGEST_PATH:
            yield Mistake("path", f"expected path legnth to be less than {_LONGEST_PATH}")
        if not _PATH.fullmatch(wanted.path):
            yield Mistake("path", f"path {wanted.path} contains invalid characters")
        first, _, rest = wanted.path.partition("/")
        if first == "nomad" and rest.partition("/")[0] != "jobs":
            yield Mistake(
                "path",
                "only paths at 'nomad/jobs' or 'nomad/job-templates' and below are valid paths under the top-level "
                "'nomad' directory",
            )
        given = [name for name in ("items", "items_wo") if getattr(wanted, name) is not None]
        if not given:
            yield Mistake("items", "one of `items,items_wo` must be specified")
        if len(given) > 1:
            yield Mistake("items", "only one of `items,items_wo` can be specified")
        has_version = wanted.items_wo_version is not None
        if wanted.items_wo is not None and not has_version:
            yield Mistake("itemsWo", "all of `items_wo,items_wo_version` must be specified")
        if wanted.items is not None and has_version:
            yield Mistake("itemsWoVersion", "conflicts with items")

    def diff(self, old: Inputs, new: Inputs) -> tuple[Change, ...]:
        # Nobody keeps what is only written, so nobody compares it: the version tells that it is another.
        return tuple(each for each in differences(VariableModel, old, new) if each.key != "itemsWo")

    def create(self, wanted: VariableModel, task: Task) -> Made:
        items = json.loads(wanted.items_wo) if wanted.items_wo is not None else dict(wanted.items or {})
        id = f"{wanted.path}@{wanted.namespace}"
        body = {"Namespace": wanted.namespace, "Path": wanted.path, "Items": items}
        try:
            self._client.call("PUT", f"var/{wanted.path}", body, namespace=wanted.namespace)
        except ApiError as error:
            raise Refusal(f"error creating variable {id}: {error}") from error
        return Made(id)

    def look(self, id: str, state: VariableModel) -> Mapping[str, Plain] | None:
        try:
            there = self._client.call("GET", f"var/{state.path}", namespace=state.namespace)
        except ApiError as error:
            if error.status == 404:
                return None
            raise Refusal(f"error checking for variable {id}: {error}") from error
        if state.items_wo_version or there["Items"] == state.items:
            return {}
        return {"items": there["Items"]}

    def delete(self, id: str, state: VariableModel, task: Task) -> None:
        try:
            self._client.call("DELETE", f"var/{state.path}", namespace=state.namespace)
        except ApiError as error:
            raise Refusal(f"error deleting variable {id}: {error}") from error


KINDS: Final[Kinds] = {Job.token: JobKind, Variable.token: VariableKind}
