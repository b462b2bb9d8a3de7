"""A resource that names a version of its plugin, beside one that names none."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])

Server("any_version", size=step)
Server("this_version", size=step, opts=pulumi.ResourceOptions(version="1.0.0"))
