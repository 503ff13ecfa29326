"""Pages of other sites, in a real browser; the script runs in a shared process (see host.py)."""

from __future__ import annotations

import pytest
from served import serve


@pytest.mark.parametrize(
    ("options", "expected"),
    [(["--cors", "https://app.example.org"], "kept-out"), (["--cors", "*"], "let-in")],
)
def test_a_page_of_another_site_can_use_the_service_only_if_its_origin_is_allowed(run, tmp_path, options, expected):
    with serve(tmp_path / "data", "--port", "0", *options) as service:
        service.create("flights")
        run("page_of_another_site.py", service.url, service.token("flights"), expected)
