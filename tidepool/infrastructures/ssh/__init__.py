"""Hosts that are there already, made into nodes and given back: what is asked of them, which node each is, who is fit.

Hosts are asked by `tidepool.infrastructures.ssh.ask` alone; what is done on them is `keeper`, which runs there, and the playbooks.
"""

from tidepool.infrastructures.ssh.demand import Demand as Demand
from tidepool.infrastructures.ssh.demand import demands as demands
from tidepool.infrastructures.ssh.errors import HostError as HostError
from tidepool.infrastructures.ssh.options import Account as Account
from tidepool.infrastructures.ssh.options import Offering as Offering
from tidepool.infrastructures.ssh.options import Place as Place
from tidepool.infrastructures.ssh.reading import Options as Options
from tidepool.infrastructures.ssh.reading import connection_of as connection_of
from tidepool.infrastructures.ssh.reading import read_options as read_options
from tidepool.infrastructures.ssh.seat import host_of as host_of
