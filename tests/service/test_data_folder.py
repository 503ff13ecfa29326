"""The data folders that a service accepts. `test_process` has those of temporary services."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

import pipemagic
from pipemagic.config import make_private_folder, private_lock
from pipemagic.errors import ServiceError
from pipemagic.service.catalog.catalog import Catalog
from pipemagic.service.files import (
    CATALOG_FILE,
    DATABASES_FOLDER,
    KEY_FILE,
    LOCK_FILE,
    LOG_FILE,
    PLATFORM_TOKEN_FILE,
    PRIMARY_FILE,
    PROBE_LOCK_FILE,
    START_LOCK_FILE,
    UNFINISHED_FILE,
    check_data_folder,
)

MAIN = Path(pipemagic.__file__).parent / "service" / "__main__.py"
STRANGER = 54321

posix = pytest.mark.skipif(os.name != "posix", reason="owners and file modes are those of POSIX")


@pytest.fixture
def folder(tmp_path):
    folder = tmp_path / "data"
    folder.mkdir(mode=0o700)
    return folder


# -- access


@posix
def test_a_new_folder_is_private(tmp_path):
    make_private_folder(tmp_path / "a" / "data")
    assert stat.S_IMODE((tmp_path / "a" / "data").stat().st_mode) == 0o700


@posix
def test_a_folder_of_another_user_is_refused(folder, give_away):
    give_away(folder)
    with pytest.raises(ServiceError, match="belongs to another user") as refused:
        make_private_folder(folder)
    assert "--data" in refused.value.hint


@posix
@pytest.mark.parametrize("name", [PLATFORM_TOKEN_FILE, KEY_FILE, CATALOG_FILE])
def test_a_file_that_another_user_planted_is_refused(folder, give_away, name):
    """Whoever created a token, a key or a catalog would have access."""
    (folder / name).write_text("planted")
    (folder / name).chmod(0o600)
    check_data_folder(folder)
    give_away(folder / name)
    with pytest.raises(ServiceError, match=f"{name} belongs to another user"):
        check_data_folder(folder)


@posix
@pytest.mark.parametrize("name", [PLATFORM_TOKEN_FILE, LOCK_FILE, LOG_FILE])
def test_a_link_that_another_user_planted_is_refused(folder, tmp_path, monkeypatch, name):
    """The content of its target may be known, or the service would write to it."""
    (tmp_path / "known").write_text("pmp_known")
    (folder / name).symlink_to(tmp_path / "known")
    make_private_folder(folder)
    if os.getuid() == 0:
        os.chown(folder / name, STRANGER, -1, follow_symlinks=False)
    else:
        status = (folder / name).lstat()
        foreign = os.stat_result((*status[:4], STRANGER, *status[5:]))
        monkeypatch.setattr(Path, "lstat", lambda _: foreign)
    with pytest.raises(ServiceError, match=f"{name} belongs to another user"):
        make_private_folder(folder)


@posix
@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_folder_that_others_can_write_to_is_refused_and_keeps_its_mode(folder, mode):
    folder.chmod(mode)
    with pytest.raises(ServiceError, match="other users can write to") as refused:
        make_private_folder(folder)
    assert f"chmod 700 '{folder}'" in refused.value.hint
    assert stat.S_IMODE(folder.stat().st_mode) == mode


@posix
def test_a_folder_that_all_users_share_is_refused_without_a_chmod_hint(folder):
    folder.chmod(0o1777)
    with pytest.raises(ServiceError, match="shared by all users") as refused:
        make_private_folder(folder)
    assert "chmod" not in refused.value.hint


@posix
def test_others_may_list_a_folder_of_private_files(folder):
    folder.chmod(0o755)
    key = folder / KEY_FILE
    key.touch(0o600)
    make_private_folder(folder)
    check_data_folder(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    key.chmod(0o640)
    with pytest.raises(ServiceError, match="other users have access") as refused:
        check_data_folder(folder)
    assert "chmod 700" in refused.value.hint
    folder.chmod(0o700)
    check_data_folder(folder)


# -- locks


@pytest.fixture
def usual_umask():
    """The umask of most machines."""
    before = os.umask(0o022)
    yield
    os.umask(before)


@posix
def test_a_lock_is_private(folder, usual_umask):
    folder.chmod(0o755)
    path = folder / LOCK_FILE
    with private_lock(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    path.chmod(0o644)  # as an earlier version made it
    with private_lock(path):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600


@posix
@pytest.mark.parametrize("mode", [0o644, 0o640, 0o604, 0o606])
@pytest.mark.parametrize("name", [LOCK_FILE, START_LOCK_FILE, PROBE_LOCK_FILE])
def test_a_lock_that_others_can_hold_is_refused(folder, name, mode):
    folder.chmod(0o755)
    lock = folder / name
    lock.touch()
    lock.chmod(mode)
    with pytest.raises(ServiceError, match=f"other users can hold the lock {lock}") as refused:
        check_data_folder(folder)
    assert refused.value.code == "DATA_FOLDER"
    assert refused.value.hint == f"run: chmod 600 '{lock}'"
    folder.chmod(0o700)  # nobody else can open the file
    check_data_folder(folder)


@posix
def test_one_command_corrects_all_locks(folder):
    folder.chmod(0o755)
    locks = [folder / name for name in (LOCK_FILE, PROBE_LOCK_FILE, START_LOCK_FILE)]
    for lock in locks:
        lock.touch()
        lock.chmod(0o644)
    with pytest.raises(ServiceError) as refused:
        check_data_folder(folder)
    subprocess.run(refused.value.hint.removeprefix("run: "), shell=True, check=True)
    check_data_folder(folder)
    assert {stat.S_IMODE(lock.stat().st_mode) for lock in locks} == {0o600}


# -- the catalog


def without_tables(path):
    with closing(apsw.Connection(str(path))) as connection:
        connection.pragma("journal_mode", "wal")


def without_rows(path):
    Catalog(path).close()


CATALOGS = {"missing": lambda _: None, "empty": Path.touch, "no tables": without_tables, "no rows": without_rows}


@pytest.mark.parametrize("create", CATALOGS.values(), ids=CATALOGS)
def test_databases_without_a_catalog_are_not_served_as_a_new_folder(folder, create):
    (folder / DATABASES_FOLDER / "8c4a").mkdir(parents=True)
    (folder / DATABASES_FOLDER / "8c4a" / PRIMARY_FILE).touch()
    create(folder / CATALOG_FILE)
    command = [sys.executable, "-P", MAIN, "--data", folder, "--idle-timeout", "0"]
    line = json.loads(subprocess.run(command, stdout=subprocess.PIPE, timeout=60, check=False).stdout)
    assert "catalog.sqlite is missing or lists no databases" in line.get("error", "")
    assert "restore catalog.sqlite" in line["hint"]
    assert not (folder / PLATFORM_TOKEN_FILE).exists()


@pytest.mark.parametrize("name", [".DS_Store", "8c4a/"])
def test_a_folder_without_databases_gets_a_catalog(folder, name):
    """A database has a folder with a file in it; the folder alone is left when its creation fails on a full disk."""
    (folder / DATABASES_FOLDER).mkdir()
    path = folder / DATABASES_FOLDER / name
    path.mkdir() if name.endswith("/") else path.touch()
    (folder / CATALOG_FILE).touch(0o600)
    check_data_folder(folder)


def test_a_database_whose_creation_was_interrupted_needs_no_catalog(folder):
    (folder / DATABASES_FOLDER / "8c4a").mkdir(parents=True)
    for name in (PRIMARY_FILE, UNFINISHED_FILE):
        (folder / DATABASES_FOLDER / "8c4a" / name).touch()
    check_data_folder(folder)


@pytest.mark.parametrize(
    "damage", [lambda path: path.write_bytes(b"no database" * 1000), lambda path: older(path), Path.mkdir]
)
def test_a_catalog_that_cannot_be_read_is_reported_as_such(folder, damage):
    """`catalog.store` refuses it with the reason."""
    (folder / DATABASES_FOLDER / "8c4a").mkdir(parents=True)
    (folder / DATABASES_FOLDER / "8c4a" / PRIMARY_FILE).touch()
    damage(folder / CATALOG_FILE)
    (folder / CATALOG_FILE).chmod(0o700)
    check_data_folder(folder)


def older(path):
    with closing(apsw.Connection(str(path))) as connection:
        connection.pragma("user_version", 1)


def test_files_of_deleted_databases_belong_to_the_catalog(folder):
    (folder / DATABASES_FOLDER / "8c4a").mkdir(parents=True)
    (folder / DATABASES_FOLDER / "8c4a" / PRIMARY_FILE).touch()
    with closing(Catalog(folder / CATALOG_FILE)) as catalog:
        with catalog.store.change() as run:
            run("INSERT INTO deleted_databases VALUES ('8c4a', 0)", ())
        check_data_folder(folder)  # the row is in the WAL only, as after a crash
