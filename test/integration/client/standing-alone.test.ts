/** The client library can be copied and published without the service. */
import { execFile } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { builtinModules } from "node:module";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import { allowMinutes } from "#test/support/limits.ts";
import {
  CLIENT_ID,
  type RotatingServer,
  secretOf,
  startRotatingServer,
} from "#test/support/rotating-server.ts";

allowMinutes(3);

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");
const LIBRARY = join(REPOSITORY, "src", "lib");
const run = promisify(execFile);

let directory: string;
let server: RotatingServer;

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), "signet-client-"));
  server = await startRotatingServer();
  await writeFile(join(directory, "package.json"), '{"type":"module"}');
  const options = {
    extends: join(REPOSITORY, "tsconfig.build.json"),
    include: [LIBRARY],
    compilerOptions: {},
  };
  options.compilerOptions = {
    rootDir: LIBRARY,
    outDir: directory,
    sourceMap: false,
    typeRoots: [join(REPOSITORY, "node_modules", "@types")],
  };
  await writeFile(join(directory, "tsconfig.json"), JSON.stringify(options));
  await run(process.execPath, [
    join(REPOSITORY, "node_modules", "typescript", "bin", "tsc"),
    "-p",
    directory,
  ]);
});

afterAll(async () => {
  await server.close();
  await rm(directory, { recursive: true, force: true });
});

test("the library imports only its own files and Node's modules", async () => {
  const imported = new Set<string>();
  for (const name of (await readdir(LIBRARY, { recursive: true })).filter((file) => file.endsWith(".ts"))) {
    for (const [, from = ""] of (await readFile(join(LIBRARY, name), "utf8")).matchAll(/ from "([^"]+)"/g)) {
      imported.add(from.startsWith(".") ? join("/", "lib", dirname(name), from) : from);
    }
  }
  expect(imported.size).toBeGreaterThan(10);
  const foreign = [...imported].filter(
    (name) => !name.startsWith("/lib/") && !builtinModules.includes(name.replace(/^node:/, "")),
  );
  expect(foreign).toEqual([]);
});

test("the library, compiled and alone in a directory, gets a token and calls the API", async () => {
  const program = `
    import { SignetClient, FileCredentialStore, SignetApiError, createTlsFetch } from "./client/index.js";
    const signet = new SignetClient({ baseUrl: ${JSON.stringify(server.url)}, clientId: ${JSON.stringify(CLIENT_ID)},
      clientSecret: ${JSON.stringify(secretOf(1))}, store: new FileCredentialStore("credential.json") });
    const { data } = await signet.endpoints.list().page();
    console.log(JSON.stringify([data, typeof createTlsFetch, SignetApiError.name]));
  `;
  const args = ["--input-type=module", "--eval", program];
  const { stdout, stderr } = await run(process.execPath, args, { cwd: directory, env: {} });
  expect({ stdout, stderr }).toEqual({ stdout: '[[],"function","SignetApiError"]\n', stderr: "" });
});
