/**
 * A client with a stored credential, for tests that kill it: `rotation-process.ts <url> <store file> <mode>`. It
 * prints
 * a line per step. Modes: `once` gets one token; `before-save` and `after-save` hang there when a successor arrives;
 * `forever` gets tokens in a loop, each from a new client.
 */
import type { CredentialStore } from "#lib/client/credential-store.ts";
import { FileCredentialStore } from "#lib/client/file-credential-store.ts";
import { SignetClient } from "#lib/client/signet-client.ts";

const [baseUrl = "", path = "", mode = ""] = process.argv.slice(2);
const file = new FileCredentialStore(path);

function print(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** The timer keeps the process alive, like a hanging write. */
async function hang(line: string): Promise<never> {
  print(line);
  setInterval(() => undefined, 60_000);
  return await new Promise<never>(() => undefined);
}

const store: CredentialStore = {
  load: async () => await file.load(),
  save: async (credential) => {
    if (mode === "before-save") {
      await hang("received");
    }
    await file.save(credential);
    if (mode === "after-save") {
      await hang("stored");
    }
  },
};

async function oneToken(): Promise<void> {
  const client = new SignetClient({
    baseUrl,
    store,
    warn: ({ code, cause }) => print(`warning ${code} ${String(cause)}`),
  });
  print(`token ${(await client.accessToken()).value}`);
}

try {
  await oneToken();
  for (let rest = mode === "forever" ? Number.POSITIVE_INFINITY : 0; rest > 0; rest -= 1) {
    await oneToken();
  }
} catch (error) {
  print(`failed ${String(error)}`);
  process.exitCode = 1;
}
