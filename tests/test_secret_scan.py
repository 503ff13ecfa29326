"""Texts that are reported as tokens, passwords or private hosts, and texts that are not."""

from __future__ import annotations

import base64
import random

import pytest

from pipemagic import secret_scan
from pipemagic.secret_scan import find_secrets, is_secret_entry, mask

JWT = "eyJhbGciOiJFZERTQSIsInR5cCI6IkpXVCJ9.eyJhIjoicnciLCJpYXQiOjE3MDB9.c2lnbmF0dXJlLW9mLWl0"

# Joined here, so that secret scanners do not report this file.
SECRETS = {
    JWT: "token (JWT)",
    "pmp_" + "0a1B2c3D4e5F6g7H8i9J": "platform token",
    "pml_" + "0a1B2c3D4e5F6g7H8i9J": "platform token",
    "AKIA" + "IOSFODNN7EXAMPLE": "AWS access key",
    "AIza" + "SyA1234567890abcdefghijklmnopqrstuv": "Google API key",
    "ghp_" + "a1B2c3D4e5" * 4: "GitHub token",
    "github_pat_" + "11ABCDEFG0" * 4: "GitHub token",
    "glpat-" + "abcDEF123456ghiJKL78": "GitLab token",
    "xoxb-" + "123456789012-abcdefGHIJ": "Slack token",
    "sk_live_" + "4eC39HqLyjWDarjtT1zdp7dc": "Stripe key",
    "sk-proj-" + "a1B2c3D4e5F6g7H8i9J0k1L2": "AI provider key",
    "hf_" + "abcdefghijKLMNOPQRSTuvwxyzABCDEFGH": "Hugging Face token",
    "npm_" + "a1B2c3D4e5F6" * 3: "package index token",
    "dapi" + "0123456789abcdef" * 2: "Databricks token",
    "-----BEGIN RSA " + "PRIVATE KEY-----": "private key",
}
HERE = {
    "Authorization: Bearer abcdef0123456789ABCDEF": ("bearer token", "abcdef0123456789ABCDEF"),
    "libsql://db.example.io?authToken=abc.def-1": ("token in an address", "abc.def-1"),
    "https://db.example.io/x?a=1&access_token=zyx987654": ("token in an address", "zyx987654"),
    "postgresql://me:hunter2@db.example.io/x": ("password in an address", "hunter2"),
    "libsql://:hunter2@db.example.io": ("password in an address", "hunter2"),
    "turso://:hunter2@db.example.io": ("password in an address", "hunter2"),
    "password = 'hunter2'": ("password", "hunter2"),
    "connect(user='me', password=\"hunter2\")": ("password", "hunter2"),
    "{'db_password': 'hunter2'}": ("password", "hunter2"),
    'os.environ["PGPASSWORD"] = "hunter2"': ("password", "hunter2"),
    r"{\"password\": \"hunter2\"}": ("password", "hunter2"),
    "api_key = 'a1b2c3d4e5f6'": ("token", "a1b2c3d4e5f6"),
    "%env PIPEMAGIC_TOKEN=a1b2c3d4e5f6": ("token", "a1b2c3d4e5f6"),
    "x\n!export DB_PASSWORD=hunter22\ny": ("password", "hunter22"),
    "DefaultEndpointsProtocol=https;AccountKey=" + "aB3/" * 12 + "==": ("Azure key", "aB3/" * 12 + "=="),
    "ping 10.1.2.3 now": ("private host", "10.1.2.3"),
    "http://192.168.0.17:8080/x": ("private host", "192.168.0.17"),
    "at 172.31.255.1, 100.64.0.1": ("private host", "172.31.255.1"),
    "169.254.169.254": ("private host", "169.254.169.254"),
    "http://[fd12:3456::1]:8080": ("private host", "fd12:3456::1"),
    "libsql://warehouse:8080": ("private host", "warehouse"),
    "turso://warehouse:8080": ("private host", "warehouse"),
    "https://me@warehouse/x": ("private host", "warehouse"),
    "https://warehouse.corp/x": ("private host", "warehouse.corp"),
    "ConnectError: db-1.prod.internal does not answer": ("private host", "db-1.prod.internal"),
    'connect("warehouse.lan")': ("private host", "warehouse.lan"),
    "warehouse.intranet:5432": ("private host", "warehouse.intranet"),
}  # fmt: skip
FINE = [
    "http://127.0.0.1:8080 http://localhost/x http://flights-local.localhost:8080 http://[::1]:8080 0.0.0.0",
    "https://flights-acme.example.io/v2/pipeline",
    "8.8.8.8 and 172.15.0.1 and 172.32.0.1 and 100.63.0.1 and 1.10.2.3.4",
    "pandas==10.1.2.3", "version 2.10.0.1.5", "xmlns='http://www.w3.org/2000/svg'",
    "file:///etc/passwd", "sqlite:///x.db",
    "https://HOST:PORT http://host:8080 https://{host}/x http://$HOST/ http://<host>/", "%pipedb connect ADDRESS",
    "password = getpass.getpass('Password: ')", 'getpass("Password: "); connect("x")', "password=password, token=token",
    "password = os.environ['PGPASSWORD']", "token = tokenizer('hello')", "pad_token = '[PAD]'", "sep_token='<sep>'",
    "password = '***'", "password='<your password>'", 'password="{password}"', "authToken=...", "?authToken=$TOKEN",
    "--token-env FLIGHTS_TOKEN", "token_type = 'bearer'", "a bearer authentication-scheme is needed", "Secret(***)",
    "threading.local() self.internal np.lan x.local = 3 import pkg.internal", "the word local. internal, corp.",
    "sk-learn-contrib-is-a-very-long-hyphenated-name", "'next_token': 'abc'", "key = 'flights'", "user:name@x",
    "git@github.com:me/repo.git", "mailto:me@example.io", "https://github.com/a/b@v1:2",
]  # fmt: skip


