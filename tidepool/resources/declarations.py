"""Declarations of the resources that belong to no infrastructure: of images, keys, Slurm, Kubernetes, roles and SSH.

A connection (``controller``, ``machine``) is what `tidepool.infrastructures.connection` reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal

import pulumi
from pulumi import Input

from tidepool.resources.model import Field, Model, Resource, condition, derived, given, output, to_wire


class ImageModel(Model):
    """Properties of an `Image`."""

    recipe: Field[str] = given()
    playbooks: Field[str] = given()
    needs: Field[Sequence[str], Sequence[Input[str]]] = given(default=())
    forms: Field[Sequence[str], Sequence[Input[str]]] = given(default=())
    #: 64 hexadecimal digits; known in previews.
    digest: Field[str] = derived(replaces=True)


class Image(Resource, ImageModel, token="tidepool:image:Image", delete_first=False):
    """An image in this machine's store, built where it is not there. Deleting it leaves it in the store.

    ``recipe`` is the folder with recipe.yaml and packages.lock, ``playbooks`` the one with roles/; both absolute.
    The digest of what they say decides: another one replaces the image. ``needs`` are roles of a converged pool that it
    has to hold (slurm, kubernetes), ``forms`` those that it is to be written as: what cannot be is told before anything is
    made.
    """


class ImageFileModel(Model):
    """Properties of an `ImageFile`."""

    image: Field[str] = given(replaces=True)
    form: Field[str] = given(replaces=True)
    #: Absolute, on this machine; known in previews.
    path: Field[str] = output()


class ImageFile(Resource, ImageFileModel, token="tidepool:image:File", delete_first=False):
    """An image of this machine's store as one file, for who uploads it. Deleting it leaves it in the store.

    ``image`` is the digest, ``form`` one of `tidepool.images.Form`.
    """


class KeyModel(Model):
    """Properties of a `MungeKey` and an `EncryptionKey`."""

    #: Random bits, in base64.
    key: Field[str] = output(secret=True)


class KeyPairModel(Model):
    """Properties of an `SshKey` and a `SigningKey`."""

    private_key: Field[str] = output(secret=True)
    public_key: Field[str] = output()


class MungeKey(Resource, KeyModel, token="tidepool:keys:MungeKey"):
    """The key, of 1,024 bits, by which the daemons of one cluster, and of no other, know each other."""


class SshKey(Resource, KeyPairModel, token="tidepool:keys:SshKey"):
    """An Ed25519 key pair of SSH: in OpenSSH's form, and one line as in authorized_keys."""


class SigningKey(Resource, KeyPairModel, token="tidepool:keys:SigningKey"):
    """A key pair of the curve P-256, in PEM, by which tokens are signed: those of Kubernetes' service accounts."""


class EncryptionKey(Resource, KeyModel, token="tidepool:keys:EncryptionKey"):
    """A key, of 32 bytes, by which what is stored is encrypted."""


class AuthorityModel(Model):
    """Properties of an `Authority`."""

    common_name: Field[str] = given(replaces=True)
    days: Field[int] = given(default=3650, stored=True, least=1)
    #: Whether it comes near its end.
    state: Field[str] = condition("valid")
    #: PEM, for all who are to trust what it signs.
    certificate: Field[str] = output(remade=True)
    #: PEM.
    key: Field[str] = output(secret=True)
    #: When the certificate ends: ISO 8601, UTC.
    ends: Field[str] = output(remade=True)


class Authority(Resource, AuthorityModel, token="tidepool:keys:Authority", delete_first=False):
    """An authority that signs certificates. In the last third of its ``days`` an `up` renews its certificate; its key stays."""


