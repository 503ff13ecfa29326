"""PyPI django-libsql-backend: a model, its table and its rows, by the old stateless endpoints."""

from __future__ import annotations

from typing import Any

import django
from django.conf import settings
from django.db import connection, models
from driver import drive


class Django:
    def __init__(self) -> None:
        self._model: Any = None

    def open(self, url: str, token: str) -> None:
        settings.configure(
            DATABASES={"default": {"ENGINE": "django_libsql", "NAME": url, "AUTH_TOKEN": token}},
            INSTALLED_APPS=["django.contrib.contenttypes", "django.contrib.auth"],
            DEFAULT_AUTO_FIELD="django.db.models.AutoField",
            USE_TZ=True,
        )
        django.setup()

    def migrate(self) -> list[str]:
        """Run the migrations of two of Django's own applications; return the tables that exist afterwards."""
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        return sorted(connection.introspection.table_names())

    def make(self, table: str) -> None:
        fields = {
            "name": models.CharField(max_length=50, unique=True),
            "age": models.IntegerField(null=True),
            "__module__": __name__,
            "Meta": type("Meta", (), {"app_label": "here", "db_table": table}),
        }
        self._model = type("Person", (models.Model,), fields)
        with connection.schema_editor() as editor:
            editor.create_model(self._model)

    def create(self, rows: list[dict[str, Any]]) -> list[int]:
        # The package passes the key unchanged, as text.
        return [int(self._model.objects.create(**row).pk) for row in rows]

    def find(self, **conditions: Any) -> list[list[Any]]:
        return [
            [person.pk, person.name, person.age] for person in self._model.objects.filter(**conditions).order_by("pk")
        ]

    def update(self, name: str, age: int) -> int:
        return self._model.objects.filter(name=name).update(age=age)


drive(Django())
