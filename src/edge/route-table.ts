/** The route table: the upstream and the required scopes of each path. Strictly parsed; all faults are reported. */
import { createSecretKey, type KeyObject } from "node:crypto";
import { Type, type Static } from "typebox";
import { Closed } from "#http/common.ts";
import { certificatesOf, pemOf } from "#http/mutual-tls/trust.ts";
import { createStrictJsonParser } from "#http/strict-json.ts";
import { createValueCheck } from "#http/validation.ts";
import { REGION } from "#domain/regions.ts";
import { isScope } from "#domain/scopes.ts";
import { SignetError } from "#domain/errors.ts";
import { messageOf } from "#runtime/thrown.ts";
import { RESERVED } from "./api-routes.ts";
import { overlap, readPattern, routerPath, type Segments } from "./route-pattern.ts";

const METHODS = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] as const;
const ROUTES_MAX = 1_000;
const UPSTREAMS_MAX = 100;
const DEPTH_MAX = 8;
const IDENTITY_KEY_BYTES_MIN = 32;
const TIMEOUT_MAX_MS = 3_600_000;
const BODY_LIMIT_MAX = 1_099_511_627_776;

export type EdgeMethod = (typeof METHODS)[number];

const Name = Type.String({ pattern: "^[a-z][a-z0-9_-]{0,63}$" });
const Timeout = Type.Optional(Type.Integer({ minimum: 1, maximum: TIMEOUT_MAX_MS }));
const Text = Type.String({ minLength: 1, maxLength: 2_048 });
const Texts = Type.Union([Text, Type.Array(Text, { minItems: 1, maxItems: 64 })]);

const UpstreamEntry = Closed({
  url: Type.Optional(Text),
  identity_key: Type.Optional(Text),
  identity_key_env: Type.Optional(Text),
  identity_key_file: Type.Optional(Text),
  ca_file: Type.Optional(Text),
  connect_timeout_ms: Timeout,
  headers_timeout_ms: Timeout,
  idle_timeout_ms: Timeout,
});
const RouteEntry = Closed({
  method: Texts,
  path: Text,
  scope: Texts,
  upstream: Name,
  region: Type.Optional(Texts),
  forward_authorization: Type.Optional(Type.Boolean()),
  body_limit_bytes: Type.Optional(Type.Integer({ minimum: 0, maximum: BODY_LIMIT_MAX })),
});
const Table = Closed({
  upstreams: Type.Record(Name, UpstreamEntry, { maxProperties: UPSTREAMS_MAX, additionalProperties: false }),
  routes: Type.Array(RouteEntry, { maxItems: ROUTES_MAX }),
});

type UpstreamEntry = Static<typeof UpstreamEntry>;
type RouteEntry = Static<typeof RouteEntry>;

const readJson = createStrictJsonParser({ maxDepth: DEPTH_MAX });
const checkTable = createValueCheck(Table);

/** Timeouts of an upstream, in milliseconds; by default the edge's. */
export interface UpstreamDeadlines {
  readonly connectTimeoutMs?: number | undefined;
  readonly headersTimeoutMs?: number | undefined;
  readonly idleTimeoutMs?: number | undefined;
}

export interface Upstream extends UpstreamDeadlines {
  readonly name: string;
  /** Scheme, host and port. */
  readonly origin: string;
  /** Key that signs the identity header. */
  readonly identityKey: KeyObject;
  /** Authorities, in PEM; absent for the default ones. */
  readonly ca?: string | undefined;
}

export interface EdgeRoute {
  readonly methods: readonly EdgeMethod[];
  /** Path in the table's syntax. */
  readonly pattern: string;
  /** Path in the router's syntax. */
  readonly path: string;
  /** Scopes that the token must have, all of them. */
  readonly scopes: readonly string[];
  readonly upstream: Upstream;
  readonly regions?: readonly string[] | undefined;
  readonly forwardAuthorization: boolean;
  /** Body limit, in bytes; by default the edge's. */
  readonly bodyLimit?: number | undefined;
}

export type RouteTable = readonly EdgeRoute[];

/** An error with all faults of a table; `message` can be shown to users. */
export class RouteTableError extends Error {
  override readonly name = "RouteTableError";
  readonly problems: readonly string[];

  constructor(problems: readonly string[]) {
    super(`Invalid route table:\n${problems.map((problem) => `  - ${problem}`).join("\n")}`);
    this.problems = problems;
  }
}

/** Resolves a table's references. */
export interface RouteTableServices {
  /** Whether routes are only checked. Then upstreams need no address, and no path is the API's. */
  readonly checksOnly: boolean;
  readonly environment: (name: string) => string | undefined;
  /** Throws if the file is missing. */
  readonly file: (path: string) => string;
}

type Report = (problem: string) => void;

function listOf(value: string | readonly string[]): readonly string[] {
  return typeof value === "string" ? [value] : value;
}

function keyText(entry: UpstreamEntry, sources: RouteTableServices): string | undefined {
  const { identity_key: literal, identity_key_env: variable, identity_key_file: path } = entry;
  if ([literal, variable, path].filter((given) => given !== undefined).length !== 1) {
    return undefined;
  }
  return (
    literal ?? (variable === undefined ? sources.file(path ?? "").trim() : sources.environment(variable))
  );
}

function identityKey(entry: UpstreamEntry, sources: RouteTableServices, report: Report): KeyObject {
  const text = keyText(entry, sources);
  const bytes = Buffer.from(text ?? "", "base64");
  if (text === undefined) {
    report(
      "must have exactly one of identity_key, identity_key_env and identity_key_file, and its source must exist",
    );
  } else if (!/^[A-Za-z0-9+/]+={0,2}$/.test(text) || bytes.length < IDENTITY_KEY_BYTES_MIN) {
    report(`identity key must be at least ${IDENTITY_KEY_BYTES_MIN} bytes in base64`);
  }
  return createSecretKey(bytes.length === 0 ? Buffer.alloc(1) : bytes);
}

