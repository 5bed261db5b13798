/** A real API server and kubectl, built once from their Go module and cached in SIGNET_CACHE, and definitions of other operators' kinds. */
import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { copyFile, mkdir, readFile, writeFile } from "node:fs/promises";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { processEnvironment } from "#config/config.ts";
import { goInstall, QUICK_BUILD } from "#processes/embedded/go-install.ts";
import { atomically } from "../bench/environment/temporal-programs.ts";

const run = promisify(execFile);

const VERSION = "1.34.4";
const MODULE = "k8s.io/kubernetes";
const PROGRAMS = ["kube-apiserver", "kubectl"] as const;
const PROMETHEUS_CRD = "example/prometheus-operator-crd/monitoring.coreos.com";
/** Modules with definitions of the kinds that the chart uses, and their files. */
const DEFINITIONS: readonly (readonly [module: string, files: readonly string[]])[] = [
  [
    "github.com/prometheus-operator/prometheus-operator@v0.85.0",
    [`${PROMETHEUS_CRD}_podmonitors.yaml`, `${PROMETHEUS_CRD}_prometheusrules.yaml`],
  ],
  [
    "github.com/external-secrets/external-secrets@v1.3.2",
    ["config/crds/bases/external-secrets.io_externalsecrets.yaml"],
  ],
  [
    "github.com/cert-manager/cert-manager@v1.21.2",
    ["deploy/crds/cert-manager.io_certificates.yaml", "deploy/crds/cert-manager.io_issuers.yaml"],
  ],
  ["github.com/kedacore/keda/v2@v2.21.0", ["config/crd/bases/keda.sh_scaledobjects.yaml"]],
];

export interface KubernetesPrograms {
  readonly apiServer: string;
  readonly kubectl: string;
  /** Directory of CustomResourceDefinitions, as YAML. */
  readonly definitions: string;
}

async function download(module: string): Promise<{ readonly Dir: string; readonly GoMod: string }> {
  const { stdout } = await run("go", ["mod", "download", "-json", module], { cwd: "/" });
  return JSON.parse(stdout) as { readonly Dir: string; readonly GoMod: string };
}

/**
 * Returns the go.mod of a module that builds Kubernetes' programs. Kubernetes replaces parts of itself by directories of its
 * repository, which its module lacks. They are modules, too.
 */
async function goMod(): Promise<string> {
  const { GoMod } = await download(`${MODULE}@v${VERSION}`);
  const own = await readFile(GoMod, "utf8");
  const parts = VERSION.replace(/^1/, "v0");
  const elsewhere = own.replaceAll(/=> \.\/staging\/src\/(\S+)/g, `=> $1 ${parts}`);
  return `${elsewhere.replace(/^module .*$/m, "module build")}\nrequire ${MODULE} v${VERSION}\n`;
}

async function build(directory: string, log: (line: string) => void): Promise<void> {
  log(`building Kubernetes ${VERSION} with go install; once only, about 10 minutes`);
  await writeFile(join(directory, "go.mod"), await goMod());
  const [major = "", minor = ""] = VERSION.split(".");
  const stamps = Object.entries({ gitVersion: `v${VERSION}`, gitMajor: major, gitMinor: minor }).map(
    ([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`,
  );
  await goInstall({
    go: "go",
    args: [
      "-mod=mod",
      "-trimpath",
      QUICK_BUILD.compiler,
      `${QUICK_BUILD.linker} ${stamps.join(" ")}`,
      ...PROGRAMS.map((name) => `${MODULE}/cmd/${name}`),
    ],
    what: `Kubernetes ${VERSION}`,
    directory,
    environment: processEnvironment(),
    progress: log,
  });
  const definitions = join(directory, "definitions");
  await mkdir(definitions);
  for (const [module, files] of DEFINITIONS) {
    const { Dir } = await download(module);
    for (const file of files) {
      await copyFile(join(Dir, file), join(definitions, basename(file)));
    }
  }
}

function programsIn(cache: string): KubernetesPrograms & { readonly directory: string } {
  const directory = join(cache, `kubernetes-${VERSION}`);
  return {
    directory,
    apiServer: join(directory, "kube-apiserver"),
    kubectl: join(directory, "kubectl"),
    definitions: join(directory, "definitions"),
  };
}

/** Returns the cached programs, or undefined: tests do not build for so long. */
export function cachedKubernetes(cache: string): KubernetesPrograms | undefined {
  const programs = programsIn(cache);
  return existsSync(programs.directory) ? programs : undefined;
}

/** Builds the programs if they are not cached. */
export async function fetchKubernetes(cache: string, log: (line: string) => void): Promise<void> {
  const { directory } = programsIn(cache);
  if (!existsSync(directory)) {
    await atomically(directory, async (draft) => await build(draft, log));
  }
}
