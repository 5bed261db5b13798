/** The guide: documents as pages, and the search over them. */
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, sep } from "node:path";
import { pathToFileURL } from "node:url";
import { gzipSync } from "node:zlib";
import { afterAll, expect, it } from "vitest";
import { type Guide, renderGuide } from "#portal/guide/markdown.ts";
import { createSearch, QUERY_MAX } from "#portal/guide/search.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");
const KIB = 1_024;
const scratch = mkdtempSync(join(tmpdir(), "signet-guide-"));
symlinkSync(join(REPOSITORY, "node_modules"), join(scratch, "node_modules"));

afterAll(() => {
  rmSync(scratch, { recursive: true, force: true });
});

function renderAll(page: string): Guide {
  writeFileSync(join(scratch, "README.md"), "# Documentation\n\n1. Begin: [one](one.md), [two](two.md)\n");
  writeFileSync(join(scratch, "two.md"), "# Two\n\n## A `heading`\n\n## A heading\n");
  writeFileSync(join(scratch, "one.md"), page);
  return renderGuide(pathToFileURL(scratch + sep));
}

function render(page: string): string {
  return renderAll(page).pages.find(({ path }) => path === "one")?.html ?? "";
}

it("links lead to pages, to the service or to other hosts; files of the repository are only named", () => {
  const html = render(`# One

[two](two.md#a-heading-1) [the document](openapi.json) [elsewhere](https://example.com/?a=1&b=2)
[the example](../src/app.ts) [\`app.ts\`](../src/app.ts) [\`src/lib/\`](../src/lib/) <script>alert(1)</script>
<!-- test: none -->

| \`<b>\` |
| --- |
| & |
`);
  expect(html).toContain('<a href="/docs/guide/two#a-heading-1">two</a>');
  expect(html).toContain('<a href="/openapi.json">the document</a>');
  expect(html).toContain('<a href="https://example.com/?a=1&amp;b=2" rel="noreferrer">elsewhere</a>');
  expect(html).toContain(
    "the example (<code>src/app.ts</code>) <code>src/app.ts</code> <code>src/lib/</code>",
  );
  expect(html).not.toMatch(/<script|<!--|<b>/);
});

const fence = (language: string, code: string): string => `\`\`\`${language}\n${code}\n\`\`\`\n`;

it("consecutive blocks of code in different languages are tabs, also with comments between them", () => {
  const comment = "<!-- end of generated -->\n";
  const page = `# One\n\n${fence("ts", "a < b")}\n${fence("python", "a")}${comment}\n${fence("go", "a")}`;
  const html = render(page);
  expect(html.match(/<fieldset class="tabs">/g)).toHaveLength(1);
  expect(html.match(/name="tabs-1" value="\w+" autocomplete="off"(?: checked)?> \w+/g)).toEqual([
    'name="tabs-1" value="ts" autocomplete="off" checked> TypeScript',
    'name="tabs-1" value="python" autocomplete="off"> Python',
    'name="tabs-1" value="go" autocomplete="off"> Go',
  ]);
  expect(html).toContain(
    '<div class="tab ts" role="group" aria-label="TypeScript"><pre><code class="language-ts">a &lt; b',
  );
  const text = renderAll(page).sections.find(({ page }) => page === "One")?.text;
  expect(text).toBe("a < b a a");
});

it.each([
  ["of one language", fence("ts", "a") + fence("ts", "b")],
  ["with text between them", `${fence("ts", "a")}\nThen:\n\n${fence("go", "b")}`],
  ["of other languages", fence("sh", "a") + fence("json", "b")],
  ["alone", fence("go", "a")],
])("blocks of code %s are no tabs", (_name, blocks) => {
  const html = render(`# One\n\n${blocks}`);
  expect(html).toContain("<pre><code");
  expect(html).not.toContain("fieldset");
});

it("the search finds sections with all words, headings first, and says where they are", () => {
  const text = "Replays start a new cycle of attempts.";
  const search = createSearch([
    { address: "/docs/guide/a#x", page: "A", heading: "Other", text: `See replay. ${"x ".repeat(90)}` },
    { address: "/docs/guide/b#replay", page: "B", heading: "Replay", text },
    { address: "/docs/guide/c", page: "C", heading: "C", text: "nothing" },
  ]);
  expect(search(" REPLAY ").map(({ address }) => address)).toEqual([
    "/docs/guide/b#replay",
    "/docs/guide/a#x",
  ]);
  expect(search("cycle replay")).toMatchObject([
    { excerpt: ["Replays start a new ", "cycle", " of attempts."], heading: "Replay" },
  ]);
  expect(search("replay")[1]?.excerpt[2]).toMatch(/x …$/);
  expect([search(""), search("  "), search("replay absent")]).toEqual([[], [], []]);
});

it("the index stays small, and any query ends quickly", () => {
  const { sections } = renderGuide(pathToFileURL(join(REPOSITORY, "docs") + sep));
  expect(gzipSync(JSON.stringify(sections)).length).toBeLessThan(300 * KIB);
  const search = createSearch(sections);
  expect(search("retry-after")[0]?.page).toContain("Retry-After");
  expect(search("e ".repeat(10 * QUERY_MAX)).length).toBeLessThanOrEqual(20);
});
