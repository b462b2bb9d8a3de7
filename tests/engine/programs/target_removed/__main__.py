"""Targeted updates while the program loses and gains resources."""

import os

import pulumi
from cloud import Server

step = int(os.environ["STEP"])

a = Server("a", zone="east" if step < 3 else "west")
if step == 1:
    b = Server("b", peer=a.address)
    c = Server("c")
if step >= 2:
    new = Server("new", peer=a.address)
