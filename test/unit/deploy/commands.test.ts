/** Documented Docker and Kubernetes commands name only services, options, files and objects that exist. */
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { PROCESS_COMMANDS } from "#cli/process-commands.ts";
import { SETTINGS } from "#config/config.ts";
import { unknownSettings } from "#config/unknown-settings.ts";
import { type KnownOptions, type ParsedCommand, parseOptions, wordsOf } from "#test/support/command-words.ts";
import { readCompose } from "#test/support/compose-file.ts";
import { type DocumentLine, inlineCommands, shellLines } from "#test/support/documents.ts";
import { readManifests } from "#test/support/manifests.ts";

const SETTING_NAMES = Object.values(SETTINGS).map(({ variable }) => variable);
const PROCESSES = PROCESS_COMMANDS.map(({ name }) => name);
const REPOSITORY = join(import.meta.dirname, "..", "..", "..");
const DOCUMENTS = [
  "README.md",
  "CONTRIBUTING.md",
  "deploy/kubernetes/README.md",
  ...(await readdir(join(REPOSITORY, "docs")))
    .filter((name) => name.endsWith(".md"))
    .map((name) => `docs/${name}`),
];

/** Returns every command of a program in the documents; a line may hold several, also in loops and pipes. */
async function commandsOf(program: string): Promise<DocumentLine[]> {
  const found = await Promise.all(
    DOCUMENTS.map(async (document) => [
      ...(await shellLines(document)),
      ...(await inlineCommands(document, program)),
    ]),
  );
  return found.flat().flatMap(({ document, text }) =>
    text
      .split(/ \|\|? | && | > /)
      .map((part) => part.trim())
      .filter((part) => part.startsWith(`${program} `))
      .map((part) => ({ document, text: part })),
  );
}

/** Returns the names that do not exist. */
function missing(named: readonly string[], there: readonly string[]): readonly string[] {
  return named.filter((name) => !there.includes(name)).map((name) => `${name} is not there`);
}

/** docs.docker.com/reference/cli/docker/compose */
const COMPOSE: Readonly<Record<string, KnownOptions>> = {
  cp: {},
  exec: { "-T": false, "--user": true },
  kill: { "--signal": true },
  logs: { "--since": true, "--tail": true },
  ps: {},
  restart: {},
  rm: { "--stop": false, "--force": false },
  run: { "--rm": false, "-T": false },
  stop: {},
  up: { "-d": false, "--detach": false, "--build": false, "--wait": false, "--scale": true },
};
const VALUES: Readonly<Record<string, RegExp>> = {
  "--since": /^\d+[mh]$/,
  "--tail": /^\d+$/,
  "--signal": /^HUP$/,
  "--scale": /^(worker|api|edge)=\d+$/,
};
/** docs.docker.com/reference/cli/docker/container/run */
const RUN: KnownOptions = {
  "--rm": false,
  "--init": false,
  "--read-only": false,
  "--volume": true,
  "--publish": true,
  "--env": true,
};
/** docs.docker.com/reference/cli/docker/buildx/build */
const BUILDX: KnownOptions = {
  "-": false,
  "--platform": true,
  "--provenance": true,
  "--push": false,
  "--sbom": true,
  "--tag": true,
};
/** After these, the words behind the service are a command for the container. */
const INSIDE = new Set(["exec", "run"]);

