"""schemathesis on the description that the service serves: no 500 ever, only statuses that are written there."""

from __future__ import annotations

import zlib
from collections import Counter

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import content_type_conformance, status_code_conformance
from served import serve

from pipemagic.service import openapi

CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance]
EXAMPLES = 8  # for each of some 80 operations

schema = schemathesis.openapi.from_dict(openapi.description())
schema.config.generation.update(modes=[GenerationMode.POSITIVE, GenerationMode.NEGATIVE])

KNOWN = {"org": "local", "group": "g", "db": "db", "location": "fra", "slug": "local", "name": "ci", "instance": "ams"}
seen: Counter[int] = Counter()
FINAL = {"/v1/auth/invalidate", "/v1/auth/password"}  # would lock the fuzzer out


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("fuzz") / "data", "--port", "0") as service:
        service.create("db")
        yield service, service.token("db")


@schema.exclude(path=list(FINAL)).parametrize()
@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)  # fmt: skip
def test_no_input_makes_the_service_fail(case, service):
    running, database_token = service
    platform = any("platform" in one for one in case.operation.definition.raw.get("security", []))
    token = running.platform_token if platform else database_token
    # Names that exist let a case reach what is behind the look-up; every other one is tried as it was drawn.
    if zlib.crc32(repr(case.body).encode()) % 2:
        case.path_parameters = {name: KNOWN.get(name, value) for name, value in (case.path_parameters or {}).items()}
    headers = {"Authorization": f"Bearer {token}"}
    answer = case.call_and_validate(base_url=running.url, headers=headers, checks=CHECKS, timeout=20)
    assert running.process.poll() is None
    seen[answer.status_code] += 1


def test_the_cases_reached_what_is_behind_the_checks():
    assert seen[200] > 50
    assert seen[400] > 20
    assert seen[404] > 20
