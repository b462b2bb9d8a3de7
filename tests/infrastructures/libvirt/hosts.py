"""What virsh says of hosts, written by hand in the form of libvirt 9.0's schema (capability.rng)."""

from __future__ import annotations

from collections.abc import Mapping

from tidepool.infrastructures.libvirt.ask import Host, read_host

NODEINFO = """\
CPU model:           x86_64
CPU(s):              24
CPU frequency:       2600 MHz
CPU socket(s):       1
Core(s) per socket:  6
Thread(s) per core:  2
NUMA cell(s):        2
Memory size:         67108864 KiB

"""

DEVICES = """\
pci_0000_00_00_0
pci_0000_3b_00_0
pci_0000_3b_00_1
pci_0000_af_00_0
pci_0000_af_00_1
"""


def capabilities(
    *,
    arch: str = "x86_64",
    kvm: bool = True,
    iommu: str = "<iommu support='yes'/>",
    pages: Mapping[int, int] | None = None,
) -> str:
    """Two NUMA nodes of 12 processors; ``pages`` are those of 2 MiB that are reserved on each."""
    reserved = {0: 8192, 1: 8192} if pages is None else pages
    cells = "".join(
        f"""
        <cell id='{node}'>
          <memory unit='KiB'>33554432</memory>
          <pages unit='KiB' size='4'>8000000</pages>
          <pages unit='KiB' size='2048'>{reserved.get(node, 0)}</pages>
          <pages unit='KiB' size='1048576'>0</pages>
          <cpus num='12'>{"".join(_cpu(number) for number in range(node * 12, node * 12 + 12))}</cpus>
        </cell>"""
        for node in (0, 1)
    )
    domains = "<domain type='qemu'/>" + ("<domain type='kvm'/>" if kvm else "")
    return f"""\
<capabilities>
  <host>
    <uuid>4c4c4544-0046-4810-8057-b4c04f4d3532</uuid>
    <cpu><arch>{arch}</arch><model>Cascadelake-Server</model><vendor>Intel</vendor>
      <topology sockets='1' dies='1' cores='6' threads='2'/></cpu>
    <power_management/>
    {iommu}
    <migration_features><live/></migration_features>
    <topology><cells num='2'>{cells}
    </cells></topology>
  </host>
  <guest>
    <os_type>hvm</os_type>
    <arch name='{arch}'>
      <wordsize>64</wordsize>
      <emulator>/usr/bin/qemu-system-x86_64</emulator>
      <machine maxCpus='255'>pc-i440fx-7.2</machine>
      <machine canonical='pc-i440fx-7.2' maxCpus='255'>pc</machine>
      <machine maxCpus='288'>pc-q35-7.1</machine>
      <machine maxCpus='288'>pc-q35-7.2</machine>
      <machine canonical='pc-q35-7.2' maxCpus='288'>q35</machine>
      {domains}
    </arch>
    <features><acpi default='on' toggle='yes'/></features>
  </guest>
</capabilities>
"""


def _cpu(number: int) -> str:
    core = number // 2
    return (
        f"<cpu id='{number}' socket_id='0' die_id='0' core_id='{core}' siblings='{core * 2}-{core * 2 + 1}'/>"
    )


def host(**changes: object) -> Host:
    """That host, read."""
    return read_host(capabilities(**changes), NODEINFO, DEVICES)  # type: ignore[arg-type]
