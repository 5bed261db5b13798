/**
 * A parent that tests can kill: starts an embedded server, prints `{ pid, url, data }`, and stops the server when
 * standard
 * input ends. Arguments: `postgres HOME PORT STATE_ROOT` or `temporal HOME PORT BINARY`.
 */
import { once } from "node:events";
import { startEmbeddedPostgres } from "#processes/embedded/postgres.ts";
import { startEmbeddedTemporal } from "#processes/embedded/temporal.ts";

const [kind, home = "", port = "", last = ""] = process.argv.slice(2);
const log = (line: string): void => console.error(line);

async function start(): Promise<{ stop(): Promise<void> }> {
  if (kind === "postgres") {
    return await startEmbeddedPostgres({ home, port: Number(port), log, stateRoots: [last] });
  }
  return await startEmbeddedTemporal({
    binary: last,
    home,
    port: Number(port),
    uiPort: null,
    namespaces: ["signet"],
    dbFilename: `${home}/temporal.db`,
    log,
  });
}

const server = await start();
console.log(JSON.stringify(server));
process.stdin.resume();
await once(process.stdin, "end");
await server.stop();
