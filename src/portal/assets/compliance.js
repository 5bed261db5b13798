/* The proof of one compliance entry, checked in the browser: asks the portal for it, and believes nothing of the answer. */

const PIN = "signet.log-key";

/** `{key, from: "service" | "viewer", since, note}`: the key that this browser keeps, and the last note it checked with it. */
function readPin() {
  try {
    const pin = JSON.parse(localStorage.getItem(PIN) ?? "null");
    return typeof pin?.key === "string" ? pin : undefined;
  } catch {
    return undefined;
  }
}

/** False where the browser keeps nothing. */
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

/** What is said about a check; `problem` interrupts a screen reader. */
function say(place, kind, heading, ...paragraphs) {
  const notice = document.createElement("div");
  notice.className = `notice ${kind}`;
  notice.setAttribute("role", kind === "problem" ? "alert" : "status");
  notice.append(element("strong", heading), ...paragraphs.map((text) => element("p", text)));
  place.replaceChildren(notice);
}

const day = (iso) => new Date(iso).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });

const REFUSED_KEY = [
  "Either the operators of this service have changed the key, or somebody who is not them has written this log. Nothing was kept.",
  "Ask the operators for the verifier key, by another way than this page. If they have changed it, forget the kept key with the button above and type the new one.",
];

/** Why a key cannot be used beside the one that is kept; undefined where it can. */
function conflictOf(pin, typed, named) {
  if (pin === undefined) {
    return undefined;
  }
  if (typed !== "" && typed !== pin.key) {
    return pin.from === "service"
      ? "Refused: the key that you typed is not the one that this service named before."
      : "Refused: the key that you typed is not the one that this browser keeps.";
  }
  return typeof named === "string" && named !== pin.key
    ? "Refused: the service now names another key than the one that this browser keeps."
    : undefined;
}

/** What a key is worth by where it came from. */
function worthOf({ from, since }) {
  return from === "service"
    ? `The key came from this service itself, and this browser keeps it since ${day(since)}. So it shows that the log is the one that was signed with this key all that time. It does not show that the key is the operators': whoever could put a false log here could put a false key here. Compare it with the key that the operators publish elsewhere, and type that one above.`
    : `The key was typed in here on ${day(since)}. The proof is as good as the way by which you got it.`;
}

function sayHolds(place, pin, kept, { entry, size, origin, root }) {
  const paragraphs = [
    `The entry is in the log ${origin} of ${size} entries, which was signed with this key.`,
    worthOf(pin),
    ...(kept ? [] : ["This browser keeps nothing: it will not notice another key next time."]),
    "This page comes from the service too. Who must not trust it at all checks with the command, on a machine of their own.",
  ];
  say(place, "done", "The proof holds.", ...paragraphs);
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

/** The service's answer; undefined once it was said that there is none. */
async function ask(url, place) {
  const response = await fetch(url, { headers: { accept: "application/json" }, credentials: "same-origin" });
  const isJson = (response.headers.get("content-type") ?? "").startsWith("application/json");
  const answer = isJson ? await response.json() : undefined;
  if (response.ok && answer !== undefined) {
    return answer;
  }
  const detail = answer?.detail ?? "Load this page again: the session may be over.";
  say(place, "problem", "Not checked: the service gave no proof.", detail);
  return undefined;
}

/** What the browser keeps after a check: a key that the viewer has typed counts from then on. */
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
      "Not checked: type the verifier key.",
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
      "Refused: this log is not signed with the key that this browser keeps.",
      ...REFUSED_KEY,
    );
  } else if (error.code === "key" || error.code === "malformed-key") {
    say(
      place,
      "problem",
      "Refused: this is not the key that the log is signed with.",
      `What was found: ${error.message}.`,
    );
  } else {
    const found = `What was found: ${error.message}.`;
    const next = "Do not rely on this entry. Keep this page, and have the operators run the command below.";
    say(place, "problem", "The proof does not hold.", found, next);
  }
}

const UNABLE = {
  insecure: "Browsers verify signatures on pages that came over HTTPS only, and this one did not.",
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
    const whose = pin?.from === "service" ? "named by this service" : "typed in here";
    pinned.textContent =
      pin === undefined
        ? "This browser keeps no key yet."
        : `This browser keeps a key, ${whose} on ${day(pin.since)}: ${pin.key}`;
  };
  keyChanged();
  forget.addEventListener("click", () => {
    localStorage.removeItem(PIN);
    field.value = "";
    keyChanged();
    say(place, "done", "The key is forgotten.", "The next check keeps the one that it is made with.");
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
