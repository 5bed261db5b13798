/* Fetches the proof of one compliance entry and verifies it in the browser, without trust in the answer. */

const PIN = "signet.log-key";

/** Returns `{key, from: "service" | "viewer", since, note}`: the key that this browser saved, and the last verified note. */
function readPin() {
  try {
    const pin = JSON.parse(localStorage.getItem(PIN) ?? "null");
    return typeof pin?.key === "string" ? pin : undefined;
  } catch {
    return undefined;
  }
}

/** Returns false if the browser saves nothing. */
function writePin(pin) {
  try {
    localStorage.setItem(PIN, JSON.stringify(pin));
    return true;
  } catch {
    return false;
  }
}

function element(name, text, className) {
  const made = document.createElement(name);
  made.textContent = text;
  if (className !== undefined) {
    made.className = className;
  }
  return made;
}

/** Shows the result of a check; kind `problem` interrupts a screen reader. */
function say(place, kind, heading, ...paragraphs) {
  const notice = document.createElement("div");
  notice.className = `notice ${kind}`;
  notice.setAttribute("role", kind === "problem" ? "alert" : "status");
  notice.append(element("strong", heading), ...paragraphs.map((text) => element("p", text)));
  place.replaceChildren(notice);
}

const day = (iso) => new Date(iso).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });

const REFUSED_KEY = [
  "Either the operators of this service changed the key, or somebody else wrote this log. Nothing was saved.",
  "Ask the operators for the verifier key, but not through this page. If they changed it, remove the saved key with the button above and enter the new one.",
];

/** Returns the reason if a key conflicts with the saved key, otherwise undefined. */
function conflictOf(pin, typed, named) {
  if (pin === undefined) {
    return undefined;
  }
  if (typed !== "" && typed !== pin.key) {
    return pin.from === "service"
      ? "Rejected: the key that you entered is not the one that this service named before."
      : "Rejected: the key that you entered is not the one that this browser saved.";
  }
  return typeof named === "string" && named !== pin.key
    ? "Rejected: the service now names a different key from the one that this browser saved."
    : undefined;
}

/** Returns what a proof with this key shows, depending on the key's source. */
function worthOf({ from, since }) {
  return from === "service"
    ? `The key came from this service itself, and this browser saved it on ${day(since)}. The proof shows that the log has been signed with the same key since then. It does not show that the key belongs to the operators: an attacker who can show a false log here can also show a false key. Get the key that the operators publish elsewhere, and enter it above.`
    : `The key was entered here on ${day(since)}. The proof is as trustworthy as the source of that key.`;
}

function sayHolds(place, pin, kept, { entry, size, origin, root }) {
  const paragraphs = [
    `The entry is in the log ${origin}, which has ${size} entries and is signed with this key.`,
    worthOf(pin),
    ...(kept ? [] : ["This browser does not save the key, so it will not notice a different key next time."]),
    "This page also comes from the service. If you do not trust the service at all, run the command below on your own machine.",
  ];
  say(place, "done", "The proof is valid.", ...paragraphs);
  const facts = document.createElement("dl");
  facts.className = "facts";
  for (const [name, value] of [
    ["Verifier key", pin.key],
    ["Root of the tree", root],
  ]) {
    const pair = document.createElement("div");
    const shown = document.createElement("dd");
    shown.append(element("code", value));
    pair.append(element("dt", name), shown);
    facts.append(pair);
  }
  const signed = element("pre", JSON.stringify(entry, undefined, 2));
  signed.tabIndex = 0;
  signed.setAttribute("role", "region");
  signed.setAttribute("aria-label", "The entry as it was signed");
  place.append(facts, element("h3", "The entry as it was signed"), signed);
}

/** Returns the service's answer; if there is none, shows the problem and returns undefined. */
async function ask(url, place) {
  const response = await fetch(url, { headers: { accept: "application/json" }, credentials: "same-origin" });
  const isJson = (response.headers.get("content-type") ?? "").startsWith("application/json");
  const answer = isJson ? await response.json() : undefined;
  if (response.ok && answer !== undefined) {
    return answer;
  }
  const detail = answer?.detail ?? "Reload this page; your session may have ended.";
  say(place, "problem", "Not checked: the service gave no proof.", detail);
  return undefined;
}

