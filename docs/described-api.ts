/** The OpenAPI document of the public API, without a service behind it: no route is called. */
import { pino } from "pino";
import { type ApiServices, createApi } from "../src/api/app.ts";

/** The address that stands in the document that is checked in. */
const PUBLIC_URL = "https://signet.example";

/** Stands for every service: it can be passed around, called and asked for members, and does nothing. */
const nobody: unknown = new Proxy(() => undefined, {
  get: (_target, name) => (name === "then" ? undefined : name === Symbol.toPrimitive ? () => "" : nobody),
  apply: () => nobody,
});

/** The document, as it is served at `/openapi.json`. */
export async function describedApi(): Promise<Record<string, unknown>> {
  const known = {
    config: { publicUrl: PUBLIC_URL, development: false },
    log: pino({ level: "silent" }),
    readiness: [],
  };
  const services = new Proxy(known, {
    get: (target, name) => (name in target ? (Reflect.get(target, name) as unknown) : nobody),
  });
  const server = await createApi(services as unknown as ApiServices);
  const document = server.swagger() as unknown as Record<string, unknown>;
  await server.close();
  return document;
}
