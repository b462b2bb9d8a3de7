"""A boot as user data of cloud-init: what it says, and that its scripts do it."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import threading
import time
from dataclasses import replace
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import pytest
import yaml

from tidepool.cluster import addresses
from tidepool.cluster.boot import Folder, Service
from tidepool.infrastructures.cloud_init import Seed, Surroundings, written
from tidepool.infrastructures.contract import Boot, File, Mount

BOOT = Boot(
    services=(
        Service("munged", ("/usr/sbin/munged", "--foreground"), user="munge", ready="unix:/run/munge/socket"),
        Service("migrate", ("/usr/bin/true",), once=True),
        Service(
            "slurmctld",
            ("/bin/sh", "-ec", 'echo "$HOME 100%"\nexec slurmctld -D'),
            ready="tcp:6817",
            begins="path:/etc/slurm/slurm.conf",
            stop_timeout_s=20,
        ),
    ),
    files=(
        File("/etc/munge/munge.key", "AAECAw==", "0400", "munge", "munge", is_base64=True),
        File("/etc/motd", "hällo\n"),
    ),
    folders=(Folder("/run/munge", "0755", "munge", "munge"),),
    mounts=(Mount("nas:/export/home", "/home", read_only=False), Mount("nas:/export/apps", "/apps")),
)
AROUND = Surroundings({"ctl": IPv4Address("10.77.0.2")})


def seed_of(boot: Boot = BOOT, around: Surroundings = AROUND) -> Seed:
    return written(boot, around, [str(f.content) for f in boot.files], [str(m.source) for m in boot.mounts])


def data_of(seed: Seed) -> dict[str, Any]:
    assert seed.user_data.startswith("#cloud-config\n")
    read = yaml.safe_load(seed.user_data)
    assert isinstance(read, dict)
    return read


def files_of(seed: Seed) -> dict[str, dict[str, Any]]:
    return {file["path"]: file for file in data_of(seed)["write_files"]}


def test_files_have_their_content_owner_and_mode() -> None:
    files = files_of(seed_of())
    key, motd = files["/etc/munge/munge.key"], files["/etc/motd"]
    assert (base64.b64decode(key["content"]), key["permissions"], key["owner"]) == (
        b"\0\1\2\3",
        "0400",
        "munge:munge",
    )
    assert base64.b64decode(motd["content"]).decode() == "hällo\n"
    assert "10.77.0.2 ctl\n" in files["/etc/hosts"]["content"]


def test_services_are_units_in_their_order_which_wait_as_they_are_told() -> None:
    files = files_of(seed_of())
    units = {path.rpartition("/")[2]: file["content"] for path, file in files.items() if ".service" in path}
    assert "After=tidepool-prepare.service\n" in units["tidepool-munged.service"]
    assert "After=tidepool-munged.service\n" in units["tidepool-migrate.service"]
    assert "After=tidepool-migrate.service\n" in units["tidepool-slurmctld.service"]
    munged, once, slurmctld = (
        units[f"tidepool-{each}.service"] for each in ("munged", "migrate", "slurmctld")
    )
    assert "User=munge\n" in munged
    assert 'ExecStartPost=/usr/local/lib/tidepool/wait "unix:/run/munge/socket"\n' in munged
    assert "Restart=always\n" in munged
    assert "Type=oneshot\n" in once
    assert "Restart=" not in once
    assert 'ExecStartPre=/usr/local/lib/tidepool/wait "path:/etc/slurm/slurm.conf"\n' in slurmctld
    assert "TimeoutStopSec=20\n" in slurmctld
    # systemd takes $ and % for its own, and a line ends a command.
    assert r'ExecStart="/bin/sh" "-ec" "echo \"$$HOME 100%%\"\nexec slurmctld -D"' in slurmctld
    wants = files["/etc/systemd/system/tidepool.target"]["content"]
    assert "tidepool-prepare.service tidepool-munged.service tidepool-migrate.service" in wants


def test_what_a_service_started_outlives_it() -> None:
    """Jobs are children of slurmd: when it ends, or is sent SIGTERM to register anew, they go on."""
    units = [file["content"] for path, file in files_of(seed_of()).items() if "/tidepool-" in path]
    of_services = [unit for unit in units if "Restart=always\n" in unit]
    assert len(of_services) == 2
    for unit in of_services:
        assert "KillMode=process\n" in unit
        assert "KillMode=mixed" not in unit


def test_another_boot_is_another_instance_and_the_same_one_is_not() -> None:
    one, same = seed_of(), seed_of()
    other = seed_of(replace(BOOT, services=BOOT.services[:1]))
    assert one == same
    assert one.meta_data != other.meta_data
    assert yaml.safe_load(one.meta_data).keys() == {"instance-id"}


def test_where_machines_know_their_address_nobody_is_asked_for_one() -> None:
    asks, knows = seed_of(), seed_of(around=replace(AROUND, prefix=16))
    assert json.loads(asks.network_config)["ethernets"]["e*"]["dhcp4"] is True
    assert json.loads(knows.network_config)["ethernets"]["e*"]["dhcp4"] is False
    assert "/usr/local/lib/tidepool/address" not in files_of(asks)


def test_a_machine_finds_its_address_in_its_hardware_address(tmp_path: Path) -> None:
    address = IPv4Address("10.77.200.9")
    for name, mac in (
        ("lo", "00:00:00:00:00:00"),
        ("enp1s0", addresses.mac(address)),
        ("enp2s0", "06:74:0a:4d:0a:02"),
    ):
        (tmp_path / "net" / name).mkdir(parents=True)
        (tmp_path / "net" / name / "address").write_text(f"{mac}\n")
    (tmp_path / "to").mkdir()
    script = files_of(seed_of(around=replace(AROUND, prefix=16)))["/usr/local/lib/tidepool/address"][
        "content"
    ]
    subprocess.run(["sh", "-c", script, "address", "16", tmp_path / "net", tmp_path / "to"], check=True)
    assert (tmp_path / "to/05-tidepool.network").read_text() == (
        f"[Match]\nMACAddress={addresses.mac(address)}\n[Network]\nAddress={address}/16\n"
        "LinkLocalAddressing=no\nIPv6AcceptRA=no\n"
    )


def test_waiting_ends_when_it_is_there(tmp_path: Path) -> None:
    script = tmp_path / "wait"
    script.write_text(files_of(seed_of())["/usr/local/lib/tidepool/wait"]["content"])
    flag = tmp_path / "flag"
    appear = threading.Timer(0.3, flag.touch)
    started = time.monotonic()
    appear.start()
    subprocess.run(["sh", script, f"path:{flag}"], check=True, timeout=20)
    assert time.monotonic() - started >= 0.3
    families = {"127.0.0.1": socket.AF_INET}
    if Path("/proc/net/if_inet6").exists():
        families["::1"] = socket.AF_INET6
    for address, family in families.items():
        with socket.socket(family) as listener:
            listener.bind((address, 0))
            wait = ["sh", str(script), f"tcp:{listener.getsockname()[1]}"]
            assert subprocess.run(["timeout", "0.5", *wait], check=False).returncode == 124, (
                "it is only bound"
            )
            listener.listen()
            subprocess.run(wait, check=True, timeout=20)
    # Of a service that has ended, which nobody would start again while somebody waits for it.
    gone = {**os.environ, "MAINPID": "0"}
    over = subprocess.run(["sh", script, f"path:{tmp_path}/never"], env=gone, check=False, timeout=20)
    assert over.returncode == 1
    unknown = subprocess.run(
        ["sh", script, "dbus:x"], check=False, capture_output=True, text=True, timeout=20
    )
    assert unknown.returncode == 2
    assert "nothing to wait for" in unknown.stderr


def test_all_scripts_are_sh() -> None:
    for seed in (seed_of(), seed_of(around=replace(AROUND, prefix=16))):
        scripts = [file["content"] for file in files_of(seed).values() if file["permissions"] == "0755"]
        assert len(scripts) >= 2
        for script in scripts:
            subprocess.run(["sh", "-n"], input=script, text=True, check=True)


def test_folders_and_shared_file_systems_are_there_at_each_boot() -> None:
    prepare = files_of(seed_of())["/usr/local/lib/tidepool/prepare"]["content"]
    assert "mount -t nfs4 -o rw,hard,retry=0 nas:/export/home /home" in prepare
    assert "mount -t nfs4 -o ro,hard,retry=0 nas:/export/apps /apps" in prepare
    assert prepare.index("/export/apps") < prepare.index("mkdir -p /run/munge")
    assert "chown munge:munge /run/munge\nchmod 0755 /run/munge\n" in prepare


def test_the_console_says_once_which_file_server_is_waited_for_and_why(tmp_path: Path) -> None:
    files = files_of(seed_of())
    assert (
        "StandardOutput=journal+console\n" in files["/etc/systemd/system/tidepool-prepare.service"]["content"]
    )
    # A file server that is there at the third try, and of which nothing else is real.
    (tmp_path / "mount").write_text(
        '#!/bin/sh\necho "$*" >>tries\n[ "$(wc -l <tries)" -gt 2 ] || { echo "mount.nfs4: Connection refused" >&2; exit 32; }\n'
    )
    for name, line in (
        ("mountpoint", "exit 1"),
        ("mkdir", ":"),
        ("chown", ":"),
        ("chmod", ":"),
        ("sleep", ":"),
    ):
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
    for tool in tmp_path.iterdir():
        tool.chmod(0o755)
    ended = subprocess.run(
        ["sh", "-c", files["/usr/local/lib/tidepool/prepare"]["content"]],
        cwd=tmp_path,
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        check=True,
        capture_output=True,
        text=True,
    )
    assert ended.stdout.splitlines() == [
        "tidepool: mounts nas:/export/home at /home",
        "tidepool: mounts nas:/export/home at /home, and waits for it: mount.nfs4: Connection refused",
        "tidepool: mounts nas:/export/apps at /apps",
    ]


def test_a_seed_beside_its_machine_is_done_in_the_first_stage_of_cloud_init() -> None:
    """Each of the others is seconds of an emulated processor, and the services of the boot waited for all of them."""
    elsewhere, beside = data_of(seed_of()), data_of(seed_of(around=replace(AROUND, beside=True)))
    assert "cloud_init_modules" not in elsewhere
    assert beside["cloud_init_modules"][-2:] == ["runcmd", "scripts_user"]
    assert not {"users_groups", "ssh"} & {*beside["cloud_init_modules"]}
    assert (beside["cloud_config_modules"], beside["cloud_final_modules"]) == ([], [])
    assert beside["runcmd"] == elsewhere["runcmd"]


@pytest.mark.parametrize("stage", ["activating", "active"])
def test_the_stages_that_are_left_are_taken_back_in_the_first_one_alone(tmp_path: Path, stage: str) -> None:
    *_, command = data_of(seed_of(around=replace(AROUND, beside=True)))["bootcmd"]
    systemctl = tmp_path / "systemctl"
    systemctl.write_text(
        f'#!/bin/sh\n[ "$1" != is-active ] || {{ echo {stage}; exit 3; }}\necho "$*" >>asked\n'
    )
    systemctl.chmod(0o755)
    subprocess.run(command, cwd=tmp_path, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, check=True)
    asked = (tmp_path / "asked").read_text() if stage == "activating" else ""
    assert (tmp_path / "asked").exists() == (stage == "activating")
    assert ("stop --no-block cloud-init.service cloud-config.service cloud-final.service" in asked) == bool(
        asked
    )


def test_what_networkd_is_given_of_the_network_names_links_that_there_are() -> None:
    """cloud-init writes the key into `[Match] Name=`, and networkd refuses `all`."""
    for prefix in (None, 16):
        network = json.loads(seed_of(around=replace(AROUND, prefix=prefix)).network_config)
        (name,) = network["ethernets"]
        assert name == network["ethernets"][name]["match"]["name"] == "e*"
        assert network["ethernets"][name]["dhcp4-overrides"] == {"use-hostname": False}


def test_what_the_image_would_start_by_itself_is_held_back_first() -> None:
    first = data_of(seed_of())["bootcmd"][0]
    assert first[:3] == ["systemctl", "mask", "--now"]
    assert {"munge.service", "ssh.service", "slurmd.service"} <= {*first}


def test_no_host_keys_are_made_beside_those_that_come_with_the_boot() -> None:
    data = data_of(seed_of())
    assert (data["ssh_deletekeys"], data["ssh_genkeytypes"]) == (False, ["ed25519"])


def test_what_is_of_a_role_is_of_its_target_and_runs_while_the_machine_has_it() -> None:
    slurm = [Service(name, ("/usr/sbin/" + name,), role="slurm") for name in ("munged", "slurmd")]
    kubelet = Service("kubelet", ("/usr/bin/kubelet",), role="kubernetes")
    boot = replace(
        BOOT,
        services=(Service("sshd", ("/usr/sbin/sshd", "-D")), *slurm, kubelet),
        mounts=(Mount("nas:/apps", "/apps"), Mount("nas:/home", "/home", read_only=False, role="slurm")),
        folders=(Folder("/home/shared"), Folder("/run/munge")),
        containers="kubernetes",
    )
    seed = seed_of(boot)
    files = {path: file["content"] for path, file in files_of(seed).items()}
    units = "/etc/systemd/system"

    def wanted(target: str) -> list[str]:
        (line,) = [line for line in files[f"{units}/{target}"].splitlines() if line.startswith("Wants=")]
        return [*map(str, line.removeprefix("Wants=").split())]

    first = ["tidepool-prepare.service", "tidepool-sshd.service"]
    assert wanted("tidepool.target") == [*first, "tidepool-slurm.target", "tidepool-kubernetes.target"]
    its = ["tidepool-prepare-slurm.service", "tidepool-munged.service", "tidepool-slurmd.service"]
    assert wanted("tidepool-slurm.target") == its
    for name, before in zip(its[1:], its, strict=False):
        unit = files[f"{units}/{name}"]
        assert f"After={before}\n" in unit
        assert "ConditionPathExists=/var/lib/tidepool/roles/slurm\n" in unit
        assert "Slice=tidepool-slurm.slice\n" in unit
    # Whoever has lost the role has none of its files.
    assert 'ExecStop=-/bin/umount --lazy "/home"\n' in files[f"{units}/{its[0]}"]
    library = "/usr/local/lib/tidepool"
    prepares = [files[f"{library}/prepare{of}"] for of in ("", "-slurm", "-kubernetes")]
    assert ["nas:/home" in each for each in prepares] == [False, True, False]
    assert ["/home/shared" in each for each in prepares] == [False, True, False]
    assert ["/run/munge" in each for each in prepares] == [True, False, False]
    # Its own containerd is the role's.
    assert "containerd.service" in data_of(seed)["bootcmd"][0]
