"""%config PipeMagic, c.PipeMagic in ipython_config.py, and [tool.pipemagic] in pyproject.toml."""

from __future__ import annotations

import pytest
from traitlets.config import Config

from pipemagic.notebook.preferences import PipeMagic

NAMES = ["confirm", "connection", "display_limit", "notes", "progress", "quiet", "read_ahead", "type"]


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Write the pyproject.toml above the folder of the notebook."""
    folder = tmp_path / "project" / "notebooks" / "deep"
    folder.mkdir(parents=True)
    monkeypatch.chdir(folder)
    return tmp_path / "project" / "pyproject.toml"


def preferences(shell):
    return shell.ip.magics_manager.registry["PipeMagics"].preferences


def test_config_lists_every_setting_with_its_help(shell, project):
    said = shell("%config PipeMagic").out
    for name in NAMES:
        assert f"PipeMagic.{name}=" in said
        assert PipeMagic.class_traits()[name].help.split(";")[0][:40] in said
    assert PipeMagic.class_trait_names(config=True) == NAMES or set(NAMES) <= set(
        PipeMagic.class_trait_names(config=True)
    )


def test_unloading_leaves_no_setting_and_nothing_configurable(plain_shell):
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
        assert f"'{wrong.split()[0]}' trait of a PipeMagic instance" in caplog.text  # IPython's own way to say it
    assert (preferences(shell).quiet, preferences(shell).type) == (False, "pandas")
    shell("%config PipeMagic.type = 'polars'")
    assert preferences(shell).type == "polars"
    assert shell("%config PipeMagic.type").value == "polars"


def test_a_configuration_file_of_ipython(plain_shell, project):
    plain_shell.ip.config.merge(Config({"PipeMagic": {"quiet": True}}))
    plain_shell("%load_ext pipemagic")
    assert preferences(plain_shell).quiet is True


def test_a_configuration_that_does_not_fit_is_said_and_nothing_breaks(plain_shell, project):
    plain_shell.ip.config.merge(Config({"PipeMagic": {"display_limit": "many"}}))
    loaded = plain_shell("%load_ext pipemagic")
    assert loaded.err.count("\n") == 1
    assert "display_limit" in loaded.err
    assert preferences(plain_shell).display_limit == 0


def test_the_settings_of_a_project_give_way_to_the_users(plain_shell, project):
    project.write_text("[tool.pipemagic]\nquiet = true\ndisplay-limit = 7\nprogress = false\ntype = 'arrow'\n")
    plain_shell.ip.config.merge(Config({"PipeMagic": {"progress": True}}))
    plain_shell("%load_ext pipemagic")
    plain_shell("%config PipeMagic.quiet = False")
    found = preferences(plain_shell)
    assert (found.quiet, found.display_limit, found.progress, found.type) == (False, 7, True, "arrow")
    assert "Current: 7" in plain_shell("%config PipeMagic").out


def test_the_file_of_the_project_is_read_at_first_use(plain_shell, project):
    project.write_text("nonsense")
    assert plain_shell("%load_ext pipemagic").err == ""
    project.write_text("[tool.pipemagic]\nquiet = true\n")
    assert preferences(plain_shell).quiet is True


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "[tool.pipemagic]\nquiet = 'yes'\ntpye = 'arrow'\ndisplay_limit = 3",
            ["quiet is not used", "no setting tpye, did you mean type?"],
        ),
        ("[tool.pipemagic]\ndisplay_limit = -1", ["display_limit is not used"]),
        ("[tool.pipemagic", ["is not TOML"]),
        ("[tool]\npipemagic = 3", ["not a table"]),
        ('[tool.pipemagic]\n"\\u001b[31m<b>" = 3', ["no setting"]),
    ],
)
def test_what_does_not_fit_is_said_once_in_one_line(shell, project, capsys, text, said):
    project.write_text(text)
    found = preferences(shell)
    assert (found.quiet, found.type) == (False, "pandas")
    assert found.display_limit == (3 if "limit = 3" in text else 0)
    _, err = capsys.readouterr()
    assert err.count("\n") == 1
    assert "\x1b" not in err
    assert all(part in err for part in said)


def test_a_token_in_the_file_is_refused_and_not_repeated(shell, project, capsys):
    address, token = "libsql://x.example.io", "eyJhbGciOiJFZERTQSJ9.eyJhIjoicncifQ.c2lnbmF0dXJl"
    project.write_text(f"[tool.pipemagic]\nconnection = '{address}?authToken={token}'\npassword = 'hunter2x'\n")
    assert preferences(shell).connection == ""
    _, err = capsys.readouterr()
    assert "connection holds a token" in err
    assert "password holds a token" in err
    assert token[:12] not in err
    assert "hunter2x" not in err


def test_a_display_limit_ends_and_leaves_what_was_there(db):
    import pandas as pd
    import polars as pl

    many = pd.DataFrame({"a": range(100)})
    options = ("display.max_rows", "display.min_rows")
    with pd.option_context("display.max_rows", 31, "display.min_rows", 11), pl.Config(tbl_rows=13):
        before, shown = [pd.get_option(one) for one in options], str(pl.DataFrame(many))

        def now():
            return [pd.get_option(one) for one in options], str(pl.DataFrame(many))

        db("%config PipeMagic.display_limit = 3\n%sql SELECT 1\n%sql --type polars SELECT 1")
        db("%config PipeMagic.display_limit = 4\n%sql SELECT 1\n%sql --type polars SELECT 1")
        assert now()[0] == [4, 4]
        assert len(now()[1]) < len(shown)
        db("%config PipeMagic.display_limit = 0")
        assert now() == (before, shown)
        db("%config PipeMagic.display_limit = 3\n%sql SELECT 1")
        pd.set_option("display.max_rows", 77)  # what the user sets afterwards stays
        db("%unload_ext pipemagic")
        assert [pd.get_option(one) for one in options] == [77, 11]
