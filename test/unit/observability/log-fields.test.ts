/** The log's fields are documented and spelled alike, and a tenant's objects are logged with their tenant. */
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, it } from "vitest";

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");
const CALL = /\blog\.(?:fatal|error|warn|info|debug|trace)\(\s*\{/g;
/** Ids of tenants' objects, logged where the code knows the tenant. */
const OF_A_TENANT = ["delivery_id", "endpoint_id", "event_id", "credential_id"];

interface Line {
  readonly file: string;
  readonly fields: readonly string[];
}

/** Returns the names of an object literal's own members, without nested and spread ones. */
function membersOf(text: string): readonly string[] {
  const names: string[] = [];
  let depth = 0;
  let item = "";
  const note = (): void => {
    const [, name] = /^\s*([A-Za-z_]+)\s*(?::|$)/.exec(item.replaceAll(/\/\/.*$/gm, "")) ?? [];
    if (name !== undefined) {
      names.push(name);
    }
    item = "";
  };
  for (const character of text) {
    if ("})]".includes(character)) {
      depth -= 1;
    }
    if (depth < 0) {
      break;
    }
    if (character === "," && depth === 0) {
      note();
    } else {
      item += character;
    }
    if ("{([".includes(character)) {
      depth += 1;
    }
  }
  note();
  return names;
}

async function linesOf(folder: string): Promise<readonly Line[]> {
  const files = (await readdir(join(REPOSITORY, folder), { recursive: true })).filter((name) =>
    name.endsWith(".ts"),
  );
  const texts = await Promise.all(
    files.map(async (name) => [name, await readFile(join(REPOSITORY, folder, name), "utf8")] as const),
  );
  return texts.flatMap(([file, text]) =>
    [...text.matchAll(CALL)].map(({ index, 0: call }) => ({
      file: `${folder}/${file}`,
      fields: membersOf(text.slice(index + call.length)),
    })),
  );
}

let lines: readonly Line[];
beforeAll(async () => {
  lines = [...(await linesOf("src")), ...(await linesOf("activities"))];
});

describe("every line of the log", () => {
  it("has fields that docs/observability.md lists", async () => {
    const document = await readFile(join(REPOSITORY, "docs", "observability.md"), "utf8");
    const [, part = ""] = /## Logs\n([\s\S]*?)\n## /.exec(document) ?? [];
    const listed = new Set(
      [...part.matchAll(/^\| (`.*?) \|/gm)].flatMap(([, cell = ""]) =>
        [...cell.matchAll(/`(\w+)`/g)].map(([, name]) => name),
      ),
    );
    const unlisted = lines.flatMap(({ file, fields }) =>
      fields.filter((name) => !listed.has(name)).map((name) => `${file}: ${name}`),
    );
    expect(unlisted, "a field that is new belongs into the table of docs/observability.md").toEqual([]);
    expect(lines.length).toBeGreaterThan(50);
  });

  it("names the tenant beside a tenant's objects", () => {
    const silent = lines.filter(
      ({ fields }) => OF_A_TENANT.some((name) => fields.includes(name)) && !fields.includes("tenant_id"),
    );
    expect(silent).toEqual([]);
  });

  it("is parsed correctly: a nested member is not its own", () => {
    expect(membersOf(" err: error, at: f({ b: 1 }, c), tenant_id: t, carrier }, `x`)")).toEqual([
      "err",
      "at",
      "tenant_id",
      "carrier",
    ]);
  });
});
