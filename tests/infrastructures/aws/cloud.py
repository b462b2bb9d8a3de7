"""AWS for a whole stack: moto, with a machine of this kernel behind each instance, and what moto cannot do in front of it.

Real are moto's records of all that the stack has, and: machines with the instances' private addresses in the VPC, whose router has
the routes of the route table, to machines and to pods of machines; the user data, run at each boot; metadata, which know who asks by the
address, and whose tokens go as far as the launch template says; a Secrets Manager
behind TLS by its own name, which lets a role read what its policy has and no more. Both are reached over the VPC's router.

Faked in front of moto:

- the policy of a bucket is kept, shown and deleted, and not carried out: moto takes no notice of its condition, and refuses everybody
- what is uploaded to a bucket is counted, and thrown away; moto has an empty object of its name
- ImportSnapshot and DescribeImportSnapshotTasks: done at once, as a snapshot of a new volume, of what was uploaded before, by a role
  that VM Import may take on
- RegisterImage: moto makes an image of the name alone; its snapshot is looked for before. A machine is of the golden image whose digest the
  name has
- root volumes are replaced by tasks (`tests.infrastructures.aws.root_volumes`): the machine goes, and boots from the root of the other image
- a volume that is attached is a folder, which the machine finds by a block device of the name that Nitro gives it; blkid, mkfs.ext4 and
  mount of machines take that for the device. A file system of EFS is a folder too, for machines of any subnet; mount finds it by its name
- user data is where cloud-init looks for a seed beside the machine (`tests.infrastructures.kernel_vm`), and not asked of metadata

Not there at all: security groups are records, which filter nothing, encryption, prices and spot's notice. A call of a service that a
stack of ours does not need is refused.
"""

from __future__ import annotations

import base64
import itertools
import json
import ssl
import subprocess
import threading
import traceback
import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from http.server import ThreadingHTTPServer
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import boto3
import botocore.config
from botocore.awsrequest import AWSResponse
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.test import Client

from tests.golden import golden_image
from tests.infrastructures.aws.http import (
    Answer,
    Asked,
    Raw,
    Refused,
    Request,
    action_of,
    handler,
    refused,
    served,
    texts,
    xml,
)
from tests.infrastructures.aws.root_volumes import RootVolumes
from tests.infrastructures.aws.router import make_router
from tests.infrastructures.aws.specs import REGION, ZONE
from tests.infrastructures.kernel_vm import as_vm
from tests.infrastructures.local.stacks import Stack, left_of
from tidepool.cluster.boot import File, Mount
from tidepool.infrastructures.local import kernel
from tidepool.infrastructures.local.kernel import MachineSpec, NetworkSpec
from tidepool.provider.certificates import Subject, authority, signed

VPC: Final = "172.30.0.0/16"
_SUBNET: Final = "172.30.0.0/20"
_IMDS: Final = "169.254.169.254"
_SECRETS: Final = f"secretsmanager.{REGION}.amazonaws.com"
_STACK: Final = "aws"
_IMAGE: Final = "debian-12-cloud"
#: Of a packet whose sender says nothing of it.
_HOPS: Final = 64
_PROGRAMS: Final = Path(__file__).parent / "machine"
_CA: Final = "/etc/tidepool-test/ca.pem"
_TRUSTING: Final = f"[Manager]\nDefaultEnvironment=SSL_CERT_FILE={_CA}\n"
#: The name of the endpoint, which the VPC knows at AWS, in place of DNS.
_BEFORE: Final = """\
ip route replace default via {gateway}
echo '{gateway} {secrets}' >>/etc/hosts
"""
_SERVICES: Final = {"ec2", "iam", "s3", "secretsmanager", "elasticfilesystem", "servicequotas"}
_MOUNT_TARGET_MADE: Final = ("POST", "/2015-02-01/mount-targets", 200)


