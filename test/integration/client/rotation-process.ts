/**
 * A client with a stored credential, to be killed: `rotation-process.ts <url> <store file> <manner>`. It prints a line
 * for each thing that happens. Manners: `once` gets one token; `before-save` and `after-save` stop for ever there when a
 * successor comes; `forever` gets one token after the other, each from a source of its own.
 */
import type { CredentialStore } from "../../../src/lib/client/credential-store.ts";
import { FileCredentialStore } from "../../../src/lib/client/file-credential-store.ts";
import { SignetClient } from "../../../src/lib/client/signet-client.ts";

const [baseUrl = "", path = "", manner = ""] = process.argv.slice(2);
const file = new FileCredentialStore(path);

function say(line: string): void {
  process.stdout.write(`${line}\n`);
}

/** The timer keeps the process alive, as a write that hangs would. */
async function hang(line: string): Promise<never> {
  say(line);
  setInterval(() => undefined, 60_000);
  return await new Promise<never>(() => undefined);
}

const store: CredentialStore = {
  load: async () => await file.load(),
  save: async (credential) => {
    if (manner === "before-save") {
      await hang("received");
    }
    await file.save(credential);
    if (manner === "after-save") {
      await hang("stored");
    }
  },
};

async function oneToken(): Promise<void> {
  const client = new SignetClient({
    baseUrl,
    store,
    warn: ({ code, cause }) => say(`warning ${code} ${String(cause)}`),
  });
  say(`token ${(await client.accessToken()).value}`);
}

try {
  await oneToken();
  for (let rest = manner === "forever" ? Number.POSITIVE_INFINITY : 0; rest > 0; rest -= 1) {
    await oneToken();
  }
} catch (error) {
  say(`failed ${String(error)}`);
  process.exitCode = 1;
}
