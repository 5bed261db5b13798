/** Fetches the proof of one compliance entry and verifies it in the browser, without trust in the answer. */
import { encodeHex } from "#lib/transparency-log/bytes.ts";
import { type VerifiedEntry, verifyEntry } from "#lib/transparency-log/compliance-proof.ts";
import { parseCheckpoint, VerifierKeyError } from "#lib/transparency-log/signed-note.ts";
import { ability, WEB_CRYPTO } from "./web-crypto.ts";

const PIN = "signet.log-key";

/** The key that this browser saved. */
interface Pin {
  readonly key: string;
  /** Source of the key. */
  readonly from: "service" | "viewer";
  /** ISO 8601. */
  readonly since: string;
  /** The last note that was verified with the key. */
  readonly note: string;
}

/** What the service answers; `proofAnswer` of ../pages/compliance.ts. */
interface ProofAnswer {
  readonly entry: string;
  readonly note: string;
  readonly verifier_key: string | null;
  readonly hashes: readonly string[];
  /** If the request named an earlier size. */
  readonly consistency?: readonly string[];
}

/** The parts of the page. */
interface View {
  readonly index: number;
  /** Path of the proof. */
  readonly url: string;
  readonly form: HTMLFormElement;
  readonly field: HTMLInputElement;
  readonly place: HTMLElement;
  readonly forget: HTMLButtonElement;
  readonly pinned: HTMLElement;
}

function readPin(): Pin | undefined {
  try {
    const pin = JSON.parse(localStorage.getItem(PIN) ?? "null") as Pin | null;
    return typeof pin?.key === "string" ? pin : undefined;
  } catch {
    return undefined;
  }
}

/** Returns false if the browser saves nothing. */
function writePin(pin: Pin): boolean {
  try {
    localStorage.setItem(PIN, JSON.stringify(pin));
    return true;
  } catch {
    return false;
  }
}

function element(name: string, text: string, className?: string): HTMLElement {
  const made = document.createElement(name);
  made.textContent = text;
  if (className !== undefined) {
    made.className = className;
  }
  return made;
}

/** Shows the result of a check; kind `problem` interrupts a screen reader. */
function say(
  place: HTMLElement,
  kind: "done" | "problem",
  heading: string,
  ...paragraphs: readonly string[]
): void {
  const notice = document.createElement("div");
  notice.className = `notice ${kind}`;
  notice.setAttribute("role", kind === "problem" ? "alert" : "status");
  notice.append(element("strong", heading), ...paragraphs.map((text) => element("p", text)));
  place.replaceChildren(notice);
}

const day = (iso: string): string =>
  new Date(iso).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "short" });

const REFUSED_KEY = [
  "Either the operators of this service changed the key, or somebody else wrote this log. Nothing was saved.",
  "Ask the operators for the verifier key, but not through this page. If they changed it, remove the saved key with the button above and enter the new one.",
];

/** Returns the reason if a key conflicts with the saved key, otherwise undefined. */
function conflictOf(pin: Pin | undefined, typed: string, named: string | null): string | undefined {
  if (pin === undefined) {
    return undefined;
  }
  if (typed !== "" && typed !== pin.key) {
    return pin.from === "service"
      ? "Rejected: the key that you entered is not the one that this service named before."
      : "Rejected: the key that you entered is not the one that this browser saved.";
  }
  return named !== null && named !== pin.key
    ? "Rejected: the service now names a different key from the one that this browser saved."
    : undefined;
}

/** Returns what a proof with this key shows, depending on the key's source. */
function worthOf({ from, since }: Pin): string {
  return from === "service"
    ? `The key came from this service itself, and this browser saved it on ${day(since)}. The proof shows that the log has been signed with the same key since then. It does not show that the key belongs to the operators: an attacker who can show a false log here can also show a false key. Get the key that the operators publish elsewhere, and enter it above.`
    : `The key was entered here on ${day(since)}. The proof is as trustworthy as the source of that key.`;
}

