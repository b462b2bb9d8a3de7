"""What machines run, against metadata and a Secrets Manager of this process; a bare interpreter is all it needs."""

from __future__ import annotations

import datetime
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from hypothesis import given
from hypothesis import strategies as st

from tests.infrastructures.aws.specs import mapping
from tests.scaling.decide.cluster_states import node
from tidepool.cluster.spec import ClusterSpec
from tidepool.cluster.spec_entries import Mistake
from tidepool.cluster.spec_reading import SpecError
from tidepool.infrastructures.aws.access import partition_of
from tidepool.infrastructures.aws.guest import MOST_BYTES, bootstrap, guest_program, size, spot, user_data
from tidepool.infrastructures.aws.reading import read_options
from tidepool.scaling.decide.node_status import SlurmStatus, is_taken_back, slurm_status

ARN = "arn:aws:secretsmanager:eu-central-1:123456789012:secret:tidepool-dev-cpu-Ab"
KEYS = {"AccessKeyId": "AKIDEXAMPLE", "SecretAccessKey": "wJalrXUtnFEMI/K7MDENG", "Token": "a-token"}


class Metadata:
    """``paths`` are answered to whoever has a token; what was posted is kept."""

    def __init__(self) -> None:
        self.paths: dict[str, str] = {}
        self.posted: list[tuple[dict[str, str], bytes]] = []
        self.url = ""


@pytest.fixture
def metadata() -> Iterator[Metadata]:
    made = Metadata()

    class Handler(BaseHTTPRequestHandler):
        def _say(self, status: int, text: str) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def do_PUT(self) -> None:
            asks = self.path == "/latest/api/token" and self.headers["X-aws-ec2-metadata-token-ttl-seconds"]
            self._say(200, "TOKEN") if asks else self._say(400, "")

        def do_GET(self) -> None:
            if self.headers["X-aws-ec2-metadata-token"] != "TOKEN":
                return self._say(401, "")
            said = made.paths.get(self.path.removeprefix("/latest/meta-data/"))
            return self._say(404, "") if said is None else self._say(200, said)

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.posted.append(({key.lower(): value for key, value in self.headers.items()}, body))
            self._say(200, json.dumps({"SecretString": "what it is for"}))

        def log_message(self, *args: object) -> None:
            """Nobody reads it."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    made.url = f"http://127.0.0.1:{server.server_port}"
    yield made
    server.shutdown()
    thread.join()
    server.server_close()


def test_metadata_are_asked_with_a_token(metadata: Metadata) -> None:
    metadata.paths["tags/instance/tidepool:node"] = "cpu-1"
    assert bootstrap.metadata("tags/instance/tidepool:node", metadata.url) == "cpu-1"


def test_a_secret_is_asked_for_with_the_credentials_of_the_machines_role(metadata: Metadata) -> None:
    metadata.paths |= {
        "iam/security-credentials/": "tidepool-dev-cpu\n",
        "iam/security-credentials/tidepool-dev-cpu": json.dumps(KEYS),
    }
    said = bootstrap.secret("eu-central-1", ARN, metadata.url, endpoint=f"{metadata.url}/")
    assert said == "what it is for"
    ((headers, body),) = metadata.posted
    assert json.loads(body) == {"SecretId": ARN}
    assert headers["x-amz-target"] == "secretsmanager.GetSecretValue"
    assert headers["x-amz-security-token"] == "a-token"


def test_requests_are_signed_as_boto3_signs_them() -> None:
    now = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    host, target, body = (
        "secretsmanager.eu-central-1.amazonaws.com",
        "secretsmanager.GetSecretValue",
        b'{"a": 1}',
    )
    ours = bootstrap.signed("eu-central-1", host, target, body, KEYS, now)
    request = AWSRequest("POST", f"https://{host}/", data=body)
    request.headers["content-type"] = "application/x-amz-json-1.1"
    request.headers["host"] = host
    request.headers["x-amz-target"] = target
    request.headers["X-Amz-Date"] = "20260102T030405Z"
    request.headers["X-Amz-Security-Token"] = "a-token"
    request.context["timestamp"] = "20260102T030405Z"
    credentials = Credentials(KEYS["AccessKeyId"], KEYS["SecretAccessKey"], KEYS["Token"])
    auth = SigV4Auth(credentials, "secretsmanager", "eu-central-1")
    canonical = auth.canonical_request(request)
    theirs = auth.signature(auth.string_to_sign(request, canonical), request)
    assert ours["authorization"].endswith(f"Signature={theirs}")


#: A machine as it boots, on a link that leads to what AWS serves: who can send there, of root and a user, and who it is then.
_BOOT = """\
import json, os, socket, subprocess, sys
from tidepool.infrastructures.aws.guest import bootstrap

