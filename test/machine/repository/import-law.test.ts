/** The linter and the compiler enforce the import law of docs/architecture.md: tested with files that break it. */
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { cp, mkdir, mkdtemp, readdir, readFile, realpath, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { currentImportLaw, layersOf } from "#tools/import-law.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");
const RULES = ["eslint(no-restricted-imports)", "import(no-relative-parent-imports)", "node(no-process-env)"];

/** Statements that a file of a directory must not contain, and allowed ones. */
const LAW: Readonly<
  Record<string, { readonly refused: readonly string[]; readonly allowed: readonly string[] }>
> = {
  workflows: {
    refused: [
      `import "node:crypto";`,
      `import "crypto";`,
      `import "#database/pool.ts";`,
      `import "#config/config.ts";`,
      `import "#webhooks/ingest/ingest.ts";`,
      `import "#activities/deliver.ts";`,
      `import { value } from "#activities/types.ts"; export const used = value;`,
      `export { value } from "#activities/types.ts";`,
      `import "@temporalio/client";`,
      `import "typebox";`,
      `import "@temporalio/common/lib/time.js";`,
      `export const late = async () => await import("node:fs");`,
      `export const name = process.env["NAME"];`,
    ],
    allowed: [
      `import "@temporalio/workflow";`,
      `import "@temporalio/common";`,
      `import "#domain/retry-schedule.ts";`,
      `import "./messages.ts";`,
      `import type { Member } from "#activities/types.ts"; export type Used = Member;`,
      `export { type Member } from "#activities/types.ts";`,
    ],
  },
  activities: {
    refused: [
      `import "#api/routes/events.ts";`,
      `import type { A } from "#api/routes/events.ts"; export type Used = A;`,
      `import "#processes/worker.ts";`,
      `import "#cli/program.ts";`,
      `import "#tools/repository.ts";`,
      `import "#processes/embedded/lock.ts";`,
      `import "pg";`,
      `import "#workflows/deliver.ts";`,
      `import "#workflows/index.ts";`,
      `import { env } from "node:process"; export const used = env;`,
      `export const name = process.env["NAME"];`,
    ],
    allowed: [
      `import "#webhooks/engine/attempt-service.ts";`,
      `import "#workflows/messages.ts";`,
      `import "./types.ts";`,
      `import "@temporalio/activity";`,
    ],
  },
  "src/domain": {
    refused: [
      `import "node:crypto";`,
      `import "crypto";`,
      `import "typebox";`,
      `import "@temporalio/common";`,
      `import "#lib/receiver/errors.ts";`,
      `import type { Config } from "#config/config.ts"; export type Used = Config;`,
      `import "#workflows/messages.ts";`,
      `export const late = async () => await import("pg");`,
      `export const name = process.env["NAME"];`,
    ],
    allowed: [`import "./ids.ts";`],
  },
  "src/lib/client": {
    refused: [
      `import "../../config/config.ts";`,
      `import type { A } from "../../http/types.ts"; export type Used = A;`,
      `import "../../domain/ids.ts";`,
      `import "undici";`,
      `import "jose";`,
      `import "nodemailer";`,
      `import "../../../workflows/messages.ts";`,
      `export const name = process.env["NAME"];`,
    ],
    allowed: [
      `import "./token.ts";`,
      `import "../transparency-log/signed-note.ts";`,
      `import "node:crypto";`,
      `import "node:fs/promises";`,
    ],
  },
  "src/lib": {
    refused: [`import "../domain/ids.ts";`, `import "typebox";`],
    allowed: [`import "./client/token.ts";`, `import "node:crypto";`],
  },
  "src/lib/client/resources": {
    refused: [`import "../../../domain/ids.ts";`, `import "typebox";`],
    allowed: [`import "../../transparency-log/signed-note.ts";`, `import "../json.ts";`],
  },
  "src/api/routes": {
    refused: [
      `import "#processes/api.ts";`,
      `export const late = async () => await import("#processes/api.ts");`,
      `import "pg";`,
      `import "pg-cursor";`,
      `import "#workflows/deliver.ts";`,
      `import "#workflows/index.ts";`,
      `import "#activities/deliver.ts";`,
      `import { value } from "#activities/types.ts"; export const used = value;`,
      `export const name = process.env["NAME"];`,
      `import process from "node:process"; export const used = process;`,
    ],
    allowed: [`import "#workflows/messages.ts";`, `import "fastify";`],
  },
  "src/webhooks/engine": {
    refused: [
      `import "#workflows/deliver.ts";`,
      `import "#activities/deliver.ts";`,
      `export { createDeliverActivities } from "#activities/deliver.ts";`,
    ],
    allowed: [
      `import "#workflows/messages.ts";`,
      `import type { Member } from "#activities/types.ts"; export type Used = Member;`,
      `import "@temporalio/client";`,
    ],
  },
  "src/database/repositories/webhooks": {
    refused: [
      `import "#workflows/messages.ts";`,
      `import type { Member } from "#activities/types.ts"; export type Used = Member;`,
      `import "#tokens/oauth/token.ts";`,
    ],
    // A folder with the name of a higher layer is not that layer.
    allowed: [`import "pg";`, `import "../tokens/clients.ts";`],
  },
  "src/processes/embedded": {
    refused: [`import "#workflows/messages.ts";`],
    allowed: [`import "pg";`, `import "#config/config.ts";`, `import "node:child_process";`],
  },
  "src/temporal": {
    refused: [`import "#workflows/index.ts";`, `import "#activities/deliver.ts";`],
    allowed: [
      `import "#workflows/messages.ts";`,
      `export const path = new URL("../../workflows/index.ts", import.meta.url);`,
    ],
  },
  "src/processes": {
    refused: [`import "pg";`, `import "#workflows/deliver.ts";`, `export const name = process.env["NAME"];`],
    allowed: [
      `import "./api.ts";`,
      `import "#activities/deliver.ts";`,
      `import "#workflows/messages.ts";`,
      `import "./embedded/lock.ts";`,
    ],
  },
  "src/config/config.ts": {
    refused: [`import "#processes/api.ts";`],
    allowed: [`export const name = process.env["NAME"];`],
  },
  // An import that climbs two levels, or leaves its layer, could not be recognized by the layer's name.
  "src/http": {
    refused: [
      `import "../config/limits.ts";`,
      `import type { Config } from "../config/config.ts"; export type Used = Config;`,
      `export * from "../config/limits.ts";`,
      `export const late = async () => await import("../config/limits.ts");`,
    ],
    allowed: [`import "./errors.ts";`, `import "./problems/problem.ts";`],
  },
  "src/http/problems": {
    refused: [`import "../../config/limits.ts";`, `import "../../http/errors.ts";`],
    allowed: [`import "../errors.ts";`, `import "#config/limits.ts";`],
  },
  "src/tools": {
    refused: [`import "../config/limits.ts";`],
    allowed: [
      `import "./repository.ts";`,
      `import "#processes/api.ts";`,
      `import "#activities/deliver.ts";`,
      `import "#test/support/api.ts";`,
      `import "pg";`,
      `export const name = process.env["NAME"];`,
    ],
  },
  "test/integration/api": {
    refused: [`import "../../support/api.ts";`, `import "../../../src/config/limits.ts";`],
    allowed: [
      `import "../delivery/lists.ts";`,
      `import "#test/support/api.ts";`,
      `import "#processes/api.ts";`,
    ],
  },
  ...neighbours(),
};

