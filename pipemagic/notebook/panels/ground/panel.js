// Draws a panel's tree (tree.py) and tells the kernel what people do in it. Texts become text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";
const OURS = new Set([
  "on", "key", "keep", "focus", "copy", "live", "until", "of", "since", "secret", "show", "disabled", "value", "checked",
]);
const TYPING = 150; // ms without a key before what is typed is looked at
const TICK = 100; // ms
const PATIENCE = 1000; // ms that the kernel may take before the panel says that it waits for it
const IDS = new Set(["id", "for", "aria-controls", "aria-describedby", "aria-labelledby"]);
const TYPED = "input:not([type=checkbox], [type=radio]), textarea"; // what letters go into
const FOCUSABLE = "a[href], button, input, select, textarea, [tabindex]:not([tabindex='-1'])";
const NOT_HELD = "not on this page: it is shown once";
const GONE = "The kernel of this panel is gone: run the cell again.";

const drawn = new WeakMap(); // element -> its node of the tree: [tag, attributes, children]
const openers = new WeakMap(); // element with `focus` -> what had the focus before
const away = new WeakMap(); // element -> its children with `keep` that are not on the page now, by key
const sent = new WeakMap(); // field -> what it held when its form was sent, '' once that was written over

function same(element, node) {
  if (typeof node === "string") return element.nodeType === Node.TEXT_NODE;
  const before = drawn.get(element);
  return before !== undefined && before[0] === node[0] && before[1].key === node[1].key;
}

function create(node, inSvg, page) {
  if (typeof node === "string") return document.createTextNode(node);
  const svg = inSvg || node[0] === "svg";
  const element = svg ? document.createElementNS(SVG, node[0]) : document.createElement(node[0]);
  update(element, node, svg, page);
  if (node[0] === "form") page.born.push(element);
  if (node[1].focus) {
    openers.set(element, keysTo(page.before, page));
    // Arrows go on along the row of tabs, whatever is in the one that they come to.
    if (page.mayFocus && page.before?.getAttribute("role") !== "tab") page.after.push(() => element.focus());
  }
  return element;
}

function update(element, node, svg, page) {
  if (typeof node === "string") {
    if (element.data !== node) element.data = node;
    return;
  }
  const before = drawn.get(element)?.[1] ?? {};
  const [tag, attributes, children] = node;
  drawn.set(element, node);
  for (const name of Object.keys(before)) {
    if (!(name in attributes) && !OURS.has(name)) element.removeAttribute(name);
  }
  for (const [name, value] of Object.entries(attributes)) {
    if (OURS.has(name) || before[name] === value) continue;
    // "@name" is an id of this page's own: a panel may be shown twice.
    const given = value === true ? "" : String(value);
    element.setAttribute(name, IDS.has(name) ? given.replace(/^@/, page.prefix) : given);
  }
  // Not the attribute `disabled`: what has it loses the focus, and people at a keyboard their place.
  if (attributes.disabled) element.setAttribute("aria-disabled", "true");
  else element.removeAttribute("aria-disabled");
  const chosen = element.tagName === "SELECT" ? element.value : "";
  patch(element, children, svg, page);
  if (attributes.value !== undefined && attributes.value !== before.value) give(element, attributes.value, before.value);
  else if (chosen !== "" && offers(element, chosen)) element.value = chosen; // options that move lose it
  if (attributes.checked !== before.checked) element.checked = Boolean(attributes.checked);
  if (attributes.until !== undefined) tick(element, page);
  if (attributes.since !== undefined) grow(element, page);
  if (attributes.secret !== undefined || attributes.show !== undefined) cover(element, page);
}

// A field whose value is another one now takes it, unless somebody has been writing in it since.
function give(element, value, before = "") {
  if (element.matches(TYPED) && held(element) !== (sent.get(element) ?? before)) return;
  element.value = value;
  if (sent.has(element)) sent.set(element, value);
}

function offers(list, value) {
  return [...list.options].some((one) => one.value === value);
}

