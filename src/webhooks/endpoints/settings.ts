/** What a tenant may set of its endpoints, and what a change of it changes. */
import type { Keyring } from "../../crypto/keyring.ts";
import type { Queryable } from "../../database/pool.ts";
import { findDataKey } from "../../database/repositories/data-keys.ts";
import {
  eraseAuthentication,
  saveAuthentication,
} from "../../database/repositories/endpoints/endpoint-authentications.ts";
import type { Endpoint, EndpointSettings } from "../../database/repositories/endpoints/endpoints.ts";
import {
  type Authentication,
  authenticationAad,
  checkAuthentication,
  checkHeaders,
  type RequestRules,
} from "../sending/authentication.ts";

/** Settings by their names here, with those on the wire. */
const WIRE_NAMES: Readonly<Record<keyof EndpointSettings, string>> = {
  url: "url",
  eventTypes: "events",
  metadata: "metadata",
  description: "description",
  filter: "filter",
  headers: "headers",
  authentication: "authentication",
  requireEcho: "require_echo",
  rateLimit: "rate_limit",
};

const NAMES = Object.keys(WIRE_NAMES) as (keyof EndpointSettings)[];

export interface SettingsChange {
  /** All settings, those that stay as they are too. */
  readonly settings: EndpointSettings;
  /** What differs, by wire names. */
  readonly changed: readonly string[];
}

/** The settings after a change of some of them. Members that are absent stay. */
export function changeSettings(
  current: Endpoint,
  change: Readonly<Partial<EndpointSettings>>,
): SettingsChange {
  const settings: EndpointSettings = { ...current, ...change };
  const changed = NAMES.filter((name) => !isSame(current[name], settings[name]));
  return { settings, changed: changed.map((name) => WIRE_NAMES[name]) };
}

/** Settings are texts, numbers, and lists of them. */
function isSame(one: unknown, other: unknown): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}

interface RequestInput {
  readonly headers?: Readonly<Record<string, string>> | null;
  readonly authentication?: Authentication | null;
}

/** Settings as a tenant gives them: with the secrets of an authentication. */
export type SettingsInput<Given = EndpointSettings> = Omit<Given, "headers" | "authentication"> &
  RequestInput;

/**
 * Checks a URL, headers and an authentication, those that are given.
 *
 * @returns the settings as they are kept, and the text to be sealed: null to erase, undefined to leave what there is
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
  const checked = authentication ? checkAuthentication(authentication, rules) : authentication;
  const settings = {
    ...others,
    ...(others.url === undefined ? {} : { url: rules.checkUrl(others.url).href }),
    ...(headers === undefined ? {} : { headers: checkHeaders(headers ?? {}, rules.headerBrand) }),
    ...(checked === undefined ? {} : { authentication: checked?.shown ?? null }),
  };
  return { settings, secret: checked === null ? null : checked?.secret };
}

/**
 * Seals what an authentication keeps secret beside the endpoint that has just been saved with it; null erases it.
 *
 * @throws SignetError INVALID_STATE where the tenant is held
 */
export async function sealAuthentication(
  db: Queryable,
  { id, tenantId, requestVersion }: Endpoint,
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