/** Returns what to save after a check; a key that the viewer entered replaces one from the service. */
function nextPin(pin, { key, viewers, note }) {
  const keptSince = pin !== undefined && (pin.from === "viewer" || !viewers);
  const since = keptSince ? pin.since : new Date().toISOString();
  return { key, from: viewers ? "viewer" : (pin?.from ?? "service"), since, note };
}

async function check({ proof, section, field, place, keyChanged }) {
  const { index, url } = section.dataset;
  const pin = readPin();
  const from = pin?.note === undefined ? undefined : proof.sizeOf(pin.note);
  const answer = await ask(from === undefined ? url : `${url}?from=${from}`, place);
  if (answer === undefined) {
    return;
  }
  const typed = field.value.trim();
  const conflict = conflictOf(pin, typed, answer.verifier_key);
  if (conflict !== undefined) {
    say(place, "problem", conflict, ...REFUSED_KEY);
    return;
  }
  const key = pin?.key ?? (typed || answer.verifier_key);
  if (!key) {
    say(
      place,
      "problem",
      "Not checked: enter the verifier key.",
      "The service does not name the key of this log.",
    );
    field.focus();
    return;
  }
  try {
    const checked = await proof.checkEntry(Number(index), answer, { key, earlier: pin?.note });
    const next = nextPin(pin, { key, viewers: typed !== "", note: checked.note });
    sayHolds(place, next, writePin(next), checked);
    keyChanged();
  } catch (error) {
    refuse(place, error, pin);
  }
}

function refuse(place, error, pin) {
  if (error.code === "key" && pin !== undefined) {
    say(
      place,
      "problem",
      "Rejected: this log is not signed with the key that this browser saved.",
      ...REFUSED_KEY,
    );
  } else if (error.code === "key" || error.code === "malformed-key") {
    say(
      place,
      "problem",
      "Rejected: this is not the key that the log is signed with.",
      `Reason: ${error.message}.`,
    );
  } else {
    const found = `Reason: ${error.message}.`;
    const next = "Do not rely on this entry. Keep this page, and ask the operators to run the command below.";
    say(place, "problem", "The proof is not valid.", found, next);
  }
}

const UNABLE = {
  insecure: "Browsers verify signatures only on pages that use HTTPS, and this page does not.",
  no: "This browser cannot verify Ed25519 signatures (Chromium can from version 137, Firefox from 129, Safari from 17).",
};

async function start(section) {
  const form = section.querySelector("form");
  const place = section.querySelector("[data-verdict]");
  const field = form.elements.namedItem("vkey");
  const forget = section.querySelector("[data-forget]");
  const pinned = section.querySelector("[data-pinned]");
  section.hidden = false;
  const proof = await import(section.dataset.module);
  const able = await proof.ability();
  if (able !== "yes") {
    form.remove();
    say(place, "problem", "Not checked here.", UNABLE[able], "Use the command below.");
    return;
  }
  const keyChanged = () => {
    const pin = readPin();
    forget.hidden = pin === undefined;
    const whose = pin?.from === "service" ? "named by this service" : "entered here";
    pinned.textContent =
      pin === undefined
        ? "This browser has no saved key yet."
        : `This browser has a saved key, ${whose} on ${day(pin.since)}: ${pin.key}`;
  };
  keyChanged();
  forget.addEventListener("click", () => {
    localStorage.removeItem(PIN);
    field.value = "";
    keyChanged();
    say(place, "done", "The key was removed.", "The next check saves the key that it uses.");
    field.focus();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    check({ proof, section, field, place, keyChanged }).catch((error) => refuse(place, error, readPin()));
  });
}

const section = document.querySelector("[data-proof]");
if (section) {
  void start(section);
}