function patch(parent, nodes, svg, page) {
  const old = [...parent.childNodes];
  const keyed = new Map();
  for (const element of old) {
    const key = drawn.get(element)?.[1].key;
    if (key !== undefined) keyed.set(key, element);
  }
  const plain = old.filter((element) => drawn.get(element)?.[1].key === undefined);
  const wanted = nodes.map((node) => {
    const key = typeof node === "string" ? undefined : node[1].key;
    let found;
    if (key !== undefined) {
      found = keyed.get(key) ?? bringBack(parent, key, page);
      keyed.delete(key);
    } else {
      const place = plain.findIndex((element) => same(element, node));
      if (place >= 0) [found] = plain.splice(place, 1);
    }
    if (found === undefined || !same(found, node)) return create(node, svg, page);
    update(found, node, svg || node[0] === "svg", page);
    return found;
  });
  const kept = new Set(wanted);
  for (const element of old) if (!kept.has(element)) remove(element, page);
  wanted.forEach((element, place) => {
    if (parent.childNodes[place] !== element) parent.insertBefore(element, parent.childNodes[place] ?? null);
  });
}

function remove(element, page) {
  const inside = [element, ...(element.querySelectorAll?.("*") ?? [])];
  if (element.contains(page.before)) {
    const opened = inside.find((one) => openers.has(one));
    if (opened !== undefined) page.back = openers.get(opened);
  }
  if (drawn.get(element)?.[1].keep) putAway(element, inside, page);
  else page.gone.push(...inside.filter((one) => one.tagName === "FORM"));
  element.remove();
}

// What is typed in an element, and how far it is scrolled, stays until it comes back; a secret is hidden there.
function putAway(element, inside, page) {
  if (inside.some((one) => drawn.get(one)?.[1].secret === page.shown)) page.shown = undefined;
  for (const one of inside.filter(isCover)) cover(one, page);
  const parent = element.parentNode;
  const scrolled = inside.filter((one) => one.scrollTop || one.scrollLeft)
    .map((one) => [one, one.scrollTop, one.scrollLeft]);
  if (!away.has(parent)) away.set(parent, new Map());
  away.get(parent).set(drawn.get(element)[1].key, { element, scrolled });
}

function bringBack(parent, key, page) {
  const kept = away.get(parent)?.get(key);
  if (kept === undefined) return undefined;
  away.get(parent).delete(key);
  page.scrolled.push(...kept.scrolled);
  return kept.element;
}

// When work ends, its form gives way to an empty one, and some people write the next name by then: that is theirs. A
// form is followed by one that does the same, and whose key differs in the number at its end.
function carry(page) {
  const kind = (form) => JSON.stringify([drawn.get(form)[1].on?.submit, drawn.get(form)[1].key?.replace(/\d+$/, "")]);
  for (const old of page.gone.splice(0)) {
    const next = page.born.find((form) => kind(form) === kind(old));
    if (next === undefined) continue;
    for (const field of old.elements) {
      const to = [...next.elements].find((one) => one.name === field.name && one.type === field.type);
      // What confirms a deletion is typed for each one.
      if (to === undefined || ["confirmation", ""].includes(field.name) || field.type === "password") continue;
      if (sent.has(field) && sent.get(field) !== held(field)) write(to, field, page);
    }
  }
  page.born.splice(0);
}

function held(field) {
  return field.type === "checkbox" || field.type === "radio" ? field.checked : field.value;
}

// A button that came up took the focus from a field, and letters come still: they are for the field.
function goOnWriting(event, page) {
  const isLetter = event.key.length === 1 && event.key !== " " && !(event.ctrlKey || event.metaKey || event.altKey);
  const { element, field } = page.wrote ?? {};
  if (isLetter && event.target === element && !element.matches(TYPED) && field?.matches(TYPED)) field.focus();
}

// Puts into a field what another one held since that one was sent, the caret at the same letter.
function write(to, field, page) {
  if (typeof held(field) === "boolean") to.checked = field.checked;
  else if (field.selectionStart === null || field.selectionStart === undefined) to.value = field.value;
  else {
    const cut = field.value.startsWith(sent.get(field)) ? sent.get(field).length : 0;
    to.value = field.value.slice(cut);
    const [start, end] = [field.selectionStart, field.selectionEnd].map((place) => Math.max(0, place - cut));
    to.setSelectionRange(start, end, field.selectionDirection);
  }
  if (field === page.before) page.goOn = to;
  for (const name of ["input", "change"]) to.dispatchEvent(new Event(name, { bubbles: true })); // looked at as typed
}