function sayHolds(place: HTMLElement, pin: Pin, { entry, checkpoint }: VerifiedEntry): void {
  const kept = writePin(pin);
  const { origin, size, root } = parseCheckpoint(checkpoint);
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
    ["Root of the tree", encodeHex(root)],
  ] as const) {
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
async function ask({ url, place }: View, query: string): Promise<ProofAnswer | undefined> {
  const response = await fetch(`${url}${query}`, {
    headers: { accept: "application/json" },
    credentials: "same-origin",
  });
  const isJson = (response.headers.get("content-type") ?? "").startsWith("application/json");
  const answer: unknown = isJson ? await response.json() : undefined;
  if (response.ok && answer !== undefined) {
    return answer as ProofAnswer;
  }
  const detail =
    (answer as { readonly detail?: string } | undefined)?.detail ??
    "Reload this page; your session may have ended.";
  say(place, "problem", "Not checked: the service gave no proof.", detail);
  return undefined;
}

/** Returns what to save after a check; a key that the viewer entered replaces one from the service. */
function nextPin(pin: Pin | undefined, checked: Pick<Pin, "key" | "note">, isTyped: boolean): Pin {
  const keepsSince = pin !== undefined && (pin.from === "viewer" || !isTyped);
  const since = keepsSince ? pin.since : new Date().toISOString();
  return { ...checked, from: isTyped ? "viewer" : (pin?.from ?? "service"), since };
}

/** Verifies the answer by this key, and that the log continues the last one that was verified. */
async function verify(
  { index }: View,
  { entry, note, hashes, consistency = [] }: ProofAnswer,
  key: string,
  earlier: readonly string[],
): Promise<VerifiedEntry> {
  const source = {
    entry: async () => await Promise.resolve({ index, entry }),
    checkpoint: async () => await Promise.resolve({ note }),
    inclusion: async () => await Promise.resolve({ hashes }),
    consistency: async () => await Promise.resolve({ hashes: consistency }),
  };
  return await verifyEntry(source, index, { verifierKeys: [key], earlier, crypto: WEB_CRYPTO });
}

async function check(view: View): Promise<void> {
  const { field, place } = view;
  const pin = readPin();
  const answer = await ask(view, pin === undefined ? "" : `?from=${parseCheckpoint(pin.note).size}`);
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
  const verified = await verify(view, answer, key, pin === undefined ? [] : [pin.note]);
  sayHolds(place, nextPin(pin, { key, note: verified.checkpoint }, typed !== ""), verified);
  showPin(view);
}

function refuse(place: HTMLElement, error: unknown): void {
  const found = `Reason: ${error instanceof Error ? error.message : String(error)}.`;
  if (!(error instanceof VerifierKeyError)) {
    const next = "Do not rely on this entry. Keep this page, and ask the operators to run the command below.";
    say(place, "problem", "The proof is not valid.", found, next);
  } else if (readPin() === undefined) {
    say(place, "problem", "Rejected: this is not the key that the log is signed with.", found);
  } else {
    const heading = "Rejected: this log is not signed with the key that this browser saved.";
    say(place, "problem", heading, ...REFUSED_KEY);
  }
}

const UNABLE = {
  insecure: "Browsers verify signatures only on pages that use HTTPS, and this page does not.",
  no: "This browser cannot verify Ed25519 signatures (Chromium can from version 137, Firefox from 129, Safari from 17).",
};

function showPin({ forget, pinned }: View): void {
  const pin = readPin();
  forget.hidden = pin === undefined;
  const whose = pin?.from === "service" ? "named by this service" : "entered here";
  pinned.textContent =
    pin === undefined
      ? "This browser has no saved key yet."
      : `This browser has a saved key, ${whose} on ${day(pin.since)}: ${pin.key}`;
}

/** @throws Error if the page, which `checkForm` of ../pages/compliance.ts renders, lacks the part */
function part<T extends HTMLElement>(section: HTMLElement, selector: string): T {
  const found = section.querySelector<T>(selector);
  if (found === null) {
    throw new Error(`the page has no ${selector}`);
  }
  return found;
}

async function start(section: HTMLElement): Promise<void> {
  const view: View = {
    index: Number(section.dataset["index"]),
    url: section.dataset["url"] ?? "",
    form: part(section, "form"),
    field: part(section, "#vkey"),
    place: part(section, "[data-verdict]"),
    forget: part(section, "[data-forget]"),
    pinned: part(section, "[data-pinned]"),
  };
  const { form, field, place, forget } = view;
  section.hidden = false;
  const able = await ability();
  if (able !== "yes") {
    form.remove();
    say(place, "problem", "Not checked here.", UNABLE[able], "Use the command below.");
    return;
  }
  showPin(view);
  forget.addEventListener("click", () => {
    localStorage.removeItem(PIN);
    field.value = "";
    showPin(view);
    say(place, "done", "The key was removed.", "The next check saves the key that it uses.");
    field.focus();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    check(view).catch((error: unknown) => refuse(place, error));
  });
}

const section = document.querySelector<HTMLElement>("[data-proof]");
if (section !== null) {
  void start(section);
}
