"""Alembic migrates a database up and down, finds differences from models, and rolls back a migration that fails."""

from __future__ import annotations

import re

import pytest
from page_examples import DOCS
from page_sections import fences

PAGE = DOCS / "analysts" / "libraries.md"
SCHEMA = "SELECT name, sql FROM sqlite_master WHERE name NOT LIKE 'alembic%' AND name NOT LIKE 'sqlite%' ORDER BY name"
FLEET = """
import sqlalchemy as sa
from alembic import op

revision, down_revision = "2b", "1a"


def upgrade():
    op.create_table("fleet", sa.Column("tail", sa.String(6)), sa.Column("code", sa.Text, sa.ForeignKey("airport.code")))
    op.create_index("fleet_code", "fleet", ["code"])
    op.add_column("airport", sa.Column("opened", sa.Date))
    op.execute("UPDATE airport SET feet = feet + 1")
    {then}


def downgrade():
    with op.batch_alter_table("airport") as airport:
        airport.drop_column("opened")
    op.drop_table("fleet")
    op.execute("UPDATE airport SET feet = feet - 1")
"""
MODELS = """
import sqlalchemy as sa

target_metadata = sa.MetaData()
sa.Table("airport", target_metadata, sa.Column("code", sa.Text, primary_key=True), sa.Column("feet", sa.Integer))
"""


@pytest.fixture
def project(libraries, target, tmp_path):
    """A folder that was set up as on the page, with the migration of the page."""
    first, _ = fences(PAGE, "Alembic", "sh")
    libraries.run(tmp_path, *first.split())
    [setting], [migration] = fences(PAGE, "Alembic", "ini"), fences(PAGE, "Alembic", "python")
    ini = tmp_path / "alembic.ini"
    text, count = re.subn(
        "^sqlalchemy.url = .*\n", target.addressed(setting), ini.read_text("utf-8"), flags=re.MULTILINE
    )
    assert count == 1
    ini.write_text(text, "utf-8")
    (tmp_path / "migrations" / "versions" / "1a_airport.py").write_text(migration, "utf-8")
    return tmp_path


def test_the_migration_of_the_page_goes_up_and_down(libraries, target, project):
    _, commands = fences(PAGE, "Alembic", "sh")
    up, down = commands.splitlines()
    libraries.run(project, *up.split())
    [(name, sql)] = target.rows(SCHEMA)
    assert (name, "feet INTEGER" in sql) == ("airport", True)
    assert target.rows("SELECT code, feet, typeof(feet) FROM airport") == [("DEN", 5431, "integer")]
    assert target.rows("SELECT version_num FROM alembic_version") == [("1a",)]
    libraries.run(project, *down.split())
    assert target.rows(SCHEMA) == []
    assert target.rows("SELECT version_num FROM alembic_version") == []


def test_a_second_migration_goes_up_and_down(libraries, target, project):
    libraries.run(project, "alembic", "upgrade", "head")
    before = target.rows(SCHEMA)
    (project / "migrations" / "versions" / "2b_fleet.py").write_text(FLEET.format(then=""), "utf-8")
    libraries.run(project, "alembic", "upgrade", "head")
    assert [name for name, _ in target.rows(SCHEMA)] == ["airport", "fleet", "fleet_code"]
    assert target.rows("SELECT * FROM airport") == [("DEN", 5432, None)]
    assert "2b (head)" in libraries.run(project, "alembic", "current")
    libraries.run(project, "alembic", "downgrade", "-1")
    assert [name for name, _ in target.rows(SCHEMA)] == [name for name, _ in before]
    assert target.rows("SELECT * FROM airport") == [("DEN", 5431)]


def test_a_migration_that_fails_leaves_the_schema_and_rows_as_they_were(libraries, target, project):
    libraries.run(project, "alembic", "upgrade", "head")
    before = target.rows(SCHEMA)
    fails = FLEET.format(then='op.execute("INSERT INTO nowhere VALUES (1)")')
    (project / "migrations" / "versions" / "2b_fleet.py").write_text(fails, "utf-8")
    assert "no such table: nowhere" in libraries.run(project, "alembic", "upgrade", "head", status=1)
    assert target.rows(SCHEMA) == before
    assert target.rows("SELECT * FROM airport") == [("DEN", 5431)]
    assert target.rows("SELECT version_num FROM alembic_version") == [("1a",)]


def test_differences_from_the_models_are_found(libraries, target, project):
    libraries.run(project, "alembic", "upgrade", "head")
    environment = project / "migrations" / "env.py"
    environment.write_text(environment.read_text("utf-8").replace("\ntarget_metadata = None\n", MODELS), "utf-8")
    assert "No new upgrade operations detected" in libraries.run(project, "alembic", "check")
    target.run("ALTER TABLE airport ADD COLUMN extra TEXT")
    libraries.run(project, "alembic", "revision", "--autogenerate", "-m", "extra")
    [revision] = (project / "migrations" / "versions").glob("*_extra.py")
    assert "op.drop_column('airport', 'extra')" in revision.read_text("utf-8")
    libraries.run(project, "alembic", "upgrade", "head")
    assert "extra" not in str(target.rows(SCHEMA))