// Draws the tree, and sees to it that people at a keyboard keep their place.
function draw(page, tree) {
  const { root } = page;
  const active = document.activeElement;
  const inside = root !== active && root.contains(active);
  const places = inside ? [...root.querySelectorAll(FOCUSABLE)] : [];
  // Work may end when people type elsewhere on the page by now: nothing takes the focus from there. Nor does a page of
  // the same panel in which nobody did anything, or one that is just being loaded.
  page.mayFocus = page.acted && (active === null || active.contains(root) || inside);
  page.before = inside ? active : undefined;
  page.back = page.goOn = undefined;
  patch(root, [tree], false, page);
  if (page.shown !== undefined) coverAll(page);
  page.scrolled.splice(0).forEach(([one, top, left]) => one.scrollTo({ top, left, behavior: "instant" }));
  carry(page);
  const after = page.after.splice(0);
  if (page.goOn === undefined) after.forEach((act) => act());
  if (!inside || document.activeElement === active) return;
  const moved = root.contains(active);
  const same = moved ? active : successor(places, active, root);
  if (after.length && page.goOn === undefined) {
    page.wrote = { element: document.activeElement, field: same };
    return;
  }
  const next = page.goOn ?? (moved ? active : find(root, page.back)) ?? same
    ?? beside(places, places.indexOf(active), root) ?? root;
  next.focus({ preventScroll: true });
}

// What took the place of an element, such as the same field of a new form.
function successor(places, gone, root) {
  const words = (one) => one.name || one.getAttribute("aria-label") || one.textContent;
  const old = new Set(places);
  return [...root.querySelectorAll(FOCUSABLE)].find((one) =>
    !old.has(one) && one.tagName === gone.tagName && words(one) === words(gone));
}

// What could have the focus next to a place whose element is gone: the one after it, else the one before.
function beside(places, place, root) {
  const there = (one) => root.contains(one);
  return places.slice(place + 1).find(there) ?? places.slice(0, Math.max(0, place)).reverse().find(there);
}

// Draws a secret, or its button. A page shows one at most, while it is there and people want to see it.
function cover(element, page) {
  const { secret, show } = drawn.get(element)[1];
  const name = secret ?? show;
  const held = page.secrets.has(name);
  const shown = held && page.shown === name;
  const dots = held ? "\u2022".repeat(12) : NOT_HELD;
  const words = show !== undefined ? (shown ? "Hide" : "Show") : shown ? page.secrets.get(name) : dots;
  if (element.textContent !== words) element.textContent = words;
  const label = show !== undefined ? `${words} the token` : held && !shown ? "The token, hidden" : undefined;
  if (label === undefined) element.removeAttribute("aria-label");
  else element.setAttribute("aria-label", label);
}

function isCover(element) {
  const attributes = drawn.get(element)?.[1] ?? {};
  return attributes.secret !== undefined || attributes.show !== undefined;
}

function coverAll(page) {
  const covers = [...page.root.querySelectorAll("*")].filter(isCover);
  const drawnHere = covers.some((element) => drawn.get(element)[1].secret === page.shown);
  if (!drawnHere || !page.secrets.has(page.shown)) page.shown = undefined;
  for (const element of covers) cover(element, page);
}

// The keys on the way to an element, by which it is found again when it was drawn anew.
function keysTo(element, page) {
  const keys = [];
  for (let at = element; at && at !== page.root; at = at.parentNode) {
    const node = drawn.get(at);
    if (node?.[1].key !== undefined) keys.unshift(node[1].key);
  }
  return element && page.root.contains(element) ? { keys, element } : undefined;
}

function find(root, back) {
  if (back === undefined) return undefined;
  if (root.contains(back.element)) return back.element;
  let at = root;
  for (const key of back.keys) {
    const next = [...at.querySelectorAll("*")].find((one) => drawn.get(one)?.[1].key === key);
    if (next === undefined) break;
    at = next;
  }
  return at === root ? undefined : at.matches(FOCUSABLE) ? at : at.querySelector(FOCUSABLE) ?? undefined;
}

function valuesAround(element, root) {
  const scope = element.closest("form, [data-fields]") ?? (root.contains(element) ? root : element.getRootNode());
  const values = {};
  for (const field of scope.querySelectorAll("input[name], select[name], textarea[name]")) {
    if (field.type === "radio" && !field.checked) continue;
    values[field.name] = field.type === "checkbox" ? field.checked : field.value;
  }
  return values;
}

function tick(element, page) {
  const { until, of } = drawn.get(element)[1];
  const left = Math.max(0, Math.min(of, until - (Date.now() / 1000 - page.ahead)));
  element.style.setProperty("--left", String(left / of));
  element.classList.toggle("pm-short", left < Math.min(2, of / 3));
  const words = left > 0 ? `${left.toFixed(1)} of ${of} s left` : `its ${of} s are over`;
  if (element.dataset.words !== words) element.dataset.words = words;
}

