"""Machines of converged pools go where demand is: pure, total, and each move, and each stay, with its reason.

What each machine stands at (`stands`), what pods ask for (`pod_ask`, `pod_queue`) and where they fit (`shelves`,
`placing`), which machine may go (`leave`), and all of it together with what Slurm's jobs want (`converge`).
"""
