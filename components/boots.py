"""Boots of the machines of a cluster by their kind: services and files, as plain functions from keys and volumes to a `Boot`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Final

from pulumi import Input

from tidepool.cluster import controller_programs, hostlist
from tidepool.cluster.accounting import ACCOUNTING_KEY, ACCOUNTING_SOCKET, Accounting
from tidepool.cluster.boot import Device, Folder, Service
from tidepool.cluster.frozen import FrozenDict
from tidepool.cluster.roles import MUNGE_KEY
from tidepool.cluster.shape import Shape
from tidepool.components.run_agent import run_boot
from tidepool.components.scratch import files_boot
from tidepool.components.ssh_access import NODE_ACCESS, ONLY_ROOT, SSHD, login_access
from tidepool.infrastructures.contract import Boot, File, Mount

#: Folders that each machine has in /run, which is empty at each boot.
RUN_FOLDERS: Final = (Folder("/run/munge", owner="munge", group="munge"), Folder("/run/sshd"))
MUNGED: Final = Service(
    "munged",
    ("/usr/sbin/munged", "--foreground", "--num-threads=2"),
    user="munge",
    ready="unix:/run/munge/munge.socket.2",
)
#: The munged of the key that clusters which share a slurmdbd have in common: only slurmdbd is asked by it.
_ACCOUNTING_MUNGED: Final = replace(
    MUNGED,
    name="munged-accounting",
    argv=(
        *MUNGED.argv,
        f"--key-file={ACCOUNTING_KEY}",
        f"--socket={ACCOUNTING_SOCKET}",
        "--pid-file=/run/munge/accounting.pid",
        "--seed-file=/run/munge/accounting.seed",
    ),
    ready=f"unix:{ACCOUNTING_SOCKET}",
)


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys by which the machines of a cluster know each other, and know who administers them.

    ``munge`` is the munge key in base64, and secret. ``ssh`` is a public key, one line; with it root logs in. ``accounting`` is a
    munge key as well, of the slurmdbd that the cluster shares with others; None where it shares none.
    """

    munge: Input[str]
    ssh: Input[str]
    accounting: Input[str] | None = None

    @property
    def files(self) -> tuple[File, ...]:
        """The keys, where munged and sshd look for them."""
        return (self.munge_file, self.root_file)

    @property
    def munge_file(self) -> File:
        return File(MUNGE_KEY, self.munge, "0400", "munge", "munge", is_base64=True)

    @property
    def accounting_files(self) -> tuple[File, ...]:
        """The key by which a slurmdbd that is shared is asked, where there is one."""
        if self.accounting is None:
            return ()
        return (File(ACCOUNTING_KEY, self.accounting, "0400", "munge", "munge", is_base64=True),)

    @property
    def accounting_services(self) -> tuple[Service, ...]:
        """The munged of that key."""
        return () if self.accounting is None else (_ACCOUNTING_MUNGED,)

    @property
    def root_file(self) -> File:
        """The file that lets root in."""
        return File("/etc/ssh/authorized_keys.d/root", self.ssh)


_FIRST_BOOT_SCRIPT: Final = "/etc/tidepool/first-boot"
#: A spec's hook: what it did stays with the machine, so it is not run at later boots.
_FIRST_BOOT: Final = Service(
    "first-boot",
    (
        *("/bin/sh", "-ec"),
        f"test ! -e {_FIRST_BOOT_SCRIPT}.done || exit 0; {_FIRST_BOOT_SCRIPT}; : >{_FIRST_BOOT_SCRIPT}.done",
    ),
    once=True,
    # It may install what takes long; the node's own deadline ends it.
    ready_timeout_s=0,
)


