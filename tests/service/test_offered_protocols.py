"""Clients that offer HTTP/2 or TLS with their first request, as Java's HttpClient, Ktor and `curl --http2` do."""

from __future__ import annotations

import json
import shutil
import subprocess

import pytest
from probes import PING, pipeline
from served import serve

JAVA = """
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;

class Offers {
    public static void main(String[] args) throws Exception {
        HttpClient client = HttpClient.newHttpClient();
        for (int call = 0; call < 2; call++) {
            HttpRequest request = HttpRequest.newBuilder(URI.create(args[0]))
                .header("Authorization", "Bearer " + args[1]).POST(BodyPublishers.ofString(args[2])).build();
            var response = client.send(request, BodyHandlers.ofString());
            System.out.println(response.statusCode() + " " + response.version() + " " + response.body());
        }
    }
}
"""


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serve(tmp_path_factory.mktemp("served") / "data", "--port", "0") as service:
        service.create("db")
        yield service


def curl(served, token, *requests):
    """Send requests on one connection; return status, version of HTTP, connections made and body of each."""
    command = ["curl", "-sS", "--noproxy", "*", "--max-time", "30"]
    for path, body in requests:
        written = r"\n%{http_code} %{http_version} %{num_connects}\n"
        offer = ["--http2", "-H", "Content-Type: application/json"] if body else []
        sent = ["-d", body.decode()] if body else []
        command += [
            *offer,
            "-H",
            f"Authorization: Bearer {token}",
            *sent,
            "-w",
            written,
            served.url + path,
            "--next",
            "-sS",
        ]
    lines = subprocess.run(command[:-2], capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    return [(*figures.split(), body) for body, figures in zip(lines[::2], lines[1::2], strict=True)]


@pytest.mark.skipif("HTTP2" not in subprocess.getoutput("curl --version"), reason="curl offers no HTTP/2 here")
def test_curl_offers_http_2(served):
    token = served.token("db")
    large = pipeline(f"SELECT length('{'x' * 100_000}')")
    answers = curl(served, token, ("/v2/pipeline", PING), ("/v3/pipeline", large), ("/v2", b""))
    assert [answer[:3] for answer in answers] == [("200", "1.1", "1"), ("200", "1.1", "0"), ("200", "1.1", "0")]
    assert [json.loads(answer[3])["results"][0]["type"] for answer in answers[:2]] == ["ok", "ok"]


@pytest.mark.skipif("HTTP2" not in subprocess.getoutput("curl --version"), reason="curl offers no HTTP/2 here")
def test_curl_offers_http_2_to_the_management_api(served):
    body = json.dumps({"name": "offered", "group": "g"}).encode()
    (created, listed) = curl(
        served, served.platform_token, ("/v1/organizations/local/databases", body),
        ("/v1/organizations/local/databases", b""),
    )  # fmt: skip
    assert created[:2] == ("200", "1.1")
    assert "offered" in {database["Name"] for database in json.loads(listed[3])["databases"]}


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("javac") is None, reason="there is no JDK")
def test_java_offers_http_2(served, tmp_path):
    (tmp_path / "Offers.java").write_text(JAVA)
    command = ["java", tmp_path / "Offers.java", f"{served.url}/v2/pipeline", served.token("db"), PING.decode()]
    output = subprocess.run(command, capture_output=True, text=True, check=True, timeout=120).stdout
    assert [line.split()[:2] for line in output.splitlines()] == [["200", "HTTP_1_1"]] * 2
    assert output.count('"type":"ok"') == 4
