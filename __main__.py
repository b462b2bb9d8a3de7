"""One stack is one cluster: the spec in Pulumi.<stack>.yaml becomes components, and those the stack's outputs."""

import os

import pulumi

from tidepool.components import Cluster, desired_state

desired = desired_state(pulumi.Config("cluster"), os.environ)
cluster = Cluster(desired.spec.name, desired)
for name, value in cluster.outputs.items():
    pulumi.export(name, value)
