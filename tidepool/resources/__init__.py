"""The resources of the provider `tidepool`, as Pulumi programs register them: typed, and nothing else.

What they do is the provider's (`tidepool.provider`). Their arguments are keyword arguments of Pulumi inputs; the
names in a stack's state are the same words in camelCase. Components (`tidepool.components`) are made of them.
"""

from tidepool.resources.accounts import Account as Account
from tidepool.resources.accounts import Accounts as Accounts
from tidepool.resources.accounts import Association as Association
from tidepool.resources.accounts import Qos as Qos
from tidepool.resources.accounts import account_of_tree as account_of_tree
from tidepool.resources.accounts import account_user as account_user
from tidepool.resources.databases import DatabaseClient as DatabaseClient
from tidepool.resources.databases import DatabaseServer as DatabaseServer
from tidepool.resources.declarations import Access as Access
from tidepool.resources.declarations import Authority as Authority
from tidepool.resources.declarations import Certificate as Certificate
from tidepool.resources.declarations import Configuration as Configuration
from tidepool.resources.declarations import ControlPlane as ControlPlane
from tidepool.resources.declarations import EncryptionKey as EncryptionKey
from tidepool.resources.declarations import Image as Image
from tidepool.resources.declarations import ImageFile as ImageFile
from tidepool.resources.declarations import MungeKey as MungeKey
from tidepool.resources.declarations import Node as Node
from tidepool.resources.declarations import Role as Role
from tidepool.resources.declarations import SigningKey as SigningKey
from tidepool.resources.declarations import Slots as Slots
from tidepool.resources.declarations import SshAccess as SshAccess
from tidepool.resources.declarations import SshKey as SshKey
from tidepool.resources.declarations import SshMachine as SshMachine
from tidepool.resources.files import FilePolicy as FilePolicy
from tidepool.resources.runs import Run as Run
from tidepool.resources.users import Users as Users
