"""`Dialect`: how the schedulers on one Kubernetes differ: what a job is for each, what decides, and what a trial needs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from tidepool.lab.schedulers.contract import JobState
from tidepool.lab.schedulers.kubernetes.api import Api
from tidepool.lab.schedulers.kubernetes.beside import Program
from tidepool.lab.testbed import Testbed
from tidepool.lab.workload import Job

Object = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of objects in a namespace.

    Attributes:
        group: the beginning of paths, ``/apis/batch/v1``.
        plural: ``jobs``.
    """

    group: str
    plural: str

    def collection(self, namespace: str) -> str:
        """Return the path of all of them in a namespace."""
        return f"{self.group}/namespaces/{namespace}/{self.plural}"


class Dialect(Protocol):
    """One scheduler on Kubernetes. What it returns is of no trial; what it makes is told to it."""

    @property
    def can(self) -> frozenset[str]:
        """Features, as `Scheduler.can`."""
        ...

    @property
    def kind(self) -> Kind:
        """The kind of object that a job is."""
        ...

    def programs(self) -> Sequence[Program]:
        """Return what runs beside the control plane; empty where nothing does."""
        ...

    def define(self, api: Api) -> None:
        """Have the API server know its kinds, before its programs begin."""
        ...

    def prepare(self, api: Api, testbed: Testbed, namespace: str) -> None:
        """Make the queues of a trial, once its programs work."""
        ...

    def job(self, job: Job, template: Mapping[str, Any]) -> Object:
        """Return the object that a job is, whose pods are of the template."""
        ...

    def hosts(self, job: Job) -> Sequence[str]:
        """Return the host names of a job's pods, by rank."""
        ...

    def state(self, thing: Object, pods: Iterable[Object]) -> JobState:
        """Return the state of a job, by its object and its pods."""
        ...

    def clear(self, api: Api, namespace: str) -> None:
        """Take away what `prepare` made outside of the namespace, and what would stand in others' way without its programs."""
        ...

    def settings(self) -> Mapping[str, str]:
        """Return its version, its programs' digests and its settings."""
        ...
