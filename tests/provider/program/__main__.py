"""A small cluster of the bare resources; what the tests change of it comes as JSON in the file $WANTED."""

import json
import os
from pathlib import Path

import pulumi

from tidepool.cluster.slots import slots as slots_of
from tidepool.cluster.slurm_conf import configuration
from tidepool.cluster.spec_reading import read_spec
from tidepool.infrastructures.local.resources import Boot, Machine, Network, Volume
from tidepool.resources import Configuration, Image, MungeKey, Node, Slots, SshKey

wanted = json.loads(Path(os.environ["WANTED"]).read_text())
checkout = Path(os.environ["CHECKOUT"])
stack = pulumi.get_stack()
spec = read_spec(wanted["spec"])
own = spec.own_addresses

image = Image("image", recipe=str(checkout / "images/debian-12"), playbooks=str(checkout / "playbooks"))
key = MungeKey("munge-key")
ssh = SshKey("ssh-key")
network = Network("net", stack=stack, network="net", cidr=str(spec.network))
state = Volume("state", stack=stack, volume="slurmctld")

munge = {
    "files": {
        "/etc/munge/munge.key": {
            "content": key.key,
            "isBase64": True,
            "mode": "0400",
            "owner": "munge",
            "group": "munge",
        }
    },
    "folders": [
        {"path": path, "mode": mode, "owner": "munge", "group": "munge"}
        for path, mode in (
            ("/etc/munge", "0700"),
            ("/run/munge", "0755"),
            ("/var/log/munge", "0700"),
            ("/var/lib/munge", "0700"),
        )
    ],
}
munged = {
    "name": "munged",
    "argv": ["/usr/sbin/munged", "--foreground", "--num-threads=2"],
    "user": "munge",
    "ready": "unix:/run/munge/munge.socket.2",
}
controller_boot = Boot(
    "controller-boot",
    stack=stack,
    boot="controller",
    services=[
        munged,
        {
            "name": "slurmctld",
            "argv": [
                "/bin/sh",
                "-c",
                "rm -f /var/spool/slurmctld/part_state*; exec /usr/sbin/slurmctld -D -R",
            ],
            "begins": "path:/etc/slurm/slurm.conf",
            "ready": "tcp:6817",
            "stopTimeoutS": 20,
        },
    ],
    mounts=[{"source": state.path, "target": "/var/spool/slurmctld", "readOnly": False}],
    files=munge["files"],
    folders=[
        *munge["folders"],
        {"path": "/var/spool/slurmctld", "mode": "0700", "owner": "slurm", "group": "slurm"},
    ],
)
controller = Machine(
    "ctl",
    stack=stack,
    machine="ctl",
    network=network.network,
    address=str(own.controller),
    mac=wanted.get("ctlMac", "02:00:00:00:00:01"),
    image=image.digest,
    boot=controller_boot.boot,
    cpus=2,
    memory_mib=2048,
)
slurm = Configuration(
    "slurm",
    hosts=[controller.connection],
    files=dict(configuration(spec)) | wanted.get("files", {}),
)
pulumi.export("controller", controller.connection)
pulumi.export("publicKey", ssh.public_key)
pulumi.export("mungeKey", key.key)
pulumi.export("configuration", slurm.digest)

for fleet in spec.fleets:
    sockets, cores, threads = fleet.shape.layout
    boot = Boot(
        f"{fleet.name}-boot",
        stack=stack,
        boot=fleet.name,
        services=[
            munged,
            {
                "name": "slurmd",
                "argv": [wanted.get("slurmd", "/usr/sbin/slurmd"), "-D", "-b", "--conf-server", "ctl"],
                "ready": "tcp:6818",
            },
        ],
        **munge,
    )
    all_slots = list(slots_of(fleet.name, fleet.subnet, fleet.max_nodes))
    slots = Slots(
        fleet.name,
        controller=controller.connection,
        names=",".join(slot.node_name for slot in all_slots),
        addresses=",".join(str(slot.address) for slot in all_slots),
        cpus=fleet.shape.cpus,
        sockets=sockets,
        cores_per_socket=cores,
        threads_per_core=threads,
        memory_mib=fleet.shape.memory_mib,
        features=[fleet.name, *fleet.features],
        configured=True,
        opts=pulumi.ResourceOptions(depends_on=[slurm]),
    )
    for slot in all_slots[: wanted["nodes"].get(fleet.name, 0)]:
        machine = Machine(
            slot.node_name,
            stack=stack,
            machine=slot.node_name,
            network=network.network,
            address=str(slot.address),
            mac=slot.mac,
            image=image.digest,
            boot=boot.boot,
            cpus=fleet.shape.cpus,
            memory_mib=wanted.get("machineMib", 256),
            # A slurmd that finds no controller tries again a second later.
            opts=pulumi.ResourceOptions(depends_on=[slots]),
        )
        Node(
            f"{slot.node_name}-node",
            controller=controller.connection,
            node=slot.node_name,
            machine=machine.connection,
            slots=slots.id,
            opts=pulumi.ResourceOptions(
                custom_timeouts=pulumi.CustomTimeouts(create=wanted["nodeTimeout"])
                if "nodeTimeout" in wanted
                else None
            ),
        )
