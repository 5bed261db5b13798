/** Reads the settings of an endpoint from the body of a request. */
import { createHash } from "node:crypto";
import type { Static } from "typebox";
import {
  defaultOf,
  ENDPOINT_SETTINGS,
  type EndpointSetting,
  type EndpointSettings,
} from "#domain/endpoint-settings.ts";
import { SignetError, validationFailed } from "#domain/errors.ts";
import type { RawJson } from "#http/strict-json.ts";
import type { SettingsInput } from "#webhooks/endpoints/settings.ts";
import { compileFilter, FILTER_MAX } from "#webhooks/ingest/event-filter.ts";
import type { EndpointPatch, NewEndpoint } from "./schemas/endpoints.ts";

type Patch = Static<typeof EndpointPatch>;

/** Maximum size of metadata, in bytes of JSON. */
export const METADATA_MAX = 4_096;

/** Members excluded from the hash: a hash would confirm a guessed secret. */
const SECRET_MEMBERS = new Set(["value", "client_secret", "private_key"]);

function withoutSecrets(authentication: Patch["authentication"]): unknown {
  return Object.entries(authentication ?? {})
    .filter(([name]) => !SECRET_MEMBERS.has(name))
    .toSorted(([one], [other]) => (one < other ? -1 : 1));
}

/** Returns the text of the metadata, or null without metadata. */
function metadataOf(metadata: RawJson | undefined): string | null {
  return metadata === undefined || metadata.kind === "null" ? null : metadata.text;
}

/** Returns the items of one setting in the hashed list. */
function hashed({ wire, hash }: EndpointSetting, body: Patch): readonly unknown[] {
  const value = wire === "metadata" ? metadataOf(body.metadata) : body[wire];
  if (hash === "value") {
    return [value ?? null];
  }
  // Omit absent members, so that keys from before these members existed still match the same request.
  if (hash === "request" || value === undefined) {
    return [];
  }
  return [hash === "named" ? [wire, value] : value];
}

/** Returns the hash of a registration, which its repetition with the same Idempotency-Key must have. */
export function registrationHash(body: Static<typeof NewEndpoint>): Buffer {
  const canonical = ENDPOINT_SETTINGS.flatMap((setting) => hashed(setting, body));
  // Requests without headers and authentication keep the hashes from before these members existed.
  if (body.headers || body.authentication) {
    canonical.push(Object.entries(body.headers ?? {}), withoutSecrets(body.authentication));
  }
  return createHash("sha256").update(JSON.stringify(canonical)).digest();
}

/** Returns the text of the metadata, or null to store none. @throws SignetError LIMIT_EXCEEDED */
function metadataText(metadata: RawJson | undefined): string | null {
  const text = metadataOf(metadata);
  if (text !== null && Buffer.byteLength(text) > METADATA_MAX) {
    throw new SignetError("LIMIT_EXCEEDED", { detail: `metadata may have at most ${METADATA_MAX} bytes.` });
  }
  return text;
}

/** Returns the text of the filter, or null to store none. @throws SignetError LIMIT_EXCEEDED, VALIDATION_FAILED */
function filterText(filter: Readonly<Record<string, unknown>> | null | undefined): string | null {
  if (filter === undefined || filter === null) {
    return null;
  }
  const text = JSON.stringify(filter);
  if (Buffer.byteLength(text) > FILTER_MAX) {
    throw new SignetError("LIMIT_EXCEEDED", { detail: `filter may have at most ${FILTER_MAX} bytes.` });
  }
  const compiled = compileFilter(filter);
  if (typeof compiled !== "function") {
    throw validationFailed([{ ...compiled, pointer: `/filter${compiled.pointer}` }]);
  }
  return text;
}

function inputOf({ wire }: EndpointSetting, body: Patch): unknown {
  if (wire === "metadata") {
    return metadataText(body.metadata);
  }
  return wire === "filter" ? filterText(body.filter) : body[wire];
}

/** Returns the settings of a registration. @throws SignetError LIMIT_EXCEEDED, VALIDATION_FAILED */
export function settingsOf(body: Static<typeof NewEndpoint>): SettingsInput {
  const settings = ENDPOINT_SETTINGS.map(
    (setting) => [setting.key, inputOf(setting, body) ?? defaultOf(setting)] as const,
  );
  return Object.fromEntries(settings) as unknown as SettingsInput;
}

/** Returns the settings that a change contains. @throws SignetError LIMIT_EXCEEDED, VALIDATION_FAILED */
export function changesOf(body: Patch): SettingsInput<Partial<EndpointSettings>> {
  const settings = ENDPOINT_SETTINGS.filter(({ wire }) => body[wire] !== undefined).map(
    (setting) => [setting.key, inputOf(setting, body)] as const,
  );
  return Object.fromEntries(settings);
}
