"""The vocabulary of boots, as programs have it: texts may be Pulumi outputs, and secret."""

from __future__ import annotations

from typing import TypeAlias

from pulumi import Input

from tidepool.cluster import boot
from tidepool.cluster.boot import Device, Folder, Service

__all__ = ["Boot", "Device", "File", "Folder", "Mount", "Service"]

File: TypeAlias = boot.File[Input[str]]
Mount: TypeAlias = boot.Mount[Input[str]]
Boot: TypeAlias = boot.Boot[Input[str]]
