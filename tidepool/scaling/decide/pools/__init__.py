"""Machines of converged pools go where demand is: pure, total, and each move, and each stay, with its reason.

The status of each machine (`machine_status`), what pods ask for (`pod_queue`) and where they fit (`placing`), which
machine may go (`leave`), and all of it together with what Slurm's jobs want (`converge`).
"""