class CertificateModel(Model):
    """Properties of a `Certificate`."""

    authority_certificate: Field[str] = given()
    authority_key: Field[str] = given(secret=True)
    common_name: Field[str] = given()
    organizations: Field[Sequence[str]] = given(default=(), stored=True)
    names: Field[Sequence[str]] = given(default=(), stored=True)
    addresses: Field[Sequence[str]] = given(default=(), stored=True)
    usages: Field[Sequence[Literal["server", "client"]]] = given()
    days: Field[int] = given(default=365, stored=True, least=1)
    #: Whether it comes near its end.
    state: Field[str] = condition("valid")
    #: PEM.
    certificate: Field[str] = output(remade=True)
    #: PEM.
    key: Field[str] = output(secret=True, remade=True)
    #: When it ends: ISO 8601, UTC.
    ends: Field[str] = output(remade=True)


class Certificate(Resource, CertificateModel, token="tidepool:keys:Certificate"):
    """A certificate that an authority signed, and its key. In the last third of its ``days`` an `up` makes another.

    ``names`` and ``addresses`` are a server's host names and IP addresses; ``usages`` says whether it is a server's, a
    client's, or both.
    """


class ConfigurationModel(Model):
    """Properties of a `Configuration`."""

    # Another controller, or one that is made anew, has no files yet; nothing is taken away from the old one.
    hosts: Field[Sequence[Mapping[str, Any]], Sequence[Input[Mapping[str, Any]]]] = given(replaces=True)
    files: Field[Mapping[str, str]] = given()
    #: Tells these files from all others; nodes and slots depend on it.
    digest: Field[str] = output()


class Configuration(Resource, ConfigurationModel, token="tidepool:slurm:Configuration"):
    """Slurm's files in /etc/slurm of ``hosts`` (connections; the first is slurmctld's), and slurmctld running by them.

    ``files`` are texts by name. A change is a reconfigure, and a restart of slurmctld only for keys that it reads
    at its start alone; jobs go on either way. Refused, in previews already: a change by which a partition goes that has
    jobs, or by which a node's line goes or says another shape while jobs run there. What Slurm itself refuses is put back.
    """


class SlotsModel(Model):
    """Properties of `Slots`."""

    controller: Field[Mapping[str, Any]] = given(replaces="known")
    names: Field[str] = given()
    addresses: Field[str] = given()
    cpus: Field[int] = given(replaces=True, least=1)
    sockets: Field[int] = given(replaces=True, least=1)
    cores_per_socket: Field[int] = given(replaces=True, least=1)
    threads_per_core: Field[int] = given(replaces=True, least=1)
    memory_mib: Field[int] = given(replaces=True, least=1)
    features: Field[Sequence[str]] = given()
    gres: Field[str] = given(default="", stored=True, replaces=True)
    state: Field[Literal["FUTURE", "CLOUD"]] = given(default="FUTURE", replaces=True)
    #: slurm.conf has them, in lines with NodeName.
    configured: Field[bool] = given(default=False)


class Slots(Resource, SlotsModel, token="tidepool:slurm:Slots"):
    """The slots of a fleet: nodes in state FUTURE, until machines boot under their names. Of Slurm's power saving: CLOUD.

    ``names`` and ``addresses`` are hostlists. More of them, and other features, are told to Slurm while jobs run;
    fewer takes away those that are FUTURE and leaves nodes that are up. Another shape replaces all of them, and so
    the fleet's nodes, which must be without jobs. Slots that are ``configured`` come from slurm.conf: slurmctld starts anew
    for those that it has not, or has with another shape.
    """


class NodeModel(Model):
    """Properties of a `Node`. ``machine`` is the connection of its machine, ``slots`` the id of its fleet's `Slots`.

    One whose ``power`` is ``suspended`` is a slot in Slurm, and its machine's memory is on disk; ``suspension`` is how that is
    done (`tidepool.infrastructures.registry.suspension_of`), and has to be given while it is so.
    """

    controller: Field[Mapping[str, Any]] = given(replaces="known")
    #: NodeName.
    node: Field[str] = given(replaces=True)
    machine: Field[Mapping[str, Any]] = given(replaces=True)
    slots: Field[str] = given(replaces=True)
    power: Field[Literal["running", "suspended"]] = given(default="running")
    suspension: Field[Mapping[str, Any]] = given(default={})
    #: How Slurm has it; of one that is suspended, ``lost`` where there is no memory that it could go on from.
    state: Field[str] = condition("up")


