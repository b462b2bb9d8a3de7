"""The client over HTTP against the stand-in: signatures, pages, jobs, limits, and errors in their kinds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cs.client import CloudStack

from tests import versions
from tests.infrastructures.cloudstack.cloud import Cloud
from tests.infrastructures.cloudstack.server import KEY, SECRET, served
from tidepool.cluster.failures import InsufficientCapacity, Permanent, Transient
from tidepool.infrastructures.cloudstack.api import (
    Api,
    ApiLocation,
    NotAllowed,
    NotThere,
    QuotaReached,
    TooManyCalls,
    failure,
    kind_of,
)

pytestmark = [
    pytest.mark.runs("cloudstack", versions.installed("cs"), "a stand-in of the tests' for CloudStack")
]


@pytest.fixture
def cloud() -> Cloud:
    return Cloud()


@pytest.fixture
def endpoint(cloud: Cloud) -> Iterator[str]:
    with served(cloud) as at:
        yield at


def api(endpoint: str, key: str = KEY, secret: str = SECRET, method: str = "post", **owner: Any) -> Api:
    return Api(CloudStack(endpoint, key, secret, method=method), **owner)


@pytest.mark.parametrize("method", ["get", "post"])
def test_requests_are_signed_whatever_is_in_them(cloud: Cloud, endpoint: str, method: str) -> None:
    asked = api(endpoint, method=method)
    made = asked.call("registerUserData", name="a b+c*d/é=&", userdata="IyE=")
    assert made["userdata"]["name"] == "a b+c*d/é=&"


@pytest.mark.parametrize(("key", "secret"), [(KEY, "another"), ("another", SECRET)])
def test_wrong_keys_are_told_for_good(endpoint: str, key: str, secret: str) -> None:
    with pytest.raises(NotAllowed, match="listZones with 401: unable to verify user credentials"):
        api(endpoint, key, secret).zone("zone-1")


def test_a_request_that_was_on_its_way_for_too_long_is_refused(endpoint: str) -> None:
    late = Api(CloudStack(endpoint, KEY, SECRET, method="post", expiration=0))
    with pytest.raises(NotAllowed):
        late.call("listCapabilities")


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 250])
def test_a_list_is_all_of_its_pages(cloud: Cloud, endpoint: str, count: int) -> None:
    cloud.page_most = 100
    cloud.user_data = {str(at): {"id": str(at), "name": str(at)} for at in range(count)}
    found = api(endpoint).own("listUserData")
    assert [each["name"] for each in found] == [str(at) for at in range(count)]
    assert len(cloud.requests) <= count // 100 + 1


def test_a_job_is_waited_for_and_a_question_that_is_lost_is_asked_again(cloud: Cloud, endpoint: str) -> None:
    cloud.stuck.add("createAffinityGroup")
    asked, waited = api(endpoint), []

    def wait(why: str) -> bool:
        waited.append(why)
        if len(waited) == 1:
            cloud.fail = [(503, "the management server starts"), (503, "it still does")]
        if len(waited) == 4:
            for job in cloud.jobs.values():
                job.ends = 0
        return True

    made = asked.do("createAffinityGroup", wait, name="one", type="host anti-affinity")
    assert made["affinitygroup"]["name"] == "one"
    assert waited == ["createAffinityGroup"] * 4


def test_the_limit_of_calls_is_waited_out_and_not_for_ever(cloud: Cloud, endpoint: str) -> None:
    waited: list[float] = []
    cloud.fail = [(429, "api limit")] * 4
    asked = replace(api(endpoint), sleep=waited.append)
    assert asked.zone("zone-1")["name"] == "zone-1"
    assert waited == [1.0] * 4
    cloud.fail = [(429, "api limit")] * 5
    with pytest.raises(TooManyCalls):
        asked.zone("zone-1")


def test_a_job_that_outlives_us_is_named_and_goes_on(cloud: Cloud, endpoint: str) -> None:
    cloud.stuck.add("createAffinityGroup")
    with pytest.raises(Transient, match=r"goes on with its job [0-9a-f-]{36}"):
        api(endpoint).do("createAffinityGroup", lambda _: False, name="one", type="host affinity")


def test_a_job_that_fails_is_of_the_kind_that_its_error_says(cloud: Cloud, endpoint: str) -> None:
    asked = api(endpoint)
    job = cloud._job("startVirtualMachine", lambda: cloud._start(a_vm()))["jobid"]
    cloud.stock = 0
    with pytest.raises(
        InsufficientCapacity, match="startVirtualMachine with 533: Unable to create a deployment"
    ):
        asked.result("startVirtualMachine", job, lambda _: True)


def a_vm() -> dict[str, object]:
    return {"id": "i", "name": "cpu-1", "affinitygroup": [], "cpunumber": 1, "memory": 1}


def test_owners_are_projects_accounts_of_domains_or_who_the_keys_are_of(cloud: Cloud, endpoint: str) -> None:
    assert api(endpoint).owner == {}
    assert api(endpoint, project="physics").owner == {"projectid": cloud.projects[0]["id"]}
    science = {"account": "lab", "domainid": cloud.domains[1]["id"]}
    assert api(endpoint, account="lab", domain="ROOT/science").owner == science
    with pytest.raises(NotThere, match="no project chemistry that these keys may see; there are physics"):
        _ = api(endpoint, project="chemistry").owner


def test_a_lost_answer_is_transient_and_the_work_is_done(cloud: Cloud, endpoint: str) -> None:
    cloud.lose = 1
    with pytest.raises(Transient, match="does not answer registerUserData"):
        api(endpoint).call("registerUserData", name="one", userdata="IyE=")
    assert len(cloud.user_data) == 1


@pytest.mark.parametrize(
    ("code", "text", "kind"),
    [
        (401, "unable to verify user credentials and/or request signature", NotAllowed),
        (432, "The given command 'x' either does not exist, is not available for user", NotAllowed),
        (429, "The given user has reached his/her account api limit", TooManyCalls),
        (431, "Invalid parameter id value=7 due to incorrect long value format, or entity does not exist", NotThere),
        (431, "The vm with hostName cpu-1 already exists in the network domain", Permanent),
        (532, "Maximum number of resources of type 'cpu' has been exceeded", QuotaReached),
        (535, "Maximum amount of resources of Type = 'user_vm' is exceeded", QuotaReached),
        (535, "Unable to create a deployment for VM instance", InsufficientCapacity),
        (533, "Unable to acquire Guest IP address", InsufficientCapacity),
        (530, "Unable to start a VM due to [Unable to create a deployment for VM instance {id: 101}].", InsufficientCapacity),
        (530, "Command failed due to Internal Server Error", Transient),
        (534, "Resource [DataCenter:1] is unreachable", Transient),
        (537, "The range specified conflicts with rule 7", Permanent),
        (530, "Extra config 'source' is not on the list of allowed keys for KVM hypervisor hosts", Permanent),
    ],
)  # fmt: skip
def test_errors_are_of_a_kind_by_code_and_words(code: int, text: str, kind: type[Exception]) -> None:
    made = failure("it", code, text)
    assert type(made) is kind
    assert issubclass(type(made), kind_of(str(made)))


def test_a_proxy_that_answers_is_no_cloudstack(endpoint: str) -> None:
    with pytest.raises(Transient, match="does not answer listZones"):
        api("http://127.0.0.1:9/client/api").zone("zone-1")


def test_a_package_that_is_not_installed_is_told_with_what_installs_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "cs.client", None)
    with pytest.raises(Permanent, match=r"cs.* is not installed; run: .venv/bin/pip install cs==5.2.0"):
        ApiLocation("http://127.0.0.1:9/client/api").open()


def test_keys_are_those_of_the_endpoint_of_the_spec(
    endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ENDPOINT", "KEY", "SECRET", "CONFIG", "REGION"):
        monkeypatch.delenv(f"CLOUDSTACK_{name}", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    where = ApiLocation(endpoint)
    with pytest.raises(Permanent, match=r"there are no keys of CloudStack .*set CLOUDSTACK_ENDPOINT"):
        where.open()
    ini = tmp_path / ".cloudstack.ini"
    ini.write_text(f"[cloudstack]\nendpoint = http://elsewhere/client/api\nkey = {KEY}\nsecret = {SECRET}\n")
    with pytest.raises(Permanent, match="the keys are those of http://elsewhere/client/api"):
        where.open()
    ini.write_text(f"[cloudstack]\nendpoint = {endpoint}\nkey = {KEY}\nsecret = {SECRET}\n")
    assert where.open().zone("zone-1")["name"] == "zone-1"
    monkeypatch.setenv("CLOUDSTACK_ENDPOINT", endpoint)
    with pytest.raises(Permanent, match="no key or no secret"):
        where.open()
    monkeypatch.setenv("CLOUDSTACK_KEY", KEY)
    monkeypatch.setenv("CLOUDSTACK_SECRET", SECRET)
    opened = where.open()
    assert opened.zone("zone-1")["name"] == "zone-1"
    assert SECRET not in repr(opened)