/** Returns each pair of adjacent layers: only the higher may import the lower. */
function neighbours(): typeof LAW {
  const layers = layersOf(readFileSync(join(REPOSITORY, "docs", "architecture.md"), "utf8")).filter(
    (layer) => !["lib", "domain", "workflows/messages"].includes(layer),
  );
  return Object.fromEntries(
    layers.slice(1).map((higher, index) => {
      const lower = layers[index] as string;
      return [
        `src/${lower}/neighbour-of-${higher}`,
        {
          refused: [
            `import "#${higher}/a.ts";`,
            `import type { A } from "#${higher}/a.ts"; export type Used = A;`,
          ],
          allowed: layers.slice(0, index).map((below) => `import "#${below}/a.ts";`),
        },
      ];
    }),
  );
}

interface Diagnostic {
  readonly code?: string;
  readonly message: string;
  readonly filename: string;
  readonly labels: readonly { readonly span: { readonly line: number } }[];
}

async function run(command: string, args: readonly string[], cwd: string): Promise<string> {
  return await new Promise((resolve) => {
    execFile(process.execPath, [command, ...args], { cwd, maxBuffer: 1 << 24 }, (_error, stdout) =>
      resolve(stdout),
    );
  });
}

const statementsOf = (place: string): readonly string[] => [
  ...(LAW[place]?.refused ?? []),
  ...(LAW[place]?.allowed ?? []),
];

