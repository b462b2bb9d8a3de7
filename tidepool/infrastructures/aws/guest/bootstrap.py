"""First steps of a machine of EC2 at each boot: it learns who it is, and reads and does what it is for.

cloud-init runs it as root from the user data, with the region and the ARN of a secret. A bare interpreter is all it needs.
"""

import base64
import datetime
import hashlib
import hmac
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from typing import Any

IMDS = "http://169.254.169.254"
AGAIN_S = 2.0
PATIENCE_S = 600.0


def fetched(url: str, headers: dict[str, str], data: bytes | None = None, method: str | None = None) -> str:
    request = urllib.request.Request(url, data=data, headers=headers, method=method)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return str(answer.read().decode())


def metadata(path: str, imds: str = IMDS) -> str:
    ttl = {"X-aws-ec2-metadata-token-ttl-seconds": "60"}
    token = fetched(f"{imds}/latest/api/token", ttl, method="PUT")
    return fetched(f"{imds}/latest/meta-data/{path}", {"X-aws-ec2-metadata-token": token})


def signed(
    region: str, host: str, target: str, body: bytes, keys: dict[str, str], now: datetime.datetime
) -> dict[str, str]:
    """Headers of a request to AWS, by its Signature Version 4."""
    stamp, day = now.strftime("%Y%m%dT%H%M%SZ"), now.strftime("%Y%m%d")
    headers = {
        "content-type": "application/x-amz-json-1.1",
        "host": host,
        "x-amz-date": stamp,
        "x-amz-security-token": keys["Token"],
        "x-amz-target": target,
    }
    names = ";".join(headers)
    lines = "".join(f"{name}:{value}\n" for name, value in headers.items())
    request = f"POST\n/\n\n{lines}\n{names}\n{hashlib.sha256(body).hexdigest()}"
    scope = f"{day}/{region}/secretsmanager/aws4_request"
    text = f"AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(request.encode()).hexdigest()}"
    key = f"AWS4{keys['SecretAccessKey']}".encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), hashlib.sha256).digest()
    signature = hmac.new(key, text.encode(), hashlib.sha256).hexdigest()
    credential = f"{keys['AccessKeyId']}/{scope}"
    headers["authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={credential}, SignedHeaders={names}, Signature={signature}"
    )
    return headers


def secret(region: str, arn: str, imds: str = IMDS, endpoint: str = "") -> str:
    role = metadata("iam/security-credentials/", imds).strip()
    keys = json.loads(metadata(f"iam/security-credentials/{role}", imds))
    host = f"secretsmanager.{region}.amazonaws.com" + (".cn" if region.startswith("cn-") else "")
    body = json.dumps({"SecretId": arn}).encode()
    now = datetime.datetime.now(datetime.timezone.utc)
    headers = signed(region, host, "secretsmanager.GetSecretValue", body, keys, now)
    return str(json.loads(fetched(endpoint or f"https://{host}/", headers, body))["SecretString"])


def patiently(what: str, ask: Callable[[], str], sleep: Callable[[float], None] = time.sleep) -> str:
    """The network, the role and the secret may each be late."""
    end = time.monotonic() + PATIENCE_S
    while True:
        try:
            return ask()
        except (OSError, KeyError, ValueError) as error:
            why = error.read().decode() if isinstance(error, urllib.error.HTTPError) else ""
            print(f"tidepool: {what}: {error} {why}", file=sys.stderr, flush=True)
            if time.monotonic() > end:
                raise
        sleep(AGAIN_S)


def write(file: dict[str, Any], root: str = "/") -> None:
    path = root.rstrip("/") + file["path"]
    os.makedirs(os.path.dirname(path), exist_ok=True)
    content = file["content"].encode()
    new = f"{path}.tidepool-new"
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        out.write(base64.b64decode(content) if file.get("encoding") == "b64" else content)
    if "owner" in file and root == "/":
        user, _, group = file["owner"].partition(":")
        shutil.chown(new, user, group)
    os.chmod(new, int(file.get("permissions", "0644"), 8))
    os.rename(new, path)


def run(*command: str) -> None:
    ended = subprocess.run(command, check=False)
    if ended.returncode:
        print(f"tidepool: {command} ended with {ended.returncode}", file=sys.stderr, flush=True)


def is_somebody() -> str:
    """The name and the address that the instance's tags say, as a line of /etc/hosts.

    Nobody but root asks for its credentials from now on.
    """
    node = patiently("its tags", lambda: metadata("tags/instance/tidepool:node"))
    address = metadata("tags/instance/tidepool:address")
    socket.sethostname(node)
    with open("/etc/hostname", "w") as file:
        file.write(f"{node}\n")
    run("ip", "address", "replace", f"{address}/32", "dev", "lo")
    rule = [
        "ip",
        "rule",
        "add",
        "pref",
        "100",
        "to",
        "169.254.169.254/32",
        "uidrange",
        "1-4294967294",
        "prohibit",
    ]
    ended = subprocess.run(rule, capture_output=True, text=True, check=False)
    if ended.returncode and "File exists" not in ended.stderr:
        sys.exit(
            f"tidepool: users could ask for this machine's credentials, so it gets nothing: {ended.stderr}"
        )
    return f"{address} {node}\n"


def main(region: str, arn: str) -> None:
    itself = is_somebody()
    data = patiently("what it is for", lambda: secret(region, arn))
    config = json.loads(data.partition("\n")[2])
    for command in config["bootcmd"]:
        run(*command)
    for file in config["write_files"]:
        write(file)
    # Which of its addresses is its own, a kubelet asks its name; the others are all that the file has.
    with open("/etc/hosts", "a") as hosts:
        hosts.write(itself)
    for command in config["runcmd"]:
        run(*command)


if __name__ == "__main__":
    main(*sys.argv[1:])
