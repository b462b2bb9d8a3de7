"""Failures of libvirt are told from each other by their words; the words here are those of libvirt 9.0 and QEMU 7.2."""

from __future__ import annotations

import pytest

from tidepool.cluster.failures import InfrastructureError, InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures.libvirt.ask import kind_of

FAILURES: dict[type[InfrastructureError], tuple[str, ...]] = {
    InsufficientCapacity: (
        (
            "error creating libvirt domain: internal error: process exited while connecting to monitor: "
            "2026-11-22T15:43:35.566251Z qemu-system-x86_64: cannot set up guest memory 'pc.ram': Cannot allocate memory"
        ),
        "internal error: qemu-system-x86_64: unable to map backing store for guest RAM: Cannot allocate memory",
        (
            "internal error: Child process (/usr/bin/qemu-img create -f qcow2 /pool/q2 102400K) unexpected exit status 1: "
            "qemu-img: /pool/q2: Could not write qcow2 header: No space left on device"
        ),
        "cannot allocate 52428800 bytes in file '/pool/q3': No space left on device",
        "Unable to write /pool/up: No space left on device",
        "Requested operation is not valid: PCI device 0000:3b:00.0 is in use by driver QEMU, domain dev-gpu-1",
        "internal error: network 'vfs' requires exclusive access to interfaces, but none are available",
    ),
    Permanent: (
        (
            "unsupported configuration: CPU mode 'host-passthrough' for x86_64 qemu domain on x86_64 host is not supported "
            "by hypervisor"
        ),
        "internal error: hugetlbfs filesystem is not mounted or disabled by administrator config",
        "cannot set CPU affinity on process 8863: Invalid argument",
        "unsupported configuration: NUMA node 3 is unavailable",
        "unsupported configuration: host doesn't support passthrough of host PCI devices",
        "Network not found: no network with matching name 'nonet'",
        "Cannot get interface MTU on 'br-none': No such device",
        "Storage pool not found: no storage pool with matching name 'p'",
        "Cannot access storage file '/nowhere': No such file or directory",
        "unsupported configuration: Emulator '/usr/bin/qemu-system-x86_64' does not support machine type 'pc-q35-99'",
        "authentication unavailable: no polkit agent available to authenticate action 'org.libvirt.unix.manage'",
    ),
    Transient: (
        "qemu+ssh://root@alpha/system does not answer within 30 s",
        "Cannot recv data: ssh: connect to host alpha port 22: Connection refused: Connection reset by peer",
        "Failed to connect socket to '/run/libvirt/libvirt-sock': No such file or directory",
        "Timed out during operation: cannot acquire state change lock (held by monitor=remoteDispatchDomainCreate)",
        "operation failed: domain 'dev-cpu-1' already exists with uuid 3911dc9f-bc61-45e5-8c97-cfde3fc79f82",
        "End of file while reading data: Input/output error",
        "something that nobody has seen yet",
    ),
}


@pytest.mark.parametrize(
    ("kind", "text"), [(kind, text) for kind, texts in FAILURES.items() for text in texts]
)
def test_words_tell_the_kind(kind: type[InfrastructureError], text: str) -> None:
    assert kind_of(text) is kind


def test_what_a_host_has_no_more_of_is_found_in_words_of_others() -> None:
    """An error of Pulumi's engine holds those of all that went wrong."""
    wrapped = "libvirt:index:Domain (cpu-1): 1 error occurred:\n\t* error creating libvirt domain: {}\n\n"
    for kind, texts in FAILURES.items():
        assert {kind_of(wrapped.format(text)) for text in texts} == {kind}