def node_boot(
    keys: Keys,
    *,
    home: Input[str],
    controllers: Sequence[str],
    shape: Shape,
    is_named: bool = False,
    confined: bool = False,
    scratch: Sequence[Mount] = (),
    first_boot: str | None = None,
) -> Boot:
    """Run munged, slurmd, and sshd for who has a job there.

    slurmd has no files of its own: it asks ``controllers`` (host names, the first in charge) for them. It tells the
    shape of its slot; features are the slot's alone, so that they change without another boot. With ``is_named``,
    slurm.conf has a line for the slot, which says all of that, and a slurmd that says it again ends. Jobs are ``confined``
    by its control groups, and bound to their processors. ``first_boot`` is a script that succeeds once before slurmd begins.
    """
    # -b: with the host's boot time Slurm would take a machine for one that it has known for long.
    asks = ("/usr/sbin/slurmd", "-D", "-b", "--conf-server", ",".join(controllers))
    tells = () if is_named else ("-Z", "--conf", _conf(shape))
    paths = [path for gres in shape.gres for path in _paths(gres.files)]
    # It reads what its jobs use in /proc/PID/io, which is theirs alone; the kernel has nobody else close devices to a group.
    capabilities = ("sys_ptrace", "sys_admin") if confined and paths else ("sys_ptrace",)
    slurmd = Service("slurmd", (*asks, *tells), ready="tcp:6818", capabilities=capabilities, binds=confined)
    hook = () if first_boot is None else (_FIRST_BOOT,)
    hook_file = () if first_boot is None else (File(_FIRST_BOOT_SCRIPT, first_boot, "0700"),)
    return Boot(
        services=(*hook, MUNGED, slurmd, NODE_ACCESS, SSHD),
        files=(*keys.files, *hook_file),
        folders=RUN_FOLDERS,
        mounts=(Mount(home, "/home", read_only=False), *scratch),
        devices=tuple(Device(path, minor=number) for number, path in enumerate(paths)),
    )


def _conf(shape: Shape) -> str:
    sockets, cores, threads = shape.layout
    said = (
        f"CPUs={shape.cpus} Sockets={sockets} CoresPerSocket={cores} ThreadsPerCore={threads} "
        f"RealMemory={shape.memory_mib}"
    )
    return f"{said} Gres={','.join(map(str, shape.gres))}" if shape.gres else said


def _paths(files: str | None) -> list[str]:
    if files is None:
        return []
    folder, _, names = files.rpartition("/")
    return [f"{folder}/{name}" for name in hostlist.expand(names)]


_STATE: Final = "/var/spool/slurmctld"
_SETTINGS: Final = "/etc/slurm"
#: With slots in slurm.conf, nodes in service would be FUTURE again when it starts, as the lines have them, but for -R. That recovers
#: partitions as well, and one whose nodes are no more is fatal; slurm.conf says what these are.
_SLURMCTLD: Final = f"""\
if grep --quiet ^NodeName= {_SETTINGS}/slurm.conf; then
    rm -f {_STATE}/part_state*
    set -- -R
fi
exec /usr/sbin/slurmctld -D "$@"
"""
#: Programs that slurmctld runs (`tidepool.cluster.controller_programs`), and is the parent of; there whether slurm.conf names them or not, so that no machine
#: boots for a change of that. A standby also runs the second when it has just been started.
_STANDING_BY: Final = (
    File(
        controller_programs.IN_CHARGE_PROGRAM,
        f"""\
#!/bin/sh
exec </dev/null >/dev/null 2>&1  # slurmctld has closed all
# The first controller of slurm.conf ends when another takes over; only the others stand by again.
host=$(uname -n)
first=$(sed -n 's/^SlurmctldHost=\\([^(]*\\).*/\\1/p' {_SETTINGS}/slurm.conf | head -n 1)
test "${{host%%.*}}" = "$first" || echo "$PPID" >{controller_programs.FOLDER}/in-charge
""",
        "0755",
    ),
    File(
        controller_programs.STANDS_BY_PROGRAM,
        f"""\
#!/bin/sh
exec </dev/null >/dev/null 2>&1
# By what the shell itself can, which takes no time: its state is saved, and it listens already. Told to take over now, it
# would stop the controller that it gave control to, and be gone before it was in charge.
read -r was <{controller_programs.FOLDER}/in-charge
test "$was" = "$PPID" || exit 0
: >{controller_programs.FOLDER}/in-charge
read -r name <"/proc/$PPID/comm"
test "$name" != slurmctld || kill -KILL "$PPID"
""",
        "0755",
    ),
)


