"""Lines, fields and forms of panels."""

from __future__ import annotations

import ipywidgets
from waiting import until

from pipemagic.errors import SessionError
from pipemagic.notebook.panels.base import LivePanel
from pipemagic.notebook.panels.components import Events
from pipemagic.notebook.panels.forms import Choice, ConfirmForm, Field, Form, Line, PanelPart, column
from pipemagic.notebook.panels.opening import open_panel
from pipemagic.notebook.panels.tasks import Action, LatestTask


def test_texts_are_escaped_and_can_be_sent():
    assert Line("<b>&\n\ud800", "pm-faint").value == "<p class='pm-faint'>&lt;b&gt;&amp;<br>?</p>"
    assert Line("").layout.display == "none"


def test_a_field_keeps_its_choice():
    field = Field("Place", Choice())
    field.set_options([("A", "a"), ("B", "b")])
    field.widget.value = "b"
    field.set_options([("New", "n"), ("B", "b")])
    assert field.widget.value == "b"
    field.set_options([("A", "a")])
    assert field.widget.value == "a"
    field.set_options([("Another", "x")])
    assert (field.widget.label, field.widget.value) == ("Another", "x")
    field.set_options([("Renamed", "x")])
    assert (field.widget.label, field.widget.value) == ("Renamed", "x")
    field.set_options([])
    assert (field.widget.label, field.widget.value) == (None, None)
    field.set_options([("A", "a"), ("B", "b")])
    assert field.widget.value == "a"


def test_new_options_select_no_other_option_for_a_moment():
    """Else an observer reads the data of another choice, and a key on the page moves from the first option."""
    field, sent, values = Field("Place", Choice()), [], []
    field.set_options([("A", "a"), ("B", "b")], "b")
    field.widget.observe(lambda change: values.append(change["new"]), "value")
    field.widget._send = lambda message, buffers=None: sent.append(message["state"])
    field.set_options([("A", "a"), ("A2", "a2"), ("B", "b")])
    assert sent == [{"_options_labels": ("A", "A2", "B"), "index": 2}]
    field.set_options([("A", "a"), ("C", "c"), ("B", "b")], "c")
    assert sent[1:] == [{"_options_labels": ("A", "C", "B"), "index": 1}]
    field.set_options([("A", "a"), ("C", "c"), ("B", "b")])
    assert sent[2:] == []
    assert values == ["c"]


def test_a_page_selects_the_option_that_it_shows():
    """Its index may be that of options that were replaced on the way, and updates wait while the kernel is busy."""
    panel = LivePanel(LatestTask("test"))
    panel.events = Events(lambda _: None)
    field = Field("Place", Choice())
    panel.listen_to(column(field))
    field.set_options([("A", "a"), ("B", "b"), ("C", "c")])
    panel.events.receive({"chosen": "B", "field": field.id})
    field.set_options([("New", "n"), ("A", "a"), ("B", "b"), ("C", "c")])
    field.widget.set_state({"index": 1})
    assert field.widget.value == "b"
    field.widget.set_state({"index": 3})  # of a page that has just begun to listen
    assert field.widget.value == "c"
    panel.events.receive({"chosen": "A", "field": field.id})
    field.set_options([("B", "b"), ("C", "c")])
    field.widget.set_state({"index": 1})
    assert field.widget.value == "c"
    panel.events.receive({"chosen": "B", "field": field.id})
    panel.events.receive({"chosen": "C", "field": field.id})  # ipywidgets sends only the last of several indexes
    field.widget.set_state({"index": 1})
    assert field.widget.value == "c"


def test_values_are_sent_with_the_click_that_submits_a_form(session):
    """State updates of a field may arrive later: ipywidgets holds them back while the kernel is busy."""
    panel = open_panel(session, "groups")
    panel.wait()
    panel.name.widget.set_state({"value": "abc"})
    tokyo = next(label for label, code in panel.location.widget.options if code == "nrt")
    panel.events.receive({"form": panel.create.id, "values": ["abcd", tokyo]})
    panel.create.submit.click()
    until(lambda: not panel.action.busy)
    assert panel.action.message == "Group abcd is in nrt."
    panel.name.widget.set_state({"value": "abcd"})  # the update that was delayed
    assert panel.name.widget.value == ""
    assert panel.name.error == ""
    for values in (["x", "y", "z"], ["x", 1], ["x", "Atlantis"], [None, 10**6], []):  # a page may send anything
        panel.events.receive({"form": panel.create.id, "values": values})
    panel.events.receive({"form": "pm-form-0", "values": ["x"]})
    assert panel.location.widget.value == "nrt"


def test_a_form_that_asks_for_a_name_never_has_that_of_another():
    done, part = [], PanelPart(LatestTask("test"))
    form = ConfirmForm(part, "delete", "Delete", done.append, nothing="nothing was deleted")
    form.update("one", "one is deleted")
    part.show_form(form)
    form.field.widget.value = " one "
    form.update("one", "one is deleted, and more")
    form.submit.click()
    assert done == ["one"]
    form.update("two", "two is deleted")
    assert form.field.widget.description == "Type two to delete"
    assert form.field.text == ""
    form.field.widget.value = "one"
    form.submit.click()
    error = part.action.error
    assert (error.message, error.hint) == ("nothing was deleted: the typed name is not two", "type two")
    assert done == ["one"]
    part.close_form()
    form.field.widget.value = "two"
    form.submit.click()  # the second click of a double click, after the first has closed the form
    assert done == ["one"]


def test_a_form_shows_what_is_wrong_with_its_values():
    def submit():
        raise SessionError("no such place", hint="choose another one")

    part = PanelPart(Action("test"))
    name = Field("Name", ipywidgets.Text(), "a note", lambda text: "" if text else "Enter a name.")
    form = Form(part, "", [name], "Create", submit)
    form.submit.click()
    assert name.error == part.action.error.message == "Enter a name."
    name.widget.value = "x"
    name.explain(error="")
    form.submit.click()
    error = part.action.error
    assert (error.code, error.message, error.hint) == ("", "no such place", "choose another one")


def test_one_form_of_a_part_is_open_at_a_time():
    part = PanelPart(Action("test"))
    first, second = (Form(part, "", [], label, lambda: None, opens=True) for label in ("First", "Second"))

    def shown():
        part.update_forms()
        return [form.submit.description for form in part.forms if form.layout.display != "none"]

    assert shown() == []
    part.show_form(first)
    part.show_form(second)
    assert shown() == ["Second"]
    second.children[1].children[-1].click()  # Cancel
    assert shown() == []