describe("docker", async () => {
  const { services } = readCompose(REPOSITORY);
  const profiles = Object.values(services).flatMap(({ profiles: of = [] }) => of);
  const init = await readFile(join(REPOSITORY, "compose", "init.sh"), "utf8");
  const initWords = [...init.matchAll(/^ {2}([a-z|\s-]+)\)/gm)].flatMap(([, words = ""]) =>
    words.split(" | "),
  );
  const commands = (await commandsOf("docker")).filter(({ text: line }) => !line.includes("…"));

  function problemsOf(line: string): readonly string[] {
    const [, area, ...all] = wordsOf(line);
    if (area === "run") {
      const { words, problems } = parseOptions(all, RUN, 1);
      const set = Object.fromEntries(
        [...line.matchAll(/--env (\w+)=(\S+)/g)].map(([, name, value]) => [name, value]),
      );
      return [...problems, ...unknownSettings(set, SETTING_NAMES), ...missing(words.slice(1, 2), PROCESSES)];
    }
    if (area === "buildx") {
      return parseOptions(all, BUILDX).problems;
    }
    if (area !== "compose") {
      return line === "docker stats --no-stream" ? [] : [`nobody knows ${area}`];
    }
    const { options: wide, words, problems: before } = parseOptions(all, { "--profile": true }, 1);
    const [name = "", ...rest] = words;
    const known = COMPOSE[name];
    if (known === undefined) {
      return [`there is no docker compose ${name}`];
    }
    const inside = INSIDE.has(name);
    const { options, words: named, problems } = parseOptions(rest, known, inside ? 1 : undefined);
    const of = inside ? named.slice(0, 1) : named.map((word) => word.replace(/:.*/, ""));
    return [
      ...before,
      ...problems,
      ...missing(Object.keys(wide).length === 0 ? [] : [wide["--profile"] ?? ""], profiles),
      ...missing(of, [...Object.keys(services), "SERVICE"]),
      ...(name === "run" && of[0] === "init" ? missing(named.slice(1, 2), initWords) : []),
      ...Object.entries(options)
        .filter(([option, value]) => VALUES[option]?.test(value) === false)
        .map(([option, value]) => `${option} ${value} is not of its form`),
    ];
  }

  test("commands are in the runbook, in operations and in the README", () => {
    const documents = new Set(commands.map(({ document }) => document));
    expect([...documents]).toEqual(
      expect.arrayContaining(["README.md", "docs/operations.md", "docs/runbook.md"]),
    );
  });

  test.each(commands)("$document: $text", ({ text: line }) => {
    expect(problemsOf(line)).toEqual([]);
  });

  test.each([
    ["docker compose logs workers --since 15m", "workers is not there"],
    ["docker compose logs worker --since 15 minutes", "--since 15 is not of its form"],
    ["docker compose run --rm -T init customer ada", "customer is not there"],
    ["docker compose restart --now api", "there is no --now"],
    ["docker compose --profile metrics up", "metrics is not there"],
    ["docker compose reload", "there is no docker compose reload"],
    [
      "docker run --rm --env SIGNET_HOMES=/x signet serve",
      "SIGNET_HOMES is not a setting: did you mean SIGNET_HOME?",
    ],
    ["docker run --detached signet serve", "there is no --detached"],
    ["docker run signet server", "server is not there"],
  ])("%s: %s", (line, problem) => {
    expect(problemsOf(line)).toContain(problem);
  });
});

/** kubernetes.io/docs/reference/kubectl */
const KUBECTL: Readonly<Record<string, KnownOptions>> = {
  apply: { "-k": true, "-l": true },
  create: { "--from-literal": true },
  delete: { "--ignore-not-found": false },
  exec: {},
  logs: {},
  rollout: { "--timeout": true },
  scale: { "--replicas": true },
  wait: { "--for": true, "--timeout": true },
};
const KINDS: Readonly<Record<string, string>> = {
  deploy: "Deployment",
  deployment: "Deployment",
  job: "Job",
};
const COMPONENTS = ["worker", "api", "edge"];

