/** A second api process on the database of a test's api, connected directly or through a proxy. */
import { loadConfig } from "#config/config.ts";
import { createLogger } from "#observability/logger.ts";
import { startApi } from "#processes/api.ts";
import { type Answer, unlessStale } from "./answer.ts";
import type { TestApi } from "./api.ts";
import { observe, RequestTrail } from "./failure-report.ts";
import { freePort } from "./free-port.ts";

export interface SecondApi {
  readonly log: readonly string[];
  /** Sends a request to its public API, which issues and accepts the same tokens, as `unlessStale`. */
  request(path: string, init?: RequestInit): Promise<Answer>;
  /** The same, once, also while the process cannot hear revocations. */
  requestOnce(path: string, init?: RequestInit): Promise<Answer>;
  close(): Promise<void>;
}

/** Starts it. @param port port of PostgreSQL or of a proxy to it */
export async function startSecondApi(
  api: Pick<TestApi, "environment" | "database">,
  port?: number,
): Promise<SecondApi> {
  const listen = `127.0.0.1:${await freePort()}`;
  const databaseUrl = new URL(api.database.url);
  if (port !== undefined) {
    databaseUrl.port = String(port);
  }
  const config = loadConfig({
    ...api.environment,
    SIGNET_API_LISTEN: listen,
    SIGNET_ADMIN_LISTEN: "127.0.0.1:0",
    SIGNET_DATABASE_URL: databaseUrl.href,
  });
  const lines: string[] = [];
  const running = await startApi({
    config: {
      ...config,
      databaseUrl: databaseUrl.href,
      temporalAddress: config.temporalAddress ?? "",
    },
    log: createLogger({ level: "info", destination: { write: (line) => void lines.push(line) } }),
  });
  const requests = new RequestTrail();
  observe({ name: "another api", log: () => lines.join(""), requests });
  const requestOnce: SecondApi["requestOnce"] = async (path, init) =>
    await requests.send(`http://${listen}${path}`, init);
  return {
    log: lines,
    request: async (path, init) => await unlessStale(async () => await requestOnce(path, init)),
    requestOnce,
    close: async () => await running.close(),
  };
}