class Node(Resource, NodeModel, token="tidepool:slurm:Node"):
    """A machine's membership in the cluster: it is there while Slurm has the node, and the node is up.

    Creating it waits until Slurm says so, or fails with what slurmd or the boot log said. Deleting it drains the
    node, and fails with the ids of its jobs where it has some: then the node goes on as before. Else the node's
    place is a slot again. It depends on its machine, so the machine is deleted after it.

    Having it ``suspended`` is as deleting it, and then the machine is suspended; having it ``running`` again resumes it, and is as
    creating it. A node is made with a machine that runs.
    """


class AccessModel(Model):
    """Properties of an `Access`."""

    stack: Field[str] = given(replaces=True)
    access: Field[str] = given(replaces=True)
    kubeconfig: Field[str] = given(default="")
    path: Field[str] = given(default="")
    machine: Field[Mapping[str, Any]] = given(default={})
    checked: Field[bool] = given(default=True, stored=True)
    #: Of a person's kubeconfig.
    digest: Field[str] = derived()
    #: Which rights it lacks.
    state: Field[str] = condition("allowed")
    #: URL of the API server.
    server: Field[str] = output()
    #: PEM, of the API server's authority; empty where the kubeconfig names none.
    authority_certificate: Field[str] = output()


class Access(Resource, AccessModel, token="tidepool:kubernetes:Access"):
    """A way to a Kubernetes: a kubeconfig, kept in the data folder for root alone, that other resources name.

    ``kubeconfig`` is its text, and secret; or ``path`` is the file of a person's, which is taken over as it is at each
    `up`. ``machine`` is the connection of the machine that the API server is on, where only that reaches it. With
    ``checked`` the API must answer, and allow all that Tidepool does, before anything else is made.
    """


class ControlPlaneModel(Model):
    """Properties of a `ControlPlane`."""

    stack: Field[str] = given(replaces=True)
    access: Field[str] = given()
    machine: Field[Mapping[str, Any]] = given(replaces=True)
    boot: Field[str] = given()
    digest: Field[str] = given()
    #: What does not work of it.
    state: Field[str] = condition("working")
    #: Of the API server: ``v1.36.3``.
    version: Field[str] = output()


class ControlPlane(Resource, ControlPlaneModel, token="tidepool:kubernetes:ControlPlane"):
    """The control plane on ``machine``: it is there while its API answers, and its controllers and scheduler work.

    Creating it waits for that, and makes the first objects: who may join, who may not, and what Tidepool may do.
    ``access`` names the `Access` of an administrator, ``boot`` the machine's `Boot`; ``digest`` tells what is in that from
    all else: with another one, the machine boots again.
    """


class RoleModel(Model):
    """Properties of a `Role`.

    ``machine`` and ``controller`` are connections, ``access`` the name of an `Access`, ``slots`` the id of the pool's
    `Slots`. ``boots`` are, by role, the names of the `Boot` whose files the machine is given with it. ``labels`` are those
    of its Kubernetes node, beside Tidepool's own. ``imaging`` is how the machine is made anew, where its roles have an image each
    (`tidepool.infrastructures.registry.imaging_of`). ``slurmctld`` is the digest of the `Configuration` by which the machine runs
    slurmctld while it serves Slurm; with another one it is started again where it ended on purpose.
    """

    node: Field[str] = given(replaces=True)
    pool: Field[str] = given(replaces=True)
    #: That which the machine has: of a conversion that another process ordered, the one that was ordered.
    role: Field[Literal["slurm", "kubernetes"]] = given()
    machine: Field[Mapping[str, Any]] = given(replaces=True)
    controller: Field[Mapping[str, Any]] = given(replaces="known")
    access: Field[str] = given(replaces="known")
    boots: Field[Mapping[str, str], Mapping[str, Input[str]]] = given()
    pod_subnet: Field[str] = given()
    labels: Field[Mapping[str, str]] = given(default={})
    deadline_s: Field[int] = given(least=1)
    at_deadline: Field[Literal["stop", "force"]] = given()
    slots: Field[str] = given(replaces=True)
    imaging: Field[Mapping[str, Any]] = given(default={})
    slurmctld: Field[str] = given(default="")
    #: What does not serve.
    state: Field[str] = condition("serving")

    @property
    def stack(self) -> str:
        return str(self.machine.get("stack", ""))


