"""tidepool:slurm:Configuration.

All files go in one archive and are put in their place by renames, slurm.conf last: slurmctld's service begins when that
is there.
"""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
import time
from collections.abc import Collection, Iterable, Mapping
from typing import Final

from tidepool.clients.slurm import Completed, Refused, Slurm, SlurmError, Transport
from tidepool.cluster.desired_state import is_forced
from tidepool.infrastructures.connection import transport
from tidepool.provider.machines import connection_mistakes, machine_is_gone
from tidepool.provider.slurm_effects import (
    Effect,
    Impact,
    PartitionOrder,
    impact,
    losses,
    lost_fleets,
    lost_slots,
    partitions_of,
    states_by_hand,
    used_of,
)
from tidepool.provider.slurmctld import Slurmctld
from tidepool.resources.declarations import Configuration, ConfigurationModel
from tidepool.resources.kind import AS_KNOWN, Kind, Made, Refusal, Task, Unfinished
from tidepool.resources.reading import Change, Mistake
from tidepool.resources.values import UNKNOWN, Inputs, Plain

CONF: Final = "slurm.conf"
#: A supervisor waits up to 10 s before it starts again what ends at once.
_BACK_S: Final = 12.0


class ConfigurationKind(Kind[ConfigurationModel]):
    """Slurm's files, and slurmctld running by them."""

    resource = Configuration
    # Another controller, or one that is made anew, has no files yet; nothing is taken away from the old one.
    timeout_s = 180.0

    def mistakes(self, wanted: ConfigurationModel) -> Iterable[Mistake]:
        if not wanted.hosts:
            yield Mistake("hosts", "there are none; the first is slurmctld's machine")
        hosts = {f"hosts[{at}]": host for at, host in enumerate(wanted.hosts)}
        yield from connection_mistakes(hosts, self._home.data)
        if CONF not in wanted.files:
            yield Mistake("files", f"there is no {CONF} among them")
        for name in wanted.files:
            if "/" in name or name.startswith("."):
                yield Mistake(f"files.{name}", "a name in /etc/slurm is wanted, not a path")

    def diff(self, old: Inputs, new: Inputs) -> tuple[Change, ...]:
        return tuple(
            change
            if change.key != "hosts" or _controller(new) is UNKNOWN or _controller(old) != _controller(new)
            else Change(change.key, change.is_new, change.is_gone)
            for change in super().diff(old, new)
        )

    def foreseen(self, inputs: Inputs) -> Mapping[str, Plain]:
        files = inputs.get("files")
        if not isinstance(files, dict) or not all(isinstance(text, str) for text in files.values()):
            return {}
        written = json.dumps(files, sort_keys=True)
        return {"digest": hashlib.sha256(written.encode()).hexdigest()[:16]}

    def create(self, wanted: ConfigurationModel, task: Task) -> Made:
        there = read_files(self._host(wanted), wanted.files)
        made = Made(f"{wanted.hosts[0].get('stack', '')}/{wanted.hosts[0].get('machine', '')}")
        if CONF in there:
            self._change(made.id, there, (), wanted, impact(there, wanted.files), task)
            return made
        task.status("slurmctld starts")
        slurmctld = self._slurmctld(wanted, wanted.files)
        self._write(wanted, wanted.files)
        try:
            slurmctld.wait_up(task.deadline)
        except Refusal as error:
            raise Unfinished(made.id, str(error)) from error
        return made

    def refuse_update(self, old: ConfigurationModel, wanted: ConfigurationModel) -> None:
        partitions = partitions_of(old.files) - partitions_of(wanted.files)
        slots = lost_slots(old.files, wanted.files)
        fleets = lost_fleets(old.files, wanted.files)
        if not partitions and not slots and not fleets:
            return
        try:
            jobs = Slurm(self._host(old)).jobs()
        except SlurmError as error:
            if is_forced(self._home.environment):
                return
            raise Refusal(
                "partitions or slots go, and Slurm does not say whether they have jobs, which would end: "
                f"{error.what}; {error.remedy}, or leave them in the spec until it does"
            ) from error
        if found := list(losses(partitions, slots | used_of(fleets, jobs), jobs)):
            raise Refusal("\n".join(found))

    def update(
        self, id: str, old: ConfigurationModel, wanted: ConfigurationModel, task: Task
    ) -> Mapping[str, Plain]:
        there = read_files(self._host(wanted), {*wanted.files, *old.files})
        # One that was cut off may have written the files, and told nobody.
        asked = max(
            impact(old.files, wanted.files), impact(there, wanted.files), key=lambda each: each.effect
        )
        gone = tuple(name for name in old.files if name not in wanted.files)
        self._change(id, there, gone, wanted, asked, task)
        return {}

    def look(self, id: str, state: ConfigurationModel) -> Mapping[str, Plain] | None:
        found = dict(state.files)
        for at, connection in enumerate(state.hosts):
            try:
                there = read_files(transport(connection, self._home.data), state.files)
            except SlurmError:
                if not machine_is_gone(connection, self._home.data):
                    continue  # one that is down has its files still
                there = {}  # one that will be made anew has none
            if at == 0 and CONF not in there:
                return None
            for name, text in state.files.items():
                if there.get(name, "") != text:
                    found[name] = there.get(name, "")
        return {"files": found} if found != state.files else AS_KNOWN

    # Effects

    def _change(
        self,
        id: str,
        there: Mapping[str, str],
        gone: tuple[str, ...],
        wanted: ConfigurationModel,
        asked: Impact,
        task: Task,
    ) -> None:
        slurmctld = self._slurmctld(wanted, {**there, **wanted.files})
        said_before, ended = slurmctld.log_size(), None
        kept = self._states_by_hand(wanted, there) if asked.effect >= Effect.RECONFIGURE else ()
        self._write(wanted, wanted.files, gone)
        try:
            if asked.effect is not Effect.RESTART and not slurmctld.is_up():
                slurmctld.begin()  # a takeover lasts until the files change
            if asked.effect is Effect.RESTART:
                # Before any reconfigure, which some of these keys would be the sudden end of slurmctld for.
                task.info(f"slurmctld restarts: it reads {', '.join(asked.because)} only then; jobs go on")
                ended = slurmctld.restart()
                slurmctld.wait_up(task.deadline, other_than=ended, said_before=said_before)
            if asked.effect is Effect.ORDERS:
                task.status("slurmctld is told of its partitions")
                slurmctld.give(asked.orders)
            elif asked.effect is not Effect.NOTHING:
                task.status("Slurm reads its files again")
                slurmctld.reconfigure()  # nothing else tells the nodes
                slurmctld.give(kept)
            slurmctld.wait_up(task.deadline, other_than=ended, said_before=said_before)
        except (Refused, Refusal) as error:
            if CONF not in there or asked.effect is Effect.NOTHING:
                raise Unfinished(id, str(error)) from error
            self._put_back(wanted, there, task, was_taken=ended is not None or asked.effect is Effect.ORDERS)
            said = error.words if isinstance(error, Refused) else str(error)
            raise Refusal(
                f"Slurm does not take this configuration, and has the former one again: {said}"
            ) from error

    def _states_by_hand(
        self, wanted: ConfigurationModel, there: Mapping[str, str]
    ) -> tuple[PartitionOrder, ...]:
        try:
            return states_by_hand(there, wanted.files, Slurm(self._host(wanted)).partitions())
        except SlurmError:
            return ()  # it is down, and has no states any more

    def _put_back(
        self, wanted: ConfigurationModel, there: Mapping[str, str], task: Task, *, was_taken: bool
    ) -> None:
        self._write(wanted, there, tuple(name for name in wanted.files if name not in there))
        slurmctld = self._slurmctld(wanted, there)
        try:
            slurmctld.wait_up(time.monotonic() + _BACK_S)
            if was_taken:
                slurmctld.reconfigure()
        except (Refused, Refusal) as error:
            task.warn(f"with the former configuration, too: {error}")

    def _write(
        self, wanted: ConfigurationModel, files: Mapping[str, str], gone: tuple[str, ...] = ()
    ) -> None:
        # slurmctld's own last: what it is told of has to be true elsewhere by then.
        for connection in reversed(wanted.hosts):
            write_files(transport(connection, self._home.data), files, gone=gone)

    def _slurmctld(self, wanted: ConfigurationModel, files: Mapping[str, str]) -> Slurmctld:
        return Slurmctld.of(self._host(wanted), wanted.hosts[0].get("machine", ""), files)

    def _host(self, wanted: ConfigurationModel) -> Transport:
        return transport(wanted.hosts[0], self._home.data)


