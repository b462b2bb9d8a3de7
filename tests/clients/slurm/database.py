"""A real slurmctld with slurmdbd and MariaDB behind it, as ordinary processes on the loopback."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from tests.clients.slurm.real import CONF, PATH, RealSlurm, eventually, free_port, missing

_PROGRAMS: Final = ("slurmdbd", "mariadbd", "mariadb-install-db", "setpriv")
_DBD: Final = """\
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={port}
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StorageType=accounting_storage/mysql
StorageHost=localhost
StorageUser=root
StorageLoc=accounts
LogFile={folder}/slurmdbd.log
PidFile={folder}/slurmdbd.pid
"""
_ACCOUNTING: Final = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort={port}
AccountingStoragePass={folder}/munge.socket
AccountingStorageEnforce=associations,limits,qos
PriorityType=priority/multifactor
"""


@contextmanager
def joined(folder: Path, server: RealSlurm, cluster: str) -> Iterator[RealSlurm]:
    """Another cluster, with a key of its own, that uses the slurmdbd of ``server``."""
    said = dict(line.split("=", 1) for line in server.conf.read_text().splitlines() if "=" in line)
    accounting = _ACCOUNTING.format(folder=server.folder, port=said["AccountingStoragePort"])
    running = RealSlurm(folder, CONF.replace("ClusterName=contract", f"ClusterName={cluster}") + accounting)
    try:
        yield running
    finally:
        running.close()


@contextmanager
def accounted(folder: Path) -> Iterator[RealSlurm]:
    """A cluster whose database keeps nothing for a crash: it is a test's."""
    lacking = [program for program in _PROGRAMS if shutil.which(program, path=PATH) is None]
    if missing() or lacking:
        pytest.skip(missing() or f"not installed: {', '.join(lacking)} (slurmdbd mariadb-server-core)")
    database, port = folder / "database", free_port()
    database.mkdir()
    install = (
        "mariadb-install-db",
        "--no-defaults",
        f"--datadir={database}",
        "--skip-test-db",
        "--user=root",
    )
    subprocess.run([*install, "--auth-root-authentication-method=socket"], check=True, capture_output=True)
    dbd, socket = folder / "slurmdbd.conf", database / "socket"
    dbd.touch(0o600)
    dbd.write_text(_DBD.format(port=port, folder=folder))
    mariadbd = subprocess.Popen(
        [
            *(
                "setpriv",
                "--pdeathsig",
                "KILL",
                "mariadbd",
                "--no-defaults",
                f"--datadir={database}",
                "--user=root",
            ),
            *(f"--socket={socket}", "--skip-networking", f"--pid-file={database}/pid"),
            *("--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0"),
        ],
        stderr=subprocess.DEVNULL,
    )
    try:
        eventually(socket.exists, bool)
        slurmdbd = ["env", f"SLURM_CONF={folder}/slurm.conf", f"MYSQL_UNIX_PORT={socket}", "slurmdbd", "-D"]
        running = RealSlurm(folder, CONF + _ACCOUNTING.replace("{port}", str(port)), {"slurmdbd": slurmdbd})
        yield running
        running.close()
    finally:
        mariadbd.kill()
        mariadbd.wait()
