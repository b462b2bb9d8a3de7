"""What the plugin does with the inputs of pulumi-libvirt's resources, by virsh: where the plugin is not there."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tests.infrastructures.libvirt.graph import DOMAIN, NETWORK, POOL, SEED, VOLUME
from tests.infrastructures.libvirt.rendering import domain_xml, network_xml, pool_xml
from tidepool.infrastructures.libvirt.ask import output_of, virsh
from tidepool.testing import Graph, Registered

Inputs = Mapping[str, Any]


class Plugin:
    """Makes resources of a graph on the host of ``uri``, each from its inputs alone."""

    def __init__(self, uri: str, folder: Path) -> None:
        self._run = partial(output_of, virsh, uri)
        self._folder = folder
        self._volumes: dict[str, tuple[str, str]] = {}

    def make(self, graph: Graph, *machines: str) -> None:
        """All that the machines of these names need, and them."""
        order = (POOL, NETWORK, SEED, VOLUME, DOMAIN)
        makers = dict(
            zip(order, (self._pool, self._network, self._seed, self._volume, self._domain), strict=True)
        )
        for type in order:
            for each in graph.of_type(type).values():
                # What is a host's, or one of the machines'.
                if "@" in each.name or each.name in machines:
                    makers[type](each)

    def _pool(self, pool: Registered) -> None:
        self._run("pool-define", "/dev/stdin", stdin=pool_xml(pool.inputs))
        name = pool.inputs["name"]
        self._run("pool-build", name)
        self._run("pool-start", name)

    def _network(self, network: Registered) -> None:
        self._run("net-define", "/dev/stdin", stdin=network_xml(network.inputs))
        self._run("net-start", network.inputs["name"])

    def _seed(self, seed: Registered) -> None:
        inputs = seed.inputs
        files = {
            "user-data": inputs["userData"],
            "meta-data": inputs["metaData"],
            "network-config": inputs["networkConfig"],
        }
        folder = self._folder / inputs["name"]
        folder.mkdir()
        for name, text in files.items():
            (folder / name).write_text(text)
        disk = self._folder / f"{inputs['name']}.made"
        command = ["mkisofs", "-quiet", "-output", str(disk), "-volid", "cidata", "-joliet", "-rock", *files]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        self._upload(inputs, disk, str(disk.stat().st_size), "raw")

    def _volume(self, volume: Registered) -> None:
        inputs = volume.inputs
        self._volumes[f"{volume.name}-id"] = (inputs["pool"], inputs["name"])
        if "source" in inputs:
            told = subprocess.run(
                ["qemu-img", "info", "--output=json", inputs["source"]],
                check=True,
                capture_output=True,
                text=True,
            ).stdout
            size = str(json.loads(told)["virtual-size"])
            self._upload(inputs, Path(inputs["source"]), size, inputs["format"])
        else:
            backing = ("--backing-vol", inputs["baseVolumeName"], "--backing-vol-format", "qcow2")
            words = (inputs["pool"], inputs["name"], str(int(inputs["size"])), "--format", "qcow2", *backing)
            self._run("vol-create-as", *words)

    def _upload(self, inputs: Inputs, file: Path, size: str, format: str) -> None:
        self._run("vol-create-as", inputs["pool"], inputs["name"], size, "--format", format)
        self._run("vol-upload", "--pool", inputs["pool"], inputs["name"], str(file))

    def _domain(self, domain: Registered) -> None:
        self._run("define", "/dev/stdin", stdin=domain_xml(domain.inputs, self._volumes))
        self._run("start", domain.inputs["name"])
