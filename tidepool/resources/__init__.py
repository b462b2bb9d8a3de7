"""The resources of the provider `tidepool`, as Pulumi programs register them: typed, and nothing else.

What they do is the provider's (`tidepool.provider`). Their arguments are keyword arguments of Pulumi inputs; the
names in a stack's state are the same words in camelCase. Components (`tidepool.components`) are made of them.
"""

from tidepool.resources.aws import AwsForwarding as AwsForwarding
from tidepool.resources.aws import AwsRegion as AwsRegion
from tidepool.resources.existing_hosts import SshHost as SshHost
from tidepool.resources.existing_hosts import SshInventory as SshInventory
from tidepool.resources.existing_hosts import SshPlaybook as SshPlaybook
from tidepool.resources.images import Image as Image
from tidepool.resources.images import ImageFile as ImageFile
from tidepool.resources.keys import Authority as Authority
from tidepool.resources.keys import Certificate as Certificate
from tidepool.resources.keys import EncryptionKey as EncryptionKey
from tidepool.resources.keys import MungeKey as MungeKey
from tidepool.resources.keys import SigningKey as SigningKey
from tidepool.resources.keys import SshKey as SshKey
from tidepool.resources.kubernetes import Access as Access
from tidepool.resources.kubernetes import ControlPlane as ControlPlane
from tidepool.resources.kubernetes_fleet import KubernetesMachine as KubernetesMachine
from tidepool.resources.kubernetes_fleet import KubernetesPlace as KubernetesPlace
from tidepool.resources.libvirt import LibvirtHost as LibvirtHost
from tidepool.resources.local import Boot as Boot
from tidepool.resources.local import Machine as Machine
from tidepool.resources.local import Network as Network
from tidepool.resources.local import Volume as Volume
from tidepool.resources.nomad import NomadCluster as NomadCluster
from tidepool.resources.nomad import NomadMachine as NomadMachine
from tidepool.resources.pools import Role as Role
from tidepool.resources.slurm import Configuration as Configuration
from tidepool.resources.slurm import Node as Node
from tidepool.resources.slurm import Slots as Slots
from tidepool.resources.ssh import SshAccess as SshAccess
from tidepool.resources.ssh import SshMachine as SshMachine
