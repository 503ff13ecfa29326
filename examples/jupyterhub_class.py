"""Configuration of a JupyterHub for a class: one service for all, and each student connected to their own database.

On The Littlest JupyterHub, copy it to /opt/tljh/config/jupyterhub_config.d/ (docs/teachers/hub.md). It runs in the
environment of the hub, without pipemagic; ``c`` is the configuration.
"""

import csv
from pathlib import Path
from urllib.parse import urlsplit

HUB = "https://hub.example.org"  # the address of the hub
TEACHERS = {"teacher"}  # users who create classes; they have all rights on the service
PIPEMAGIC = "/opt/tljh/user/bin/pipemagic"
USER = "pipemagic"  # the system user of the service
DATA = Path("/var/lib/pipemagic/data")  # the databases; only that user and root can open it
PORT = 10101  # of the service, on 127.0.0.1
HANDOUTS = Path("/opt/tljh/state/class-handouts.csv")  # of `pipemagic class create`; only root can open it

SERVICE = f"{HUB}/services/sql"

c.JupyterHub.services.append({  # noqa: F821
    "name": "sql",
    "url": f"http://127.0.0.1:{PORT}",
    "command": [PIPEMAGIC, "class", "serve", "--data", str(DATA), "--domain", urlsplit(HUB).hostname],
    "user": USER,
    "display": False,
})  # fmt: skip


def seats_of(user):
    """Return the lines of the hand-outs for a user; none before the class was created.

    The name of the user is the student's email address, the part of it before the @, or the name in the roster.
    """
    try:
        with HANDOUTS.open(newline="", encoding="utf-8-sig") as file:
            seats = list(csv.DictReader(file))
    except FileNotFoundError:
        return []
    found = []
    for seat in seats:
        names = (seat["student"], seat["email"], seat["email"].partition("@")[0])
        if user.casefold() in [name.casefold() for name in names]:
            found.append(seat)
    return found


def connect_user(spawner):
    """Set the address and the token in the environment of a user's server: a student's database, or the teacher's API.

    Other users get a server without them, and so do students whose name matches several lines.
    """
    user, token_file = spawner.user.name, DATA / "platform-token"
    if user in TEACHERS and token_file.exists():  # the service creates it at its first start
        variables = {"PIPEMAGIC_API_URL": SERVICE, "PIPEMAGIC_API_TOKEN": token_file.read_text().strip()}
    else:
        found = seats_of(user)
        if len(found) != 1:
            spawner.log.warning("pipemagic: %d lines of the hand-outs match the user %s", len(found), user)
            return
        variables = {"PIPEMAGIC_URL": found[0]["address"], "PIPEMAGIC_TOKEN": found[0]["token"]}
    spawner.environment = {**spawner.environment, **variables}


c.Spawner.pre_spawn_hook = connect_user  # noqa: F821
