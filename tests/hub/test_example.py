"""The configuration in examples/: the service, and what its hook puts into the environment of a user's server."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import pytest
from hub import example

from pipemagic.teaching.classes.commands import handouts_csv
from pipemagic.teaching.classes.model import Class, Seat

HUB = "https://hub.example.org"
SERVICE = f"{HUB}/services/sql"
STUDENTS = [("Ada Lovelace", "Ada@example.org"), ("Jörg Müller", "joerg@example.org"), ("Jörg", "joerg@example.com"),
            ("Zoë", "")]  # fmt: skip


@pytest.fixture
def configured(tmp_path):
    """Return the configuration after the example was read, and the folder that it reads."""
    c = SimpleNamespace(JupyterHub=SimpleNamespace(services=[]), Spawner=SimpleNamespace())
    constants = {"DATA": tmp_path, "HANDOUTS": tmp_path / "handouts.csv", "PIPEMAGIC": "/opt/bin/pipemagic"}
    exec(compile(example(**constants), "jupyterhub_class.py", "exec"), {"c": c})
    return c


@pytest.fixture
def environment(configured):
    """Run the hook for a user; return the environment of the user's server."""

    def run(user):
        spawner = SimpleNamespace(
            user=SimpleNamespace(name=user), environment={"KEPT": "yes"}, log=logging.getLogger("spawner")
        )
        configured.Spawner.pre_spawn_hook(spawner)
        assert spawner.environment.pop("KEPT") == "yes"
        return spawner.environment

    return run


@pytest.fixture
def handouts(tmp_path):
    """Write the hand-outs of a class."""
    seats = [
        Seat(
            key=student, student=student, email=email, database=f"sql-1-{number}", url=SERVICE, token=f"token-{number}"
        )
        for number, (student, email) in enumerate(STUDENTS)
    ]
    class_ = Class(name="sql-1", api="", organization="", group="g", seats=seats)
    (tmp_path / "handouts.csv").write_text(handouts_csv(class_), "utf-8-sig")


def test_the_service_gets_the_name_of_the_hub(configured, tmp_path):
    [service] = configured.JupyterHub.services
    assert service["url"] == "http://127.0.0.1:10101"
    assert service["command"] == [
        "/opt/bin/pipemagic", "class", "serve", "--data", str(tmp_path), "--domain", "hub.example.org"
    ]  # fmt: skip


@pytest.mark.parametrize(("user", "token"), [
    ("ada", "token-0"), ("ada@example.org", "token-0"), ("Ada Lovelace", "token-0"), ("joerg@example.com", "token-2"),
    ("jörg", "token-2"), ("zoë", "token-3"),
])  # fmt: skip
def test_a_student_gets_the_address_and_the_token(environment, handouts, user, token):
    assert environment(user) == {"PIPEMAGIC_URL": SERVICE, "PIPEMAGIC_TOKEN": token}


@pytest.mark.parametrize(("user", "count"), [("joerg", 2), ("eve", 0)])
def test_a_user_who_matches_no_line_or_several_gets_none(environment, handouts, caplog, user, count):
    assert environment(user) == {}
    assert f"{count} lines of the hand-outs match the user {user}" in caplog.text


def test_servers_start_before_the_class_was_created(environment):
    assert environment("ada") == {}


def test_a_teacher_gets_the_api(environment, tmp_path):
    assert environment("teacher") == {}
    (tmp_path / "platform-token").write_text("pmp_secret\n")
    assert environment("teacher") == {"PIPEMAGIC_API_URL": SERVICE, "PIPEMAGIC_API_TOKEN": "pmp_secret"}
