"""Images at AWS: from a file of this machine to an AMI."""

from __future__ import annotations

import pytest

from tests.infrastructures.aws.graph import (
    AMI,
    FILE,
    INSTANCE,
    OBJECT,
    POLICY,
    REGION,
    SNAPSHOT,
    changed,
    registered,
)
from tests.infrastructures.aws.specs import spec


def test_another_image_is_another_ami_and_with_it_other_machines() -> None:
    names = changed(spec(), spec(), digest="e" * 64)
    # Mocks give the same id to another snapshot and another AMI: the engine replaces what is made from them.
    assert names == {f"{OBJECT} debian-12-cloud", f"{SNAPSHOT} debian-12-cloud", f"{AMI} debian-12-cloud"}
    graph = registered(spec())
    assert graph[f"{INSTANCE} cpu-1"].by_input["ami"] == {f"{AMI} debian-12-cloud"}
    # The old one is there until no machine is made from it.
    assert not graph[f"{AMI} debian-12-cloud"].delete_before_replace


def test_another_key_is_another_ami_whose_name_is_not_the_old_ones() -> None:
    names = set()
    for key in (
        None,
        "arn:aws:kms:eu-central-1:123456789012:key/0a",
        "arn:aws:kms:eu-central-1:123456789012:key/0b",
    ):
        graph = registered(spec(kms_key=key))
        assert graph[f"{SNAPSHOT} debian-12-cloud"].inputs.get("kmsKeyId") == key
        names.add(graph[f"{AMI} debian-12-cloud"].inputs["name"])
    # Both are there for a while.
    assert len(names) == 3
    assert f"tidepool-dev-debian-12-cloud-{'d' * 16}" in names


def test_an_image_is_a_file_in_a_closed_bucket_then_a_snapshot_then_an_ami() -> None:
    graph = registered(spec())
    assert graph[f"{FILE} debian-12-cloud"].inputs == {"image": "d" * 64, "form": "disk"}
    assert graph["tidepool:image:Image debian-12-cloud"].inputs["forms"] == ["disk"]
    snapshot = graph[f"{SNAPSHOT} debian-12-cloud"]
    assert snapshot.inputs["diskContainer"] == {
        "format": "RAW",
        "userBucket": {"s3Bucket": "images-id", "s3Key": f"debian-12-cloud-{'d' * 16}.raw"},
    }
    assert snapshot.inputs["roleName"] == "tidepool-dev-images"
    assert f"{POLICY} images" in snapshot.depends_on
    assert f"{OBJECT} debian-12-cloud" in snapshot.depends_on
    made = graph[f"{AMI} debian-12-cloud"]
    assert made.inputs["ebsBlockDevices"][0]["snapshotId"] == "debian-12-cloud-id"
    assert (made.inputs["architecture"], made.inputs["rootDeviceName"]) == ("x86_64", "/dev/xvda")
    closed = graph["aws:s3/bucketPublicAccessBlock:BucketPublicAccessBlock images"].inputs
    assert all(closed[key] is True for key in closed if key != "bucket")


@pytest.mark.parametrize(
    ("machine", "architecture", "boots"),
    [("x86_64", "x86_64", "uefi-preferred"), ("aarch64", "arm64", "uefi")],
)
def test_images_are_for_machines_like_the_one_that_makes_them(
    monkeypatch: pytest.MonkeyPatch, machine: str, architecture: str, boots: str
) -> None:
    monkeypatch.setattr("platform.machine", lambda: machine)
    graph = registered(spec())
    made = graph[f"{AMI} debian-12-cloud"].inputs
    assert (made["architecture"], made["bootMode"]) == (architecture, boots)
    # Types of another architecture are refused by it.
    assert graph[f"{REGION} aws"].inputs["demands"].get("architecture", "x86_64") == architecture
