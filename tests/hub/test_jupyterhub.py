"""A real JupyterHub: a teacher creates a class there, and students run cells without an address or a token."""

from __future__ import annotations

import csv
import shutil
import sys

import httpx
import pytest
from client_packages import CannotInstall
from hub import Programs, running_hub

ROSTER = "name,email\nAda Lovelace,Ada@example.org\nJörg Müller,joerg@example.org\n"
STUDENTS = {"ada": "Ada Lovelace", "joerg": "Jörg Müller"}
"""The students by the names of their users."""
PIPEMAGIC = f"!{sys.executable} -m pipemagic"


@pytest.fixture(scope="module")
def hub(request, tmp_path_factory):
    try:
        programs = Programs.install(request.config.cache.mkdir("hub"))
    except CannotInstall as reason:
        pytest.skip(str(reason))
    with running_hub(tmp_path_factory.mktemp("hub"), programs) as hub:
        yield hub


@pytest.fixture(scope="module")
def seats(hub):
    """The hand-outs of a class, by student; root copies them to the place that the hub reads."""
    hub.home("teacher").mkdir()
    (hub.home("teacher") / "roster.csv").write_text(ROSTER, "utf-8")
    with hub.kernel("teacher") as kernel:
        assert "lessons" in kernel.run(f"{PIPEMAGIC} group create lessons --location ams")
        assert "words" in kernel.run(f"{PIPEMAGIC} db create words --group lessons")
        kernel.run(f"{PIPEMAGIC} db shell words \"CREATE TABLE words(word); INSERT INTO words VALUES ('one')\"")
        said = kernel.run(f"{PIPEMAGIC} class create roster.csv --group lessons --from words --name sql-1")
        assert "sql-1: 2 students, tokens until" in said
    handouts = hub.home("teacher") / "sql-1-handouts.csv"
    shutil.copy(handouts, hub.folder / "handouts.csv")
    with handouts.open(newline="", encoding="utf-8-sig") as file:
        return {seat["student"]: seat for seat in csv.DictReader(file)}


def test_addresses_are_those_behind_the_proxy(hub, seats):
    assert {seat["address"] for seat in seats.values()} == {hub.service}


def test_the_name_of_the_hub_is_that_of_the_service_and_others_are_refused(hub):
    assert httpx.get(f"{hub.service}/version").status_code == 200
    assert httpx.get(f"{hub.service}/version", headers={"host": "rebound.example.org"}).status_code == 421


@pytest.mark.parametrize("user", STUDENTS)
def test_a_student_types_no_address_and_no_token(hub, seats, user):
    with hub.kernel(user) as kernel:
        assert kernel.run("%load_ext pipemagic") == ""
        shown = kernel.run("%%sql\nSELECT word FROM words")
        assert "one" in shown
        assert kernel.run("%pipedb connect").startswith("Connected to localhost.\n")
        kernel.run(f"%%sql\nBEGIN; INSERT INTO words VALUES ('of {user}')")
        shown += kernel.run("%%sql\nCOMMIT; SELECT group_concat(word) AS words FROM words")
        assert f"of {user}" in shown
        assert not any(f"of {other}" in shown for other in set(STUDENTS) - {user})
        for token in [*(seat["token"] for seat in seats.values()), hub.platform_token]:
            assert token not in shown


def test_a_user_who_is_in_no_class_gets_a_server_without_a_database(hub, seats):
    with hub.kernel("eve") as kernel:
        found = kernel.run("import os; print([name for name in os.environ if name.startswith('PIPEMAGIC_')])")
        assert found.strip() == "[]"
