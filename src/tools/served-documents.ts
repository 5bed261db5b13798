/** The OpenAPI documents as an api serves them: every route declares its part, and a real api has registered all. */
import { randomBytes } from "node:crypto";
import { pino } from "pino";
import { loadConfig } from "#config/config.ts";
import { startApi } from "#processes/api.ts";
import { askOperators, readAnswer } from "#test/support/answer.ts";
import { OPENAPI, PUBLIC_URL } from "./openapi-schema.ts";

const LOOPBACK = "127.0.0.1:0";
/** Nothing listens there. An api starts without Temporal. */
const NO_TEMPORAL = "127.0.0.1:1";

/** Returns the documents by their paths in the repository. @param databaseUrl URL of a migrated database */
export async function servedDocuments(databaseUrl: string): Promise<Readonly<Record<string, string>>> {
  const secret = (): string => randomBytes(32).toString("base64");
  const token = randomBytes(32).toString("hex");
  const config = loadConfig({
    SIGNET_ENV: "development",
    SIGNET_PUBLIC_URL: PUBLIC_URL,
    SIGNET_API_LISTEN: LOOPBACK,
    SIGNET_ADMIN_LISTEN: LOOPBACK,
    SIGNET_EDGE_LISTEN: LOOPBACK,
    SIGNET_KEK: secret(),
    SIGNET_PEPPER: secret(),
    SIGNET_OPERATOR_TOKEN: token,
  });
  const connected = { ...config, databaseUrl, temporalAddress: NO_TEMPORAL };
  const api = await startApi({ config: connected, log: pino({ level: "silent" }) });
  try {
    const [publicUrl, adminUrl] = [api.publicAddress, api.adminAddress].map(
      ({ host, port }) => `http://${host}:${port}`,
    );
    const tenants = await readAnswer(await fetch(`${publicUrl}/openapi.json`));
    const operators = await askOperators({ adminUrl: adminUrl ?? "", token }, "GET", "/openapi.json");
    const text = ({ body }: typeof tenants): string => `${JSON.stringify(body, null, 2)}\n`;
    return { [OPENAPI.tenants]: text(tenants), [OPENAPI.operators]: text(operators) };
  } finally {
    await api.close();
  }
}
