/** Settings of the connections to PostgreSQL: logins, a pooler, limits. Those of their encryption are in database-tls.ts. */
import { resolve } from "node:path";
import { postgresUrl } from "./postgres-url.ts";
import { integer, setting } from "./setting.ts";
import { isFromFile, withUrlFile } from "./url-file.ts";

export const DATABASE_SETTINGS = {
  databaseUrl: setting(
    "SIGNET_DATABASE_URL",
    postgresUrl,
    undefined,
    "PostgreSQL login of the service (15 or newer); disables the embedded one",
  ),
  databaseUrlFile: setting(
    "SIGNET_DATABASE_URL_FILE",
    resolve,
    undefined,
    "file with its value, instead of SIGNET_DATABASE_URL; user name and password are read again at each new connection",
  ),
  databaseDirectUrl: setting(
    "SIGNET_DATABASE_DIRECT_URL",
    postgresUrl,
    undefined,
    "the same database without a pooler. If set, SIGNET_DATABASE_URL may lead to a pooler in transaction mode, which api and edge then use for all but LISTEN and locks; a worker uses this URL alone (docs/operations.md)",
  ),
  databaseDirectUrlFile: setting(
    "SIGNET_DATABASE_DIRECT_URL_FILE",
    resolve,
    undefined,
    "file with its value, read as SIGNET_DATABASE_URL_FILE",
  ),
  databaseAdminUrl: setting(
    "SIGNET_DATABASE_ADMIN_URL",
    postgresUrl,
    undefined,
    "login that may create roles, for `signet migrate`; default: SIGNET_DATABASE_DIRECT_URL, else SIGNET_DATABASE_URL",
  ),
  databaseAdminUrlFile: setting(
    "SIGNET_DATABASE_ADMIN_URL_FILE",
    resolve,
    undefined,
    "file with its value, instead of SIGNET_DATABASE_ADMIN_URL",
  ),
} as const;

export const CONNECTION_SETTINGS = {
  databaseConnections: setting(
    "SIGNET_DATABASE_CONNECTIONS",
    integer(2, 200),
    "10",
    "maximum number of connections per process and database role",
  ),
} as const;

/** Where a process finds its database. */
export interface DatabaseUrls {
  readonly databaseUrl: string;
  /** The same database without a pooler; set if `databaseUrl` may lead to a pooler in transaction mode. */
  readonly databaseDirectUrl?: string | undefined;
}

/** Returns how pools reach the database. */
export function poolAccess({ databaseUrl, databaseDirectUrl }: DatabaseUrls): {
  readonly url: string;
  readonly sharesSessions: boolean;
} {
  return { url: databaseUrl, sharesSessions: databaseDirectUrl !== undefined };
}

/** Returns the URL of connections that need a session: LISTEN, locks, statements prepared by name. */
export function directUrl({ databaseUrl, databaseDirectUrl }: DatabaseUrls): string {
  return databaseDirectUrl ?? databaseUrl;
}

/** Returns the settings of a process that uses no pooler. */
export function withoutPooler<Urls extends DatabaseUrls>(config: Urls): Urls {
  return { ...config, databaseUrl: directUrl(config), databaseDirectUrl: undefined };
}

/** The settings with a database's URL, and their variables. Each may come from the file that `…_FILE` names. */
export const URL_VARIABLES = {
  databaseUrl: "SIGNET_DATABASE_URL",
  databaseDirectUrl: "SIGNET_DATABASE_DIRECT_URL",
  databaseAdminUrl: "SIGNET_DATABASE_ADMIN_URL",
  edgeDatabaseUrl: "SIGNET_EDGE_DATABASE_URL",
  homeDatabaseUrl: "SIGNET_HOME_DATABASE_URL",
} as const;

export type UrlName = keyof typeof URL_VARIABLES;

/** The names of these settings. */
export const URL_NAMES = Object.keys(URL_VARIABLES) as UrlName[];

/** The database URLs among a process's settings. */
export type UrlValues = Readonly<Partial<Record<UrlName | `${UrlName}File`, string | undefined>>>;

/** Returns the values with each URL that came from a file naming it. */
export function withUrlFiles<Values extends UrlValues>(values: Values): Values {
  const named = URL_NAMES.flatMap((name): [string, string][] => {
    const [url, path] = [values[name], values[`${name}File`]];
    return url === undefined || path === undefined ? [] : [[name, withUrlFile(url, path)]];
  });
  return { ...values, ...(Object.fromEntries(named) as Partial<Values>) };
}

/** A database's URL, and the variable that it came from, if any. */
export interface NamedUrl {
  readonly url: string;
  readonly variable: string | undefined;
}

/** Returns a URL with its variable: that of the narrowest use, as a process may use its own login as the service's. */
export function named(values: UrlValues, url: string): NamedUrl {
  const name = URL_NAMES.toReversed().find((candidate) => values[candidate] === url);
  const variable = name && URL_VARIABLES[name];
  return { url, variable: variable !== undefined && isFromFile(url) ? `${variable}_FILE` : variable };
}
