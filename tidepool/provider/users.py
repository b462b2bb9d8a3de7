"""tidepool:slurm:Users: who may log in, on the volume of /home; and the end of the sessions and jobs of who may no longer."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from tidepool.clients.slurm import Job, NotFound, Slurm, SlurmError, Transport
from tidepool.clients.transport import ClientError
from tidepool.cluster.user_files import (
    CANCEL_JOBS_OF,
    FOLDER,
    HOMES,
    Users,
    homes,
    leaving_uids,
    malformed,
    read_user_files,
    user_files,
)
from tidepool.infrastructures.connection import transport
from tidepool.provider import users_agent
from tidepool.provider.machines import connection_mistakes, machine_runs
from tidepool.resources.kind import AS_KNOWN, IdempotentKind, Made, Refusal, Task
from tidepool.resources.reading import Mistake
from tidepool.resources.users import Users as Resource
from tidepool.resources.users import UsersModel
from tidepool.resources.values import Plain

_PROGRAM: Final = ("/usr/bin/python3", "-ISc", Path(users_agent.__file__).read_text("utf-8"))
#: A machine that is emulated, and has just booted, may take long for it.
_TIMEOUT_S: Final = 60.0
_LOOK_S: Final = 0.2


class UsersKind(IdempotentKind[UsersModel]):
    """Users and groups of a cluster."""

    resource = Resource
    timeout_s = 120.0

    def mistakes(self, wanted: UsersModel) -> Iterable[Mistake]:
        ways = {"controller": wanted.controller}
        ways |= {f"logins[{i}]": each for i, each in enumerate(wanted.logins)}
        yield from connection_mistakes(ways, self._home.data)
        yield from (Mistake("users", each) for each in malformed(wanted.users, wanted.groups))

    def create(self, wanted: UsersModel, task: Task) -> Made:
        _write(self._host(wanted), wanted.users, wanted.groups, wanted.users)
        return Made("users")

    def refuse_update(self, old: UsersModel, wanted: UsersModel) -> None:
        for name, each in wanted.users.items():
            before = old.users.get(name, each)
            if before["uid"] != each["uid"]:
                raise Refusal(
                    f"{name} has the uid {before['uid']}, by which their files are known, and it cannot become {each['uid']}: take "
                    "them out of the spec, `up`, chown their home, and add them again"
                )
        leaving = {*old.users} - {*wanted.users}
        allowed = self._home.environment.get(CANCEL_JOBS_OF, "").split(",")
        if kept := leaving - {*allowed}:
            _refuse_jobs(Slurm(self._host(old)), kept)

    def update(self, id: str, old: UsersModel, wanted: UsersModel, task: Task) -> Mapping[str, Plain]:
        leaving = {name: old.users[name] for name in sorted({*old.users} - {*wanted.users})}
        if leaving:
            self._show_out(old, wanted, leaving, task)
        self.create(wanted, task)
        if leaving:
            self._end_sessions(wanted, leaving)  # of who came in before the key was gone
        return {}

    def _show_out(self, old: UsersModel, wanted: UsersModel, leaving: Users, task: Task) -> None:
        """End the sessions and jobs of who leaves, who have no keys from here on; Slurm has to know them until the last has ended."""
        names = ", ".join(leaving)
        without_keys = {name: {**each, "keys": ()} for name, each in leaving.items()}
        groups = {**old.groups, **wanted.groups}
        _write(self._host(wanted), {**wanted.users, **without_keys}, groups, wanted.users)
        self._end_sessions(wanted, leaving)
        slurm = Slurm(self._host(wanted))

        def why_not() -> str:
            jobs = [job for job in slurm.jobs() if job.user in leaving]
            for job in jobs:
                _cancel(slurm, job)
            return f"jobs {', '.join(str(job.job_id) for job in jobs)} end" if jobs else ""

        if left := task.wait(why_not, f"{names} leaves", _LOOK_S):
            task.warn(f"{names} has left, and not all jobs have ended: {left}")

    def look(self, id: str, state: UsersModel) -> Mapping[str, Plain] | None:
        try:
            files = _ask(self._host(state), {})
        except (ClientError, Refusal):
            return AS_KNOWN
        if not files:
            return None
        users, groups = read_user_files(files)
        # Who has another number by somebody's hand is not there, and is written anew.
        users = {
            name: each for name, each in users.items() if state.users.get(name, each)["uid"] == each["uid"]
        }
        changed: dict[str, Plain] = {"users": users} if users != state.users else {}
        return changed | ({"groups": dict(groups)} if groups != state.groups else {})

    def _host(self, wanted: UsersModel) -> Transport:
        return transport(wanted.controller, self._home.data)

    def _end_sessions(self, wanted: UsersModel, leaving: Users) -> None:
        """Kill what these users run on login machines; one that does not run has no sessions either."""
        uids = leaving_uids(leaving, wanted.users)
        if not uids:
            return
        words = ["pkill", "--signal=KILL", "--uid", ",".join(map(str, uids))]
        for login in wanted.logins:
            if machine_runs(login, self._home.data):
                transport(login, self._home.data).run(words, timeout_s=_TIMEOUT_S)


def _write(host: Transport, users: Users, groups: Mapping[str, int], with_homes: Users) -> None:
    _ask(host, {"files": user_files(users, groups), "users": homes(with_homes)})


def _ask(host: Transport, request: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the files that there are, when what is asked has been done.

    Raises:
        Refusal: it cannot be; says why.
        ClientError: the machine cannot be reached.
    """
    asked = {"folder": FOLDER, "homes": HOMES, **request}
    done = host.run(_PROGRAM, stdin=json.dumps(asked), timeout_s=_TIMEOUT_S)
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        raise Refusal(
            f"users cannot be written at {host.where}: {done.stderr.strip() or 'no answer'}"
        ) from None
    if "error" in answer:
        raise Refusal(f"users cannot be written at {host.where}: {answer['error']}")
    return dict(answer["files"])


def _refuse_jobs(slurm: Slurm, leaving: Collection[str]) -> None:
    try:
        jobs = slurm.jobs()
    except SlurmError as error:
        raise Refusal(
            f"{', '.join(sorted(leaving))} would go, and Slurm cannot be asked whether they have jobs: {error.what} ({error.where})"
        ) from error
    of = {name: sorted(job.job_id for job in jobs if job.user == name) for name in sorted(leaving)}
    if had := {name: ids for name, ids in of.items() if ids}:
        lines = [f"{name} would go, and has the jobs {', '.join(map(str, ids))}" for name, ids in had.items()]
        names = ",".join(had)
        raise Refusal(
            f"{'; '.join(lines)}. Wait for them, or have them cancelled: `tidepool up --cancel-jobs-of {names}`, or "
            f"{CANCEL_JOBS_OF}={names} in the environment of `pulumi up`"
        )


def _cancel(slurm: Slurm, job: Job) -> None:
    try:
        slurm.cancel(job.array_job_id or job.job_id)
    except NotFound:
        pass  # it ended meanwhile
