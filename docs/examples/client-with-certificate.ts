/** A client in production: mutual TLS, a credential in a file, warnings in the program's log. */
import { readFile } from "node:fs/promises";
import { FileCredentialStore, SignetClient } from "../../src/lib/client/index.ts";

interface Paths {
  readonly credential: string;
  readonly certificate: string;
  readonly key: string;
}

export function createClient(baseUrl: string, paths: Paths): SignetClient {
  return new SignetClient({
    baseUrl,
    store: new FileCredentialStore(paths.credential),
    // A function, so that a renewed certificate is taken up without a restart.
    tls: async () => ({ cert: await readFile(paths.certificate), key: await readFile(paths.key) }),
    scopes: ["events:publish"],
    warn: ({ code, message }) => console.warn(code, message),
  });
}
