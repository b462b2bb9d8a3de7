"""tidepool:slurm:Qos: the qualities of service of slurmdbd."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from tidepool.clients.slurm.accounting import Quality
from tidepool.clients.slurm.contract import Refused
from tidepool.provider.accounting import UNSEEN, Database, database
from tidepool.provider.machines import connection_mistakes
from tidepool.resources.accounts import Qos, QosModel
from tidepool.resources.kind import AS_KNOWN, Kind, Made, Refusal, Task
from tidepool.resources.reading import Mistake
from tidepool.resources.values import Plain


def foreign_quality(name: str) -> str:
    """Return why a quality of service cannot be had: slurmdbd has one of a name for all clusters."""
    return (
        f"the quality of service {name} is another cluster's, and slurmdbd has one of a name for all clusters that share it: take "
        "another name, such as that of the cluster with this one behind it"
    )


class QosKind(Kind[QosModel]):
    """A quality of service."""

    resource = Qos
    timeout_s = 120.0

    def mistakes(self, wanted: QosModel) -> Iterable[Mistake]:
        yield from connection_mistakes({"controller": wanted.controller}, self._home.data)

    def create(self, wanted: QosModel, task: Task) -> Made:
        self._set(wanted, is_new=True)
        return Made(wanted.qos)

    def update(self, id: str, old: QosModel, wanted: QosModel, task: Task) -> Mapping[str, Plain]:
        self._set(wanted)
        return {}

    def look(self, id: str, state: QosModel) -> Mapping[str, Plain] | None:
        try:
            there = self._database(state).accounting.qualities().get(state.qos)
        except UNSEEN:
            return AS_KNOWN
        if there is None:
            return None
        found: dict[str, tuple[Any, Any]] = {
            "preempts": (sorted(state.preempts), sorted(there.preempts)),
            "preemptMode": (state.preempt_mode, there.preempt_mode),
            "flags": (sorted(state.flags), sorted(there.flags)),
            "limits": (dict(state.limits), dict(there.limits)),
        }
        return {key: now for key, (known, now) in found.items() if known != now}

    def delete(self, id: str, state: QosModel, task: Task) -> None:
        database = self._database(state)
        try:
            with database.writing:
                database.accounting.delete_quality(state.qos)
        except Refused as error:
            raise Refusal(f"the quality of service {state.qos} cannot go: {error.words}") from error

    def _set(self, wanted: QosModel, *, is_new: bool = False) -> None:
        database = self._database(wanted)
        quality = Quality(
            wanted.qos,
            wanted.description,
            tuple(wanted.preempts),
            wanted.preempt_mode,
            tuple(wanted.flags),
            wanted.limits,
        ).of_cluster(wanted.cluster)
        try:
            with database.writing:
                there = database.accounting.add_quality(quality)
                if is_new and there.owner != wanted.cluster:
                    raise Refusal(foreign_quality(wanted.qos))
                database.accounting.set_quality(quality, there)
        except Refused as error:
            raise Refusal(
                f"slurmdbd does not take the quality of service {wanted.qos}: {error.words}"
            ) from error

    def _database(self, wanted: QosModel) -> Database:
        return database(self._home, wanted.controller)
