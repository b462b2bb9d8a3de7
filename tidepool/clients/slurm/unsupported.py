"""A client that cannot change anything yet: each change is refused by name, and none is made another way."""

from __future__ import annotations

from collections.abc import Collection
from typing import NoReturn

from tidepool.clients.slurm.contract import Submitted
from tidepool.clients.slurm.errors import Unsupported
from tidepool.clients.slurm.request import JobRequest, NextState, ReservationRequest, Slots


class ChangesNothing:
    """The changes of `SlurmClient`, all of them `Unsupported`; subclasses bring those that they can make."""

    def __init__(self, by: str, remedy: str) -> None:
        self._by = by
        self._unsupported_remedy = remedy

    def _refuse(self, what: str) -> NoReturn:
        raise Unsupported(
            f"{self._by} cannot {what}", where="nothing was asked", remedy=self._unsupported_remedy
        )

    def create_slots(self, slots: Slots) -> None:
        self._refuse("create nodes")

    def to_future(self, nodes: str) -> None:
        self._refuse("make nodes slots again")

    def power_down(self, nodes: str) -> None:
        self._refuse("power nodes down")

    def delete_nodes(self, nodes: str) -> None:
        self._refuse("delete nodes")

    def set_features(self, nodes: str, features: Collection[str]) -> None:
        self._refuse("give nodes features")

    def drain(self, nodes: str, reason: str) -> None:
        self._refuse("drain nodes")

    def undrain(self, nodes: str) -> None:
        self._refuse("undrain nodes")

    def resume(self, nodes: str) -> None:
        self._refuse("resume nodes")

    def down(self, nodes: str, reason: str) -> None:
        self._refuse("set nodes down")

    def reboot(self, nodes: str, *, reason: str, asap: bool = False, next_state: NextState = "") -> None:
        self._refuse("reboot nodes")

    def reconfigure(self) -> None:
        self._refuse("reconfigure")

    def takeover(self) -> None:
        self._refuse("have a backup take over")

    def create_reservation(self, request: ReservationRequest) -> str:
        self._refuse("create reservations")

    def delete_reservation(self, name: str) -> None:
        self._refuse("delete reservations")

    def submit(self, request: JobRequest) -> Submitted:
        self._refuse("submit jobs")

    def cancel(self, job_id: int, *, array_id: str = "") -> None:
        self._refuse("cancel jobs")

    def requeue(self, job_id: int, *, array_id: str = "") -> None:
        self._refuse("requeue jobs")

    def tell(self, job_id: int, message: str, *, array_id: str = "") -> None:
        self._refuse("tell jobs anything")
