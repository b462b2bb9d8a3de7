"""Hosts that run libvirt: what may be asked of them, which of it each machine gets, and whether they have it.

Nothing here makes anything: machines are made by the resources of `tidepool.infrastructures.libvirt.graph`. Hosts are
asked by `tidepool.infrastructures.libvirt.ask` alone.
"""

from tidepool.infrastructures.libvirt.capabilities import Host as Host
from tidepool.infrastructures.libvirt.capabilities import read_host as read_host
from tidepool.infrastructures.libvirt.demand import Demand as Demand
from tidepool.infrastructures.libvirt.demand import demands as demands
from tidepool.infrastructures.libvirt.errors import LibvirtError as LibvirtError
from tidepool.infrastructures.libvirt.options import Cell as Cell
from tidepool.infrastructures.libvirt.options import Offering as Offering
from tidepool.infrastructures.libvirt.options import Place as Place
from tidepool.infrastructures.libvirt.own import own_seats as own_seats
from tidepool.infrastructures.libvirt.preflight import lacks as lacks
from tidepool.infrastructures.libvirt.reading import Options as Options
from tidepool.infrastructures.libvirt.reading import read_options as read_options
from tidepool.infrastructures.libvirt.seat import Seat as Seat
from tidepool.infrastructures.libvirt.seat import seat as seat
