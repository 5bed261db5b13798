/** Why PostgreSQL cannot be used, in one sentence for the operator: the host, the setting, and what was answered. */
import { DatabaseError, escapeIdentifier } from "pg";
import type { NamedUrl } from "#config/database-settings.ts";
import { type PostgresTarget, targetOf } from "#config/postgres-url.ts";
import { UrlFileError } from "#config/url-file.ts";
import { SignetError } from "#domain/errors.ts";
import { inOneLine, messageOf } from "#runtime/thrown.ts";

const UNRESOLVED: ReadonlySet<string> = new Set(["ENOTFOUND", "EAI_AGAIN"]);
const FILE = /^(?:ENOENT|EACCES|EISDIR)$/;
/** Codes of OpenSSL's verification in Node, and of Node's own check of the name. */
const UNTRUSTED = /CERT|SIGNATURE|ISSUER|SELF_SIGNED|ALTNAME/;

function codeOf(error: unknown): string {
  return error instanceof Error && "code" in error ? String(error.code) : "";
}

/** Returns what was answered. A name with several addresses fails once for each. */
function answerOf(error: unknown): string {
  const messages = error instanceof AggregateError ? error.errors.map(messageOf) : [messageOf(error)];
  return inOneLine(messages.join(", "));
}

/** Returns the rest of the sentence after the login was refused. */
function refusedLogin(error: DatabaseError, { user }: PostgresTarget, where: string): string {
  const { code, message } = error;
  if (code === "3D000" || code === "42501") {
    return `PostgreSQL at ${where} does not let ${user} use the database: ${message}`;
  }
  const refusal = `PostgreSQL at ${where} refused the login ${user}: ${message}`;
  if (message.includes("no encryption")) {
    return `${refusal}; if it wants TLS, set SIGNET_DATABASE_CA_FILE, or sslmode=verify-full in the URL`;
  }
  const role = /^[a-z_]\w*$/.test(user) ? user : escapeIdentifier(user);
  return code === "28P01"
    ? `${refusal}; if the password was changed here, PostgreSQL still has the old one: ALTER ROLE ${role} PASSWORD '…'`
    : refusal;
}

function sentenceOf(error: unknown, target: PostgresTarget, variable: string): string {
  const where = `${target.address} (${variable})`;
  const answer = answerOf(error);
  const code = codeOf(error instanceof AggregateError ? error.errors[0] : error);
  if (error instanceof UrlFileError) {
    return `${variable}: ${answer}`;
  }
  if (error instanceof DatabaseError) {
    return /^(?:28|3D|42501)/.test(code)
      ? refusedLogin(error, target, where)
      : `PostgreSQL at ${where} answered the login ${target.user}: ${answer}`;
  }
  if (FILE.test(code) && !answer.startsWith("connect")) {
    return `a file that ${variable} names cannot be read: ${answer}`;
  }
  if (UNRESOLVED.has(code)) {
    return `the host ${target.host} of PostgreSQL (${variable}) is unknown: ${answer}`;
  }
  if (answer.includes("does not support SSL")) {
    return `PostgreSQL at ${where} speaks no TLS, which SIGNET_DATABASE_CA_FILE or the URL's sslmode asks for: ${answer}`;
  }
  if (UNTRUSTED.test(code)) {
    return `the certificate of PostgreSQL at ${where} is not trusted, check SIGNET_DATABASE_CA_FILE and the host's name: ${answer}`;
  }
  return `PostgreSQL at ${where} cannot be reached: ${answer}`;
}

/** Returns the error of a connection that cannot be opened. It never holds the password. */
export function unreachable(error: unknown, { url, variable = "the URL" }: NamedUrl): SignetError {
  return new SignetError("UNAVAILABLE", { detail: sentenceOf(error, targetOf(url), variable), cause: error });
}

/** What an operator does about a refused statement, by SQLSTATE. */
type Fixes = Readonly<Record<string, string>>;

const PREPARE = "run `signet migrate`, which prepares the database and its logins";

/** No such table, no such role, and roles that the login may not take. */
export const OF_START: Fixes = { "42P01": PREPARE, "42704": PREPARE, "22023": PREPARE, "42501": PREPARE };

export const OF_MIGRATION: Fixes = {
  "25006": "it accepts only reads: check for a standby, and default_transaction_read_only of the database",
  "42501": "SIGNET_DATABASE_ADMIN_URL must name a login that owns the database and has CREATEROLE",
};

/** Returns one sentence for a statement that PostgreSQL refuses, if an operator can correct it; else the error itself. */
export function unusable(error: unknown, { url, variable = "the URL" }: NamedUrl, fixes: Fixes): unknown {
  const fix = error instanceof DatabaseError ? fixes[error.code ?? ""] : undefined;
  if (fix === undefined) {
    return error;
  }
  const { address, user, database } = targetOf(url);
  return new SignetError("UNAVAILABLE", {
    detail: `${user} cannot use the database ${database} of PostgreSQL at ${address} (${variable}): ${answerOf(error)}; ${fix}`,
    cause: error,
  });
}
