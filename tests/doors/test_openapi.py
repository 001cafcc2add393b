"""What the document says is so: made-up calls of every operation get only what it lists, and no failure of ours."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings as hypothesis_settings
from schemathesis.checks import CHECKS

from cellhouse.doors.app import make_api
from cellhouse.doors.limits import DoorLimits
from cellhouse.doors.metrics import Metrics
from cellhouse.doors.tenants import Tenants
from tests.doors import serving
from tests.runtime.support import settings

HELD = [
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
    "unsupported_method",
    "allow_header_conformance",
]
EXAMPLES = 12
KNOWN = {"runtime": serving.RUNTIME, "session": serving.SESSION, "execution": serving.EXECUTION, "index": 0}


def document() -> dict[str, Any]:
    """Without a service that runs: the document depends on nothing of one."""
    limits = DoorLimits()
    tenants = Tenants(settings(Path("/nowhere")), limits)
    return make_api(tenants, limits, Metrics(tenants)).openapi()


schema = schemathesis.openapi.from_dict(document())


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    directory = tmp_path_factory.mktemp("service") / "state"
    command = [sys.executable, "-m", "tests.doors.serving", str(directory)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.terminate()


@pytest.mark.slow
@pytest.mark.parametrize("known", [False, True], ids=["any", "known"])
@schema.parametrize()
@hypothesis_settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
def test_an_operation_answers_as_the_document_says(case: Any, known: bool, url: str) -> None:
    if known and case.path_parameters:
        case.path_parameters.update({name: KNOWN[name] for name in case.path_parameters if name in KNOWN})
    response = case.call_and_validate(base_url=url, checks=CHECKS.get_by_names(HELD), timeout=20)
    # That a caller did not want to wait (504), or a disk is full (507), is no failure of ours.
    assert response.status_code != 500, response.text
