/**
 * URLs of PostgreSQL. Several mistakes leave a URL that can be parsed, but leads elsewhere: `p#w` in a password makes a
 * piece of it the host. A problem names the part that is wrong and repeats none of it, since it may be of a password.
 */
import type { Parser } from "./setting.ts";

const FORM = /^(?:postgres|postgresql):\/\/(?:([^/?#]*)@)?([^/?#]*)(?:\/([^?#]*))?(?:\?([^#]*))?(#.*)?$/s;
const HOST_AND_PORT = /^(?:\[[\da-f:.]+\]|[^:[\]]*)(?::(.*))?$/is;
const ENCODE =
  "percent-encode user name, password and database, so that # is %23, % is %25, / is %2F, ? is %3F and @ is %40";
const BEFORE_HOST =
  "must have user, password and database in their places: postgres://user:password@host/database";
const ONE_HOST = "must name one host: for several, name a proxy or an address that moves to the primary";
const SOCKET =
  "must name a host; that of a socket is its directory, percent-encoded: postgres://user@%2Frun%2Fpostgresql/database";

/** The parameters that the driver reads. It ignores all others, also one that asks for more security. */
const PARAMETERS = new Set([
  "application_name",
  "fallback_application_name",
  "host",
  "idle_in_transaction_session_timeout",
  "lock_timeout",
  "options",
  "port",
  "query_timeout",
  "ssl",
  "sslcert",
  "sslkey",
  "sslmode",
  "sslnegotiation",
  "sslrootcert",
  "statement_timeout",
  "uselibpqcompat",
]);
/** Parameters of libpq for what stands elsewhere in a URL. */
const PARTS = new Set(["database", "dbname", "password", "user"]);

function isPort(text: string): boolean {
  return /^\d*$/.test(text) && Number(text) <= 65_535;
}

function isDecodable(text: string): boolean {
  try {
    decodeURIComponent(text);
    return true;
  } catch {
    return false;
  }
}

function parameterProblem(query: string): string | undefined {
  for (const [name, value] of new URLSearchParams(query)) {
    if (PARTS.has(name)) {
      return BEFORE_HOST;
    }
    if (!PARAMETERS.has(name)) {
      return `has a parameter that nothing reads, ${name}: leave it out, or ${ENCODE}`;
    }
    if (name === "host" && value.includes(",")) {
      return ONE_HOST;
    }
    if (name === "port" && !isPort(value)) {
      return "has a port that is not a number";
    }
  }
  return undefined;
}

interface Parts {
  readonly whole: string;
  readonly user: string;
  /** The host with its port. */
  readonly address: string;
  readonly port: string;
  readonly database: string;
  readonly query: string;
  readonly fragment: string | undefined;
}

function partsOf(url: string): Parts | undefined {
  const [whole, login, address = "", database = "", query = "", fragment] = FORM.exec(url) ?? [];
  if (whole === undefined) {
    return undefined;
  }
  const [, port = ""] = HOST_AND_PORT.exec(address) ?? [];
  const [user = ""] = login?.split(":") ?? [];
  return { whole, user, address, port, database, query, fragment };
}

/** What may be wrong; a part that hides others comes first. */
const PROBLEMS: readonly (readonly [isWrong: (parts: Parts) => boolean, problem: string])[] = [
  [({ whole }) => /\s/.test(whole), `has white space: ${ENCODE}`],
  [({ fragment }) => fragment !== undefined, `has a fragment, which begins at its #: ${ENCODE}`],
  [
    ({ database, query }) => `${database}${query}`.includes("@"),
    `has an @ after its first / or ?: ${ENCODE}`,
  ],
  [({ whole }) => !isDecodable(whole), `has a % that is not an escape of UTF-8: ${ENCODE}`],
  [({ address }) => address.includes(","), ONE_HOST],
  [
    ({ address }) => /^[^[]*:[^[]*:/.test(address) || !HOST_AND_PORT.test(address),
    "has an IPv6 address without brackets: postgres://user@[::1]/database",
  ],
  [({ port }) => !isPort(port), `has a port that is not a number: ${ENCODE}`],
  [({ user }) => user === "", BEFORE_HOST],
  [({ address }) => address.replace(/:\d*$/, "") === "", SOCKET],
  [({ database }) => database.includes("/"), `has a / in its database: ${ENCODE}`],
];

function problemOf(url: string): string | undefined {
  const parts = partsOf(url);
  if (parts === undefined) {
    return "must be a URL that starts with postgres:// or postgresql://";
  }
  const found = PROBLEMS.find(([isWrong]) => isWrong(parts))?.[1] ?? parameterProblem(parts.query);
  return found ?? (URL.canParse(url) ? undefined : "has a host that is none");
}

/** Parses a URL. Throws an error that names what is wrong with it. */
export const postgresUrl: Parser<string> = (value) => {
  // Files and variables often end with the line.
  const url = value.trim().replace(/\/$/, "");
  const problem = problemOf(url);
  if (problem !== undefined) {
    throw new Error(problem);
  }
  return url;
};

/** What a URL leads to, for messages. */
export interface PostgresTarget {
  /** The host and the port, or the directory of a socket. */
  readonly address: string;
  readonly host: string;
  readonly user: string;
  readonly database: string;
}

/** Returns what a URL of {@link postgresUrl} leads to. */
export function targetOf(url: string): PostgresTarget {
  const { hostname, port, username, pathname, searchParams } = new URL(url);
  const host = searchParams.get("host") ?? decodeURIComponent(hostname);
  const user = decodeURIComponent(username);
  const number = searchParams.get("port") ?? (port === "" ? "5432" : port);
  return {
    address: host.startsWith("/") ? host : `${host}:${number}`,
    host,
    user,
    database: pathname.length > 1 ? decodeURIComponent(pathname.slice(1)) : user,
  };
}
