"""schemathesis on the OpenAPI description: no response is a 500, and all statuses are documented."""

from __future__ import annotations

from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance
from served import serve

from pipemagic.service.api import openapi

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance]
KNOWN = {
    "org": "local", "group": "g", "db": "db", "location": "fra", "slug": "local", "name": "ci", "instance": "ams",
    "username": "local",
}  # fmt: skip
FINAL = {"/v1/auth/invalidate", "/v1/auth/password"}  # would revoke the fuzzer's access


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("fuzz") / "data", "--port", "0", "--allow-signup") as service:
        service.create("db")
        yield service, service.token("db")


def operations():
    schema = schemathesis.openapi.from_dict(openapi.description())
    schema.config.generation.update(modes=list(GenerationMode))
    return [result.ok() for result in schema.exclude(path=list(FINAL)).get_all_operations()]


def test_no_input_causes_an_internal_error(service, soak):
    """Test all operations: those that schemathesis parametrizes share a name, so pytest-xdist would run only one."""
    seen: Counter[int] = Counter()
    unread = []
    for operation in operations():
        statuses = fuzz(operation, service, 30 if soak else 3)
        seen += statuses
        if operation.method.upper() == "GET" and not statuses[200]:
            unread.append(operation.label)
    # The cases got past the checks of tokens, names and bodies, and were also refused by these.
    assert not unread
    assert {400, 404} <= set(seen)


def fuzz(operation, service, examples):
    """Send cases of an operation, and return the statuses of the responses."""
    running, database_token = service
    running.create("db")  # an operation may have deleted it
    running.manage("POST", "/groups/g/locations/fra").raise_for_status()
    platform = any("platform" in scheme for scheme in operation.definition.raw.get("security", []))
    headers = {"Authorization": f"Bearer {running.platform_token if platform else database_token}"}
    statuses: Counter[int] = Counter()

    @settings(
        max_examples=examples, deadline=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck), database=None,
    )  # fmt: skip
    @given(case=st.one_of([operation.as_strategy(generation_mode=mode) for mode in GenerationMode]), keep=st.booleans())
    def send(case, keep):
        if not keep:  # the first case has existing names, so it gets past the lookup
            known = {name: KNOWN.get(name, value) for name, value in (case.path_parameters or {}).items()}
            case.path_parameters = known
        answer = case.call_and_validate(base_url=running.url, headers=headers, checks=CHECKS, timeout=120)
        assert running.process.poll() is None
        statuses[answer.status_code] += 1

    send()
    return statuses
