/** Settings of the connection to PostgreSQL. They become URL parameters, as in libpq, so a URL suffices to connect. */
import { readFileSync } from "node:fs";
import { resolve } from "node:path";
import { ENCRYPTED_KEY, isEncryptedKey } from "#runtime/encrypted-key.ts";
import { messageOf } from "#runtime/thrown.ts";
import { URL_NAMES, URL_VARIABLES, type UrlName } from "./database-settings.ts";
import { isThisMachine, oneOf, setting } from "./setting.ts";

export const DATABASE_TLS_SETTINGS = {
  databaseCaFile: setting(
    "SIGNET_DATABASE_CA_FILE",
    resolve,
    undefined,
    "root certificates that PostgreSQL's certificate must chain to, PEM; then every connection uses TLS and checks the host name. Read at each new connection",
  ),
  databaseCertFile: setting(
    "SIGNET_DATABASE_CERT_FILE",
    resolve,
    undefined,
    "client certificate for PostgreSQL, PEM, if the server requests one; read at each new connection",
  ),
  databaseKeyFile: setting(
    "SIGNET_DATABASE_KEY_FILE",
    resolve,
    undefined,
    "private key of that certificate, PEM",
  ),
  acceptPlainDatabase: setting(
    "SIGNET_ACCEPT_PLAIN_DATABASE",
    oneOf("true", "false"),
    "false",
    "allows, in production, a connection to PostgreSQL on another machine without TLS or without verifying its certificate",
  ),
} as const;

export interface DatabaseTlsValues extends Readonly<Partial<Record<UrlName, string | undefined>>> {
  readonly databaseCaFile?: string | undefined;
  readonly databaseCertFile?: string | undefined;
  readonly databaseKeyFile?: string | undefined;
}

const VERIFIED = "verify-full";
/** URL parameters that control the security of the connection. */
const SECURITY = /^(ssl|uselibpqcompat)/;

/** Two certificates on one line, as `cat` leaves them if a file has no newline at its end. */
const GLUED = /-----END CERTIFICATE----------BEGIN /;

/** Returns the URLs that are set, each with its name and its variable. */
function given(values: DatabaseTlsValues): (readonly [name: string, variable: string, url: string])[] {
  return URL_NAMES.flatMap((name) => {
    const url = values[name];
    return url === undefined ? [] : [[name, URL_VARIABLES[name], url] as const];
  });
}

/** Returns the parameters of a URL that contradict the settings. */
function contradictions(url: string): string[] {
  return [...new URL(url).searchParams]
    .filter(([name, value]) => SECURITY.test(name) && !(name === "sslmode" && value === VERIFIED))
    .map(([name]) => name);
}

/** Returns the problems of unreadable files and of settings that contradict each other. */
export function databaseTlsProblems(values: DatabaseTlsValues): string[] {
  const { databaseCaFile: ca, databaseCertFile: cert, databaseKeyFile: key } = values;
  const problems: string[] = [];
  if ((cert === undefined) !== (key === undefined)) {
    problems.push("SIGNET_DATABASE_CERT_FILE and SIGNET_DATABASE_KEY_FILE must be set together");
  }
  if (cert !== undefined && ca === undefined) {
    problems.push(
      "SIGNET_DATABASE_CERT_FILE needs SIGNET_DATABASE_CA_FILE: client certificates require a verified server",
    );
  }
  for (const name of ["databaseCaFile", "databaseCertFile", "databaseKeyFile"] as const) {
    const { variable } = DATABASE_TLS_SETTINGS[name];
    try {
      const text = values[name] === undefined ? "" : readFileSync(values[name], "utf8");
      if (isEncryptedKey(text)) {
        problems.push(`${variable} ${ENCRYPTED_KEY}`);
      }
      if (GLUED.test(text)) {
        problems.push(`${variable} needs a line break between its certificates: TLS would read none of them`);
      }
    } catch (error) {
      problems.push(`${variable} cannot be read: ${messageOf(error)}`);
    }
  }
  for (const [, variable, url] of ca === undefined ? [] : given(values)) {
    const others = contradictions(url);
    if (others.length > 0) {
      problems.push(`${variable} must leave ${others.join(", ")} to the SIGNET_DATABASE_*_FILE settings`);
    }
  }
  return problems;
}

/** Whether a third party could read or answer the traffic to the URL's host. */
function isExposed(url: string): boolean {
  const { hostname, searchParams } = new URL(url);
  const host = searchParams.get("host") ?? hostname;
  return !isThisMachine(host) && searchParams.get("sslmode") !== VERIFIED;
}

/** Returns the problems in production with the URLs of {@link withDatabaseTls}. */
export function plainDatabaseProblems(
  values: DatabaseTlsValues & { readonly acceptPlainDatabase: "true" | "false" },
): string[] {
  if (values.acceptPlainDatabase === "true") {
    return [];
  }
  return given(values)
    .filter(([, , url]) => isExposed(url))
    .map(
      ([, variable]) =>
        `${variable} is on another machine: in production it needs SIGNET_DATABASE_CA_FILE or sslmode=${VERIFIED}, or SIGNET_ACCEPT_PLAIN_DATABASE=true`,
    );
}

/** Returns the values with the TLS settings written into their URLs. */
export function withDatabaseTls<Values extends DatabaseTlsValues>(values: Values): Values {
  const { databaseCaFile, databaseCertFile, databaseKeyFile } = values;
  if (databaseCaFile === undefined) {
    return values;
  }
  const changed = given(values).map(([name, , url]): [string, string] => {
    const secured = new URL(url);
    secured.searchParams.set("sslmode", VERIFIED);
    secured.searchParams.set("sslrootcert", databaseCaFile);
    if (databaseCertFile !== undefined && databaseKeyFile !== undefined) {
      secured.searchParams.set("sslcert", databaseCertFile);
      secured.searchParams.set("sslkey", databaseKeyFile);
    }
    return [name, secured.href];
  });
  return { ...values, ...(Object.fromEntries(changed) as Partial<Values>) };
}
