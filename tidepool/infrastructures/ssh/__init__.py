"""Hosts that are there already, made into nodes and given back: what is asked of them, which node each is, who is fit.

Hosts are asked by `tidepool.infrastructures.ssh.ask` alone; what is done on them is `keeper`, which runs there, and the playbooks.
"""

from tidepool.infrastructures.registry import Descriptor

INFRASTRUCTURE = Descriptor(
    name="ssh",
    graph="tidepool.infrastructures.ssh.graph:make",
    machines="tidepool.infrastructures.ssh.machines:machines_of",
    failures="tidepool.infrastructures.ssh.ask:kind_of",
    checks="tidepool.infrastructures.ssh.preflight:checks_of",
    preflight="tidepool.infrastructures.ssh.preflight:PREFLIGHT",
    types=("tidepool:ssh:Host", "tidepool:ssh:Playbook"),
    machine_id="machine",
    own_kernel=False,
    kinds={
        "tidepool:ssh:Host": "tidepool.infrastructures.ssh.kinds:SshHostKind",
        "tidepool:ssh:Playbook": "tidepool.infrastructures.ssh.kinds:SshPlaybookKind",
    },
)
