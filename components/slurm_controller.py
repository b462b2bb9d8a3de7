"""SlurmController: the cluster's own machines, its keys, and the configuration that all of them live by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from ipaddress import IPv4Address
from typing import Any, Final, Literal

import pulumi
from pulumi import Input, Output

from tidepool import resources
from tidepool.cluster import hostlist
from tidepool.cluster.power_saving import slot_state
from tidepool.cluster.shape import Shape
from tidepool.cluster.slurm_conf import (
    ACCOUNTING_HOST,
    BACKUP_CONTROLLER_HOST,
    CONTROLLER_HOST,
    Fleetlike,
    configuration,
    fleets_and_pools,
    names_slots,
)
from tidepool.cluster.spec import ClusterSpec
from tidepool.components.boots import Keys, accounting_boot, controller_boot, login_boot, slurmctld_boot
from tidepool.infrastructures.boot import Boot
from tidepool.infrastructures.contract import Infrastructure, Machine, MachineOrder, VolumeOrder

#: Host name of the login machine 1, and so on.
_LOGIN_HOST: Final = "login-{}"


@dataclass(frozen=True, slots=True)
class SlurmControllerArgs:
    """What the cluster's own machines are made from.

    ``network`` is what ``infrastructure`` gave for the cluster's network, ``image`` an image's digest. ``people``
    are users of the image who log in with the stack's SSH key.
    """

    spec: ClusterSpec
    infrastructure: Infrastructure
    network: Input[str]
    image: Input[str]
    people: tuple[str, ...] = ("root", "researcher")


class SlurmController(pulumi.ComponentResource):
    """slurmctld's machine `ctl` and those beside it: login machines, a backup controller, slurmdbd's.

    A change of Slurm's configuration changes ``configuration`` alone: no machine boots for it, and jobs go on.
    """

    #: Of slurmctld's machine, of the login machines by name.
    connection: Output[Mapping[str, Any]]
    logins: Mapping[str, Output[Mapping[str, Any]]]
    #: In OpenSSH's forms; the private one is secret.
    public_key: Output[str]
    private_key: Output[str]
    #: What other machines of the cluster have, too.
    keys: Keys
    home: Output[str]
    #: Host names that slurmd asks for its configuration, the first in charge.
    hosts: tuple[str, ...]
    #: What the pool's machine that runs slurmctld does besides, by its name; empty where `ctl` is in charge.
    pool_controllers: Mapping[str, Boot]
    #: Slots and nodes depend on it.
    configuration: resources.Configuration
    #: Whether slurm.conf has the slots; else each fleet tells Slurm of its own.
    names_slots: bool
    #: Of a slot whose node is not there.
    slot_state: Literal["FUTURE", "CLOUD"]

    def __init__(
        self, name: str, args: SlurmControllerArgs, opts: pulumi.ResourceOptions | None = None
    ) -> None:
        super().__init__("tidepool:components:SlurmController", name, None, opts)
        self._args = args
        self._mine = pulumi.ResourceOptions(parent=self)
        self.names_slots = names_slots(args.spec)
        self.slot_state = slot_state(args.spec)
        munge = resources.MungeKey(name, opts=self._mine)
        ssh = resources.SshKey(name, opts=self._mine)
        self.public_key, self.private_key = ssh.publicKey, Output.secret(ssh.privateKey)
        self.keys = Keys(Output.secret(munge.key), self.public_key, args.people)
        self.home = self._volume("home", retain=True)

        # A pool's machine has Slurm's files from where `ctl` has them: it is made when these are there already.
        on = args.spec.controller_slot
        settings = None if on is None else self._volume("slurm")
        state = self._volume("slurmctld")
        self.pool_controllers = {}
        if on is not None:
            boot = slurmctld_boot(
                state=state, settings=settings, names_slots=self.names_slots, is_alone=False, role="slurm"
            )
            self.pool_controllers = {on.node_name: boot}
        controllers = self._controllers(state, settings)
        accounting = self._accounting()
        logins = self._logins()
        self.hosts = (*self.pool_controllers, *controllers)
        self.connection = controllers[CONTROLLER_HOST].connection
        self.logins = {host: machine.connection for host, machine in logins.items()}
        told = (*controllers.values(), *logins.values())
        self.configuration = resources.Configuration(
            name,
            hosts=[machine.connection for machine in told],
            files=configuration(args.spec),
            fleets={fleet.name: _all_slots(fleet) for fleet in fleets_and_pools(args.spec)},
            # slurmctld asks slurmdbd for its accounts when it starts.
            opts=pulumi.ResourceOptions(parent=self, depends_on=[each.resource for each in accounting]),
        )
        self.register_outputs(
            {
                "connection": self.connection,
                "logins": dict(self.logins),
                "publicKey": self.public_key,
                "privateKey": self.private_key,
                "mungeKey": self.keys.munge,
            }
        )

    def _controllers(self, state: Input[str], settings: Input[str] | None) -> dict[str, Machine]:
        """By host name. A backup has the same volume for slurmctld's state, and takes over with all jobs."""
        places = self._args.spec.own_addresses
        shape = self._args.spec.controller.shape
        boot = self._args.infrastructure.boot(
            CONTROLLER_HOST,
            controller_boot(
                self.keys,
                state=state,
                home=self.home,
                settings=settings,
                names_slots=self.names_slots,
                is_alone=settings is None and not self._args.spec.controller.backup,
                configuration=configuration(self._args.spec),
            ),
            self._mine,
        )
        made = {CONTROLLER_HOST: self._machine(CONTROLLER_HOST, places.controller, shape, boot)}
        if self._args.spec.controller.backup:
            host = BACKUP_CONTROLLER_HOST
            made[host] = self._machine(host, places.backup_controller, shape, boot)
        return made

    def _accounting(self) -> tuple[Machine, ...]:
        accounting = self._args.spec.controller.accounting
        if accounting is None:
            return ()
        # It is the history of years: a cluster that is made again goes on with it.
        boot = self._args.infrastructure.boot(
            ACCOUNTING_HOST,
            accounting_boot(self.keys, database=self._volume("database", retain=True)),
            self._mine,
        )
        address = self._args.spec.own_addresses.accounting
        # A slurmctld that starts before slurmdbd answers ends, or does not register its cluster.
        return (self._machine(ACCOUNTING_HOST, address, accounting.shape, boot, wait_ready=True),)

    def _logins(self) -> dict[str, Machine]:
        """By host name."""
        spec = self._args.spec
        if not spec.controller.login_machines:
            return {}
        boot = self._args.infrastructure.boot("login", login_boot(self.keys, home=self.home), self._mine)
        hosts = {
            _LOGIN_HOST.format(number): spec.own_addresses.login(number)
            for number in range(1, spec.controller.login_machines + 1)
        }
        return {
            host: self._machine(host, address, spec.controller.shape, boot) for host, address in hosts.items()
        }

    def _machine(
        self, host: str, address: IPv4Address, shape: Shape, boot: Input[str], wait_ready: bool = False
    ) -> Machine:
        order = MachineOrder(host, self._args.network, address, shape, self._args.image, boot, wait_ready)
        return self._args.infrastructure.machine(order, self._mine)

    def _volume(self, name: str, retain: bool = False) -> Output[str]:
        return self._args.infrastructure.volume(VolumeOrder(name, retain), self._mine)


def _all_slots(fleet: Fleetlike) -> str:
    return hostlist.fold(slot.node_name for slot in fleet.slots())
