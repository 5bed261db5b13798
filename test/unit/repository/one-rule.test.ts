/** A rule that is written twice drifts: these are each written in one file. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";

const ROOT = join(import.meta.dirname, "..", "..", "..");

const RULES = [
  ["the retry window of 72 hours", /\b259_?200_?000\b/, ["src/domain/retry-schedule.ts"]],
  ["the 17 attempts", /= 17;/, ["src/domain/retry-schedule.ts"]],
  // Comments may say them: texts use ATTEMPT_MAX, RETRY_WINDOW_HOURS and DEAD_LETTER_DAYS.
  ["the schedule in texts", /^(?!\s*(?:\*|\/[*/])).*\b(?:17 attempts|72 hours|7 days)\b/m, []],
  ["the life of a dead letter", /\bDEAD_LETTER_MS = /, ["src/domain/retry-schedule.ts"]],
  ["the answer to a missing scope", /error="insufficient_scope"/, ["src/http/bearer-errors.ts"]],
  // Any login that may connect can hold one: docs/security-model.md names what remains. Elsewhere, use `lockName`.
  [
    "advisory locks",
    /\bpg_(?:try_)?advisory/,
    ["src/database/apply-migrations.ts", "src/database/repositories/tokens/revocations.ts"],
  ],
  // Elsewhere `readBody` counts while it reads. The portal's pages read only what the portal sends them.
  [
    "an answer that is read whole",
    /\w\.(?:text|json|arrayBuffer|blob)\(\)(?!`)/,
    ["src/portal/browser/compliance.ts", "src/portal/browser/guide.ts"],
  ],
  // Behind an edge or a proxy this is the proxy's address: use `clientAddress` to count by address.
  ["the address of the peer", /\brequest\.ip\b/, []],
  // CONTRIBUTING.md has the words: services for collaborators, options for values, `toX` for wire forms.
  ["another noun for services", /\b(?:interface|type) \w*(?:Sources|Means|Needs|Dependencies|Tools)\b/, []],
  ["the parts of an envelope", /\b(?:interface|type) \w+Parts\b/, ["src/webhooks/sending/envelope.ts"]],
  ["a row that is not named like its columns", /\bAS "/, []],
  ["another verb for a wire form", /\bfunction (?:present|wire)[A-Z]/, ["src/http/present.ts"]],
] as const;

/** Returns the texts of src by file, sorted. */
async function readTexts(): Promise<(readonly [file: string, text: string])[]> {
  const names = await readdir(join(ROOT, "src"), { recursive: true });
  return await Promise.all(
    names
      .filter((name) => name.endsWith(".ts"))
      .toSorted()
      .map(async (name) => [`src/${name}`, await readFile(join(ROOT, "src", name), "utf8")] as const),
  );
}

/** Returns the files of src whose text the predicate accepts. */
async function filesWith(accepts: (text: string) => boolean): Promise<string[]> {
  return (await readTexts()).flatMap(([file, text]) => (accepts(text) ? [file] : []));
}

/** Returns the interfaces of a text whose members are services: two methods or more, or a method alone. */
function serviceInterfaces(text: string): string[] {
  const interfaces = /^export interface (\w+)(?<!Options|Services)\b[^{]*\{\n(.*?)^\}/gms;
  const method = /^ {2}(?:readonly )?\w+\??(?:[(<]|: (?:<.*>)?\(.*\) =>|: \($)/;
  return [...text.matchAll(interfaces)].flatMap(([, name = "", body = ""]) => {
    const members = body.split("\n").filter((line) => /^ {2}\w/.test(line));
    const methods = members.filter((line) => method.test(line)).length;
    return methods >= 2 || (methods === 1 && members.length === 1) ? [name] : [];
  });
}

/** Counts what implements an interface in a text: classes, constants, and functions that return an object literal. */
function implementationsIn(text: string, name: string): number {
  const places = new RegExp(
    `\\): (?:Promise<)?${name}\\b[^;{]*\\{|: ${name}\\b[^=\\n]* = \\{|\\bimplements ${name}\\b`,
    "g",
  );
  return [...text.matchAll(places)].filter(
    ({ 0: place, index }) =>
      !place.startsWith(")") || /^ +return \{|=> \(\{/m.test(text.slice(index, text.indexOf("\n}\n", index))),
  ).length;
}

it.each(RULES)("%s: one file states the rule", async (_rule, pattern, files) => {
  expect(await filesWith((text) => pattern.test(text))).toEqual(files);
});

it("every HTTP server ends connections on which no request begins", async () => {
  const creates = /^import [^;]*\bcreateServer\b[^;]* from "node:https?";/m;
  const servers = await filesWith((text) => creates.test(text));
  expect(servers.length).toBeGreaterThan(5);
  // The portal shows the code of a receiver.
  expect(await filesWith((text) => creates.test(text) && !text.includes("endUnused("))).toEqual([
    "src/portal/pages/endpoint/receiver-code.ts",
  ]);
});

it("an interface has two implementations: state means a class, no state a function", async () => {
  const texts = (await readTexts()).filter(([file]) => !file.startsWith("src/lib/"));
  const single = texts.flatMap(([file, text]) =>
    serviceInterfaces(text).filter(
      (name) =>
        implementationsIn(text, name) === 1 &&
        texts.every(([other, said]) => other === file || !implementationsIn(said, name)),
    ),
  );
  expect(single).toEqual([]);
});
