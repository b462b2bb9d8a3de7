"""Boots: by kind of machine, its services and files. Plain functions from keys and volumes to a `Boot`."""

from tidepool.components.boots.accounting import accounting_boot as accounting_boot
from tidepool.components.boots.control_plane import control_plane_boot as control_plane_boot
from tidepool.components.boots.controller import controller_boot as controller_boot
from tidepool.components.boots.controller import login_boot as login_boot
from tidepool.components.boots.controller import slurmctld_boot as slurmctld_boot
from tidepool.components.boots.converged import converged_boot as converged_boot
from tidepool.components.boots.converged import role_files as role_files
from tidepool.components.boots.node import node_boot as node_boot
from tidepool.components.boots.shared import Keys as Keys