def controller_boot(
    keys: Keys,
    *,
    state: Input[str],
    home: Input[str],
    settings: Input[str] | None = None,
    is_alone: bool = True,
    configuration: Mapping[str, str] = FrozenDict(),
    scratch: Sequence[Mount] = (),
    has_files: bool = False,
    has_run: bool = False,
) -> Boot:
    """Run munged, sshd and slurmctld; ``home`` is the volume of /home, all else is as of `slurmctld_boot`.

    ``configuration`` are the texts of Slurm's files, by name: they come when machines run, and change then. With ``has_files``
    homes are counted and ``scratch`` is wiped here; with ``has_run`` the cluster is a run's, and ends it.
    """
    slurmctld = slurmctld_boot(state=state, settings=settings, is_alone=is_alone)
    people = files_boot() if has_files else Boot()
    run = run_boot() if has_run else Boot()
    return Boot(
        # sshd first: whoever comes in to see why slurmctld does not start gets in.
        services=(
            MUNGED,
            SSHD,
            *people.services,
            *keys.accounting_services,
            *slurmctld.services,
            *run.services,
        ),
        files=(
            *keys.files,
            *keys.accounting_files,
            ONLY_ROOT,
            *slurmctld.files,
            *_power_programs(),
            *people.files,
            *run.files,
        ),
        folders=(
            *RUN_FOLDERS,
            *slurmctld.folders,
            Folder(controller_programs.SPOOL, "0700", "slurm", "slurm"),
            *people.folders,
            *run.folders,
        ),
        mounts=(*slurmctld.mounts, Mount(home, "/home", read_only=False), *scratch),
        live_files=tuple(File(f"{_SETTINGS}/{name}", text) for name, text in sorted(configuration.items())),
    )


def slurmctld_boot(
    *,
    state: Input[str],
    settings: Input[str] | None = None,
    is_alone: bool = True,
    role: str = "",
) -> Boot:
    """Run slurmctld, and nothing that it needs besides.

    Args:
        state: the volume of StateSaveLocation.
        settings: that of Slurm's files, where several machines have the same; None where each is given its own.
        is_alone: there is no other controller. Else one that ended without an error is not started again: another one
            took over from it, and a primary that starts takes control back.
        role: that of the machine whose service it is.
    """
    slurmctld = Service(
        "slurmctld",
        ("/bin/sh", "-c", _SLURMCTLD),
        ready="tcp:6817",
        stop_timeout_s=20,
        # Its configuration comes when all machines that have it are up.
        begins=f"path:{_SETTINGS}/slurm.conf",
        role=role,
        restart="always" if is_alone else "on-failure",
    )
    shared = () if settings is None else (Mount(settings, _SETTINGS, read_only=False, role=role),)
    return Boot(
        services=(slurmctld,),
        files=_STANDING_BY,
        folders=(
            Folder(_STATE, "0700", "slurm", "slurm"),
            Folder(controller_programs.FOLDER, "0700", "slurm", "slurm"),
        ),
        mounts=(Mount(state, _STATE, read_only=False, role=role), *shared),
    )


def login_boot(
    keys: Keys, *, home: Input[str], cpus: float, memory_mib: int, scratch: Sequence[Mount] = ()
) -> Boot:
    """Run munged and sshd, for Slurm's commands; ``home`` is the volume of /home.

    A user can take ``cpus`` processors and ``memory_mib`` of memory.
    """
    return Boot(
        services=(MUNGED, SSHD, *keys.accounting_services),
        files=(*keys.files, *keys.accounting_files, *login_access(cpus, memory_mib)),
        folders=RUN_FOLDERS,
        mounts=(Mount(home, "/home", read_only=False), *scratch),
    )


