"""%config PipeMagic, c.PipeMagic in ipython_config.py, and [tool.pipemagic] in pyproject.toml."""

from __future__ import annotations

import pytest
from traitlets.config import Config

from pipemagic.notebook.settings import PipeMagic

NAMES = ["confirm", "connection", "display_limit", "notes", "progress", "quiet", "read_ahead", "type"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return the path of the pyproject.toml above the folder of the notebook."""
    folder = tmp_path / "project" / "notebooks" / "deep"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return tmp_path / "project" / "pyproject.toml"


def settings(shell):
    return shell.ip.magics_manager.registry["PipeMagics"].settings


def test_config_lists_every_setting_with_its_help(shell, project):
    out = shell("%config PipeMagic").out
    for name in NAMES:
        assert f"PipeMagic.{name}=" in out
        assert PipeMagic.class_traits()[name].help.split(";")[0][:40] in out
    assert PipeMagic.class_trait_names(config=True) == NAMES or set(NAMES) <= set(
        PipeMagic.class_trait_names(config=True)
    )


def test_unloading_removes_the_configurables(plain_shell):
    plain_shell("%config")  # IPython's own lazy magics come with it
    before = list(plain_shell.ip.configurables)
    plain_shell("%load_ext pipemagic")
    assert "PipeMagic\n" in plain_shell("%config").out
    plain_shell("%unload_ext pipemagic")
    assert plain_shell.ip.configurables == before
    plain_shell("%load_ext pipemagic\n%reload_ext pipemagic\n%unload_ext pipemagic")
    assert plain_shell.ip.configurables == before


def test_a_wrong_value_is_refused_and_changes_nothing(shell, project, caplog):
    for wrong in ("quiet = 'loud'", "type = 'r'", "display_limit = -1"):
        caplog.clear()
        shell.run(f"%config PipeMagic.{wrong}")
        assert f"'{wrong.split()[0]}' trait of a PipeMagic instance" in caplog.text  # logged by IPython
    assert (settings(shell).quiet, settings(shell).type) == (False, "pandas")
    shell("%config PipeMagic.type = 'polars'")
    assert settings(shell).type == "polars"
    assert shell("%config PipeMagic.type").value == "polars"


def test_an_invalid_configuration_is_reported_and_ignored(plain_shell, project):
    plain_shell.ip.config.merge(Config({"PipeMagic": {"display_limit": "many"}}))
    loaded = plain_shell("%load_ext pipemagic")
    assert loaded.err.count("\n") == 1
    assert "display_limit" in loaded.err
    assert settings(plain_shell).display_limit == 0


def test_settings_of_the_user_override_those_of_the_project(plain_shell, project):
    project.write_text("[tool.pipemagic]\nquiet = true\ndisplay-limit = 7\nprogress = false\ntype = 'arrow'\n")
    plain_shell.ip.config.merge(Config({"PipeMagic": {"progress": True}}))
    plain_shell("%load_ext pipemagic")
    plain_shell("%config PipeMagic.quiet = False")
    found = settings(plain_shell)
    assert (found.quiet, found.display_limit, found.progress, found.type) == (False, 7, True, "arrow")
    assert "Current: 7" in plain_shell("%config PipeMagic").out


def test_the_file_of_the_project_is_read_at_first_use(plain_shell, project):
    project.write_text("nonsense")
    assert plain_shell("%load_ext pipemagic").err == ""
    project.write_text("[tool.pipemagic]\nquiet = true\n")
    assert settings(plain_shell).quiet is True


@pytest.mark.parametrize(
    ("text", "messages"),
    [
        (
            "[tool.pipemagic]\nquiet = 'yes'\ntpye = 'arrow'\ndisplay_limit = 3",
            ["quiet is ignored: ", "unknown setting tpye\nHint: did you mean type?"],
        ),
        ("[tool.pipemagic]\ndisplay_limit = -1", ["display_limit is ignored"]),
        ("[tool.pipemagic", ["is not valid TOML"]),
        ("[tool]\npipemagic = 3", ["not a table"]),
        ('[tool.pipemagic]\n"\\u001b[31m<b>" = 3', ["unknown setting"]),
    ],
)
def test_invalid_settings_of_the_project_are_reported_once(shell, project, capsys, text, messages):
    project.write_text(text)
    found = settings(shell)
    assert (found.quiet, found.type) == (False, "pandas")
    assert found.display_limit == (3 if "limit = 3" in text else 0)
    _, err = capsys.readouterr()
    assert len(set(err.splitlines())) == len(err.splitlines()) <= 3
    assert "\x1b" not in err
    assert all(part in err for part in messages)


def test_a_token_in_the_file_is_refused_and_not_printed(shell, project, capsys):
    address, token = "libsql://x.example.io", "eyJhbGciOiJFZERTQSJ9.eyJhIjoicncifQ.c2lnbmF0dXJl"
    project.write_text(f"[tool.pipemagic]\nconnection = '{address}?authToken={token}'\npassword = 'hunter2x'\n")
    assert settings(shell).connection == ""
    _, err = capsys.readouterr()
    assert "connection contains a token" in err
    assert "password contains a token" in err
    assert token[:12] not in err
    assert "hunter2x" not in err


def test_letters_beyond_ascii_in_a_service_that_is_started_with_the_variable(shell, monkeypatch):
    letters = "SELECT lower('É') AS letter, 'É' LIKE 'é' AS alike"
    shell(f"%pipedb connect --temporary\n%sql --out ascii {letters}\n%unload_ext pipemagic")
    monkeypatch.setenv("PIPEMAGIC_UNICODE", "1")
    shell(f"%load_ext pipemagic\n%pipedb connect --temporary\n%sql --out unicode {letters}")
    assert [frame.iloc[0].tolist() for frame in (shell.names["ascii"], shell.names["unicode"])] == [["É", 0], ["é", 1]]


def test_a_switch_in_the_environment_is_a_word_that_is_known(shell, monkeypatch):
    monkeypatch.setenv("PIPEMAGIC_UNICODE", "ja")
    failed = shell.fails("%pipedb connect --temporary")
    assert failed.error.message == "the environment variable PIPEMAGIC_UNICODE is 'ja'"
    monkeypatch.setenv("PIPEMAGIC_UNICODE", " Y ")  # as for `pipemagic serve`
    shell("%pipedb connect --temporary")
    assert shell("%sql SELECT lower('É') AS letter").value["letter"].tolist() == ["é"]
