"""Call the management API of a service as one of its accounts."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from asgi_calls import call

from pipemagic.service.service import Service


@dataclass
class Person:
    """One account with a platform token."""

    service: Service
    name: str
    token: str

    def call(self, method: str, path: str, body: Any = None, query: dict[str, str] | None = None) -> tuple[int, Any]:
        """Return the status and the parsed body; every 200 has a JSON body."""
        headers = {"host": "127.0.0.1:8080", "authorization": f"Bearer {self.token}"}
        data = b"" if body is None else json.dumps(body).encode()
        response = call(self.service, method, path, headers=headers, body=data, query=query)
        raw = response.read()
        if response.status == 200:
            assert response.content_type == "application/json"
        return response.status, json.loads(raw) if raw else None

    def ok(self, method: str, path: str, body: Any = None, query: dict[str, str] | None = None) -> Any:
        """Return the body of a 200."""
        status, answer = self.call(method, path, body, query)
        assert status == 200, answer
        return answer

    def refused(self, method: str, path: str, body: Any = None, query: dict[str, str] | None = None) -> tuple[int, str]:
        """Return the status and the text of an error; check the members that clients read."""
        status, answer = self.call(method, path, body, query)
        assert answer["error"] == answer["message"]
        assert answer["code"]
        return status, answer["error"]

    def status(self, method: str, path: str, body: Any = None) -> int:
        """Return the status."""
        return self.call(method, path, body)[0]


def person(service: Service, name: str) -> Person:
    """Return the account of that name, created if necessary; without a password, whose hash takes long."""
    account = service.catalog.accounts.find(name) or service.catalog.open_account(name)
    known = len(service.catalog.accounts.tokens(account))
    return Person(service, name, service.tokens.issue_platform(account, f"test-{known}")[1])
