// Components that ipywidgets lacks: tables, task status, texts to copy, tokens, countdowns, events.
// Rows, long values and tokens come in messages, not in traits, so no saved notebook holds them. Texts are never parsed as HTML.

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== undefined && value !== null && value !== false && value !== "") element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== undefined && child !== null && child !== ""));
  return element;
}

async function copy(text, button) {
  const label = button.textContent;
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    const field = make("textarea", {}, text); // navigator.clipboard requires a secure origin
    button.after(field);
    field.select();
    button.textContent = document.execCommand("copy") ? "Copied" : "Press Ctrl+C";
    field.remove();
    button.focus();
  }
  setTimeout(() => { button.textContent = label; }, 1500);
}

function copyButton(text, { label = "Copy", title, kind = "plain", key } = {}) {
  return make("button", { type: "button", class: `pm-${kind}`, "aria-label": title, "data-key": key, onclick: (event) => copy(text(), event.currentTarget) }, label);
}

// -- tables and grids

const isObject = (value) => typeof value === "object" && value !== null;

function text(value) {
  if (!isObject(value)) return String(value ?? "");
  return [value.text ?? "", ...(value.lines ?? []), ...(value.items ?? []).map(text)].join(" ");
}

function send(model, name, key) { if (!model.get("busy")) model.send({ action: name, key }); }

function actionButtons(model, item, key) {
  return (item.actions ?? []).map((one) => {
    const place = `${one.key ?? key} ${one.name ?? one.label}`;
    if (one.copy !== undefined) return copyButton(() => one.copy, { label: one.label, title: one.title, key: place });
    return make("button", {
      type: "button", class: `pm-${one.kind ?? "plain"}`, "aria-label": one.title, title: one.title,
      "aria-expanded": one.expanded === undefined ? undefined : String(one.expanded), "aria-disabled": model.get("busy") ? "true" : undefined,
      "data-key": place, onclick: () => send(model, one.name, one.key ?? key),
    }, one.label);
  });
}

function sortButton(column, number, sorted, onclick) {
  const words = column.title + ({ ascending: " \u25b2", descending: " \u25bc" }[sorted] ?? "");
  return make("button", { type: "button", class: "pm-plain pm-sort", "aria-label": `Sort by ${column.title}`, onclick, "data-key": `sort ${number}` }, words);
}

