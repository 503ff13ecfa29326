"""PyPI django-libsql-backend: Django's models over `/v1/execute` and `/v1/batch`."""

from __future__ import annotations

import uuid

import pytest
from published_clients import ClientError


@pytest.fixture(scope="module")
def django(start, target):
    """Django with its settings, which a process can have only once."""
    driver = start("drive_django.py")
    driver.call("open", url=target.url, token=target.database.token)
    return driver


def test_migrations(django):
    assert {"auth_user", "auth_group_permissions", "django_migrations"} <= set(django.call("migrate"))


def test_the_lifecycle_of_a_model(django, target):
    table = "t" + uuid.uuid4().hex[:12]
    django.call("make", table=table)
    assert django.call("create", rows=[{"name": "Ada", "age": 36}, {"name": "Bob", "age": None}]) == [1, 2]
    assert django.call("find", age__gt=30) == [[1, "Ada", 36]]
    assert django.call("update", name="Bob", age=40) == 1
    assert target.rows(f"SELECT name, age FROM {table}") == [["Ada", 36], ["Bob", 40]]
    with pytest.raises(ClientError, match="UNIQUE constraint failed"):
        django.call("create", rows=[{"name": "Ada", "age": 1}])
