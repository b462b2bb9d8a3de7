"""Hosts that are there already, made into nodes and given back: what is asked of them, which node each is, who is fit.

Hosts are asked by `tidepool.ssh_hosts.ask` alone; what is done on them is `keeper`, which runs there, and the playbooks.
"""

from tidepool.ssh_hosts.demand import Demand as Demand
from tidepool.ssh_hosts.demand import demands as demands
from tidepool.ssh_hosts.errors import HostError as HostError
from tidepool.ssh_hosts.options import Account as Account
from tidepool.ssh_hosts.options import Offering as Offering
from tidepool.ssh_hosts.options import Place as Place
from tidepool.ssh_hosts.reading import Options as Options
from tidepool.ssh_hosts.reading import connection_of as connection_of
from tidepool.ssh_hosts.reading import read_options as read_options
from tidepool.ssh_hosts.seat import host_of as host_of