function drawTable(model, el, received) {
  const state = { page: 0, filter: "", sort: undefined, descending: false };
  const filter = make("input", { type: "search", "aria-label": "Filter", placeholder: "Filter" });
  const count = make("span", { class: "pm-faint", role: "status" });
  const body = make("div", { class: "pm-scroll", tabindex: 0 });
  const pages = make("div", { class: "pm-row" });
  const tools = make("div", { class: "pm-filter" }, filter, count);
  el.replaceChildren(tools, body, pages);
  filter.addEventListener("input", () => { state.filter = filter.value.toLowerCase(); state.page = 0; update(); });

  function visible(rows) {
    const found = state.filter ? rows.filter((row) => row.cells.some((one) => text(one).toLowerCase().includes(state.filter)) || row.group?.toLowerCase().includes(state.filter)) : rows;
    if (state.sort === undefined) return found;
    const compare = new Intl.Collator(undefined, { numeric: true }).compare;
    const value = (row) => row.cells[state.sort]?.sort ?? text(row.cells[state.sort]);
    const order = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : compare(a, b));
    return [...found].sort((a, b) => order(value(a), value(b)) * (state.descending ? -1 : 1));
  }

  function sortBy(number) {
    if (state.sort !== number) [state.sort, state.descending] = [number, false];
    else if (!state.descending) state.descending = true;
    else [state.sort, state.descending] = [undefined, false];
    update();
  }

  function heading(column, number) {
    const sorted = state.sort === number ? (state.descending ? "descending" : "ascending") : undefined;
    const label = column.sortable ? sortButton(column, number, sorted, () => sortBy(number)) : column.title || make("span", { class: "pm-unseen" }, "Actions");
    return make("th", { scope: "col", class: kindOf(column), "aria-sort": sorted }, label);
  }

  function kindOf(column) {
    return [column.kind && `pm-${column.kind}`, column.extra && "pm-extra", !column.title && "pm-actions"].filter(Boolean).join(" ");
  }

  function inside(value, key) {
    if (!isObject(value)) return [String(value ?? "")];
    return [
      make("span", { class: value.kind && `pm-${value.kind}`, title: value.title }, value.text ?? ""),
      ...(value.lines ?? []).map((line) => make("div", { class: "pm-faint" }, line)),
      ...(value.items ?? []).map((item) => make("div", { class: item.class && `pm-${item.class}` }, inside(item, key))),
      ...actionButtons(model, value, key),
    ];
  }

  function cell(row, value, column, first) {
    return make(first ? "th" : "td", { class: kindOf(column), scope: first ? "row" : undefined, "data-heading": text(value) && column.title }, inside(value, row.key));
  }

  function update() {
    const columns = model.get("columns"), rows = received.rows ?? [];
    const found = visible(rows), size = model.get("page_size");
    const last = Math.max(0, Math.ceil(found.length / size) - 1);
    state.page = Math.min(state.page, last);
    tools.hidden = rows.length < model.get("filter_from");
    count.textContent = state.filter ? `${found.length} of ${rows.length}` : `${rows.length} rows`;
    const focused = el.contains(document.activeElement) ? document.activeElement.dataset.key : undefined;
    const lines = [];
    let group;
    for (const row of found.slice(state.page * size, (state.page + 1) * size)) {
      if (row.group !== undefined && row.group !== group && state.sort === undefined) {
        group = row.group;
        lines.push(make("tr", { class: "pm-group" }, make("th", { colspan: columns.length, scope: "rowgroup" }, group)));
      }
      lines.push(make("tr", { class: row.current ? "pm-current" : undefined }, columns.map((column, number) => cell(row, row.cells[number], column, number === 0))));
    }
    const table = make("table", { "aria-label": model.get("label"), class: model.get("stacks") ? "pm-stacks" : undefined },
      make("thead", {}, make("tr", {}, columns.map(heading))), make("tbody", {}, lines));
    const empty = !received.rows ? "" : rows.length ? "No row contains this text." : model.get("empty");
    const { scrollTop, scrollLeft } = body;
    body.replaceChildren(...(lines.length ? [table] : []), ...(lines.length || !empty ? [] : [make("p", { class: "pm-faint" }, empty)]));
    body.scrollTo(scrollLeft, scrollTop);
    const turn = (words, to, off) => make("button", { type: "button", disabled: off, "data-key": `turn ${words}`, onclick: () => { state.page = to; update(); } }, words);
    pages.replaceChildren(...(last ? [turn("Previous", state.page - 1, state.page === 0), make("span", {}, `Page ${state.page + 1} of ${last + 1}`), turn("Next", state.page + 1, state.page === last)] : []));
    if (focused !== undefined) el.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus({ preventScroll: true });
  }

  body.addEventListener("keydown", (event) => {
    const line = event.target.closest("tr");
    if (line === null || !["ArrowDown", "ArrowUp"].includes(event.key)) return;
    const index = [...line.querySelectorAll("button")].indexOf(event.target);
    for (let next = line; (next = event.key === "ArrowDown" ? next.nextElementSibling : next.previousElementSibling);) {
      const buttons = next.querySelectorAll("button");
      if (buttons.length) { buttons[Math.min(index, buttons.length - 1)].focus(); event.preventDefault(); return; }
    }
  });
  return update;
}

// -- cells: a page of rows in a grid, of which a rectangle is selected and copied
// It is one stop of the Tab key. Arrows reach its cells and the buttons of its headings; Enter presses the button of a cell.

