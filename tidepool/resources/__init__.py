"""The resources of the provider `tidepool`, as Pulumi programs register them: typed, and nothing else.

What they do is the provider's (`tidepool.provider`). Their arguments are keyword arguments of Pulumi inputs; the
names in a stack's state are the same words in camelCase. Components (`tidepool.components`) are made of them.
"""

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
from tidepool.resources.pools import Role as Role
from tidepool.resources.slurm import Configuration as Configuration
from tidepool.resources.slurm import Node as Node
from tidepool.resources.slurm import Slots as Slots
from tidepool.resources.ssh import SshAccess as SshAccess
from tidepool.resources.ssh import SshMachine as SshMachine
