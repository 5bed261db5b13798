/**
 * The chart in deploy/helm is the source of the plain manifests in deploy/kubernetes. `npm run docs` writes them, where helm can
 * be had, and copies into the chart the files that it shares with Prometheus and the compose file.
 */
import { join } from "node:path";
import { goProgram, HELM, run } from "./go-program.ts";
import { readText, ROOT } from "./repository.ts";

const CHART = join("deploy", "helm", "signet");
const BASE = join("deploy", "kubernetes");
const COMMENT = "# Made from deploy/helm/signet by `npm run docs`. Change the chart, or an overlay.\n";
/** Templates whose objects are not part of the base. */
const ELSEWHERE: Readonly<Record<string, string>> = { doctor: "doctor" };

/** Sources of the copies in the chart: Helm reads no file outside it. */
export const SHARED_FILES: Readonly<Record<string, string>> = {
  [`${CHART}/files/alerts.yml`]: "deploy/prometheus/alerts.yml",
  [`${CHART}/files/prune-visibility-indexes.sql`]: "compose/prune-visibility-indexes.sql",
  [`${CHART}/files/restore-visibility-indexes.sql`]: "compose/restore-visibility-indexes.sql",
};

/** Runs `helm template` for the chart. The version is the cluster's, which Helm would otherwise ask. */
export async function helmTemplate(...args: readonly string[]): Promise<string> {
  const helm = await goProgram(HELM);
  const always = ["template", "signet", CHART, "--namespace", "signet", "--kube-version", "1.36.0"];
  const { stdout } = await run(helm, [...always, ...args], { cwd: ROOT, maxBuffer: 16 * 1024 * 1024 });
  return stdout;
}

/** Returns the plain manifests by path. @throws if helm can neither be found nor be built */
export async function plainManifests(): Promise<ReadonlyMap<string, string>> {
  const rendered = await helmTemplate("--values", join(BASE, "values.yaml"));
  const files = new Map<string, string[]>();
  for (const [, template = "", object = ""] of rendered.matchAll(
    /^---\n# Source: signet\/templates\/([\w-]+)\.yaml\n([\s\S]*?)(?=^---\n|$(?![\s\S]))/gm,
  )) {
    const path = join(BASE, ELSEWHERE[template] ?? "base", `${template}.yaml`);
    files.set(path, [...(files.get(path) ?? []), `${object.trimEnd()}\n`]);
  }
  return new Map([...files].map(([path, objects]) => [path, COMMENT + objects.join("---\n")]));
}

/** Returns the chart's description with the version of package.json. */
export async function chartWithVersion(before: string): Promise<string> {
  const { version } = JSON.parse(await readText("package.json")) as {
    readonly version: string;
  };
  return before.replaceAll(/^(version|appVersion): .*$/gm, `$1: ${version}`);
}

/** Returns the source of a copy in the chart. */
export async function sharedFile(copy: string): Promise<string> {
  return await readText(SHARED_FILES[copy] ?? copy);
}