describe("kubectl", async () => {
  const all = (await Promise.all(["base", "doctor"].map(readManifests))).flat();
  const objects = all.map(({ kind, metadata }) => `${kind} ${metadata.name}`);
  const specs = all.flatMap(({ spec }) => (spec?.template === undefined ? [] : [spec.template.spec]));
  /** Values that may name a file of a Secret. */
  const paths = all.flatMap(({ data = {}, spec }) => [
    ...Object.values(data),
    ...(spec?.template?.spec.containers ?? []).flatMap(({ env = [] }) => env.map(({ value = "" }) => value)),
  ]);
  const secrets = specs.flatMap(({ containers, volumes }) =>
    volumes.flatMap(({ name, secret }) => {
      const mounted = containers.flatMap(({ volumeMounts }) =>
        volumeMounts.filter((mount) => mount.name === name).map(({ mountPath }) => `${mountPath}/`),
      );
      return paths
        .filter((path) => mounted.some((directory) => path.startsWith(directory)))
        .map((path) => `${secret?.secretName} ${path.slice(path.lastIndexOf("/") + 1)}`);
    }),
  );
  const commands = await commandsOf("kubectl");

  /** Returns the objects of `job/name` or `job name`; for a variable, all of the kind. */
  function named(word: string): readonly string[] {
    const [kind = "", name = ""] = word.split(/[/ ]/);
    const names = COMPONENTS.map((component) => name.replace("$component", component));
    return names.map((one) => `${KINDS[kind]} ${one}`);
  }

  function madeProblems([what, kind, name = ""]: readonly string[], line: string): readonly string[] {
    if (what === "namespace") {
      return missing([`Namespace ${kind}`], objects);
    }
    const keys = [...line.matchAll(/--from-literal=([\w-]+)=/g)].map(([, key]) => `${name} ${key}`);
    return missing(keys, secrets);
  }

  function appliedProblems({ "-k": directory = "", "-l": labels = "" }: ParsedCommand["options"]) {
    const asked = labels.match(/[\w./-]+|\$component/g) ?? [];
    return [
      ...missing(asked, ["app.kubernetes.io/component", "notin", "$component", ...COMPONENTS]),
      ...(existsSync(join(REPOSITORY, directory, "kustomization.yaml")) ? [] : [`${directory} is not there`]),
    ];
  }

  function problemsOf(line: string): readonly string[] {
    const {
      options: wide,
      words,
      problems: before,
    } = parseOptions(wordsOf(line).slice(1), { "-n": true }, 1);
    const [verb = "", ...rest] = words;
    const {
      options,
      words: own,
      problems,
    } = parseOptions(rest, KUBECTL[verb] ?? {}, verb === "exec" ? 1 : undefined);
    const things = { rollout: own.slice(1), delete: [own.join(" ")], exec: own.slice(0, 1) }[verb] ?? own;
    const makes = verb === "create" || verb === "apply";
    return [
      ...before,
      ...problems,
      ...missing([verb], Object.keys(KUBECTL)),
      ...(verb === "apply" ? appliedProblems(options) : []),
      ...(verb === "create" ? madeProblems(own, line) : []),
      ...(makes ? [] : missing(things.flatMap(named), objects)),
      ...(makes ? [] : missing([wide["-n"] ?? "no namespace"], ["signet"])),
    ];
  }

  test("commands are in the manifests' README", () => {
    expect(commands.length).toBeGreaterThan(10);
  });

  test.each(commands)("$document: $text", ({ text: line }) => {
    expect(problemsOf(line)).toEqual([]);
  });

  test.each([
    ["kubectl -n signet rollout status deployment/signet-workers", "Deployment signet-workers is not there"],
    ["kubectl rollout status deployment/signet-worker", "no namespace is not there"],
    ["kubectl apply -k deploy/kubernetes/overlays/other", "deploy/kubernetes/overlays/other is not there"],
    ["kubectl apply -k deploy/kubernetes/doctor -l 'component in (api)'", "component is not there"],
    [
      "kubectl -n signet create secret generic signet-database --from-literal=salt=x",
      "signet-database salt is not there",
    ],
  ])("%s: %s", (line, problem) => {
    expect(problemsOf(line)).toContain(problem);
  });
});

/** helm.sh/docs/helm */
const HELM: Readonly<Record<string, KnownOptions>> = {
  upgrade: {
    "--install": false,
    "--namespace": true,
    "--create-namespace": false,
    "--values": true,
    "--wait": false,
    "--timeout": true,
  },
  rollback: { "--namespace": true, "--wait": false, "--timeout": true },
  uninstall: { "--namespace": true, "--wait": false, "--timeout": true },
};

describe("helm", async () => {
  const commands = await commandsOf("helm");

  function problemsOf(line: string): readonly string[] {
    const [verb = "", ...rest] = wordsOf(line).slice(1);
    if (verb === "push") {
      // The file of a release, which test/e2e/release.test.ts makes.
      return missing(rest.slice(0, 1), ["dist/release/signet-chart-VERSION.tgz"]);
    }
    const { options, words, problems } = parseOptions(rest, HELM[verb] ?? {});
    const [release = "", chart = ""] = words;
    const { "--values": values = "no values" } = options;
    const common = [
      ...problems,
      ...missing([verb], Object.keys(HELM)),
      ...missing([release, options["--namespace"] ?? "no namespace"], ["signet"]),
    ];
    return verb !== "upgrade"
      ? common
      : [
          ...common,
          ...(existsSync(join(REPOSITORY, values)) ? [] : missing([values], ["my-values.yaml"])),
          ...(existsSync(join(REPOSITORY, chart, "Chart.yaml")) ? [] : [`${chart} is no chart`]),
        ];
  }

  test("commands are in the manifests' README", () => {
    expect(commands.length).toBeGreaterThan(1);
  });

  test.each(commands)("$document: $text", ({ text: line }) => {
    expect(problemsOf(line)).toEqual([]);
  });

  test.each([
    ["helm upgrade signet deploy/helm/other --namespace signet --values my-values.yaml", "is no chart"],
    ["helm push dist/release/signet-VERSION.tgz oci://example.com", "signet-VERSION.tgz is not there"],
    ["helm upgrade signet deploy/helm/signet --values my-values.yaml", "no namespace is not there"],
    [
      "helm upgrade signet deploy/helm/signet --namespace signet --values my-values.yaml --now",
      "there is no --now",
    ],
  ])("%s: %s", (line, problem) => {
    expect(problemsOf(line).join()).toContain(problem);
  });
});