let directory: string;

async function write(project: string, path: string, text: string): Promise<void> {
  await mkdir(dirname(join(project, path)), { recursive: true });
  await writeFile(join(project, path), text);
}

beforeAll(async () => {
  directory = await realpath(await mkdtemp(join(tmpdir(), "signet-import-law-")));
});

afterAll(async () => {
  await rm(directory, { recursive: true, force: true });
});

describe("the linter", () => {
  /** Rejected statements by the law's rules, as `file:line`. */
  const refused = new Set<string>();
  const unreadable: string[] = [];
  /** A file for each statement, except where the law is about a single file. */
  const locate = (place: string, index: number): { readonly file: string; readonly line: number } =>
    place.endsWith(".ts")
      ? { file: place, line: index + 1 }
      : { file: `${place}/law-${index + 1}.ts`, line: 1 };

  beforeAll(async () => {
    const project = join(directory, "linted");
    for (const name of [".oxlintrc.json", ".oxlintrc.law.json"]) {
      await cp(join(REPOSITORY, name), join(project, name));
    }
    for (const place of Object.keys(LAW)) {
      const texts = new Map<string, string>();
      for (const [index, statement] of statementsOf(place).entries()) {
        const { file } = locate(place, index);
        texts.set(file, `${texts.get(file) ?? ""}${statement}\n`);
      }
      for (const [file, text] of texts) {
        await write(project, file, text);
      }
    }
    const oxlint = join(REPOSITORY, "node_modules", "oxlint", "bin", "oxlint");
    const { diagnostics } = JSON.parse(await run(oxlint, ["--format=json"], project)) as {
      readonly diagnostics: readonly Diagnostic[];
    };
    for (const { code, message, filename, labels } of diagnostics) {
      if (code === undefined) {
        unreadable.push(`${filename}: ${message}`);
      }
      if (RULES.includes(code ?? "")) {
        refused.add(`${filename}:${labels[0]?.span.line}`);
      }
    }
  });

  it("reads the current list of docs/architecture.md (npm run docs)", async () => {
    expect(await readFile(join(REPOSITORY, ".oxlintrc.law.json"), "utf8")).toBe(await currentImportLaw());
  });

  it("knows every folder of src as a layer", async () => {
    const entries = await readdir(join(REPOSITORY, "src"), { withFileTypes: true });
    const folders = entries.filter((entry) => entry.isDirectory()).map(({ name }) => name);
    const architecture = await readFile(join(REPOSITORY, "docs", "architecture.md"), "utf8");
    const layers = layersOf(architecture).filter((layer) => layer !== "workflows/messages");
    expect(layers.toSorted()).toEqual(folders.toSorted());
  });

  it("can parse every file, so anything it does not reject is allowed", () => {
    expect(unreadable).toEqual([]);
  });

  for (const [place, law] of Object.entries(LAW)) {
    for (const [index, statement] of statementsOf(place).entries()) {
      const isRefused = index < law.refused.length;
      it(`${isRefused ? "refuses" : "allows "} in ${place}: ${statement}`, () => {
        const { file, line } = locate(place, index);
        expect(refused.has(`${file}:${line}`)).toBe(isRefused);
      });
    }
  }
});

describe("the compiler", () => {
  let output: string;

  beforeAll(async () => {
    const project = join(directory, "compiled");
    for (const name of ["package.json", "tsconfig.json", "workflows/tsconfig.json"]) {
      await cp(join(REPOSITORY, name), join(project, name));
    }
    await symlink(join(REPOSITORY, "node_modules"), join(project, "node_modules"));
    await write(project, "workflows/law.ts", "export const pure = new Map<string, number>();\n");
    for (const name of ["process", "fetch", "Buffer", "setImmediate", "require"]) {
      await write(project, `workflows/uses-${name}.ts`, `export const used = ${name};\n`);
    }
    const tsc = join(REPOSITORY, "node_modules", "typescript", "bin", "tsc");
    output = await run(tsc, ["-p", "workflows/tsconfig.json", "--pretty", "false"], project);
  });

  it.each(["process", "fetch", "Buffer", "setImmediate", "require"])("knows no %s in workflows", (name) => {
    expect(output).toMatch(new RegExp(`^workflows/uses-${name}\\.ts.*error TS\\d+`, "m"));
  });

  it("accepts a pure workflow file", () => {
    expect(output).not.toContain("workflows/law.ts");
  });
});