def _power_programs() -> tuple[File, ...]:
    """Return the programs that Slurm's power saving calls. They are there in either mode, so that no machine boots for a change of it.

    slurmctld runs them without arguments of its own, hence a file for each.
    """
    written = files("tidepool").joinpath("scaling/power/request.py").read_text(encoding="utf-8")
    calls = {controller_programs.UP_PROGRAM: "up", controller_programs.DOWN_PROGRAM: "down"}
    return (
        File(controller_programs.REQUEST_PROGRAM, written),
        *(
            File(
                path,
                f'#!/bin/sh\nexec /usr/bin/python3 -I -S {controller_programs.REQUEST_PROGRAM} {what} "$@"\n',
                "0755",
            )
            for path, what in calls.items()
        ),
    )


_DATABASE: Final = "/var/lib/mysql"
_SOCKET: Final = "/run/mysqld/mysqld.sock"
#: Where slurmdbd looks; it refuses to start when others can read it.
_SLURMDBD_CONF: Final = """\
# Written by Tidepool.
AuthType=auth/munge
DbdHost=dbd
SlurmUser=slurm
LogFile=/var/log/slurm/slurmdbd.log
PidFile=/run/slurm/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageLoc=slurm_acct_db
StorageUser=slurm
"""
#: Users of several clusters do not see each other's; operators, and root of each cluster, see all.
_PRIVATE: Final = "PrivateData=accounts,events,jobs,reservations,usage,users\n"
#: Read at each start of mariadbd. Its socket tells it who calls: no password is there that could get lost.
_ACCOUNTS: Final = """\
CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED VIA unix_socket;
GRANT ALL ON slurm_acct_db.* TO slurm@localhost;
"""
#: The database is whole when it has its name, as that is given last.
_INSTALL: Final = f"""\
test -d {_DATABASE}/data && exit
rm -rf {_DATABASE}/new
mariadb-install-db --datadir={_DATABASE}/new --skip-test-db --auth-root-authentication-method=socket
mv {_DATABASE}/new {_DATABASE}/data
"""
_MARIADBD: Final = (
    "/usr/sbin/mariadbd",
    f"--datadir={_DATABASE}/data",
    f"--socket={_SOCKET}",
    "--pid-file=/run/mysqld/mysqld.pid",
    "--init-file=/etc/mysql/slurm.sql",
)


def slurmdbd_conf(accounting: Accounting) -> str:
    """Return the text of slurmdbd.conf."""
    return _SLURMDBD_CONF + (_PRIVATE if accounting.shared_with else "")


def accounting_boot(keys: Keys, *, accounting: Accounting, database: Input[str]) -> Boot:
    """Run munged, sshd, mariadbd and slurmdbd; ``database`` is the volume of MariaDB's files.

    Where clusters share it, ``keys`` has the key for it, and that of the cluster itself is not there.
    """
    if keys.accounting is not None:
        keys = Keys(keys.accounting, keys.ssh)
    return Boot(
        services=(
            MUNGED,
            SSHD,
            Service("database", ("/bin/sh", "-ec", _INSTALL), user="mysql", once=True),
            Service("mariadbd", _MARIADBD, user="mysql", ready=f"unix:{_SOCKET}", stop_timeout_s=30),
            Service("slurmdbd", ("/usr/sbin/slurmdbd", "-D"), user="slurm", ready="tcp:6819"),
        ),
        files=(
            *keys.files,
            File("/etc/slurm/slurmdbd.conf", slurmdbd_conf(accounting), "0600", "slurm", "slurm"),
            File("/etc/mysql/slurm.sql", _ACCOUNTS),
        ),
        folders=(
            *RUN_FOLDERS,
            Folder(_DATABASE, "0700", "mysql", "mysql"),
            Folder("/run/mysqld", owner="mysql", group="mysql"),
            Folder("/run/slurm", owner="slurm", group="slurm"),
        ),
        mounts=(Mount(database, _DATABASE, read_only=False),),
    )
