"""Scenes that mostly wait, run at the same time: a thread for each, and a test for each that tells how it ended."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest

Scene = Callable[..., None]


class Scenes(dict[str, Scene]):
    """Functions by their names in words; ``@scenes.add`` adds one."""

    def add(self, scene: Scene) -> Scene:
        """Add a function."""
        self[scene.__name__.replace("_", " ")] = scene
        return scene

    @contextmanager
    def begun(self, request: pytest.FixtureRequest, *given: Any) -> Iterator[Mapping[str, Future[None]]]:
        """Begin those scenes that tests with the parameter ``scene`` were selected for, with what is given to each."""
        selected = {
            item.callspec.params.get("scene")
            for item in request.session.items
            if item.path == request.path and hasattr(item, "callspec")
        }
        with ThreadPoolExecutor(len(self)) as threads:
            yield {name: threads.submit(scene, *given) for name, scene in self.items() if name in selected}
