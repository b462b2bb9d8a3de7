"""The machine of slurmdbd, with its database beside it."""

from __future__ import annotations

from typing import Final

from pulumi import Input

from tidepool.components.boots.shared import MUNGED, RUN_FOLDERS, SSHD, Keys
from tidepool.infrastructures.boot import Boot, File, Folder, Mount, Service

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


def accounting_boot(keys: Keys, *, database: Input[str]) -> Boot:
    """Run munged, sshd, mariadbd and slurmdbd; ``database`` is the volume of MariaDB's files."""
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
            File("/etc/slurm/slurmdbd.conf", _SLURMDBD_CONF, "0600", "slurm", "slurm"),
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
