"""A chain of which only the end is wanted."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])

a = Server("a")
b = Server("b", peer=a.address)
