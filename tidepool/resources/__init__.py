"""The resources of the provider `tidepool`, as Pulumi programs register them: typed, and nothing else.

What they do is the provider's (`tidepool.provider`). Their arguments are keyword arguments of Pulumi inputs; the
names in a stack's state are the same words in camelCase. Components (`tidepool.components`) are made of them.
"""

from tidepool.resources.images import Image as Image
from tidepool.resources.keys import MungeKey as MungeKey
from tidepool.resources.keys import SshKey as SshKey
from tidepool.resources.local import Boot as Boot
from tidepool.resources.local import Machine as Machine
from tidepool.resources.local import Network as Network
from tidepool.resources.local import Volume as Volume
from tidepool.resources.slurm import Configuration as Configuration
from tidepool.resources.slurm import Node as Node
from tidepool.resources.slurm import Slots as Slots
