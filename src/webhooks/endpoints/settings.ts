/** Endpoint settings that a tenant may change. */
import type { Keyring } from "#crypto/keyring.ts";
import type { Queryable } from "#database/pool.ts";
import { findDataKey } from "#database/repositories/data-keys.ts";
import {
  eraseAuthentication,
  saveAuthentication,
} from "#database/repositories/endpoints/endpoint-authentications.ts";
import type { Endpoint } from "#database/repositories/endpoints/endpoints.ts";
import { ENDPOINT_SETTINGS, type EndpointSettings } from "#domain/endpoint-settings.ts";
import { type FieldProblem, SignetError, validationFailed } from "#domain/errors.ts";
import {
  type Authentication,
  authenticationAad,
  checkAuthentication,
  checkHeaders,
  type RequestRules,
} from "../sending/authentication.ts";

export interface SettingsChange {
  /** All settings, including unchanged ones. */
  readonly settings: EndpointSettings;
  /** Wire names of the changed settings. */
  readonly changed: readonly string[];
}

/** Returns the settings after a change. Absent members keep their value. */
export function changeSettings(
  current: Endpoint,
  change: Readonly<Partial<EndpointSettings>>,
): SettingsChange {
  const settings: EndpointSettings = { ...current, ...change };
  const changed = ENDPOINT_SETTINGS.filter(({ key }) => !isSame(current[key], settings[key]));
  return { settings, changed: changed.map(({ wire }) => wire) };
}

/** Compares settings, which are strings, numbers, and lists of them. */
function isSame(one: unknown, other: unknown): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

interface RequestInput {
  readonly headers?: Readonly<Record<string, string>> | null;
  readonly authentication?: Authentication | null;
}

/** Settings as a tenant sends them, with the secrets of an authentication. */
export type SettingsInput<Given = EndpointSettings> = Omit<Given, "headers" | "authentication"> &
  RequestInput;

/** Returns the result of a check. If it throws a SignetError, collects the error. */
function collecting<Result>(errors: SignetError[], check: () => Result): Result | undefined {
  try {
    return check();
  } catch (error) {
    if (error instanceof SignetError) {
      errors.push(error);
      return undefined;
    }
    throw error;
  }
}

/** Returns the field problems of an error of the checks below. */
function problemsOf({ code, message, extensions }: SignetError): readonly FieldProblem[] {
  return code === "TARGET_URL_FORBIDDEN"
    ? [{ pointer: "/url", code: "target_url_forbidden", detail: `is not allowed. ${message}` }]
    : (extensions["errors"] as readonly FieldProblem[]);
}

/** Throws the error of the only failed check, or one error with the problems of all. */
function throwAll(errors: readonly SignetError[]): void {
  const [first] = errors;
  if (first !== undefined) {
    throw errors.length === 1 ? first : validationFailed(errors.flatMap(problemsOf));
  }
}

/**
 * Checks the URL, headers and authentication if they are given, and reports the problems of all of them at once.
 *
 * @returns the settings to store, and the text to seal: null to erase it, undefined to keep it
 * @throws SignetError TARGET_URL_FORBIDDEN, VALIDATION_FAILED
 */
export function checkSettings<Given extends { readonly url?: string } & RequestInput>(
  { headers, authentication, ...others }: Given,
  rules: RequestRules,
): {
  readonly settings: Omit<Given, "headers" | "authentication"> &
    Partial<Pick<EndpointSettings, "headers" | "authentication">>;
  readonly secret: string | null | undefined;
} {
  const errors: SignetError[] = [];
  const { url } = others;
  const target = url === undefined ? undefined : collecting(errors, () => rules.checkUrl(url).href);
  const stored = collecting(errors, () => checkHeaders(headers ?? {}, rules.headerBrand)) ?? null;
  const checked = authentication
    ? collecting(errors, () => checkAuthentication(authentication, rules))
    : authentication;
  throwAll(errors);
  const settings = {
    ...others,
    ...(target === undefined ? {} : { url: target }),
    ...(headers === undefined ? {} : { headers: stored }),
    ...(checked === undefined ? {} : { authentication: checked?.shown ?? null }),
  };
  return { settings, secret: checked === null ? null : checked?.secret };
}

const SECRETS: Readonly<Record<Authentication["type"], string>> = {
  header: "/authentication/value",
  oauth2_client_credentials: "/authentication/client_secret",
  client_certificate: "/authentication/private_key",
};

/**
 * Refuses to take a stored secret to another origin: a right to change URLs must not reveal a secret that is never shown.
 *
 * @param secret as {@link checkSettings} returned it
 * @param pointer the member that has the secret in the request
 * @throws SignetError VALIDATION_FAILED
 */
export function requireSecretAgain(
  current: Endpoint,
  settings: EndpointSettings,
  secret: string | null | undefined,
  pointer?: string,
): void {
  const { authentication } = settings;
  const moves = new URL(current.url).origin !== new URL(settings.url).origin;
  if (moves && authentication !== null && secret === undefined) {
    const { type } = JSON.parse(authentication) as Pick<Authentication, "type">;
    const where = pointer ?? SECRETS[type];
    const detail =
      "must be sent again, or removed with null: a stored secret stays with the URL it was given for";
    throw validationFailed([{ pointer: where, code: "required", detail }]);
  }
}

/**
 * Seals the secret part of an authentication that has just been saved; null erases it.
 *
 * @throws SignetError INVALID_STATE while the tenant is held
 */
export async function sealAuthentication(
  db: Queryable,
  { id, tenant_id: tenantId, request_version: requestVersion }: Endpoint,
  secret: string | null | undefined,
  keyring: Keyring,
): Promise<void> {
  if (secret === null) {
    await eraseAuthentication(db, tenantId, id);
  }
  if (secret === null || secret === undefined) {
    return;
  }
  const version = requestVersion ?? 0;
  const aad = authenticationAad(tenantId, id, version);
  const sealed = await keyring.sealForTenant(await findDataKey(db, tenantId), tenantId, aad, secret);
  await saveAuthentication(db, { endpointId: id, tenantId, version, sealed });
}
