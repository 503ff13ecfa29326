"""`%%sql SELECT 1` beside a bare httpx POST of the same body on a stream of its own."""

from __future__ import annotations

import os
from collections.abc import Callable

import httpx
from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output
from traitlets.config import Config

from benchmarks.measure import Line, interleave, seconds
from benchmarks.servers import Target


def quiet_shell() -> InteractiveShell:
    """Make an IPython without history files."""
    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    shell.run_line_magic("load_ext", "pipemagic")
    return shell


def bodies_of(shell: InteractiveShell) -> tuple[bytes, dict[str, str], str]:
    """Run a cell and give the body, headers and path of the request that it sent."""
    sent: list[httpx.Request] = []
    send = httpx.Client.send

    def note(self: httpx.Client, request: httpx.Request, **options: object) -> httpx.Response:
        sent.append(request)
        return send(self, request, **options)  # type: ignore[arg-type]

    httpx.Client.send = note  # type: ignore[method-assign]
    try:
        shell.run_cell_magic("sql", "", "SELECT 1")
    finally:
        httpx.Client.send = send  # type: ignore[method-assign]
    (request,) = sent
    headers = {name: value for name, value in request.headers.items() if name != "content-length"}
    return request.content, headers, str(request.url)


def bare(client: httpx.Client, body: bytes, url: str, headers: dict[str, str]) -> Callable[[], None]:
    """Give a call that posts the body with the newest baton: what a cell cannot do without."""
    before, _, rest = body.partition(b'"baton":"')
    after = rest.partition(b'"')[2]
    opening = body.replace(b'"baton":"' + rest.partition(b'"')[0] + b'",', b"").replace(
        b',"baton":"' + rest.partition(b'"')[0] + b'"', b""
    )

    def baton_of(answer: bytes) -> bytes:
        return answer.partition(b'"baton":"')[2].partition(b'"')[0]

    baton = baton_of(client.post(url, content=opening, headers=headers).content)

    def post() -> None:
        nonlocal baton
        answer = client.post(url, content=before + b'"baton":"' + baton + b'"' + after, headers=headers)
        baton = baton_of(answer.content)
        if not baton:
            raise RuntimeError(answer.text)

    return post


def measure(target: Target, rounds: int, times: int) -> list[Line]:
    """Compare a cell with a POST, and a cell run by the shell with both."""
    shell = quiet_shell()
    os.environ["BENCHMARK_TOKEN"] = target.token
    with capture_output():
        shell.run_line_magic("pipedb", f"connect {target.url} --token-env BENCHMARK_TOKEN")
    shell.run_cell_magic("sql", "", "SELECT 1")
    body, headers, url = bodies_of(shell)
    with httpx.Client(trust_env=False) as client:
        post = bare(client, body, url, headers)
        values = interleave(
            rounds,
            {
                "cell": lambda: seconds(lambda: shell.run_cell_magic("sql", "", "SELECT 1"), times),
                "post": lambda: seconds(post, times),
            },
        )
    with capture_output():
        shell.run_line_magic("pipedb", "close")
    return [
        Line(
            "%%sql SELECT 1", "s", values["cell"], "httpx POST of the same body", values["post"], aim=1.5,
        )
    ]  # fmt: skip
