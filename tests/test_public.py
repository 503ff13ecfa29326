"""The public names of `import pipemagic`."""

from __future__ import annotations

import importlib
import re

import pytest

import pipemagic


def test_every_public_name_exists() -> None:
    for name in pipemagic.__all__:
        assert getattr(pipemagic, name) is not None
    assert set(pipemagic.__all__) <= set(dir(pipemagic))
    assert re.fullmatch(r"\d+\.\d+\.\d+.*", pipemagic.__version__)


def test_every_error_is_public() -> None:
    kinds = [value for value in vars(pipemagic.errors).values() if isinstance(value, type)]
    assert {kind.__name__ for kind in kinds} <= set(pipemagic.__all__)
    assert all(issubclass(kind, pipemagic.PipemagicError) for kind in kinds)


def test_an_unknown_name() -> None:
    with pytest.raises(AttributeError, match="no attribute 'conect'"):
        _ = pipemagic.conect  # type: ignore[attr-defined]


def test_names_are_resolved_once() -> None:
    fresh = importlib.import_module("pipemagic")
    assert fresh.connect is pipemagic.connect
    assert fresh.Database is pipemagic.Database
