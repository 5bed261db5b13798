/** Checks that the documents agree with the code. */
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { dirname, join, sep } from "node:path";
import { pathToFileURL } from "node:url";
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { cliReference } from "#tools/cli-reference.ts";
import { accept as acceptWithSignet } from "#docs/examples/verify-with-signet.ts";
import { accept as acceptWithStandardWebhooks } from "#docs/examples/verify-with-standard-webhooks.ts";
import { region, settingsTable } from "#tools/generated-parts.ts";
import { requestLimits } from "#tools/limits.ts";
import { filesWithPackageNames, withPackageNames } from "#tools/package-names.ts";
import { PYTHON_VERSION, pythonVersion } from "#tools/python-models.ts";
import { SETTINGS } from "#config/config.ts";
import { unknownSettings } from "#config/unknown-settings.ts";
import { SDK_PAGES, sdkPage } from "#tools/sdk-pages.ts";
import { renderGuide } from "#portal/guide/markdown.ts";
import { createSearch } from "#portal/guide/search.ts";
import { signDelivery } from "#lib/receiver/sign.ts";
import { GO_MODULE, PACKAGES, VERSION } from "#runtime/package.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");

async function read(path: string): Promise<string> {
  return await readFile(join(REPOSITORY, path), "utf8");
}

async function documents(): Promise<string[]> {
  const below = await readdir(join(REPOSITORY, "docs"), { recursive: true });
  const top = await readdir(REPOSITORY);
  const sdks = (await readdir(join(REPOSITORY, "sdk"))).map((name) => join("sdk", name, "README.md"));
  return [...top, ...below.map((path) => join("docs", path)), ...sdks].filter((path) => path.endsWith(".md"));
}

