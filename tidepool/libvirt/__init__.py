"""Hosts that run libvirt: what may be asked of them, which of it each machine gets, and whether they have it.

Nothing here makes anything: machines are made by the resources of `tidepool.components.infrastructure.libvirt`. Hosts are
asked by `tidepool.libvirt.ask` alone.
"""

from tidepool.libvirt.capabilities import Host as Host
from tidepool.libvirt.capabilities import read_host as read_host
from tidepool.libvirt.demand import Demand as Demand
from tidepool.libvirt.demand import demands as demands
from tidepool.libvirt.errors import LibvirtError as LibvirtError
from tidepool.libvirt.options import Cell as Cell
from tidepool.libvirt.options import Offering as Offering
from tidepool.libvirt.options import Place as Place
from tidepool.libvirt.own import own_seats as own_seats
from tidepool.libvirt.preflight import lacks as lacks
from tidepool.libvirt.reading import Options as Options
from tidepool.libvirt.reading import read_options as read_options
from tidepool.libvirt.seat import Seat as Seat
from tidepool.libvirt.seat import seat as seat
