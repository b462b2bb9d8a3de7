"""CloudStack: what may be asked of it, whether a zone has it, and what a stack is there, by Tidepool's own resources.

CloudStack is asked, and told, by `tidepool.infrastructures.cloudstack.api` alone, which alone imports `cs`.
"""
