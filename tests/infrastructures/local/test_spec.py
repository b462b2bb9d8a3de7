"""Specifications refuse what cannot be, all at once; and a plan says all that a machine is made of."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidepool.cluster.boot import Device, File, Mount, Service
from tidepool.infrastructures.local.kernel import BadSpec, MachineSpec, NetworkSpec
from tidepool.infrastructures.local.kernel.plan import Surroundings, encode, machine_steps

_SPEC = MachineSpec(
    stack="physics",
    name="cpu-1",
    network="net",
    address="10.77.0.11",
    mac="02:00:0a:4d:00:0b",
    image="/image",
    cpus=2,
    memory_mib=1024,
    services=(Service("munged", ("/usr/sbin/munged", "-F"), user="munge", ready="unix:/run/munge/socket"),),
    files=(File("/etc/munge/munge.key", "key, with 3:x,", mode="0400"),),
    mounts=(Mount("/srv/home", "/home", read_only=False),),
)
_CABLE = (7, 1234, "p8", _SPEC.mac, _SPEC.address, 16)
_FOLDERS = Surroundings(root="/d/root", upper="/d/upper", work="/d/work", hosts="/d/hosts", cable=_CABLE)


def test_all_mistakes_are_told_at_once() -> None:
    with pytest.raises(BadSpec) as refused:
        replace(
            _SPEC,
            name="CPU_1",
            address="10.77.0.300",
            mac="01:00:0a:4d:00:0b",
            image="image",
            cpus=0,
            memory_mib=0,
            services=(
                Service("a", ()),
                Service("a", ("/x",), ready="tcp:port", capabilities=("sys_ptrace", "CAP_MKNOD")),
                Service("b c", ("x",), begins="tcp:1"),
            ),
            files=(File("etc/x", "", mode="rw"), File("/x", "!", is_base64=True)),
            mounts=(Mount("srv", "/x"),),
            devices=(Device("/etc/gpu0"),),
        )
    told = str(refused.value).splitlines()
    assert all(line.startswith("machine 'CPU_1': ") for line in told)
    beginnings = (
        "name is 'CPU_1'; allowed are lower-case letters",
        "address is '10.77.0.300'; wanted is an IPv4 address such as",
        "mac is '01:00:0a:4d:00:0b'; wanted is a unicast one",
        "image is 'image'; wanted is an absolute path",
        "cpus is 0; wanted is at least 0.01",
        "memory_mib is 0; wanted is at least 4",
        "service a: argv is []; it begins with an absolute path",
        "service a: ready is 'tcp:port'; allowed are 'started'",
        "service a: capability 'CAP_MKNOD'; allowed are those that machines go without: dac_read_search,",
        "two services are named 'a'",
        "a service is named 'b c'; allowed are",
        "service b c: argv is ['x']; it begins with an absolute path",
        "service b c: begins is 'tcp:1'; allowed is 'path:/PATH', or nothing",
        "the path 'etc/x' is not absolute",
        "the mode of etc/x is 'rw'; wanted is an octal one",
        "the device '/etc/gpu0' is not below /dev",
        "the content of /x is not base64",
        "the mount of 'srv' at '/x' needs absolute paths",
    )
    for line, beginning in zip(told, beginnings, strict=True):
        assert line.removeprefix("machine 'CPU_1': ").startswith(beginning)


@pytest.mark.parametrize("cidr", ["10.77.0.1/16", "10.77.0.0/30", "fd00::/64", "x"])
def test_a_range_that_will_not_do_is_refused(cidr: str) -> None:
    with pytest.raises(BadSpec, match="network 'net': cidr"):
        NetworkSpec("physics", "net", cidr)


def test_the_switch_has_the_last_address() -> None:
    spec = NetworkSpec("physics", "net", "10.77.0.0/16")
    assert (spec.switch_address, spec.prefix_length) == ("10.77.255.254", 16)


def test_a_specification_is_json_and_without_secrets() -> None:
    told = json.dumps(_SPEC.public())
    assert "key, with" not in told
    assert "key, with" not in repr(_SPEC)
    assert json.loads(told)["files"][0]["content"].startswith("sha256:")


def test_fingerprints_tell_every_change() -> None:
    others = [
        _SPEC,
        replace(_SPEC, memory_mib=1025),
        replace(_SPEC, address="10.77.0.12"),
        replace(_SPEC, files=(replace(_SPEC.files[0], content="another"),)),
        replace(_SPEC, services=()),
        replace(_SPEC, aliases=("login",)),
    ]
    assert len({spec.fingerprint for spec in others}) == len(others)
    assert replace(_SPEC, memory_mib=1024).fingerprint == _SPEC.fingerprint


def test_a_plan_is_in_the_order_that_makes_it_safe() -> None:
    steps = list(machine_steps(_SPEC, _FOLDERS))
    verbs = [step[0] for step in steps]
    root = verbs.index("root")
    # Nothing of the image's is followed before its root is the root; nothing of the host's is there after.
    assert set(verbs[:root]) == {"cable", "mount", "take"}
    assert "take" not in verbs[root:]
    assert verbs.index("file") < verbs.index("service")
    assert set(verbs[verbs.index("drop") :]) == {"drop"}
    assert verbs.count("take") == verbs.count("put") == 2
    assert ("put", "/home", 4) in steps, "writable, without devices"


def test_capabilities_are_dropped_but_those_asked_for() -> None:
    asked = replace(_SPEC, capabilities=("sys_admin",))
    dropped = {step[1] for step in machine_steps(_SPEC, _FOLDERS) if step[0] == "drop"}
    assert dropped - {step[1] for step in machine_steps(asked, _FOLDERS) if step[0] == "drop"} == {21}


@given(st.lists(st.tuples(st.text(max_size=20), st.binary(max_size=20))))
def test_any_plan_can_be_read_back(fields: list[tuple[str, bytes]]) -> None:
    rest, found = encode(iter(fields)), []
    while rest:
        size, _, rest = rest.partition(b":")
        found.append(rest[: int(size)])
        assert rest[int(size) : int(size) + 1] == b","
        rest = rest[int(size) + 1 :]
    assert found == [*(part for text, data in fields for part in (text.encode(), data)), b"end"]


@pytest.mark.parametrize(
    ("cpus", "processors", "online", "folders"),
    [
        (1, (1, 0), "1", [1]),
        (2, (3, 1, 0, 2), "1,3", [1, 3]),
        # None of its services binds; or it has more than there are, which share them.
        (2, (), "0,1", [0, 1]),
        (3, (1, 0), "0,1,2", [0, 1, 2]),
    ],
)
def test_who_runs_containers_sees_the_processors_of_the_machine_by_their_numbers(
    cpus: int, processors: tuple[int, ...], online: str, folders: list[int]
) -> None:
    """The kubelet confines all pods to those that it sees."""
    kubelet = Service("kubelet", ("/usr/bin/kubelet",), role="kubernetes")
    spec = replace(_SPEC, cpus=cpus, services=(kubelet,), containers="kubernetes")
    plan = encode(machine_steps(spec, replace(_FOLDERS, containers="/d/containers", processors=processors)))
    text = plan.decode()
    assert f"/sys/devices/system/cpu/online,4:0444,4:root,4:root,{len(online) + 1}:{online}\n" in text
    seen = sorted({int(number) for number in re.findall(r"/sys/devices/system/cpu/cpu(\d+)/", text)})
    assert seen == folders