it("documents and examples have one name for the file of a credential, and its variable", async () => {
  const examples = (await readdir(join(REPOSITORY, "docs", "examples"), { recursive: true }))
    .filter((path) => /\.(m?js|ts|py|go)$/.test(path))
    .map((path) => join("docs", "examples", path));
  const programs = [
    "sdk/python/examples/publish.py",
    "sdk/go/examples/publish/main.go",
    "src/lib/client/signet-client.ts",
  ];
  const others: string[] = [];
  for (const path of [...(await documents()), ...examples, ...programs]) {
    const text = path === "CHANGELOG.md" ? "" : await read(path);
    const files = [...text.matchAll(/CredentialStore\("([^"]+)"\)/g)].map(([, file = ""]) => file);
    others.push(
      ...(text.match(/\bSIGNET_CREDENTIAL\b/g) ?? []),
      ...files.filter((file) => !file.endsWith("/credential.json")),
    );
  }
  expect(others).toEqual([]);
});

describe("the generated parts of documents", () => {
  it.each(Object.keys(SDK_PAGES))("%s matches the README of its package", async (name) => {
    expect(await read(name)).toBe(await sdkPage(name));
  });

  it("the guide has a page of each SDK, which a search finds", () => {
    const { pages, sections } = renderGuide(pathToFileURL(join(REPOSITORY, "docs") + sep));
    const titles = pages.map(({ title }) => title);
    expect(titles).toEqual(
      expect.arrayContaining(["SDK: Go", "SDK: Python", "SDK: TypeScript, and the agent"]),
    );
    const found = createSearch(sections)("python sdk")
      .slice(0, 3)
      .map(({ page }) => page);
    expect(found).toContain("SDK: Python");
  });

  it("docs/cli.md matches the commands' own help", async () => {
    expect(await read("docs/cli.md")).toBe(cliReference());
  });

  it("have a row for each limit of a request schema", () => {
    const schema = {
      type: "object",
      properties: {
        name: { type: "string", maxLength: 5 },
        list: {
          anyOf: [{ type: "array", maxItems: 2, items: { type: "integer", maximum: 9 } }, { type: "null" }],
        },
      },
    };
    const content = { "application/json": { schema } };
    const parameters = [{ name: "limit", in: "query", schema: { minimum: 1, maximum: 100 } }];
    expect(
      requestLimits({ "/a": { post: { parameters, requestBody: { content } } } })
        .split("\n")
        .slice(2),
    ).toEqual([
      "| `?limit` | 1 or more, 100 or less | `POST /a` |",
      "| `list[]` | 9 or less | `POST /a` |",
      "| `list` | 2 items | `POST /a` |",
      "| `name` | 5 characters | `POST /a` |",
    ]);
  });

  it("change with the settings", () => {
    const row = { variable: "SIGNET_X", fallback: "a|b", doc: "what" };
    expect(
      settingsTable([row, { ...row, fallback: undefined }])
        .split("\n")
        .slice(2),
    ).toEqual(["| `SIGNET_X` | `a\\|b` | what |", "| `SIGNET_X` |  | what |"]);
  });

  it("list for production what the Kubernetes base sets, and Compose and Kubernetes set no unknown name", async () => {
    const settings = await read("docs/reference/settings.md");
    const [, production = ""] = /## Production\n([\s\S]*?)\n## /.exec(settings) ?? [];
    const folder = "deploy/kubernetes";
    const paths = (await readdir(join(REPOSITORY, folder), { recursive: true }))
      .filter((path) => path.endsWith(".yaml"))
      .map((path) => join(folder, path));
    const named = async (path: string): Promise<string[]> =>
      [...(await read(path)).matchAll(/^\s*(?:- (?:\{ )?name: )?((?:SIGNET|TEMPORAL)_[A-Z0-9_]+)\b/gm)].map(
        ([, name = ""]) => name,
      );
    const base = (await Promise.all(paths.filter((path) => path.includes("base")).map(named))).flat();
    expect(base.length).toBeGreaterThan(30);
    const missing = base.filter((name) => name !== "SIGNET_LOG_LEVEL" && !production.includes(`\`${name}`));
    expect([...new Set(missing)]).toEqual([]);
    const all = [...paths, "docker-compose.yml"];
    const set = Object.fromEntries((await Promise.all(all.map(named))).flat().map((name) => [name, "set"]));
    const known = Object.values(SETTINGS).map(({ variable }) => variable);
    expect(unknownSettings(set, known)).toEqual([]);
  });

  it("cannot name a missing region", () => {
    expect(region("// region a\nx();\n// endregion\n", "a")).toBe("```ts\nx();\n```");
    expect(() => region("// region a\nx();\n// endregion\n", "b")).toThrow("no region b");
  });

  it("import libraries as packages", () => {
    const source = `// region a\nimport { x } from "../../src/lib/x/index.ts"; // "@a/client/x"\n// endregion\n`;
    expect(region(source, "a")).toBe('```ts\nimport { x } from "@a/client/x";\n```');
  });
});

/** Returns the anchors of a document's headings, as GitHub creates them. */
function anchorsOf(document: string): ReadonlySet<string> {
  const headings = document.replaceAll(/^```[\s\S]*?^```$/gm, "").matchAll(/^#+ (.*)$/gm);
  return new Set(
    [...headings].map(([, heading = ""]) =>
      heading
        .replaceAll(/\[([^\]]*)\]\([^)]*\)/g, "$1")
        .toLowerCase()
        .replaceAll(/[^\p{L}\p{N}_ -]/gu, "")
        .replaceAll(" ", "-"),
    ),
  );
}

describe("the README", () => {
  it("has at most 180 lines", async () => {
    expect((await read("README.md")).trimEnd().split("\n").length).toBeLessThanOrEqual(180);
  });

  it("sets up with two commands", async () => {
    const [, start = ""] = /^## Start\n([\s\S]*?)^## /m.exec(await read("README.md")) ?? [];
    const blocks = [...start.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, text = ""]) => text.trim());
    expect(blocks).toEqual(["npm start", "npm test"]);
  });
});