@dataclass
class Cloud:
    """``url`` is where AWS is for who is in the VPC, ``url_here`` for this process; ``prefix`` leads a command to the VPC.

    ``roots`` are those of images, by digest. ``vpc``, its subnet and its route table are there before a stack is.
    """

    folder: Path
    prefix: tuple[str, ...]
    gateway: str
    ca: str
    roots: Mapping[str, Path]
    url: str = ""
    url_here: str = ""
    vpc: str = ""
    subnet: str = ""
    route_table: str = ""
    #: All calls so far, as policies name them.
    calls: list[str] = field(default_factory=list)
    _moto: Client = field(default_factory=lambda: Client(DomainDispatcherApplication(create_backend_app)))
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _policies: dict[str, bytes] = field(default_factory=dict)
    _uploads: dict[tuple[str, str], int] = field(default_factory=dict)
    _imports: dict[str, str] = field(default_factory=dict)
    _specs: dict[str, MachineSpec] = field(default_factory=dict)
    _profiles: dict[str, str] = field(default_factory=dict)
    _hops: dict[str, int] = field(default_factory=dict)
    _root_volumes: RootVolumes = field(default_factory=RootVolumes)
    _numbers: Iterator[int] = field(default_factory=itertools.count)
    _within: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._root_volumes.replaced = self._reimage

    @property
    def data(self) -> Path:
        return self.folder / "data"

    @cached_property
    def ec2(self) -> Any:
        """What happens at AWS from outside of the stack."""
        return self.client("ec2")

    def client(self, service: str) -> Any:
        """A client, of this process."""
        return boto3.client(
            service,
            region_name=REGION,
            endpoint_url=self.url_here,
            aws_access_key_id="test",
            aws_secret_access_key="test",
            config=botocore.config.Config(s3={"addressing_style": "path"}),
        )

    def machines(self) -> dict[str, str]:
        """The instances that are there, by the names of their machines, and how each is."""
        pages = self.ec2.describe_instances(Filters=[{"Name": "vpc-id", "Values": [self.vpc]}])
        found = [each for reservation in pages["Reservations"] for each in reservation["Instances"]]
        return {
            next(tag["Value"] for tag in each["Tags"] if tag["Key"] == "tidepool:node"): each["InstanceId"]
            for each in found
            if each["State"]["Name"] != "terminated"
        }

    def left(self, stack: str) -> list[str]:
        """What there is of a stack."""
        iam, secrets, s3 = self.client("iam"), self.client("secretsmanager"), self.client("s3")
        tagged = [{"Name": "tag:tidepool:stack", "Values": [stack]}]
        (table,) = self.ec2.describe_route_tables(RouteTableIds=[self.route_table])["RouteTables"]
        systems = self.client("efs").describe_file_systems()["FileSystems"]
        return [
            *self.machines(),
            *(each["VolumeId"] for each in self.ec2.describe_volumes(Filters=tagged)["Volumes"]),
            *(
                each["GroupName"]
                for each in self.ec2.describe_security_groups(Filters=tagged)["SecurityGroups"]
            ),
            *(each["ImageId"] for each in self.ec2.describe_images(Filters=tagged)["Images"]),
            *(each["RoleName"] for each in iam.list_roles()["Roles"] if stack in each["RoleName"]),
            *(each["InstanceProfileName"] for each in iam.list_instance_profiles()["InstanceProfiles"]),
            *(each["Name"] for each in secrets.list_secrets()["SecretList"] if stack in each["Name"]),
            *(each["Name"] for each in s3.list_buckets()["Buckets"]),
            *(each["DestinationCidrBlock"] for each in table["Routes"] if each.get("NetworkInterfaceId")),
            *(
                tag["Value"]
                for each in systems
                for tag in each["Tags"]
                if tag["Key"] == "Name" and stack in tag["Value"]
            ),
        ]

    def run(self, instance: str, *argv: str) -> str:
        """What a command of root's on a machine says."""
        ended = kernel.execute(self.data, _STACK, instance, argv, timeout_s=60)
        assert ended.code == 0, ended
        return ended.stdout

    def log(self, instance: str) -> str:
        """What a machine said on its console."""
        return kernel.boot_log(self.data, _STACK, instance, 200)

    # Requests

    def answer(self, request: Request) -> Answer:
        """What AWS says."""
        self.calls.append(action_of(request))
        if request.service not in _SERVICES:
            return refused(
                "AccessDenied", f"the front of the tests does not know the service {request.service!r}"
            )
        try:
            with self._lock:
                if request.service == "s3":
                    return self._of_s3(request)
                if request.service == "ec2":
                    return self._of_ec2(request)
                answer = self._pass(request)
                if (request.method, urlsplit(request.path).path, answer[0]) == _MOUNT_TARGET_MADE:
                    (self.folder / "efs" / json.loads(request.body)["FileSystemId"]).mkdir(exist_ok=True)
                return answer
        except Refused as error:
            return refused(*error.args)
        except Exception:  # noqa: BLE001 (a mistake of the tests' own, which whoever asked tells)
            return refused("AccessDenied", traceback.format_exc())

    def _pass(self, request: Request) -> Answer:
        said = self._moto.open(
            request.path, method=request.method, headers=list(request.headers.items()), data=request.body
        )
        kept = {
            name: value
            for name, value in said.headers.items()
            if name.lower() not in ("content-length", "connection", "server", "date", "transfer-encoding")
        }
        return said.status_code, kept, said.data

    # S3

    def _of_s3(self, request: Request) -> Answer:
        where = urlsplit(request.path)
        bucket, _, key = where.path.lstrip("/").partition("/")
        if where.query == "policy" and not key:
            return self._policy(request, bucket)
        answer = self._pass(request)
        if request.method == "PUT" and key and not where.query and answer[0] == 200:
            self._uploads[bucket, key] = request.uploaded
        return answer

    def _policy(self, request: Request, bucket: str) -> Answer:
        if request.method == "PUT":
            json.loads(request.body)
            self._policies[bucket] = request.body
            return 204, {}, b""
        if bucket not in self._policies:
            error = "<Error><Code>NoSuchBucketPolicy</Code><Message>The bucket policy does not exist</Message></Error>"
            return 404, {"Content-Type": "application/xml"}, error.encode()
        if request.method == "DELETE":
            del self._policies[bucket]
            return 204, {}, b""
        return 200, {"Content-Type": "application/json"}, self._policies[bucket]

    # EC2

    def _of_ec2(self, request: Request) -> Answer:
        asked = request.asked
        action = asked.get("Action", "")
        own: Mapping[str, Callable[[Asked], Mapping[str, Any]]] = {
            "ImportSnapshot": self._import_snapshot,
            "DescribeImportSnapshotTasks": self._import_tasks,
            "CreateReplaceRootVolumeTask": self._root_volumes.create,
            "DescribeReplaceRootVolumeTasks": self._root_volumes.describe,
        }
        if action in own:
            return 200, {"Content-Type": "text/xml"}, xml(f"{action}Response", own[action](asked))
        if action == "RegisterImage":
            self._check_image(asked)
        answer = self._pass(request)
        if answer[0] != 200:
            return answer
        after: Mapping[str, Callable[[Asked, ET.Element], None]] = {
            "RunInstances": self._run,
            "StartInstances": self._start,
            "StopInstances": self._stop,
            "TerminateInstances": self._terminate,
            "CreateRoute": self._route,
            "ReplaceRoute": self._route,
            "DeleteRoute": self._no_route,
            "AttachVolume": self._attach,
            "DetachVolume": self._detach,
            "DeleteVolume": self._delete_volume,
        }
        if action in after:
            after[action](asked, ET.fromstring(answer[2]))
        return answer

    def _import_snapshot(self, asked: Asked) -> Mapping[str, Any]:
        where = "DiskContainer.UserBucket."
        source = asked[f"{where}S3Bucket"], asked[f"{where}S3Key"]
        size = self._uploads.get(source, 0)
        if asked["DiskContainer.Format"] != "RAW" or not size:
            raise Refused("InvalidParameter", f"there is no raw disk {'/'.join(source)}")
        role = self.client_within("iam").get_role(RoleName=asked["RoleName"])["Role"]
        (trusts,) = role["AssumeRolePolicyDocument"]["Statement"]
        if trusts["Principal"] != {"Service": "vmie.amazonaws.com"}:
            raise Refused(
                "InvalidParameter", f"The service role {asked['RoleName']} cannot be assumed by VM Import"
            )
        ec2 = self.client_within("ec2")
        gib = -(-size // (1 << 30))
        volume = ec2.create_volume(AvailabilityZone=ZONE, Size=gib)["VolumeId"]
        snapshot = ec2.create_snapshot(VolumeId=volume, Description=asked.get("Description", ""))[
            "SnapshotId"
        ]
        ec2.delete_volume(VolumeId=volume)
        task = f"import-snap-{next(self._numbers):017x}"
        self._imports[task] = snapshot
        return {"importTaskId": task}

    def _import_tasks(self, asked: Asked) -> Mapping[str, Any]:
        task = asked["ImportTaskId.1"]
        detail = {"status": "completed", "snapshotId": self._imports[task]}
        return {"importSnapshotTaskSet": {"item": {"importTaskId": task, "snapshotTaskDetail": detail}}}

    def _check_image(self, asked: Asked) -> None:
        snapshot = asked["BlockDeviceMapping.1.Ebs.SnapshotId"]
        if (
            asked["RootDeviceName"] != asked["BlockDeviceMapping.1.DeviceName"]
            or snapshot not in self._imports.values()
        ):
            raise Refused("InvalidSnapshot.NotFound", f"{snapshot} is no snapshot that an image can be of")

    # Machines

    def _run(self, asked: Asked, said: ET.Element) -> None:
        (instance,) = texts(said, "instanceId")
        (address, *_) = texts(said, "privateIpAddress")
        template = self._template(asked["LaunchTemplate.LaunchTemplateId"], asked["LaunchTemplate.Version"])
        self._profiles[address] = template["IamInstanceProfile"]["Arn"].rpartition("/")[2]
        self._hops[address] = template["MetadataOptions"]["HttpPutResponseHopLimit"]
        root = self._root(asked["ImageId"])
        spec = self._spec(instance, address, root, base64.b64decode(template["UserData"]).decode())
        self._specs[instance] = spec
        self._root_volumes.launched(instance)
        kernel.create_machine(self.data, spec)

    def _template(self, id: str, version: str) -> Any:
        said = self.client_within("ec2").describe_launch_template_versions(LaunchTemplateId=id)
        (found,) = (
            each
            for each in said["LaunchTemplateVersions"]
            if (each["DefaultVersion"] if version == "$Default" else str(each["VersionNumber"]) == version)
        )
        return found["LaunchTemplateData"]

    def _root(self, image: str) -> Path:
        (found,) = self.client_within("ec2").describe_images(ImageIds=[image])["Images"]
        return next(root for digest, root in self.roots.items() if f"-{digest[:16]}" in found["Name"])

    def _spec(self, instance: str, address: str, root: Path, user_data: str) -> MachineSpec:
        spec = MachineSpec(
            stack=_STACK,
            name=instance,
            network="net",
            address=address,
            mac="02:00:" + ":".join(f"{int(part):02x}" for part in address.split(".")),
            image=str(root),
            cpus=2,
            memory_mib=1024,
            files=(
                *(
                    File(f"/usr/local/sbin/{name}", (_PROGRAMS / name).read_text(), "0755")
                    for name in ("mount", "blkid", "mkfs.ext4")
                ),
                File(_CA, self.ca),
                File("/etc/systemd/system.conf.d/tests.conf", _TRUSTING),
            ),
            mounts=tuple(
                Mount(str(self.folder / name), f"/srv/aws/{name}", read_only=False) for name in ("ebs", "efs")
            ),
        )
        return as_vm(spec, VPC, user_data, before=_BEFORE.format(gateway=self.gateway, secrets=_SECRETS))

    def _reimage(self, instance: str, image: str) -> None:
        self._specs[instance] = replace(self._specs[instance], image=str(self._root(image)))
        kernel.delete_machine(self.data, _STACK, instance)
        self._power_on(instance)

    def _power_on(self, instance: str) -> None:
        kernel.create_machine(self.data, self._specs[instance])
        for volume in self._volumes_at(instance):
            self._plug_in(instance, volume)

    def _start(self, asked: Asked, said: ET.Element) -> None:
        for instance in texts(said, "instanceId"):
            self._power_on(instance)

    def _stop(self, asked: Asked, said: ET.Element) -> None:
        for instance in texts(said, "instanceId"):
            kernel.stop_machine(self.data, _STACK, instance, timeout_s=10)

    def _terminate(self, asked: Asked, said: ET.Element) -> None:
        for instance in texts(said, "instanceId"):
            if spec := self._specs.pop(instance, None):
                kernel.delete_machine(self.data, _STACK, instance)
                del self._profiles[spec.address], self._hops[spec.address]

    # Routes

    def _route(self, asked: Asked, said: ET.Element) -> None:
        interface = asked["NetworkInterfaceId"]
        (found,) = self.client_within("ec2").describe_network_interfaces(NetworkInterfaceIds=[interface])[
            "NetworkInterfaces"
        ]
        self._ip("route", "replace", asked["DestinationCidrBlock"], "via", found["PrivateIpAddress"])

    def _no_route(self, asked: Asked, said: ET.Element) -> None:
        self._ip("route", "del", asked["DestinationCidrBlock"])

    def _ip(self, *argv: str) -> str:
        return subprocess.run(
            [*self.prefix, "ip", *argv], check=True, capture_output=True, text=True, timeout=30
        ).stdout

    # Volumes

    def _volumes_at(self, instance: str) -> list[str]:
        filters = [{"Name": "attachment.instance-id", "Values": [instance]}]
        return [
            each["VolumeId"]
            for each in self.client_within("ec2").describe_volumes(Filters=filters)["Volumes"]
            if (self.folder / "ebs" / _bare(each["VolumeId"])).exists()
        ]

    def _attach(self, asked: Asked, said: ET.Element) -> None:
        (self.folder / "ebs" / _bare(asked["VolumeId"])).mkdir(exist_ok=True)
        self._plug_in(asked["InstanceId"], asked["VolumeId"])

    def _plug_in(self, instance: str, volume: str) -> None:
        # A number that no driver has: nobody reads it.
        make = 'mkdir -p "${1%/*}" && { test -b "$1" || mknod "$1" b 240 1; }'
        self.run(instance, "sh", "-c", make, "sh", _device(volume))

    def _detach(self, asked: Asked, said: ET.Element) -> None:
        machine = kernel.read_machine(self.data, _STACK, asked["InstanceId"])
        if machine is not None and machine.state == "running":
            self.run(machine.name, "rm", "-f", _device(asked["VolumeId"]))

    def _delete_volume(self, asked: Asked, said: ET.Element) -> None:
        folder = self.folder / "ebs" / _bare(asked["VolumeId"])
        subprocess.run(["rm", "-rf", str(folder), f"{folder}.ext4"], check=True)

    # What machines ask

    def metadata(self, request: Request, address: str) -> Answer:
        """Of the instance with that address in the VPC."""
        if request.method == "PUT" and request.path == "/latest/api/token":
            return 200, {}, b"TOKEN"
        if request.method != "GET" or request.header("X-aws-ec2-metadata-token") != "TOKEN":
            return 401, {}, b""
        with self._lock:
            said = self._metadata(request.path.removeprefix("/latest/meta-data/"), address)
        return (404, {}, b"") if said is None else (200, {}, said.encode())

    def hops(self, request: Request, address: str) -> int:
        """How far the answer goes: that with a token as far as whose instance asks, or leads to who does, was made to have it."""
        if request.method != "PUT":
            return _HOPS
        with self._lock:
            if address not in self._hops:
                (said,) = json.loads(self._ip("-json", "route", "get", address))
                address = said["gateway"]
            return self._hops[address]

    def _metadata(self, path: str, address: str) -> str | None:
        instance = next((name for name, spec in self._specs.items() if spec.address == address), "")
        tagged = "tags/instance/"
        if path.startswith(tagged):
            filters = [{"Name": "resource-id", "Values": [instance]}]
            tags = self.client_within("ec2").describe_tags(Filters=filters)["Tags"]
            return next((tag["Value"] for tag in tags if tag["Key"] == path.removeprefix(tagged)), None)
        profile = self._profiles.get(address, "")
        credentials = "iam/security-credentials/"
        if path == credentials:
            return profile
        if path == f"{credentials}{profile}":
            return json.dumps({"AccessKeyId": "ASIATEST", "SecretAccessKey": "test", "Token": address})
        return None

    def secret(self, request: Request) -> Answer:
        """The answer of Secrets Manager to a machine, whose role may read what its policy says."""
        address = request.header("X-Amz-Security-Token")
        if request.header("X-Amz-Target") != "secretsmanager.GetSecretValue" or address not in self._profiles:
            return 400, {}, b'{"__type": "AccessDeniedException"}'
        id = json.loads(request.body)["SecretId"]
        with self._lock:
            if id not in self._readable(self._profiles[address]):
                return 400, {}, b'{"__type": "AccessDeniedException"}'
            kept = self.client_within("secretsmanager").get_secret_value(SecretId=id)["SecretString"]
        return (
            200,
            {"Content-Type": "application/x-amz-json-1.1"},
            json.dumps({"SecretString": kept}).encode(),
        )

    def _readable(self, profile: str) -> Iterator[str]:
        iam = self.client_within("iam")
        (role,) = iam.get_instance_profile(InstanceProfileName=profile)["InstanceProfile"]["Roles"]
        name = role["RoleName"]
        for policy in iam.list_role_policies(RoleName=name)["PolicyNames"]:
            for statement in iam.get_role_policy(RoleName=name, PolicyName=policy)["PolicyDocument"][
                "Statement"
            ]:
                if statement["Effect"] == "Allow" and "secretsmanager:GetSecretValue" in statement["Action"]:
                    yield from statement["Resource"]

    def client_within(self, service: str) -> Any:
        """A client for the front itself, which goes by moto alone and waits for nobody."""
        made = self._within.get(service)
        if made is None:
            made = self._within[service] = self.client(service)
            made.meta.events.register("before-send", self._sent_within)
        return made

    def _sent_within(self, request: Any, **_: Any) -> Any:
        where = urlsplit(request.url)
        path = where.path + (f"?{where.query}" if where.query else "")
        headers = {
            name: value.decode() if isinstance(value, bytes) else str(value)
            for name, value in request.headers.items()
        }
        body = request.body or b""
        status, kept, said = self._pass(
            Request(request.method, path, headers, body.encode() if isinstance(body, str) else bytes(body))
        )
        raw = Raw(said)
        return AWSResponse(request.url, status, dict(kept), raw)


def _bare(volume: str) -> str:
    return volume.replace("-", "")


def _device(volume: str) -> str:
    return f"/dev/disk/by-id/nvme-Amazon_Elastic_Block_Store_{_bare(volume)}"


@contextmanager
def cloud(folder: Path, *images: str) -> Iterator[Cloud]:
    """A region with a VPC, in which there is nothing, and of whose machines ``images`` are golden; no machine is left afterwards."""
    golden = [golden_image(name) for name in images or (_IMAGE,)]
    stack = Stack(folder / "data", _STACK, golden[0].root)
    network = kernel.create_network(stack.data, NetworkSpec(_STACK, "net", VPC))
    gateway = NetworkSpec(_STACK, "net", VPC).switch_address
    now = datetime.now(UTC)
    ca = authority("aws", 2, now)
    own = signed(Subject("aws", (), (_SECRETS,), (), ("server",)), ca, 2, now)
    (folder / "own.pem").write_text(own.certificate + own.key)
    for name in ("ebs", "efs"):
        (folder / name).mkdir()
    roots = {image.digest: image.root for image in golden}
    it = Cloud(folder, tuple(network.prefix), gateway, ca.certificate, roots)
    servers: list[ThreadingHTTPServer] = []
    try:
        it._ip("addr", "add", f"{_IMDS}/32", "dev", "lo")
        make_router(it.prefix)
        namespace = f"/proc/{network.pid}/ns/net"
        api = handler(lambda request, _: it.answer(request))
        servers.append(served(namespace, gateway, 5000, api))
        servers.append(served(namespace, _IMDS, 80, handler(it.metadata, it.hops)))
        secrets = served(namespace, gateway, 443, handler(lambda request, _: it.secret(request)))
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "own.pem")
        secrets.socket = context.wrap_socket(secrets.socket, server_side=True)
        servers.append(secrets)
        servers.append(served("", "127.0.0.1", 0, api))
        it.url, it.url_here = f"http://{gateway}:5000", f"http://127.0.0.1:{servers[-1].server_port}"
        for server in servers:
            threading.Thread(target=server.serve_forever, daemon=True).start()
        it.vpc = it.ec2.create_vpc(CidrBlock=VPC)["Vpc"]["VpcId"]
        made = it.ec2.create_subnet(VpcId=it.vpc, CidrBlock=_SUBNET, AvailabilityZone=ZONE)["Subnet"]
        it.subnet = made["SubnetId"]
        tables = it.ec2.describe_route_tables(Filters=[{"Name": "vpc-id", "Values": [it.vpc]}])["RouteTables"]
        it.route_table = tables[0]["RouteTableId"]
        yield it
    finally:
        for server in servers:
            server.shutdown()
            server.server_close()
        for machine in kernel.list_machines(stack.data, _STACK):
            kernel.delete_machine(stack.data, _STACK, machine.name)
        kernel.delete_network(stack.data, _STACK, "net")
        assert left_of(stack) == []
