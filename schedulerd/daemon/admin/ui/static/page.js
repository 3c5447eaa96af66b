// Keeps the page fresh from its stream. Only texts and a few attributes are ever set, never markup.
"use strict";

const ATTRIBUTES = new Set(["class", "href", "title", "d"]);
const PAGE = /^\/ui\/[^\\]*$/;
const LATE_MS = 25000;      // the daemon says something every 10 s
const AGAIN_MS = 5000;
const RELOADS_APART_MS = 3000;

// Values ---------------------------------------------------------------------------------------------------------

function put(element, attribute, text) {
  if (!attribute) {
    if (element.textContent !== text) element.textContent = text;
  } else if (ATTRIBUTES.has(attribute) && (attribute !== "href" || PAGE.test(text))) {
    if (element.getAttribute(attribute) !== text) element.setAttribute(attribute, text);
  }
}

function putAll(fields, find) {
  for (const [name, text] of Object.entries(fields)) {
    const [id, attribute] = name.split("@");
    const element = find(id);
    if (element) put(element, attribute, text);
  }
}

function named(root, kind) {
  const found = {};
  if (root.dataset && root.dataset[kind] !== undefined) found[root.dataset[kind]] = root;
  for (const one of root.querySelectorAll(`[data-${kind}]`)) found[one.dataset[kind]] = one;
  return found;
}

const texts = named(document.body, "t");
const lists = named(document.body, "list");
const patterns = named(document.body, "row");
const empties = named(document.body, "empty");

function newRow(list, key) {
  const pattern = patterns[list.dataset.pattern || list.dataset.list];
  const row = pattern.content.firstElementChild.cloneNode(true);
  row.dataset.key = key;
  return row;
}

function putRow(row, fields) {
  const parts = named(row, "f");
  putAll(fields, (id) => parts[id]);
}

function putList(name, rows, isAll) {
  const list = lists[name];
  if (!list) return;
  const known = new Map([...list.children].map((row) => [row.dataset.key, row]));
  let at = list.firstElementChild;
  for (const [key, fields] of rows) {
    let row = known.get(key);
    if (!row && !isAll) continue;
    row = row || newRow(list, key);
    putRow(row, fields);
    if (!isAll) continue;
    known.delete(key);
    if (row === at) at = at.nextElementSibling;
    else list.insertBefore(row, at);
  }
  if (isAll) for (const row of known.values()) row.remove();
  showEmpty(name);
}

function showEmpty(name) {
  const list = lists[name];
  const note = empties[name];
  if (!note) return;
  const isEmpty = !list.firstElementChild;
  note.hidden = !isEmpty;
  const frame = list.closest("table");
  (frame ? frame.closest(".scroll") || frame : list).hidden = isEmpty;
}

function putEvent(data) {
  putAll(data.t || {}, (id) => texts[id]);
  for (const [name, list] of Object.entries(data.l || {})) putList(name, list.r, list.o);
}

// Stream: open only while the page is seen, because a browser has few connections to one host. ---------------------

let source = null;
let version = null;
let lastHeard = Date.now();
let again = 0;
let gone = "";              // why there is nothing to show, if the daemon said so

function streamAddress() {
  const address = new URL(document.body.dataset.stream, location.href);
  if (version) address.searchParams.set("after", version);
  return address;
}

function open() {
  if (source || document.hidden) return;
  clearTimeout(again);
  source = new EventSource(streamAddress());
  const heard = (event) => {
    lastHeard = Date.now();
    version = event.lastEventId || version;
    gone = "";
    say("");
  };
  for (const kind of ["whole", "changes"]) {
    source.addEventListener(kind, (event) => {
      heard(event);
      putEvent(JSON.parse(event.data));
    });
  }
  source.addEventListener("same", heard);
  source.addEventListener("form", reload);
  source.addEventListener("gone", (event) => {
    gone = JSON.parse(event.data).detail;
    say(gone);
    openAgain();
  });
  source.onerror = () => {
    say(gone || "connection lost");
    if (source && source.readyState === EventSource.CLOSED) {
      openAgain();
      leadToLogin();
    }
  };
}

function openAgain() {
  close();
  clearTimeout(again);
  again = setTimeout(open, AGAIN_MS);
}

// An EventSource does not say with which status it was refused, so it is asked for again: without a session to the login.
async function leadToLogin() {
  const stopped = new AbortController();
  try {
    const answer = await fetch(streamAddress(), { cache: "no-store", signal: stopped.signal });
    if (answer.status === 401) location.assign(`/ui/login?next=${encodeURIComponent(location.pathname + location.search)}`);
  } catch { /* the daemon is away: the stream is opened again later */ }
  stopped.abort();
}

function close() {
  if (source) source.close();
  source = null;
}

function reload() {
  close();
  const typing = document.activeElement && document.activeElement.matches("main input, main select, main textarea");
  const wait = typing ? AGAIN_MS : Math.max(0, RELOADS_APART_MS - performance.now());
  again = setTimeout(() => (typing ? reload() : location.reload()), wait);
}

function say(problem) {
  const place = document.getElementById("freshness");
  if (!place) return;
  const note = place.querySelector(".problem");
  if (note.hidden === !problem && note.textContent === (problem && `, ${problem}`)) return;
  note.textContent = problem && `, ${problem}`;
  note.hidden = !problem;
  place.classList.toggle("lost", Boolean(problem));
  document.body.classList.toggle("stale", Boolean(problem));
  const time = place.querySelector("time").textContent;
  document.getElementById("announcement").textContent = problem ? `Numbers are as of ${time} UTC: ${problem}.` : "";
}

if (document.body.dataset.stream) {
  for (const name of Object.keys(empties)) showEmpty(name);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) close();
    else open();
  });
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  addEventListener("offline", () => say("connection lost"));
  setInterval(() => {
    if (source && Date.now() - lastHeard > LATE_MS) {
      say("connection lost");
      close();
      open();
      lastHeard = Date.now();
    }
  }, 1000);
  open();
}

// Keys and theme -------------------------------------------------------------------------------------------------

document.addEventListener("keydown", (event) => {
  const typing = event.target.closest("input, select, textarea");
  if (event.key === "/" && !typing && !event.ctrlKey && !event.metaKey && !event.altKey) {
    event.preventDefault();
    document.getElementById("q").focus();
  } else if (event.key === "Escape" && typing && typing.id === "q") {
    typing.blur();
  }
});

const theme = document.getElementById("theme");
const dark = matchMedia("(prefers-color-scheme: dark)");

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : dark.matches;
}

function nameTheme() {
  theme.textContent = isDark() ? "Light theme" : "Dark theme";
}

theme.hidden = false;
theme.addEventListener("click", () => {
  const chosen = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = chosen;
  try { localStorage.setItem("theme", chosen); } catch { /* it holds for this page then */ }
  nameTheme();
});
dark.addEventListener("change", nameTheme);
nameTheme();
