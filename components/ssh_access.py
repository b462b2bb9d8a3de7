"""Access by SSH to the machines of a cluster: who comes in where, and into which limits."""

from __future__ import annotations

from typing import Final

from tidepool.cluster.boot import Service
from tidepool.infrastructures.contract import File

_HOST_KEY: Final = "/etc/ssh/ssh_host_ed25519_key"
#: One kind of host key, made at the machine's first boot: what `ssh-keygen -A` makes besides takes a second. The
#: public one is written last, so a key that has none may be half of one.
_SSHD: Final = f"""\
if ! test -s {_HOST_KEY}.pub; then
    rm -f {_HOST_KEY}
    ssh-keygen -q -t ed25519 -N '' -C '' -f {_HOST_KEY}
fi
exec /usr/sbin/sshd -D -e -h {_HOST_KEY}
"""

SSHD: Final = Service("sshd", ("/bin/sh", "-ec", _SSHD), ready="tcp:22")
#: Users are known wherever /home is: on a controller they have no business.
ONLY_ROOT: Final = File("/etc/ssh/sshd_config.d/only-root.conf", "AllowUsers root\n")
_NODE_ACCESS: Final = """\
if test -e /usr/lib/security/pam_slurm_adopt.so || test -e /usr/lib/*/security/pam_slurm_adopt.so; then
    who="pam_slurm_adopt.so nodename=$(uname -n) action_no_jobs=deny"
else
    who='pam_succeed_if.so quiet uid eq 0'
fi
cat >/etc/pam.d/sshd <<END
auth     required pam_deny.so
account  required pam_nologin.so
account  required pam_unix.so
account  required $who
session  required pam_limits.so
session  required pam_unix.so
password required pam_deny.so
END
"""
#: Has sshd let in who has a job on the node, which becomes a part of that job, and root; where the image knows no jobs, root
#: alone. slurm.conf does not name the node.
NODE_ACCESS: Final = Service("node-access", ("/bin/sh", "-ec", _NODE_ACCESS), once=True)

#: PAM runs it as root, as the child of who is going to be the user's shell.
_LIMITS: Final = """\
#!/bin/sh
set -eu
test "$PAM_TYPE" = open_session || exit 0
uid=$(id -u "$PAM_USER")
test "$uid" -ge 1000 || exit 0
cd /sys/fs/cgroup
if test -e cgroup.controllers; then
    echo '+cpu +memory' >cgroup.subtree_control
    mkdir -p users
    echo '+cpu +memory' >users/cgroup.subtree_control
    mkdir -p "users/$uid"
    echo {memory} >"users/$uid/memory.max"
    echo '{quota} 100000' >"users/$uid/cpu.max"
    echo "$PPID" >"users/$uid/cgroup.procs"
    exit
fi
mkdir -p "memory/users/$uid" "cpu/users/$uid"
echo {memory} >"memory/users/$uid/memory.limit_in_bytes"
echo {quota} >"cpu/users/$uid/cpu.cfs_quota_us"
for controller in memory cpu; do
    echo "$PPID" >"$controller/users/$uid/cgroup.procs"
done
"""
_LIMITS_PROGRAM: Final = "/usr/local/lib/tidepool/session-limits"
#: Of what fails it says so, and lets people in: not every infrastructure lets machines make control groups.
_LOGIN: Final = f"""\
auth     required pam_deny.so
account  required pam_nologin.so
account  required pam_unix.so
session  optional pam_exec.so log=/dev/stderr {_LIMITS_PROGRAM}
session  required pam_limits.so
session  required pam_unix.so
password required pam_deny.so
"""


def login_access(cpus: float, memory_mib: int) -> tuple[File, ...]:
    """Return the files by which all sessions of a user on a login machine have so many processors and so much memory together."""
    limits = _LIMITS.format(quota=round(cpus * 100_000), memory=memory_mib * 1024 * 1024)
    return (File("/etc/pam.d/sshd", _LOGIN), File(_LIMITS_PROGRAM, limits, "0755"))