function originOf(url: string | undefined, checksOnly: boolean, report: Report): string {
  if (url === undefined && checksOnly) {
    return "";
  }
  if (url === undefined) {
    report("must have a url");
    return "";
  }
  const parsed = URL.canParse(url) ? new URL(url) : undefined;
  const plain = parsed !== undefined && [parsed.origin, `${parsed.origin}/`].includes(url.toLowerCase());
  if (parsed === undefined || !/^https?:$/.test(parsed.protocol) || !plain) {
    report("url must be http:// or https:// with a host and an optional port, without a path");
    return "";
  }
  return parsed.origin;
}

/** Returns the PEM text for TLS. */
function authorities(text: string, report: Report): string {
  const certificates = certificatesOf(text);
  if (certificates.length === 0) {
    report("ca_file has no certificate in PEM");
  }
  return pemOf(certificates);
}

function readUpstream(
  name: string,
  entry: UpstreamEntry,
  sources: RouteTableServices,
  report: Report,
): Upstream {
  return {
    name,
    origin: originOf(entry.url, sources.checksOnly, report),
    identityKey: identityKey(entry, sources, report),
    ca: entry.ca_file === undefined ? undefined : authorities(sources.file(entry.ca_file), report),
    connectTimeoutMs: entry.connect_timeout_ms,
    headersTimeoutMs: entry.headers_timeout_ms,
    idleTimeoutMs: entry.idle_timeout_ms,
  };
}

interface ReadRoute extends EdgeRoute {
  readonly segments: Segments;
}

function readRoute(
  entry: RouteEntry,
  upstreams: ReadonlyMap<string, Upstream>,
  reserved: readonly Segments[],
  report: Report,
): ReadRoute | undefined {
  const methods = listOf(entry.method).flatMap((name) => METHODS.find((method) => method === name) ?? []);
  if (methods.length !== new Set(listOf(entry.method)).size) {
    report(`method must be one or more of ${METHODS.join(", ")}, without duplicates`);
  }
  const scopes = listOf(entry.scope);
  if (!scopes.every(isScope) || new Set(scopes).size !== scopes.length) {
    report("scope must be a scope such as inference:read, or a list without duplicates");
  }
  const regions = entry.region === undefined ? undefined : listOf(entry.region);
  if (regions?.every((region) => REGION.test(region)) === false) {
    report("region must be a region such as eu or eu-west-1, or a list of them");
  }
  const upstream = upstreams.get(entry.upstream);
  if (upstream === undefined) {
    report(`upstream ${entry.upstream} is not in upstreams`);
  }
  const segments = readPattern(entry.path);
  if (typeof segments === "string") {
    report(`path ${segments}`);
    return undefined;
  }
  if (reserved.some((path) => overlap(path, segments) !== "none")) {
    report("path is reserved for the service's own API");
  }
  return upstream === undefined
    ? undefined
    : {
        methods,
        segments,
        pattern: entry.path,
        path: routerPath(segments),
        scopes,
        upstream,
        regions,
        forwardAuthorization: entry.forward_authorization === true,
        bodyLimit: entry.body_limit_bytes,
      };
}

function conflicts(routes: readonly ReadRoute[]): string[] {
  return routes.flatMap((route, index) =>
    routes.slice(0, index).flatMap((other) => {
      const method = route.methods.find((name) => other.methods.includes(name));
      if (method === undefined) {
        return [];
      }
      const relation = overlap(other.segments, route.segments);
      if (relation === "same") {
        return [`routes: ${method} ${route.pattern} occurs twice`];
      }
      return relation === "ambiguous"
        ? [
            `routes: ${method} ${other.pattern} and ${route.pattern} match the same paths, and neither is more specific`,
          ]
        : [];
    }),
  );
}

/**
 * Parses a route table.
 *
 * @throws RouteTableError with all faults
 */
export function readRouteTable(bytes: Uint8Array, sources: RouteTableServices): RouteTable {
  let value: unknown;
  try {
    value = readJson(bytes);
  } catch (error) {
    throw new RouteTableError([
      error instanceof SignetError ? error.message.replace("The body", "The file") : String(error),
    ]);
  }
  const faults = checkTable(value).map(
    ({ pointer, detail }) => `${pointer === "" ? "/" : pointer} ${detail}`,
  );
  if (faults.length > 0) {
    throw new RouteTableError(faults);
  }
  const table = value as Static<typeof Table>;
  const problems: string[] = [];
  const attempt = <T>(place: string, read: (report: Report) => T): T | undefined => {
    try {
      return read((problem) => problems.push(`${place}: ${problem}`));
    } catch (error) {
      problems.push(`${place}: ${messageOf(error)}`);
      return undefined;
    }
  };
  const upstreams = new Map<string, Upstream>();
  for (const [name, entry] of Object.entries(table.upstreams)) {
    const upstream = attempt(`upstreams.${name}`, (report) => readUpstream(name, entry, sources, report));
    upstreams.set(name, upstream ?? ({ name } as Upstream));
  }
  const reserved = sources.checksOnly ? [] : RESERVED;
  const routes = table.routes.flatMap((entry, index) => {
    const place = `routes[${index}] (${listOf(entry.method).join(",")} ${entry.path})`;
    return attempt(place, (report) => readRoute(entry, upstreams, reserved, report)) ?? [];
  });
  problems.push(...conflicts(routes));
  if (problems.length > 0) {
    throw new RouteTableError(problems);
  }
  return routes.map(({ segments: _segments, ...route }) => route);
}