def _controller(inputs: Inputs) -> Plain:
    hosts = inputs.get("hosts")
    if isinstance(hosts, list) and hosts:
        return hosts[0]
    return UNKNOWN


FOLDER: Final = "/etc/slurm"
_NEW: Final = ".new"
#: A machine that is emulated, and has just booted, may take long to open a session where others work besides.
_TIMEOUT_S: Final = 60.0


def read_files(host: Transport, names: Collection[str]) -> dict[str, str]:
    """The texts of those of ``names`` that are there.

    Raises:
        SlurmError: the host cannot be reached.
    """
    # One that is missing is only warned of.
    argv = ["tar", "--create", f"--directory={FOLDER}", "--ignore-failed-read", "--", *sorted(names)]
    answer = host.run(argv, timeout_s=_TIMEOUT_S).stdout.encode()
    found = {}
    try:
        with tarfile.open(fileobj=io.BytesIO(answer)) as archive:
            for member in archive:
                content = archive.extractfile(member)
                if content is not None:
                    found[member.name] = content.read().decode("utf-8", errors="replace")
    except tarfile.TarError:
        return {}  # a folder that is not there, or bytes that are no text: not what was written
    return found


def write_files(host: Transport, files: Mapping[str, str], *, gone: Collection[str] = ()) -> None:
    """Put ``files`` in their place, and take away those that are ``gone``.

    Raises:
        SlurmError: the host cannot be reached.
        Refusal: they cannot be written there.
    """
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as archive:
        for name, text in files.items():
            content = text.encode()
            member = tarfile.TarInfo(f"{_NEW}/{name}")
            member.size, member.mode = len(content), 0o644
            archive.addfile(member, io.BytesIO(content))
    argv = ["tar", "--extract", f"--directory={FOLDER}"]
    _judge(host, host.run(argv, stdin=packed.getvalue().decode(), timeout_s=_TIMEOUT_S))
    ordered = sorted(files, key=lambda name: (name == CONF, name))
    sources = [f"{FOLDER}/{_NEW}/{name}" for name in ordered]
    argv = ["mv", "--force", f"--target-directory={FOLDER}", "--", *sources]
    _judge(host, host.run(argv, timeout_s=_TIMEOUT_S))
    if gone:
        argv = ["rm", "--force", "--", *(f"{FOLDER}/{name}" for name in sorted(gone))]
        _judge(host, host.run(argv, timeout_s=_TIMEOUT_S))


def _judge(host: Transport, completed: Completed) -> None:
    if completed.exit_code:
        raise Refusal(f"Slurm's files cannot be written {host.where}: {completed.stderr.strip()}")
