"""Real requests and responses of the service, as examples in the reference of its APIs; api_calls.txt lists them."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import httpx

from pipemagic.service.api.openapi import description
from pipemagic.service.app import create_app
from pipemagic.service.endpoint import Runtime
from pipemagic.service.metrics import Metrics
from pipemagic.service.service import Service

CALLS = Path(__file__).with_name("api_calls.txt").read_text("utf-8").splitlines()[1:]
NEW_YEAR = 1_767_225_600.0  # 2026-01-01T00:00:00Z
SHORT = ("FLIGHTS", "EDGE", "ACME")
LONG = ("ACME/databases/flights", "ACME/groups/edge", "/v1/organizations/acme")
SECRET = re.compile(r'"(eyJ|pml_|pmp_)[^"]*"|(?<="baton":)"[^"]+"|(?<="baton": )"[^"]+"')
MANY = 2  # entries of a long list
FLIGHTS = f"{LONG[2]}/databases/flights"
TAKEN = [
    ("ada", "token", "/v1/auth/login"), ("flights", "jwt", f"{FLIGHTS}/auth/tokens"),
    ("id", "id", "/v1/auth/api-tokens/ci"), ("code", "code", f"{FLIGHTS}/auth/codes"),
]  # fmt: skip
"""What later requests send: a name, the member of the response that has it, and the beginning of the path."""


class Example(NamedTuple):
    """A request and its response; a body that is None is missing, a response in lines is text."""

    path: str
    body: Any
    response: Any


@cache
def examples() -> dict[tuple[str, str], Example]:
    """Run the requests in a service over a temporary folder; return them by method and path of the description."""
    for name in ("httpx", "pipemagic"):
        logging.getLogger(name).setLevel(logging.WARNING)  # the build prints only problems
    with TemporaryDirectory(prefix="pipemagic-docs-", ignore_cleanup_errors=True) as folder:
        service = Service(Path(folder), now=lambda: NEW_YEAR, signup=True)
        service.start()
        try:
            return asyncio.run(_run(service))
        finally:
            service.close()


async def _run(service: Service) -> dict[tuple[str, str], Example]:
    app, found = create_app(service, Runtime(), metrics=Metrics()), {}

    async def with_state(scope: Any, receive: Any, send: Any) -> None:
        """Call the service as uvicorn does."""
        await app({**scope, "state": {}}, receive, send)

    operator = service.catalog.accounts.find("local") or service.catalog.open_account("local")
    values = {"operator": service.tokens.issue_platform(operator, "docs")[1], "-": ""}  # tokens, an id and a code
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=with_state)) as client:
        for line in CALLS:
            sender, method, path, *text = line.split(" ", 3)
            for short, long in zip(SHORT, LONG, strict=True):
                path = path.replace(short, long)
            sent = "".join(text).replace("CODE", values.get("code", ""))
            address = f"http://{'flights-acme.localhost' if sender == 'flights' else '127.0.0.1'}:8080"
            headers = {"Authorization": f"Bearer {values[sender]}"} if values[sender] else {}
            headers |= {"Content-Type": "application/json"} if sent else {}
            response = await client.request(
                method, address + path.replace("{id}", values.get("id", "")), content=sent, headers=headers
            )
            if response.status_code != 200:
                raise RuntimeError(f"{line}: {response.status_code} {response.text}")
            is_json = response.headers.get("content-type") == "application/json"
            received = response.json() if is_json else {}
            for name, key, start in TAKEN:
                if path.startswith(start):
                    values[name] = received[key]
            body = json.loads(sent.replace(values.get("code") or "\0", "K7QF2MXB")) if sent else None
            shown = SECRET.sub('"…"', response.text.strip()).replace(values.get("code") or "\0", "K7QF2MXB")
            found[method, _template(method, path)] = Example(
                path, body, _short(json.loads(shown)) if is_json else shown
            )
    return found


def _template(method: str, path: str) -> str:
    """Return the path of the description that a request has; exact ones first."""
    for template in sorted(description()["paths"], key=lambda text: text.count("{")):
        pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(template))
        if method.lower() in description()["paths"][template] and re.fullmatch(pattern, path.partition("?")[0]):
            return str(template)
    raise RuntimeError(f"{method} {path} is not described")


def _short(value: Any, key: str = "") -> Any:
    """Leave out all but the first locations."""
    if isinstance(value, dict):
        most = MANY if key in ("locations", "aws", "fly") else None
        return {name: _short(item, name) for name, item in list(value.items())[:most]}
    return [_short(item) for item in value[: MANY if key == "closest" else None]] if isinstance(value, list) else value
