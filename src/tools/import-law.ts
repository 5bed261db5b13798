/**
 * The import law. `npm run docs` makes `.oxlintrc.law.json` from the list of layers in docs/architecture.md, so that
 * people and the linter read one list. A layer may import itself and the layers before it.
 */
import { readText } from "./repository.ts";

const ENVIRONMENT = {
  regex: "^(node:)?process$",
  message: "src/config/config.ts alone reads the environment.",
};
const SQL = { regex: "^pg(-|$)", message: "SQL lives in src/database." };
/** `#` would begin a comment in a pattern of a group. */
const MESSAGES = {
  group: ["\\#workflows/**", "!\\#workflows/messages.ts"],
  message: "Workflows are reached through workflows/messages.ts only.",
};
const ACTIVITY_TYPES = {
  regex: "^#activities/types\\.ts$",
  allowTypeImports: true,
  message: "Activities are visible as types only.",
};
const ACTIVITIES = {
  group: ["\\#activities/**", "!\\#activities/types.ts"],
  message: "Only composition roots wire activities.",
};
const NO_WORKFLOWS = {
  regex: "^#(workflows|activities)/",
  message: "This layer must not import workflows or activities.",
};
/** The law reads names, and a climbing path has none. */
const CLIMBS = {
  regex: "^\\.\\./\\.\\./",
  message: "An import that climbs two levels or leaves its layer starts with # (CONTRIBUTING.md, Rules).",
};

/** Folders with a short list of permitted imports. */
const CLOSED = {
  workflows: {
    files: ["workflows/**/*.ts"],
    patterns: [
      ACTIVITY_TYPES,
      {
        group: [
          "*",
          "!./*",
          "!\\#domain/*",
          "!\\#activities/types.ts",
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
      CLIMBS,
      { regex: "^#(processes|api|cli|portal|edge|tools)/", message: "Activities call services." },
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

/** Neither a relative path nor a module of Node. The linter's expressions have no lookahead. */
const NOT_NEAR = "^([^.n]|n[^o]|no[^d]|nod[^e]|node[^:])";

interface Override {
  readonly files: readonly string[];
  readonly rules: Readonly<Record<string, unknown>>;
}

function restricted(files: readonly string[], patterns: readonly object[]): Override {
  return { files, rules: { "no-restricted-imports": ["error", { patterns }] } };
}

/** Returns the layers of the fenced list after `<!-- import law -->`, the lowest first. */
export function layersOf(architecture: string): readonly string[] {
  const list = /<!-- import law -->\s*```text\n([\s\S]*?)```/.exec(architecture)?.[1];
  if (list === undefined) {
    throw new Error("docs/architecture.md has no list of layers after <!-- import law -->");
  }
  return list
    .trim()
    .split("\n")
    .map((line) => line.trim().split(/\s+/)[0] ?? "");
}

const MESSAGES_LAYER = "workflows/messages";

function patternsOf(layers: readonly string[], name: string): readonly object[] {
  const above = layers.slice(layers.indexOf(name) + 1).filter((layer) => layer !== MESSAGES_LAYER);
  const order =
    above.length === 0
      ? []
      : [
          {
            regex: `^#(${above.join("|")})/`,
            message: `src/${name} must not import a higher layer (docs/architecture.md, Import law).`,
          },
        ];
  const belowMessages = layers.indexOf(name) < layers.indexOf(MESSAGES_LAYER);
  const temporal = belowMessages
    ? [NO_WORKFLOWS]
    : [...(name === "processes" ? [] : [ACTIVITY_TYPES, ACTIVITIES]), MESSAGES];
  return [CLIMBS, ...order, ...(name === "database" ? [] : [SQL]), ENVIRONMENT, ...temporal];
}

/** Returns the linter's configuration as text, one folder a line. @param architecture text of docs/architecture.md */
function importLaw(architecture: string): string {
  const layers = layersOf(architecture);
  const folders = layers.filter((layer) => layer !== MESSAGES_LAYER);
  const open = folders.filter((layer) => layer !== "lib" && layer !== "tools" && !(layer in CLOSED));
  const others = [...folders.filter((layer) => layer !== "lib"), "workflows", "activities"];
  const overrides = [
    restricted(["test/**/*.ts", "src/tools/*.ts"], [CLIMBS]),
    ...Object.values(CLOSED).map(({ files, patterns }) => restricted(files, patterns)),
    // Libraries are copied with their paths, so they keep relative ones.
    restricted(
      ["src/lib/**/*.ts"],
      [
        {
          regex: `${NOT_NEAR}|^(\\.\\./)+(${others.join("|")})/`,
          message: "Users copy the libraries into their programs: they import only each other and Node.",
        },
        ENVIRONMENT,
      ],
    ),
    ...open.map((name) => restricted([`src/${name}/**/*.ts`], patternsOf(layers, name))),
    // The embedded servers are asked with SQL, for instance whether they are ready.
    restricted(["src/processes/embedded/*.ts"], [CLIMBS, ENVIRONMENT, NO_WORKFLOWS]),
    {
      files: ["src/*/*.ts", "workflows/*.ts", "activities/*.ts"],
      rules: { "import/no-relative-parent-imports": "error" },
    },
  ];
  return `{ "overrides": [\n${overrides.map((one) => JSON.stringify(one)).join(",\n")}\n] }\n`;
}

/** Returns the configuration for the repository's docs/architecture.md. */
export async function currentImportLaw(): Promise<string> {
  return importLaw(await readText("docs/architecture.md"));
}
