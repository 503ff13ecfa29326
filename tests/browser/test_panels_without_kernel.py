"""Test panels without their kernel and without lab extensions; the script runs in a shared process (see host.py)."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("app", ["lab", "notebook"])
def test_a_message_or_the_static_form_is_shown(run, tmp_path, app):
    assert len(run("panels_without_kernel.py", tmp_path, app)) == 6
