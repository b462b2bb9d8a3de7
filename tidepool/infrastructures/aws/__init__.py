"""AWS: what may be asked of it, whether a region has it, what its machines are told, and those that are there.

Nothing here makes anything: machines are made by the resources of `tidepool.infrastructures.aws.graph`. AWS is asked by
`ask`, `machines` and `prices`, which alone import boto3.
"""