def reached(address):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect((address, 80))
        except PermissionError:
            return False
    return True

subprocess.run(["mount", "--bind", sys.argv[1], "/etc/hostname"], check=True)
for line in ("link set lo up", "link add aws type bridge", "link set aws up", "route add default dev aws"):
    subprocess.run(["ip", *line.split()], check=True)
bootstrap.metadata = {"tags/instance/tidepool:node": "cpu-1", "tags/instance/tidepool:address": "10.77.10.1"}.__getitem__
bootstrap.is_somebody()
itself = bootstrap.is_somebody()  # as somebody who looks for what is wrong starts it again
served = ("169.254.169.254", "169.254.169.253", "169.254.169.123", "198.51.100.7")
told = {"name": socket.gethostname(), "host": itself, "root": [reached(each) for each in served]}
os.setuid(1000)
print(json.dumps({**told, "user": [reached(each) for each in served]}))
"""


def test_root_alone_reaches_metadata_and_all_reach_what_else_is_link_local(tmp_path: Path) -> None:
    """No security group keeps machines from 169.254.0.0/16, so each machine does."""
    (tmp_path / "hostname").touch()
    command = [
        "unshare",
        "--net",
        "--uts",
        "--mount",
        sys.executable,
        "-c",
        _BOOT,
        str(tmp_path / "hostname"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == {
        "name": "cpu-1",
        "host": "10.77.10.1 cpu-1\n",
        "root": [True, True, True, True],
        # Names and time are there, too.
        "user": [False, True, True, True],
    }
    assert done.stderr == ""


def test_a_machine_whose_users_would_reach_its_credentials_gets_no_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ip = tmp_path / "ip"
    ip.write_text('#!/bin/sh\ntest "$1" != rule || { echo "no rules in this kernel" >&2; exit 2; }\n')
    ip.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.setattr(bootstrap, "metadata", lambda path: "cpu-1")
    monkeypatch.setattr("socket.sethostname", lambda name: None)
    monkeypatch.setattr("builtins.open", lambda *of: (tmp_path / "hostname").open("w"))
    monkeypatch.setattr(bootstrap, "secret", lambda *of: pytest.fail("it is asked for"))
    with pytest.raises(SystemExit, match="so it gets nothing: no rules in this kernel"):
        bootstrap.main("eu-central-1", ARN)


def test_what_is_late_is_asked_for_again_and_told_of(capsys: pytest.CaptureFixture[str]) -> None:
    answers: list[Exception | str] = [OSError("no route to host"), KeyError("Token"), "there"]
    slept: list[float] = []

    def ask() -> str:
        answer = answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    assert bootstrap.patiently("its tags", ask, slept.append) == "there"
    assert len(slept) == 2
    assert "its tags: no route to host" in capsys.readouterr().err


def test_files_are_written_whole_with_their_mode(tmp_path: Path) -> None:
    bootstrap.write(
        {"path": "/etc/deep/key", "content": "AAEC", "encoding": "b64", "permissions": "0400"}, str(tmp_path)
    )
    bootstrap.write({"path": "/etc/motd", "content": "hällo\n"}, str(tmp_path))
    key = tmp_path / "etc/deep/key"
    assert key.read_bytes() == b"\0\1\2"
    assert key.stat().st_mode & 0o777 == 0o400
    assert (tmp_path / "etc/motd").read_text() == "hällo\n"
    assert not list(tmp_path.rglob("*.tidepool-new"))


def test_a_command_that_fails_is_told_of_and_the_next_one_runs(capfd: pytest.CaptureFixture[str]) -> None:
    bootstrap.run("/bin/sh", "-c", "exit 3")
    assert "ended with 3" in capfd.readouterr().err


def test_user_data_is_cloud_config_that_names_the_secret_and_is_far_below_what_ec2_takes() -> None:
    text = user_data("eu-central-1", ARN, "echo hello", smt=False)
    read: dict[str, Any] = yaml.safe_load(text)
    first, threads, program = read["bootcmd"]
    assert first[:3] == ["cloud-init-per", "instance", "first-boot"]
    assert "echo off" in threads[-1]
    assert program[-2:] == ["eu-central-1", ARN]
    assert size("") < MOST_BYTES / 2
    assert size("x" * 1000) == size("") + 1000 + size("y") - size("") - 1


_SCRIPTS = st.text(max_size=200).flatmap(lambda text: st.integers(1, 200).map(lambda times: text * times))


@given(
    _SCRIPTS,
    st.sampled_from(["eu-central-1", "us-gov-west-1", "ap-southeast-5", "cn-northwest-1"]),
    st.text("abcxyz0189-", min_size=1, max_size=64),
    st.booleans(),
)
def test_whatever_script_is_taken_its_user_data_are_below_what_ec2_takes(
    script: str, region: str, kind: str, smt: bool
) -> None:
    # As long as a secret's name can be, with the six letters that AWS puts behind it.
    arn = f"arn:{partition_of(region)}:secretsmanager:{region}:123456789012:secret:{kind}-AbCdEf"
    made = user_data(region, arn, script, smt=smt)
    assert len(made.encode()) <= size(script)
    refused = [
        mistake.path
        for mistake in mistakes_of(mapping({"first_boot": script}))
        if "first_boot" in mistake.path
    ]
    assert bool(refused) == (size(script) > MOST_BYTES), (
        "it is taken where it fits, and else told in the preview"
    )
    read: dict[str, Any] = yaml.safe_load(made)
    assert not script or read["bootcmd"][0][-1] == script


def mistakes_of(described: dict[str, Any]) -> tuple[Mistake, ...]:
    try:
        read_options(ClusterSpec.model_validate(described), "dev")
    except SpecError as error:
        return error.mistakes
    return ()


def test_programs_of_machines_need_a_bare_interpreter_alone() -> None:
    for name in ("bootstrap", "spot"):
        check = f"import sys; compile(sys.stdin.read(), {name!r}, 'exec')"
        subprocess.run(
            [sys.executable, "-I", "-S", "-c", check], input=guest_program(name), text=True, check=True
        )
        imports = [
            line.split()[1]
            for line in guest_program(name).splitlines()
            if line.startswith(("import ", "from "))
        ]
        assert {each.partition(".")[0] for each in imports} <= sys.stdlib_module_names


def test_the_program_of_a_spot_machine_drains_its_node_when_the_notice_comes(
    metadata: Metadata, tmp_path: Path
) -> None:
    """As the machine's unit runs it: a bare interpreter, the metadata, and scontrol on PATH."""
    told = tmp_path / "told"
    scontrol = tmp_path / "scontrol"
    # slurmctld does not answer the first time.
    scontrol.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" >>{told}\ntest -e {tmp_path}/asked && exit 0\n: >{tmp_path}/asked\nexit 1\n'
    )
    scontrol.chmod(0o755)
    metadata.paths["spot/instance-action"] = '{"action": "terminate", "time": "2026-01-02T03:04:05Z"}'
    program = guest_program("spot").replace(spot.IMDS, metadata.url)
    ended = subprocess.run(
        [sys.executable, "-I", "-c", program, "cpu-1"],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert "drained: AWS takes it back at 2026-01-02T03:04:05Z" in ended.stderr
    order = [
        "update",
        "NodeName=cpu-1",
        "State=DRAIN",
        "Reason=spot: AWS takes it back at 2026-01-02T03:04:05Z",
    ]
    assert told.read_text().splitlines() == order * 2


def test_what_slurm_is_told_the_scaler_knows_for_a_machine_that_goes() -> None:
    (reason,) = [
        word.removeprefix("Reason=")
        for word in spot.drain("cpu-1", "2026-01-02T03:04:05Z")
        if word.startswith("Reason=")
    ]
    for state in ("MIXED+DRAIN", "IDLE+DRAIN", "DOWN+DRAIN+NOT_RESPONDING"):
        drained = node("cpu-1", state, reason)
        assert is_taken_back(drained)
        assert slurm_status(drained) is SlurmStatus.UNFIT, (
            "it gets no job more, and nobody has to put it back"
        )


def test_no_notice_is_none_and_one_says_when(metadata: Metadata) -> None:
    assert spot.notice(metadata.url) == ""
    metadata.paths["spot/instance-action"] = '{"action": "terminate", "time": "2026-01-02T03:04:05Z"}'
    assert spot.notice(metadata.url) == "2026-01-02T03:04:05Z"


def test_a_node_is_drained_when_aws_takes_its_machine_back() -> None:
    notices: list[str | Exception] = ["", OSError("late"), "2026-01-02T03:04:05Z", "2026-01-02T03:04:05Z"]
    ran: list[list[str]] = []
    slept: list[float] = []

    def notice() -> str:
        said = notices.pop(0)
        if isinstance(said, Exception):
            raise said
        return said

    def run(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        ran.append(command)
        # Slurm is busy the first time.
        return subprocess.CompletedProcess(command, 1 if len(ran) == 1 else 0)

    spot.watch("cpu-1", notice, run, slept.append)
    assert (
        ran
        == [
            [
                "scontrol",
                "update",
                "NodeName=cpu-1",
                "State=DRAIN",
                "Reason=spot: AWS takes it back at 2026-01-02T03:04:05Z",
            ]
        ]
        * 2
    )
    assert slept == [spot.LOOK_S, spot.LOOK_S, 1.0]