@pytest.mark.parametrize(("secret", "kind"), SECRETS.items(), ids=list(SECRETS.values()))
@pytest.mark.parametrize(
    "around", ["{}", "'{}'", "x = {},", "<b>{}</b>", "({})", "a {} b", "https://x.io/?a={}&b", "\n{}\n"]
)
def test_a_secret_is_found_in_any_context(secret, kind, around):
    found = [item for item in find_secrets(around.format(secret)) if item.text in secret or secret in item.text]
    assert found
    assert found[0].kind in (kind, "token in an address")


@pytest.mark.parametrize(("text", "expected"), HERE.items(), ids=list(HERE))
def test_the_kinds_of_findings(text, expected):
    (first, *_) = sorted(find_secrets(text), key=lambda secret: secret.start)
    assert (first.kind, first.text) == expected
    assert text[first.start :].startswith(first.text)


@pytest.mark.parametrize("text", FINE)
def test_texts_that_are_not_reported(text):
    assert list(find_secrets(text)) == []


def test_nothing_is_found_in_random_base64():
    data = random.Random(7).randbytes(300_000)
    assert list(find_secrets(base64.b64encode(data).decode())) == []
    assert list(find_secrets(base64.encodebytes(data).decode())) == []


def test_a_mask_shows_little():
    assert mask(JWT) == "eyJh***"
    assert mask("hunter2") == "h***"
    assert mask("abc") == "***"


@pytest.mark.parametrize(
    ("key", "value", "secret"),
    [("password", "hunter2", True), ("db_secret", "abcd", True), ("apiKey", "a1b2c3d4e5", True),
     ("password", "<none>", False),
     ("token", "hello", False), ("type", "password", False), ("secretary", "Anna", False)],
)  # fmt: skip
def test_keys_and_values_of_json(key, value, secret):
    assert is_secret_entry(key, value) is secret


def test_the_name_of_this_machine(monkeypatch):
    for name, found in [("Annas-Laptop", ["annas-laptop"]), ("laptop", [])]:
        monkeypatch.setattr(secret_scan.socket, "gethostname", lambda name=name: name)
        secret_scan._own_host_name.cache_clear()
        assert [item.text for item in find_secrets("on annas-laptop, a laptop (annas-laptop2)")] == found
    secret_scan._own_host_name.cache_clear()
