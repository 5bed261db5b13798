/** The OpenAPI document of the public API, without a service behind it: no route is called. */
import { pino } from "pino";
import { createAdmin } from "#api/admin/app.ts";
import { InProcessCalls } from "#api/in-process.ts";
import type { AdminServices } from "#api/admin/services.ts";
import { type ApiServices, createApi } from "#processes/api/public-api.ts";

/** The address that stands in the document that is checked in. */
const PUBLIC_URL = "https://signet.example";

/** Stands for every service: it can be passed around, called and asked for members, and does nothing. */
const nobody: unknown = new Proxy(() => undefined, {
  get: (_target, name) => (name === "then" ? undefined : name === Symbol.toPrimitive ? () => "" : nobody),
  apply: () => nobody,
});

/** Returns the given services; every other member stands for a service that does nothing. */
function servicesWith<T>(known: object): T {
  return new Proxy(known, {
    get: (target, name) => (name in target ? (Reflect.get(target, name) as unknown) : nobody),
  }) as unknown as T;
}

type Described = Readonly<Record<string, unknown>>;

async function describeAdmin(): Promise<Described> {
  const known = {
    baseUrl: PUBLIC_URL,
    log: pino({ level: "silent" }),
    console: undefined,
  };
  const server = await createAdmin(servicesWith<AdminServices>(known));
  const document = server.swagger() as unknown as Described;
  await server.close();
  return document;
}

async function describeApi(): Promise<Described> {
  const known = {
    config: { publicUrl: PUBLIC_URL, development: false, tokenRatePerAddress: 0, publicRatePerAddress: 0 },
    log: pino({ level: "silent" }),
    readiness: [],
    calls: new InProcessCalls(),
  };
  const server = await createApi(servicesWith<ApiServices>(known));
  const document = server.swagger() as unknown as Described;
  await server.close();
  return document;
}

let admin: Promise<Described> | undefined;
let api: Promise<Described> | undefined;

/** The operators' document, as it is served at `/admin/v1/openapi.json`. Made once, so nobody may change it. */
export async function describedAdmin(): Promise<Described> {
  return await (admin ??= describeAdmin());
}

/** The document, as it is served at `/openapi.json`. Made once, so nobody may change it. */
export async function describedApi(): Promise<Described> {
  return await (api ??= describeApi());
}

/** Returns a copy of a document in which the schemas replace the references to them, and every choice is an `anyOf`. */
export function withoutReferences(document: Described): Described {
  const { schemas } = document["components"] as { readonly schemas: Readonly<Record<string, object>> };
  const byReference = new Map<unknown, object>(
    Object.entries(schemas).map(([name, schema]) => [`#/components/schemas/${name}`, schema]),
  );
  const resolved = (value: object): unknown =>
    JSON.parse(JSON.stringify(value).replaceAll('"oneOf":', '"anyOf":'), (_name, part: unknown) => {
      const schema = byReference.get((part as { readonly $ref?: string } | null)?.$ref);
      return schema === undefined ? part : resolved(schema);
    });
  return resolved(document) as Described;
}