describe("the README's ways to verify a webhook", () => {
  const secret = `whsec_${Buffer.alloc(32, 7).toString("base64")}`;
  const timestampSeconds = 1_763_650_000;
  const body = Buffer.from(JSON.stringify({ id: "evt_1", sent_at: timestampSeconds, data: { run: 7 } }));
  const { sha256, v1 } = signDelivery({ secret, body, id: "evt_1", timestampSeconds });
  const headers = {
    "x-service-signature-256": sha256,
    "x-service-timestamp": String(timestampSeconds),
    "x-service-event-id": "evt_1",
    "webhook-id": "evt_1",
    "webhook-timestamp": String(timestampSeconds),
    "webhook-signature": v1,
  };
  const ways = [
    ["Signet's own", acceptWithSignet],
    ["a Standard Webhooks library", acceptWithStandardWebhooks],
  ] as const;

  beforeEach(() => {
    vi.useFakeTimers({ toFake: ["Date"], now: timestampSeconds * 1_000 });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  it.each(ways)("accept a signed webhook, with %s", (_name, accept) => {
    expect(accept(secret, body, headers)).toMatchObject({ data: { run: 7 } });
  });

  it.each(ways)("reject a changed body and another secret, with %s", (_name, accept) => {
    const other = `whsec_${Buffer.alloc(32, 8).toString("base64")}`;
    expect(() => accept(secret, Buffer.concat([body, Buffer.from(" ")]), headers)).toThrow(/signature/i);
    expect(() => accept(other, body, headers)).toThrow(/signature/i);
  });
});

describe("the architecture", () => {
  it("names every directory of src in its layout", async () => {
    const [, layout = ""] = /## Layout\n([\s\S]*?)\n## /.exec(await read("docs/architecture.md")) ?? [];
    const entries = await readdir(join(REPOSITORY, "src"), { withFileTypes: true });
    const directories = entries.filter((entry) => entry.isDirectory()).map(({ name }) => `\`src/${name}/\``);
    expect(directories.filter((name) => !layout.includes(name))).toEqual([]);
  });
});

describe("the Python SDK", () => {
  it("has the version of package.json and the repository's licence", async () => {
    expect(await read(PYTHON_VERSION)).toBe(pythonVersion());
    expect(pythonVersion()).toContain(`__version__ = "${VERSION}"\n`);
    expect(await read("sdk/python/LICENSE")).toBe(await read("LICENSE"));
  });

  it("has the extras that documents and messages name", async () => {
    const [, extras = ""] =
      /\[project\.optional-dependencies\]\n([\s\S]*?)\n\[/.exec(await read("sdk/python/pyproject.toml")) ??
      [];
    const sources = ["verification", "assertion"].map((name) => `sdk/python/src/signet_delivery/${name}.py`);
    const texts = await Promise.all([...(await documents()), ...sources].map(read));
    const named = texts.flatMap((text) => [...text.matchAll(/signet-delivery\[(\w+)\]/g)]);
    expect(named.length).toBeGreaterThan(2);
    expect(named.filter(([, name]) => !new RegExp(`^${name} = `, "m").test(extras))).toEqual([]);
  });
});

describe("the supported versions", () => {
  it("have each left their record, which later versions migrate (docs/releasing.md)", async () => {
    const releases = [...(await read("CHANGELOG.md")).matchAll(/^## \[(\d+\.\d+\.\d+)\]/gm)];
    const versions = releases.map(([, version = ""]) => version);
    const kept = (await readdir(join(REPOSITORY, "test", "upgrade"))).filter((name) => /^\d/.test(name));
    expect(versions.toSorted()).toEqual(kept.toSorted());
    expect(versions).toContain(VERSION);
  });

  it("are not denied once there are releases", async () => {
    const releases = (await read("CHANGELOG.md")).match(/^## \[\d+\.\d+\.\d+\]/gm) ?? [];
    const [, supported = ""] = /## Supported versions\n([\s\S]*?)\n## /.exec(await read("SECURITY.md")) ?? [];
    expect(releases.length).toBeGreaterThan(0);
    expect(supported).toContain("CHANGELOG.md");
    expect(supported).not.toMatch(/no release/i);
  });
});

describe("every document", () => {
  it("is a page of the guide, which docs/README.md lists by topic", async () => {
    const { pages } = renderGuide(pathToFileURL(join(REPOSITORY, "docs") + sep));
    const paths = (await documents()).filter((path) => path.startsWith("docs/"));
    const expected = paths.map((path) => path.replace(/^docs\/(?:README)?(.*?)(?:\.md)?$/, "$1"));
    expect(pages.map(({ path }) => path).toSorted()).toEqual(expected.toSorted());
  });

  it("is short: docs/benchmarks.md, and each entry of the next release", async () => {
    const wordsOf = (text: string): number => text.trim().split(/\s+/).length;
    expect(wordsOf(await read("docs/benchmarks.md"))).toBeLessThanOrEqual(2_500);
    const [next = ""] = (await read("CHANGELOG.md")).split(/^## \[\d/m);
    const entries = [...next.matchAll(/^- (.*)$/gm)].map(([, entry = ""]) => entry);
    expect(entries.filter((entry) => wordsOf(entry) > 25)).toEqual([]);
  });

  it("links only to existing files", async () => {
    const dead: string[] = [];
    for (const path of await documents()) {
      for (const [, target = ""] of (await read(path)).matchAll(/\]\(([^)#\s]+)(?:#[^)]*)?\)/g)) {
        if (!/^[a-z]+:/.test(target) && !existsSync(join(REPOSITORY, dirname(path), target))) {
          dead.push(`${path}: ${target}`);
        }
      }
    }
    expect(dead).toEqual([]);
  });

  it("links only to existing headings", async () => {
    const dead: string[] = [];
    for (const path of await documents()) {
      for (const [, file = "", anchor = ""] of (await read(path)).matchAll(/\]\(([^)#\s:]*)#([^)\s]+)\)/g)) {
        const target = file === "" ? path : join(dirname(path), file);
        if (target.endsWith(".md") && !anchorsOf(await read(target)).has(anchor)) {
          dead.push(`${path}: ${target}#${anchor}`);
        }
      }
    }
    expect(dead).toEqual([]);
  });

  it.each(["README.md", "CONTRIBUTING.md", "docs/architecture.md"])(
    "%s names only existing paths",
    async (document) => {
      const spans = (await read(document)).matchAll(
        /`((?:src|workflows|activities|docs|test)\/[\w./-]*)[^`]*`/g,
      );
      const paths = [...spans].map(([, path = ""]) => path);
      expect(paths.filter((path) => !existsSync(join(REPOSITORY, path)))).toEqual([]);
    },
  );

  it("names only npm scripts of package.json", async () => {
    const { scripts } = JSON.parse(await read("package.json")) as { scripts: Record<string, string> };
    const unknown: string[] = [];
    for (const path of await documents()) {
      for (const [, name = ""] of (await read(path)).matchAll(/\bnpm run (?:-s )?([a-z][a-z:-]*)/g)) {
        if (!(name in scripts)) {
          unknown.push(`${path}: ${name}`);
        }
      }
    }
    expect(unknown).toEqual([]);
  });

  it("names the packages in their scope: run `npm run docs` when this fails", async () => {
    const stale: string[] = [];
    let named = 0;
    for (const path of await filesWithPackageNames()) {
      const text = await read(path);
      named += text.includes(PACKAGES.client) || text.includes(PACKAGES.cli) ? 1 : 0;
      if (withPackageNames(text) !== text) {
        stale.push(path);
      }
    }
    expect(stale).toEqual([]);
    expect(named).toBeGreaterThan(10);
    expect(withPackageNames("@a-b.c/client. @temporalio/client @a/clients @a/client-s3")).toBe(
      `${PACKAGES.client}. @temporalio/client @a/clients @a/client-s3`,
    );
    expect(withPackageNames("github.com/a-b/signet/sdk/go github.com/a-b/signet")).toBe(
      `${GO_MODULE} github.com/a-b/signet`,
    );
  });

  it("runs `npx signet` in a clone only, because the name on npm is another project's", async () => {
    const outside: string[] = [];
    let seen = 0;
    for (const path of [...(await documents()), ...(await filesWithPackageNames())]) {
      const [before = "", ...after] = (await read(path)).split("npx signet ");
      seen += after.length;
      // The changelog names commands of the past.
      if (after.length > 0 && path !== "CHANGELOG.md" && !/\bclone\b/.test(before)) {
        outside.push(path);
      }
    }
    expect(outside).toEqual([]);
    expect(seen).toBeGreaterThan(50);
  });

  it("on a decision is numbered and states what would change our mind", async () => {
    const names = (await readdir(join(REPOSITORY, "docs", "decisions"))).toSorted((left, right) =>
      left.localeCompare(right),
    );
    expect(names.map((name) => name.slice(0, 5))).toEqual(
      names.map((_name, index) => `${String(index + 1).padStart(4, "0")}-`),
    );
    for (const name of names) {
      const text = await read(join("docs", "decisions", name));
      expect(text, name).toMatch(new RegExp(`^# ${Number(name.slice(0, 4))}\\. `));
      const headings = [...text.matchAll(/^## (.*)$/gm)].map(([, heading]) => heading);
      expect(headings, name).toEqual(["Context", "Decision", "Consequences", "What would change our mind"]);
    }
  });
});