// How long ago `since` was, in its two largest units.
function grow(element, page) {
  const seconds = Math.max(0, Math.floor(Date.now() / 1000 - page.ahead - drawn.get(element)[1].since));
  const minutes = Math.floor(seconds / 60);
  const hours = Math.floor(minutes / 60);
  const words = hours ? `${hours} h ${minutes % 60} min` : minutes ? `${minutes} min ${seconds % 60} s` : `${seconds} s`;
  if (element.textContent !== words) element.textContent = words;
}

async function copy(text, element, page) {
  let words = "Copied";
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    const field = document.createElement("textarea"); // pages without a secure origin have no clipboard
    field.value = text;
    element.after(field);
    field.select();
    if (!document.execCommand("copy")) words = "This page may not copy: select it and press Ctrl+C";
    field.remove();
    element.focus();
  }
  tell(page, words);
  element.classList.add("pm-copied");
  setTimeout(() => {
    element.classList.remove("pm-copied");
    tell(page, "");
  }, 1500);
}

function tell(page, words) {
  if (page.said.textContent !== words) page.said.textContent = words;
}

function listen(page, channel, signal) {
  const send = (action, element) => {
    channel.pages.forEach((one) => { one.acted = one === page; });
    channel.send({ action, values: valuesAround(element, page.root) });
  };
  const timers = new WeakMap();
  // What was typed counts where it is kept for later, but not in a form that gave way to another one.
  const isThere = (element) => page.root.contains(element) || drawn.get(element.getRootNode())?.[1].keep;
  const handler = (event, name) => {
    for (let at = event.target; at && at !== page.root.parentNode; at = at.parentNode) {
      const attributes = drawn.get(at)?.[1];
      const ours = name === "click" && (attributes?.copy !== undefined || attributes?.show !== undefined);
      if (attributes?.on?.[name] === undefined && !ours) continue;
      return [at, attributes];
    }
    return [];
  };
  const on = (name, react) =>
    page.root.addEventListener(name, (event) => {
      const [element, attributes] = handler(event, name);
      if (element !== undefined) react(event, element, attributes);
    }, { signal });
  on("click", (_event, element, attributes) => {
    if (attributes.disabled) return;
    if (attributes.copy !== undefined) {
      const text = attributes.copy.secret === undefined ? attributes.copy : page.secrets.get(attributes.copy.secret);
      if (text === undefined) tell(page, "This page does not hold it: it was shown once");
      else copy(text, element, page);
    } else if (attributes.show !== undefined) {
      page.shown = page.shown === attributes.show ? undefined : attributes.show;
      coverAll(page);
      tell(page, page.secrets.has(attributes.show) ? "" : "This page does not hold it: it was shown once");
    } else send(attributes.on.click, element);
  });
  on("submit", (event, element, attributes) => {
    event.preventDefault();
    for (const field of element.elements) clearTimeout(timers.get(field)); // what was typed goes with the form
    const button = element.querySelector("button[type=submit]");
    if (button?.getAttribute("aria-disabled") === "true") return;
    for (const field of element.elements) if (field.name) sent.set(field, held(field));
    send(attributes.on.submit, element);
  });
  on("input", (_event, element, attributes) => {
    clearTimeout(timers.get(element));
    timers.set(element, setTimeout(() => { if (isThere(element)) send(attributes.on.input, element); }, TYPING));
  });
  const writeOver = ({ target }) => {
    const before = sent.get(target);
    if (before && target.selectionStart < before.length) sent.set(target, "");
  };
  for (const name of ["beforeinput", "input"]) page.root.addEventListener(name, writeOver, { signal });
  on("change", (_event, element, attributes) => send(attributes.on.change, element));
  window.addEventListener("keydown", (event) => {
    // Keys here are for the panel, not for the notebook around it, which would run its cell; but Ctrl+S still saves.
    const forAll = (event.ctrlKey || event.metaKey) && event.key !== "Enter";
    // On the very element: a shortcut for whatever has the focus is found before what is around that is looked at, and
    // would take the arrow keys from lists.
    // And on nothing else: a table that had the focus before would keep Ctrl+S from the buttons in it.
    page.suppressing?.removeAttribute("data-lm-suppress-shortcuts");
    if (!page.root.contains(event.target)) return;
    page.suppressing = event.target;
    event.target.toggleAttribute("data-lm-suppress-shortcuts", !forAll);
  }, { capture: true, signal });
  page.root.addEventListener("keydown", (event) => {
    if (event.isComposing) return; // Enter and Escape are for the input method
    goOnWriting(event, page);
    if (event.key === "Escape") {
      const [element, attributes] = handler(event, "escape");
      if (element === undefined) return;
      event.stopPropagation();
      send(attributes.on.escape, element);
    } else if (event.key === "Enter" && event.target.matches("form input")) {
      event.preventDefault(); // not by itself: notebooks keep Enter from browsers
      event.target.form.requestSubmit();
    } else if (event.target.getAttribute("role") === "tab" && ["ArrowLeft", "ArrowRight", "Home", "End"].includes(event.key)) {
      const tabs = [...event.target.closest("[role=tablist]").querySelectorAll("[role=tab]")];
      const place = tabs.indexOf(event.target);
      const last = tabs.length - 1;
      const next = { ArrowLeft: place ? place - 1 : last, ArrowRight: place < last ? place + 1 : 0, Home: 0, End: last }[event.key];
      event.preventDefault();
      tabs[next].focus();
      tabs[next].click();
    }
  }, { signal });
}

