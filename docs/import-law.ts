/**
 * The import law: `.oxlintrc.law.json` is made from the list of layers in docs/architecture.md, so that the linter reads
 * what people read. A layer may import itself and what stands before it in the list.
 */
import { readFile } from "node:fs/promises";
import { join } from "node:path";

/** A specifier says how deep its file stands: there are patterns for each depth below a layer's folder. */
const DEPTHS = [1, 2, 3, 4] as const;

const ENVIRONMENT = {
  regex: "^(node:)?process$",
  message: "src/config/config.ts alone reads the environment.",
};
const SQL = { regex: "^pg(-|$)", message: "SQL lives in src/database." };
const MESSAGES = {
  group: ["**/workflows/**", "!**/workflows/messages.ts"],
  message: "Workflows are reached through workflows/messages.ts only.",
};
const ACTIVITIES = [
  {
    regex: "/activities/types\\.ts$",
    allowTypeImports: true,
    message: "Services see activities as types only.",
  },
  {
    group: ["**/activities/**", "!**/activities/types.ts"],
    message: "Composition roots wire activities; nobody else calls them.",
  },
];

/** Places whose law is a short list of what they may import. */
const CLOSED = {
  workflows: {
    files: ["workflows/**/*.ts"],
    patterns: [
      {
        regex: "/activities/types\\.ts$",
        allowTypeImports: true,
        message: "Workflows see activities as types only.",
      },
      {
        group: [
          "*",
          "!./*",
          "!../src/domain/*",
          "!../activities/types.ts",
          "!@temporalio/workflow",
          "!@temporalio/common",
        ],
        message:
          "Workflows are deterministic: src/domain, types of activities/types.ts and Temporal's workflow library, nothing else.",
      },
    ],
  },
  activities: {
    files: ["activities/**/*.ts"],
    patterns: [
      { regex: "/(processes|api|cli|portal|edge)/", message: "Activities call services." },
      SQL,
      ENVIRONMENT,
      MESSAGES,
    ],
  },
  domain: {
    files: ["src/domain/**/*.ts"],
    patterns: [{ group: ["*", "!./*"], message: "The domain is pure and imports nothing." }],
  },
} as const;

/** The regular expressions of the linter look neither ahead nor behind: what is neither a path nor of Node. */
const PACKAGE = "^([^.n]|n[^o]|no[^d]|nod[^e]|node[^:])";

interface Override {
  readonly files: readonly string[];
  readonly rules: Readonly<Record<string, unknown>>;
}

function restricted(files: readonly string[], patterns: readonly object[]): Override {
  return { files, rules: { "no-restricted-imports": ["error", { patterns }] } };
}

/** @returns the layers from the fenced list behind `<!-- import law -->`, the lowest first */
export function layersOf(architecture: string): readonly string[] {
  const list = /<!-- import law -->\s*```text\n([\s\S]*?)```/.exec(architecture)?.[1];
  if (list === undefined) {
    throw new Error("docs/architecture.md has no list of layers behind <!-- import law -->");
  }
  return list
    .trim()
    .split("\n")
    .map((line) => line.trim().split(/\s+/)[0] ?? "");
}

const MESSAGES_LAYER = "workflows/messages";

function patternsOf(layers: readonly string[], name: string, depth: number): readonly object[] {
  const above = layers.slice(layers.indexOf(name) + 1).filter((layer) => layer !== MESSAGES_LAYER);
  const order =
    above.length === 0
      ? []
      : [
          {
            regex: `^${"\\.\\./".repeat(depth)}(${above.join("|")})/`,
            message: `src/${name} stands below them in the import law (docs/architecture.md).`,
          },
        ];
  const belowMessages = layers.indexOf(name) < layers.indexOf(MESSAGES_LAYER);
  const temporal = belowMessages
    ? [{ regex: "/(workflows|activities)/", message: `src/${name} knows nothing of workflows.` }]
    : [...(name === "processes" ? [] : ACTIVITIES), MESSAGES];
  return [...order, ...(name === "database" ? [] : [SQL]), ENVIRONMENT, ...temporal];
}

/** The linter's configuration of the law, as text. @param architecture docs/architecture.md */
function importLaw(architecture: string): string {
  const layers = layersOf(architecture);
  const open = layers.filter((layer) => layer !== MESSAGES_LAYER && layer !== "lib" && !(layer in CLOSED));
  const overrides = [
    ...Object.values(CLOSED).map(({ files, patterns }) => restricted(files, patterns)),
    ...DEPTHS.slice(1).map((depth) =>
      restricted(
        [`src/lib/${"*/".repeat(depth - 1)}*.ts`],
        [
          {
            regex: `${PACKAGE}|^${"\\.\\./".repeat(depth)}`,
            message: "The libraries stand alone: they are copied into other people's programs.",
          },
          ENVIRONMENT,
        ],
      ),
    ),
    ...open.flatMap((name) =>
      DEPTHS.map((depth) =>
        restricted([`src/${name}/${"*/".repeat(depth - 1)}*.ts`], patternsOf(layers, name, depth)),
      ),
    ),
    // The servers of a bare clone are started, watched and asked by its process.
    restricted(
      ["src/processes/embedded/*.ts"],
      [
        ENVIRONMENT,
        { regex: "/(workflows|activities)/", message: "What runs servers knows nothing of workflows." },
      ],
    ),
  ];
  return `${JSON.stringify({ overrides }, null, 2)}\n`;
}

/** The same from the document in the repository. */
export async function currentImportLaw(): Promise<string> {
  return importLaw(await readFile(join(import.meta.dirname, "architecture.md"), "utf8"));
}