const FAR = Infinity, NEAREST = { block: "nearest", inline: "nearest" };
const STEPS = { // "^": with Ctrl or Cmd
  ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1], Home: [0, -FAR], End: [0, FAR],
  "^ArrowUp": [-FAR, 0], "^ArrowDown": [FAR, 0], "^ArrowLeft": [0, -FAR], "^ArrowRight": [0, FAR], "^Home": [-FAR, -FAR], "^End": [FAR, FAR],
};

// A spreadsheet reads a quoted field as one cell. A single cell is copied as it is.
function tabSeparated(lines) {
  const field = (value) => (/^"|[\t\r\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  return lines.flat().length === 1 ? lines[0][0].value : lines.map((line) => line.map(({ value }) => field(value)).join("\t")).join("\n");
}

// Spreadsheets keep texts such as 007, and all digits of long integers, in cells with the number format for text.
function htmlTable(lines) {
  const style = ({ kind, value }) => (kind === "number" && !/^-?\d{16,}$/.test(value) ? "" : 'mso-number-format:"\\@"; white-space: pre-wrap');
  const parts = (value) => value.split(/\r?\n/).flatMap((line, number) => (number ? [make("br", { style: "mso-data-placement: same-cell" }), line] : [line]));
  return make("table", {}, lines.map((line) => make("tr", {}, line.map((cell) => make("td", { style: style(cell) }, parts(cell.value)))))).outerHTML;
}

function drawCells(model, el, received) {
  const table = make("table", { role: "grid", "aria-multiselectable": "true" });
  const empty = make("p", { class: "pm-faint" }), status = make("div", { class: "pm-faint", role: "status" });
  const body = make("div", { class: "pm-scroll" }, table, empty);
  let columns = [], rows = [], first; // as drawn
  let cursor = [0, 0], corner; // the cell that has or had the focus; the opposite corner of the selection
  let stop, pressed; // the element with tabindex 0; the cell where the mouse was pressed
  el.replaceChildren(body, status);

  const within = (place) => place.map((number, axis) => Math.max(0, Math.min(number, [rows, columns][axis].length - 1)));
  const cellAt = ([row, column]) => table.tBodies[0].rows[row]?.cells[column + 1];

  function selected() { // the places of cells, by row
    if (!corner) return [];
    const [down, across] = cursor.map((from, axis) => {
      const low = Math.min(from, corner[axis]);
      return Array.from({ length: Math.abs(from - corner[axis]) + 1 }, (_, number) => low + number);
    });
    return down.map((row) => across.map((column) => [row, column]));
  }

  function report(words) {
    const lines = selected(), one = lines.flat().length === 1;
    status.textContent = lines.length && !(one && words === "selected") ? `${one ? "1 cell" : `${lines.length} x ${lines[0].length} cells`} ${words}.` : "";
  }

  function select(from, to) {
    for (const place of selected().flat()) cellAt(place)?.setAttribute("aria-selected", "false");
    [cursor, corner] = [from, to];
    for (const place of selected().flat()) cellAt(place).setAttribute("aria-selected", "true");
    report("selected");
    body.style.scrollPadding = `${table.tHead.offsetHeight}px 0 0 ${table.rows[0].cells[0].offsetWidth}px`; // what covers cells
  }

  function go(from, to = from, preventScroll = false) {
    if (!rows.length) return;
    select(from, to);
    cellAt(from).focus({ preventScroll });
  }

  function press(event) {
    const { key, target } = event, control = event.ctrlKey || event.metaKey, cell = target.closest("td");
    const step = STEPS[(control ? "^" : "") + key], from = cell ? (event.shiftKey && corner) || cursor : [-1, target.closest("th").cellIndex - 1];
    const to = step && within(from.map((number, axis) => number + step[axis]));
    if (event.altKey) return;
    if (key === "PageUp" || key === "PageDown") send(model, "turn", key === "PageUp" ? "-1" : "1");
    else if (key === "Escape" && corner) select(cursor);
    else if (key === "a" && control) go([0, 0], within([FAR, FAR]), true);
    else if ((key === "Enter" || key === "F2") && target === cell) cell.querySelector("button")?.click();
    else if (!step) return;
    else if (cell && event.shiftKey) {
      select(cursor, to);
      cellAt(to).scrollIntoView(NEAREST);
    } else if (cell && key === "ArrowUp" && !cursor[0]) table.rows[0].cells[cursor[1] + 1].querySelector("button").focus();
    else if (cell || step[0] > 0) go(to);
    else {
      const buttons = [...table.tHead.querySelectorAll("button")];
      buttons[Math.max(0, Math.min(buttons.indexOf(target) + step[1], buttons.length - 1))].focus();
    }
    event.preventDefault();
  }

  function point(event) { // the number of a row stands for the row
    const cell = event.target.closest("tbody :is(td, th)"), down = event.type === "mousedown";
    pressed = down ? !event.button && cell : event.buttons === 1 && pressed;
    if (!cell || !pressed) return;
    const whole = pressed.matches("th"), place = [cell.parentElement.sectionRowIndex, Math.max(0, cell.cellIndex - 1)];
    const begin = down && !(event.shiftKey && corner) ? place : cursor;
    go(whole ? [begin[0], 0] : begin, whole ? within([place[0], FAR]) : place, true);
    if (!down) cell.scrollIntoView(NEAREST);
    else if (!event.target.matches("button")) event.preventDefault(); // no text is selected
  }

  // The events need no permission and no secure origin. Their target depends on the browser; Safari copies without selected text only after "beforecopy".
  function take(event) {
    const focused = document.activeElement;
    if (!table.contains(focused)) return;
    if (!corner && focused.closest("td")) select(cursor, cursor);
    if (!corner) return;
    event.preventDefault();
    if (event.type === "beforecopy") return;
    const lines = selected().map((line) => line.map(([row, column]) => rows[row].cells[column]).map((cell) => ({ ...cell, cut: cell.value === null, value: cell.value ?? cell.text })));
    const cut = lines.flat().filter((cell) => cell.cut).length;
    event.clipboardData.setData("text/plain", tabSeparated(lines));
    event.clipboardData.setData("text/html", htmlTable(lines));
    report(cut ? `copied with ${cut} truncated value${cut > 1 ? "s" : ""}` : "copied");
  }

  function draw(same) {
    const active = table.contains(document.activeElement) ? document.activeElement : undefined;
    const headings = columns.map((column, number) => make("th", { scope: "col", "aria-sort": column.sorted },
      sortButton(column, number, column.sorted, () => send(model, "sort", column.key)), make("div", { class: "pm-faint" }, column.note, actionButtons(model, column, column.key))));
    const line = ({ key, cells }, row) => make("tr", { "aria-rowindex": first + row + 2 }, make("th", { scope: "row" }, (first + row + 1).toLocaleString("en")),
      cells.map((cell, column) => make("td", { tabindex: -1, class: `pm-${cell.kind}`, "aria-selected": "false", "data-key": `cell ${row} ${column}` }, cell.text, actionButtons(model, cell, key))));
    table.replaceChildren(make("thead", {}, make("tr", { "aria-rowindex": 1 }, make("th", { scope: "col" }, "#"), headings)), make("tbody", {}, rows.map(line)));
    for (const button of table.querySelectorAll("button")) button.tabIndex = -1;
    if (!same) corner &&= cursor; // the others were other cells
    select(within(cursor), rows.length ? corner && within(corner) : undefined);
    stop = table.querySelector(`[data-key="${CSS.escape(active?.dataset.key ?? "")}"]`) ?? cellAt(cursor) ?? table.querySelector("button");
    if (stop) stop.tabIndex = 0;
    if (!same && !active?.closest("td")) body.scrollTop = 0;
    if (active) stop?.focus({ preventScroll: same });
  }

  table.addEventListener("keydown", press);
  for (const name of ["mousedown", "mouseover"]) table.addEventListener(name, point);
  table.addEventListener("focusin", ({ target }) => {
    stop.tabIndex = -1;
    stop = target.closest("td") ?? target;
    stop.tabIndex = 0;
  });
  for (const name of ["beforecopy", "copy"]) document.addEventListener(name, take, true);

  const update = () => {
    const [label, total, now] = [model.get("label"), model.get("total"), [model.get("columns"), model.get("first"), received.rows ?? []]];
    const changed = now.map((part, number) => part !== [columns, first, rows][number]);
    [columns, first, rows] = now;
    Object.assign(table, { hidden: !received.rows, ariaLabel: label, ariaColCount: columns.length + 1, ariaRowCount: total < 0 ? -1 : total + 1 }); // with the headings
    empty.textContent = received.rows && !rows.length ? model.get("empty") : "";
    if (changed.includes(true)) draw(!changed[0] && !changed[1]);
  };
  return Object.assign(update, { stop: () => ["beforecopy", "copy"].forEach((name) => document.removeEventListener(name, take, true)) });
}

// -- task status, texts to copy, long values, tokens

function drawStatus(model, el) {
  const state = make("div", { role: "status" });
  const error = make("div", { role: "alert" });
  const magic = make("div", { class: "pm-magic" });
  el.replaceChildren(state, error, magic);
  return () => {
    const [busy, message, code, failure, hint, line] = ["busy", "message", "code", "error", "hint", "line"].map((name) => model.get(name));
    state.className = busy ? "pm-state pm-busy" : "pm-state";
    state.textContent = busy || message;
    const advice = failure && hint ? `Hint: ${hint}`.split("\n").map((text) => make("p", { class: "pm-faint" }, text)) : [];
    error.replaceChildren(...(failure ? [...errorLines(code, failure), ...advice] : []));
    magic.replaceChildren(...(line && !busy ? [make("code", {}, line), copyButton(() => line, { title: `Copy ${line}` })] : []));
  };
}

// Lines with an indentation are an excerpt of SQL, with a caret below the position of the error.
function errorLines(code, failure) {
  const [first, ...rest] = failure.split("\n");
  const lines = rest.map((text) => make(text.startsWith("  ") ? "pre" : "p", { class: "pm-error" }, text));
  return [make("p", { class: "pm-error" }, code && make("code", {}, `${code}: `), first), ...lines];
}

function drawCopy(model, el, received) {
  return () => {
    const [label, button] = [model.get("label"), model.get("button")], { text } = received;
    el.hidden = !text;
    const title = `Copy ${label || text}`;
    el.replaceChildren(...(button ? [copyButton(() => text, { label: button, title })] : [make("code", {}, text), copyButton(() => text, { title })]));
  };
}

function drawValue(model, el, received) {
  return () => el.replaceChildren(...(received.value === undefined ? [] : [make("pre", { tabindex: 0 }, received.value), copyButton(() => received.value, { title: "Copy the value", kind: "secondary" })]));
}

function drawSecret(model, el, received) {
  let visible = false;
  const code = make("code", { class: "pm-token" });
  const show = make("button", { type: "button", onclick: () => { visible = !visible; update(); } });
  const take = copyButton(() => received.secret, { label: "Copy token", kind: "main" });
  el.replaceChildren(code, show, take);
  function update() {
    const known = typeof received.secret === "string";
    code.textContent = !known ? "not available: a token is shown only once" : visible ? received.secret : "\u2022".repeat(12);
    show.textContent = visible ? "Hide" : "Show";
    show.setAttribute("aria-label", `${show.textContent} the token`);
    show.hidden = take.hidden = !known;
  }
  return update;
}

// -- countdown

function drawCountdown(model, el) {
  const bar = make("div", { class: "pm-bar", role: "timer" }, make("div"));
  const words = make("span", { class: "pm-faint" });
  el.replaceChildren(bar, words);
  function update() {
    const [until, length] = [model.get("until"), model.get("length")];
    const left = Math.max(0, Math.min(length, until - Date.now() / 1000));
    el.hidden = !until;
    bar.firstChild.style.width = `${(100 * left) / length}%`;
    bar.setAttribute("aria-label", model.get("label"));
    const about = model.get("about");
    if (left > 0) words.textContent = about ? `about ${left.toFixed(0)} of ${length} s left` : `${left.toFixed(1)} of ${length} s left`;
    else words.textContent = about ? `${length} s have passed: the next cell shows whether it is still open` : `time limit of ${length} s has passed`;
  }
  const timer = setInterval(update, 250);
  return Object.assign(update, { stop: () => clearInterval(timer) });
}

// -- events of the panel: displayed or closed, the end of its kernel, typed text, Enter and Escape in forms, lost focus

const ENDED = ["restarting", "autorestarting", "terminating", "dead"];

// Show that the kernel has stopped above the panel, or above the tabs; a click scrolls there.
function showEnd(panel) {
  const root = panel.closest(".pipemagic-tabs") ?? panel;
  if (root.classList.contains("pm-ended")) return;
  const words = make("p", { class: "pm-error", role: "alert" }, "The kernel has stopped. Run the cell again.");
  root.classList.add("pm-ended");
  root.prepend(words);
  root.addEventListener("click", () => words.scrollIntoView({ block: "nearest" }));
}

function drawEvents(model, el, received) {
  const page = crypto.randomUUID?.() ?? String(Math.random());
  const ONCE = ".pm-submit, .pm-primary"; // buttons that do something, once for each press
  const FOCUSABLE = "button:not(:disabled), input:not(:disabled), select:not(:disabled), [tabindex='0']";
  const report = (kind, { value }, field) => { if (field) model.send({ [kind]: value, field: [...field.classList].find((one) => one.startsWith("pm-field-")) }); };
  const typed = ({ target }) => report("typed", target, target.closest(".pm-typed"));
  const listeners = {
    input: typed,
    change: ({ target }) => { if (target.matches("select")) report("chosen", target, target.closest(".pm-choice")); }, // before ipywidgets sends its index
    keydown: (event) => {
      const form = event.target.closest(".pm-form");
      if (event.defaultPrevented) return;
      if (event.repeat && event.key === "Enter" && (form || event.target.closest(ONCE))) event.preventDefault(); // it is held down
      else if (event.key === "Escape") event.target.closest(".pm-form, .pm-closable")?.querySelector(".pm-cancel")?.click();
      else if (form && event.key === "Enter" && event.target.matches("input:not([type=checkbox]), select")) {
        event.preventDefault();
        if (event.target.matches("input")) event.target.dispatchEvent(new Event("change", { bubbles: true })); // its value is sent before the click
        form.querySelector(".pm-submit")?.click();
      }
    },
    click: (event) => { // state updates of fields wait while the kernel is busy, clicks do not: values go with them
      const { target } = event;
      if (event.detail > 1 && target.closest(ONCE)) { event.stopPropagation(); return; } // the second of a double click
      const form = target.closest(".pm-submit") && target.closest(".pm-form");
      if (!form) return;
      const value = (field) => (field.type === "checkbox" ? field.checked : field.value); // of a dropdown the label
      const name = [...form.classList].find((one) => one.startsWith("pm-form-"));
      model.send({ form: name, values: [...form.querySelectorAll("input, select")].map(value) });
    },
    focusin: ({ target, relatedTarget }) => {
      if (relatedTarget && target.closest(".pm-closable") && !relatedTarget.closest(".pm-closable")) opener = relatedTarget;
      last = target;
    },
    focusout: ({ target, relatedTarget }) => { if (!relatedTarget && usable(target)) last = undefined; },
  };
  let last, opener; // what had the focus last, and when the open form or box was opened
  const usable = (element) => element.isConnected && !element.disabled && element.offsetParent;
  const find = (element) => (element?.isConnected ? element : panel.querySelector(`[data-key="${CSS.escape(element?.dataset.key ?? "")}"]`));
  const restore = () => { // the focus that was lost with an element, or while it was disabled
    if (!last || document.activeElement !== document.body || (last.isConnected && last.disabled)) return;
    const before = find(opener), next = [last, before, ...panel.querySelectorAll("button, input, select")].find((one) => one && usable(one));
    next?.focus({ preventScroll: next !== before });
  };
  const observer = new MutationObserver(() => setTimeout(restore, 50));
  let panel, suppressing;
  // Else JupyterLab handles arrows and Enter as shortcuts, and Ctrl+A in grids. It checks the attribute on the target only. Ctrl+S still saves.
  const suppress = (event) => {
    suppressing?.removeAttribute("data-lm-suppress-shortcuts");
    const around = panel?.closest(".pipemagic-tabs") ?? panel;
    suppressing = around?.contains(event.target) ? event.target : undefined;
    suppressing?.toggleAttribute("data-lm-suppress-shortcuts", event.key === "Enter" || !(event.ctrlKey || event.metaKey) || (suppressing.closest("[role=grid]") && /^(a|Home|End|Arrow.*)$/.test(event.key)));
  };
  // ipywidgets marks widgets when their kernel restarts, but not when it was shut down or has died.
  const manager = model.widget_manager ?? {}, kernel = manager.kernel;
  const follow = (_kernel, status) => { if (!status || ENDED.includes(status)) showEnd(panel); };
  const timer = setInterval(() => { // until the element is attached
    panel = el.closest(".pipemagic-panel");
    if (!panel) return;
    clearInterval(timer);
    if (panel.matches(".jupyter-widgets-disconnected") || ("kernel" in manager && !kernel)) showEnd(panel);
    else el.classList.add("pm-live"); // the static form is hidden
    kernel?.statusChanged?.connect(follow);
    kernel?.disposed?.connect(follow);
    // in the capture phase, since text fields of ipywidgets stop keydown events from bubbling
    for (const [name, listener] of Object.entries(listeners)) panel.addEventListener(name, listener, true);
    for (const target of panel.querySelectorAll(".pm-typed input")) if (target.value) typed({ target }); // before the listeners were there
    observer.observe(panel, { subtree: true, childList: true, attributes: true, attributeFilter: ["disabled", "style"] });
  }, 20);
  const leave = () => model.send({ hidden: page });
  window.addEventListener("pagehide", leave);
  window.addEventListener("keydown", suppress, { capture: true });
  model.send({ shown: page });
  const focus = (name, attempts) => { // the element may be shown a moment later
    if (!document.hasFocus() || !(document.activeElement === document.body || panel?.contains(document.activeElement))) return;
    const first = [...panel.querySelectorAll(`.${name} :is(${FOCUSABLE})`)].find((one) => one.offsetParent);
    if (first) {
      opener = last ?? opener;
      first.focus();
    } else if (attempts) setTimeout(() => focus(name, attempts - 1), 50);
  };
  const update = () => {
    if (received.focus) focus(received.focus, 20);
    delete received.focus;
  };
  return Object.assign(update, {
    stop: () => {
      clearInterval(timer);
      kernel?.statusChanged?.disconnect(follow);
      kernel?.disposed?.disconnect(follow);
      observer.disconnect();
      window.removeEventListener("pagehide", leave);
      window.removeEventListener("keydown", suppress, { capture: true });
      for (const [name, listener] of Object.entries(listeners)) panel?.removeEventListener(name, listener, true);
      leave();
    },
  });
}

const DRAWERS = { table: drawTable, cells: drawCells, status: drawStatus, copy: drawCopy, value: drawValue, secret: drawSecret, countdown: drawCountdown, events: drawEvents };

const components = {
  render({ model, el }) {
    const received = {}; // rows, a value or a token, held by this page only
    const update = DRAWERS[model.get("kind")](model, el, received);
    const receive = (message) => { Object.assign(received, message); update(); };
    el.classList.add("pm-component", `pm-${model.get("kind")}`);
    model.on("change", update);
    model.on("msg:custom", receive);
    update();
    model.send({ ready: true });
    return () => {
      model.off("change", update);
      model.off("msg:custom", receive);
      update.stop?.();
    };
  },
};
globalThis.pipemagicComponents = { ...globalThis.pipemagicComponents, [VERSION]: components }; // VERSION: components.py
export default components;