class Role(Resource, RoleModel, token="tidepool:pool:Role"):
    """The role of a pool's machine, Slurm's or Kubernetes'.

    Another ``role`` is a conversion, in place: what runs there is waited for until ``deadlineS``, then `atDeadline`
    decides; or it goes as an order in the journal of conversions says. It fails where the machine stays what it was, with
    the reason. Deleting it takes either role away, and is refused while jobs or pods run there.
    """


class SshAccessModel(Model):
    """Properties of an `SshAccess`."""

    stack: Field[str] = given(replaces=True)
    private_key: Field[str] = given()
    host_key: Field[str] = given()
    addresses: Field[str] = given()
    port: Field[int] = given(default=22, least=1)


class SshAccess(Resource, SshAccessModel, token="tidepool:ssh:Access"):
    """The key by which a stack's machines are reached, and theirs: kept in the data folder for root alone.

    ``private_key`` is secret; ``host_key`` is the public key that all of ``addresses`` (a hostlist) show, and no other is
    taken from them.
    """


class SshMachineModel(Model):
    """Properties of an `SshMachine`."""

    machine: Field[str] = given(replaces=True)
    stack: Field[str] = given(replaces=True)
    address: Field[str] = given(replaces=True)
    user: Field[str] = given(replaces=True)
    access: Field[str] = given()
    port: Field[int] = given(default=22, replaces=True, least=1)
    #: As `tidepool.infrastructures.connection` reads it.
    connection: Field[Mapping[str, Any]] = output(default={})


class SshMachine(Resource, SshMachineModel, token="tidepool:ssh:Machine"):
    """A machine that answers by SSH: creating it waits for that.

    ``machine`` is what made it knows it by: another one is another machine at the same address. ``access`` is the id of
    the `SshAccess`.
    """


#: Types that stacks of earlier releases have in its place; by the infrastructure's name.
RETIRED: Final = {
    "libvirt": "tidepool:libvirt:Host",
    "aws": "tidepool:aws:Region",
    "nomad": "tidepool:nomad:Cluster",
    "ssh": "tidepool:ssh:Inventory",
    "kubernetes": "tidepool:kubernetes:Place",
}


class PreflightModel(Model):
    """Properties of a `Preflight`. One of a retired type has none of them in the state."""

    infrastructure: Field[str] = given(default="")
    path: Field[str] = given(default="")
    demands: Field[Any] = given(default=None)


class Preflight(Resource, PreflightModel, token="tidepool:infrastructure:Preflight"):
    """An infrastructure that can give all that is asked of it: it is asked in previews, and all that it lacks is told at once.

    ``path`` is where the infrastructure stands in the spec, ``demands`` the dataclass that its check takes. Nothing is made;
    whatever is made there depends on this.
    """


def preflight(name: str, infrastructure: str, path: str, demands: Any) -> Preflight:
    """Register the check of an infrastructure; it takes the place of a resource of the retired type."""
    aliases = [pulumi.Alias(type_=RETIRED[infrastructure])] if infrastructure in RETIRED else []
    return Preflight(
        name,
        infrastructure=infrastructure,
        path=path,
        demands=to_wire(demands),
        opts=pulumi.ResourceOptions(aliases=aliases),
    )