// Between the pages of one panel and its kernel. Secrets are here and nowhere else: gone when the page is loaded again.
function open(model) {
  const channel = { secrets: new Map(), pages: new Set(), ahead: 0, gone: false, number: 0, waiting: new Map() };
  const notice = (words, role) => channel.pages.forEach((page) => {
    page.notice.setAttribute("role", role);
    if (page.notice.textContent !== words) page.notice.textContent = words;
  });
  const late = () => notice("The kernel is busy with a cell: this waits for its end.", "status");
  const heard = (number) => {
    clearTimeout(channel.waiting.get(number));
    channel.waiting.delete(number);
    if (!channel.waiting.size && !channel.gone) notice("", "status");
  };
  channel.end = () => {
    channel.gone = true;
    channel.waiting.forEach((timer) => clearTimeout(timer));
    channel.secrets.clear();
    notice(GONE, "alert");
    channel.pages.forEach((page) => {
      coverAll(page);
      page.root.classList.add("pm-gone");
    });
  };
  channel.send = (message) => {
    if (channel.gone) return;
    const number = ++channel.number;
    channel.waiting.set(number, setTimeout(late, PATIENCE));
    try {
      model.send({ ...message, number });
    } catch {
      channel.end();
    }
  };
  model.on("msg:custom", (message) => {
    if (message.now !== undefined) channel.ahead = Date.now() / 1000 - message.now;
    if (message.heard !== undefined) heard(message.heard);
    if (message.anybody && channel.pages.size) channel.send({ seen: true }); // the last page of another window is gone
    if (message.secret === undefined) return;
    if (message.value === null) channel.secrets.delete(message.secret);
    else channel.secrets.set(message.secret, message.value);
    channel.pages.forEach(coverAll);
  });
  return channel;
}

function render(channel, model, el) {
  const root = document.createElement("div");
  root.className = "pipemagic-panel";
  root.tabIndex = -1;
  const said = document.createElement("div");
  said.className = "pm-said";
  said.setAttribute("role", "status");
  const notice = document.createElement("div");
  notice.className = "pm-notice";
  el.append(root, notice, said);
  const page = {
    root, said, notice, after: [], born: [], gone: [], scrolled: [], acted: false,
    prefix: `pipemagic-${Math.random().toString(36).slice(2)}-`,
    secrets: channel.secrets, get ahead() { return channel.ahead; },
  };
  const redraw = () => draw(page, model.get("tree"));
  const stop = new AbortController();
  listen(page, channel, stop.signal);
  const live = () => setTimeout(() => channel.send({ clock: true })); // to a kernel that is gone this fails
  model.on("change:tree", redraw);
  model.on("comm_live_update", live);
  redraw();
  channel.pages.add(page);
  if (channel.gone) channel.end();
  else if (channel.pages.size === 1) channel.send({ seen: true });
  const timer = setInterval(() => {
    if (channel.gone) return;
    for (const element of root.querySelectorAll(".pm-clock")) tick(element, page);
    for (const element of root.querySelectorAll(".pm-age")) grow(element, page);
  }, TICK);
  return () => {
    stop.abort();
    clearInterval(timer);
    model.off("change:tree", redraw);
    model.off("comm_live_update", live);
    channel.pages.delete(page);
    if (!channel.pages.size) channel.send({ seen: false });
  };
}

// A function, called for each panel: what its pages share is in its closure.
export default () => {
  let channel;
  return {
    initialize: ({ model }) => {
      channel = open(model);
    },
    render: ({ model, el }) => render(channel, model, el),
  };
};
