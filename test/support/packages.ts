/** The npm packages, packed and installed as users do. Test files and the bench use it, so it needs no vitest. */
import { execFile } from "node:child_process";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { PACKAGES } from "#runtime/package.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..");
const QUIET = ["--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error"];
const STARTS = 7;
/** Prints the CPU time of the whole process, in seconds, as the last line of its standard error. */
const REPORT_CPU = `data:text/javascript,${encodeURIComponent(`
  import { writeSync } from "node:fs";
  process.on("exit", () => {
    const { user, system } = process.cpuUsage();
    writeSync(2, "\\n" + (user + system) / 1e6);
  });
`)}`;

/** A program in TypeScript that uses every entry of the client package, and misuses two. */
export const TYPED_CONSUMER = `
  import { SignetApiError, SignetClient, type Delivery } from "${PACKAGES.client}";
  import { createEdgeIdentityVerifier } from "${PACKAGES.client}/edge-identity";
  import { verify, type WebhookEvent, webhookListener } from "${PACKAGES.client}/receiver";
  import { NODE_CRYPTO, parseVerifierKey, type VerifierKey } from "${PACKAGES.client}/transparency-log";
  import { createServer } from "node:http";
  const client: SignetClient = new SignetClient({ baseUrl: "https://example.com", clientId: "cl_1", scopes: [] });
  const whoCalls = createEdgeIdentityVerifier({ keys: ["${Buffer.alloc(32, 7).toString("base64")}"] });
  createServer(webhookListener({ secrets: "whsec_${Buffer.alloc(32, 7).toString("base64")}", onEvent: async (event) => void (event satisfies WebhookEvent) }));
  export const key = async (text: string): Promise<VerifierKey> => await parseVerifierKey(text, NODE_CRYPTO);
  export const states = async (): Promise<void> => {
    for await (const delivery of client.deliveries.list()) {
      console.log((delivery satisfies Delivery).state);
    }
  };
  export const codeOf = (error: unknown) => (error instanceof SignetApiError ? error.code : undefined);
  // @ts-expect-error: an event has data
  export const wrong = () => client.events.publish({ type: "a.b" });
  // @ts-expect-error: a tenant is a text
  export const alsoWrong = (request: Parameters<typeof whoCalls>[0]): number => whoCalls(request).tenant;
  console.log(typeof client.events.publish, typeof whoCalls, typeof verify);`;

const run = promisify(execFile);

const NAMES = ["client", "cli", "server"] as const;
export type PackageName = (typeof NAMES)[number];

export interface PackedPackage {
  /** Directory that was packed. */
  readonly directory: string;
  /** Absolute path of the tarball. */
  readonly tarball: string;
  readonly bytes: number;
  readonly unpackedBytes: number;
  readonly files: readonly string[];
}

interface PackReport {
  readonly filename: string;
  readonly size: number;
  readonly unpackedSize: number;
  readonly files: readonly { readonly path: string }[];
}

/**
 * Makes the packages from a build and packs them with `npm pack`.
 *
 * @param directory receives packages and tarballs
 */
export async function packPackages(
  directory: string,
  build: string,
): Promise<Readonly<Record<PackageName, PackedPackage>>> {
  const made = join(directory, "packages");
  await run(process.execPath, [join(REPOSITORY, "src", "processes", "packages.mjs"), made, build]);
  const packed = NAMES.map(async (name) => {
    const tarballs = join(directory, "tarballs", name);
    await mkdir(tarballs, { recursive: true });
    const pack = ["pack", "--json", "--ignore-scripts", "--pack-destination", tarballs];
    const { stdout } = await run("npm", pack, { cwd: join(made, name), maxBuffer: 16 * 1_048_576 });
    const [report] = JSON.parse(stdout) as PackReport[];
    if (report === undefined) {
      throw new Error(`npm packed nothing for ${name}`);
    }
    const { filename, size: bytes, unpackedSize: unpackedBytes, files } = report;
    const paths = files.map(({ path }) => path);
    return [
      name,
      { directory: join(made, name), tarball: join(tarballs, filename), bytes, unpackedBytes, files: paths },
    ];
  });
  return Object.fromEntries(await Promise.all(packed)) as Record<PackageName, PackedPackage>;
}

/** Installs tarballs into a new project outside of the repository, and returns it. @param options further ones of npm */
export async function installInto(
  project: string,
  tarballs: readonly string[],
  options: readonly string[] = ["--offline"],
): Promise<string> {
  await mkdir(project, { recursive: true });
  await writeFile(join(project, "package.json"), '{"private":true}');
  await run("npm", ["install", ...QUIET, ...options, ...tarballs], { cwd: project });
  return project;
}

/** Returns the least CPU time of a few starts of a program, in seconds. Other processes can only add to it. */
export async function cpuOfStart(program: string, args: readonly string[]): Promise<number> {
  const seconds: number[] = [];
  for (let start = 0; start < STARTS; start += 1) {
    const { stderr } = await run(process.execPath, [program, ...args], {
      env: { NODE_OPTIONS: `--import ${REPORT_CPU}` },
    });
    seconds.push(Number(stderr.slice(stderr.lastIndexOf("\n"))));
  }
  return Math.min(...seconds);
}
