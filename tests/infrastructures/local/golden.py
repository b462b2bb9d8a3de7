"""What machines of the golden image do when they boot, by their kind: services in order, and what they stand on."""

from __future__ import annotations

from dataclasses import dataclass

from tidepool.cluster.boot import File, Folder, Mount, Service
from tidepool.cluster.user_files import FOLDER, user_files
from tidepool.infrastructures.local.kernel import MachineSpec

PEOPLE = ("root", "researcher")
_HOST_KEY = "/etc/ssh/ssh_host_ed25519_key"
#: The public one is written last. One that is whole stays, over all boots.
_MAKE_HOST_KEY = f"""\
test -s {_HOST_KEY}.pub && exit
test -e {_HOST_KEY} && rm {_HOST_KEY}
exec ssh-keygen -q -t ed25519 -N '' -C '' -f {_HOST_KEY}
"""
_DATABASE = "/var/lib/mysql"
#: The last thing that it makes are the tables of help; a mark says that it came to its end.
_MAKE_DATABASE = f"""\
test -e {_DATABASE}/made && exit
rm -rf {_DATABASE}/*
mariadb-install-db --datadir={_DATABASE} --auth-root-authentication-method=socket --skip-test-db >&2 || exit
exec touch {_DATABASE}/made
"""
#: Run at each start. A line is a statement.
_GRANT = """\
CREATE USER IF NOT EXISTS slurm@localhost IDENTIFIED VIA unix_socket;
GRANT ALL ON slurm_acct_db.* TO slurm@localhost;
"""
_SLURMDBD_CONF = """\
AuthType=auth/munge
DbdHost=dbd
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageUser=slurm
PidFile=/run/slurm/slurmdbd.pid
"""
_RUN_SLURM = Folder("/run/slurm", "0755", "slurm", "slurm")


@dataclass(frozen=True, slots=True)
class Parts:
    """Of a boot; several together are one."""

    services: tuple[Service, ...] = ()
    files: tuple[File[str], ...] = ()
    folders: tuple[Folder, ...] = ()
    mounts: tuple[Mount[str], ...] = ()

    def __add__(self, other: Parts) -> Parts:
        return Parts(
            self.services + other.services,
            self.files + other.files,
            self.folders + other.folders,
            self.mounts + other.mounts,
        )


def munged(key: str) -> Parts:
    """``key`` is in base64."""
    argv = ("/usr/sbin/munged", "--foreground", "--num-threads=2")
    return Parts(
        services=(Service("munged", argv, user="munge", ready="unix:/run/munge/munge.socket.2"),),
        files=(File("/etc/munge/munge.key", key, "0400", "munge", "munge", is_base64=True),),
        folders=(Folder("/run/munge", "0755", "munge", "munge"),),
    )


def sshd(public_key: str) -> Parts:
    """``public_key`` logs in as anyone of `PEOPLE`."""
    argv = ("/usr/sbin/sshd", "-D", "-e", "-h", _HOST_KEY)
    return Parts(
        services=(
            Service("hostkey", ("/bin/sh", "-c", _MAKE_HOST_KEY), once=True),
            Service("sshd", argv, ready="tcp:22"),
        ),
        files=tuple(File(f"/etc/ssh/authorized_keys.d/{name}", public_key) for name in PEOPLE),
        folders=(Folder("/run/sshd"),),
    )


def slurmctld() -> Parts:
    """It begins when somebody gave it its configuration."""
    service = Service(
        "slurmctld",
        ("/usr/sbin/slurmctld", "-D"),
        user="slurm",
        begins="path:/etc/slurm/slurm.conf",
        ready="tcp:6817",
        stop_timeout_s=20,
    )
    return Parts(services=(service,), folders=(_RUN_SLURM,))


def slurmd() -> Parts:
    argv = ("/usr/sbin/slurmd", "-D", "-b", "--conf-server", "ctl")
    return Parts(services=(Service("slurmd", argv, ready="tcp:6818"),))


def home(volume: str) -> Parts:
    """People's homes, which are in a folder that the machines share."""
    folder = Folder("/home/researcher", "0700", "2000", "2000")
    known = user_files({"researcher": {"uid": 2000}}, {})
    files = tuple(File(f"{FOLDER}/{name}", text) for name, text in known.items())
    return Parts(files=files, folders=(folder,), mounts=(Mount(volume, "/home", read_only=False),))


def slurmdbd() -> Parts:
    """With its database, on the machine's own disk."""
    mariadbd = ("/usr/sbin/mariadbd", "--init-file=/etc/mysql/slurm.sql")
    return Parts(
        services=(
            Service("database", ("/bin/sh", "-c", _MAKE_DATABASE), user="mysql", once=True),
            Service(
                "mariadbd", mariadbd, user="mysql", ready="unix:/run/mysqld/mysqld.sock", stop_timeout_s=30
            ),
            Service("slurmdbd", ("/usr/sbin/slurmdbd", "-D"), user="slurm", ready="tcp:6819"),
        ),
        files=(
            File("/etc/mysql/slurm.sql", _GRANT),
            File("/etc/slurm/slurmdbd.conf", _SLURMDBD_CONF, "0600", "slurm", "slurm"),
        ),
        folders=(Folder("/run/mysqld", "0755", "mysql", "mysql"), _RUN_SLURM),
    )


def machine(stack: str, image: str, name: str, address: str, parts: Parts) -> MachineSpec:
    return MachineSpec(
        stack=stack,
        name=name,
        network="net",
        address=address,
        mac="02:00:" + ":".join(f"{int(part):02x}" for part in address.split(".")),
        image=image,
        cpus=2,
        memory_mib=2048,
        services=parts.services,
        files=parts.files,
        folders=parts.folders,
        mounts=parts.mounts,
    )
