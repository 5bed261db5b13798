import { Type } from "typebox";
import {
  KEY_PURPOSES,
  listSigningKeys,
  type SigningKeyRow,
} from "#database/repositories/tokens/signing-keys.ts";
import { statesAt } from "#tokens/signing-keys/lifecycle.ts";
import { revokeSigningKey } from "#tokens/signing-keys/revoke.ts";
import { advanceRotation } from "#tokens/signing-keys/rotate.ts";
import { Body, Closed, Formed, Nullable, OneOf, Page, Resource, TextLine, Timestamp } from "#http/common.ts";
import { toRevocation, RevocationReceipt } from "../schemas/revocations.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import { authorOf } from "./author.ts";
import type { AdminServices } from "./services.ts";

/** Maximum number of keys in the list: four years at one key per purpose and month. */
const SHOWN_MAX = 100;
const KID = "^[A-Za-z0-9_-]{43}$";

const PURPOSE = "What the key signs: access tokens and status lists (access), or security events (set)";

const SigningKey = Resource("SigningKey", {
  kid: Type.String({ description: "RFC 7638 thumbprint", "x-noun": "signing key" }),
  purpose: OneOf(KEY_PURPOSES, { description: PURPOSE }),
  alg: OneOf(["ES256", "RS256", "Ed25519"]),
  state: OneOf(["NEXT", "CURRENT", "PREVIOUS", "GONE"]),
  created_at: Timestamp,
  activated_at: Type.String({
    format: "date-time",
    description: "When the key starts to sign; may be in the future",
  }),
  retired_at: Nullable(Timestamp),
  revoked_at: Nullable(Timestamp),
  revocation_reason: Nullable(Type.String()),
});
const RevokedSigningKey = Resource("RevokedSigningKey", {
  ...SigningKey.properties,
  ...RevocationReceipt.properties,
});
const SigningKeyPage = Page(SigningKey);

const KidParams = Closed({
  kid: Formed(
    { pattern: KID, wanted: "a key id: 43 characters of base64url" },
    { examples: ["G6s2z2ajjxLpSAWh1lKiDty0dhO9ArvBI3Zt1pB5Svk"], "x-noun": "signing key" },
  ),
});
const ReasonText = TextLine(256);
const KeyRotation = Body("KeyRotation", {
  purpose: Type.Optional(OneOf(KEY_PURPOSES, { description: PURPOSE, default: "access" })),
  reason: Type.Optional(ReasonText),
});

/** Returns the wire form of keys with their states at `nowMs`, even if the schedule has not stored them yet. */
function toKeyList(rows: readonly SigningKeyRow[], nowMs: number) {
  const states = KEY_PURPOSES.map((purpose) =>
    statesAt(
      rows
        .filter((row) => row.purpose === purpose && row.state !== "GONE")
        .map((row) => ({
          kid: row.kid,
          activatedAt: row.activated_at.getTime(),
          retiredAt: row.retired_at?.getTime() ?? null,
          revokedAt: row.revoked_at?.getTime() ?? null,
        })),
      nowMs,
    ),
  );
  return rows.map((row) => ({
    kid: row.kid,
    purpose: row.purpose,
    alg: row.alg,
    state: states.map((each) => each.get(row.kid)).find((state) => state !== undefined) ?? "GONE",
    created_at: row.created_at.toISOString(),
    activated_at: row.activated_at.toISOString(),
    retired_at: row.retired_at?.toISOString() ?? null,
    revoked_at: row.revoked_at?.toISOString() ?? null,
    revocation_reason: row.revocation_reason,
  }));
}

const COMMON = { tag: "signing-keys", home: true } as const;

export function registerSigningKeyRoutes(server: SignetServer, services: AdminServices): void {
  const { pool, clock } = services;

  server.get(
    "/admin/v1/signing-keys",
    operation({
      id: "listSigningKeys",
      ...COMMON,
      operator: "read",
      summary: "List the keys that sign tokens",
      description: "Newest first, without private keys.",
      response: { 200: SigningKeyPage },
    }),
    async () => ({
      data: toKeyList(await listSigningKeys(pool, SHOWN_MAX), clock.now()),
      next_cursor: null,
    }),
  );

  server.post(
    "/admin/v1/signing-keys/rotate",
    operation({
      id: "rotateSigningKey",
      ...COMMON,
      operator: "security",
      audits: "key.created",
      summary: "Rotate the signing key early",
      description:
        "The next key of the purpose signs once it has been published for an hour; if there is none, one is created.",
      requestExamples: { "with a reason": { reason: "Before the audit" } },
      body: KeyRotation,
      response: { 200: SigningKey },
    }),
    async (request) => {
      const { purpose = "access", reason } = request.body;
      const next = await advanceRotation(services, purpose, { ...authorOf(request), reason });
      return toKeyList([next], clock.now())[0];
    },
  );

  server.post(
    "/admin/v1/signing-keys/:kid/revoke",
    operation({
      id: "revokeSigningKey",
      ...COMMON,
      operator: "security",
      audits: "key.revoked",
      summary: "Revoke a signing key",
      description:
        "For emergencies: every token signed with this key is rejected within 250 ms; another key signs at once.",
      errors: ["INVALID_STATE"],
      requestExamples: { "with its reason": { reason: "The key was exposed" } },
      params: KidParams,
      body: Body("KeyRevocation", { reason: ReasonText }),
      response: { 200: RevokedSigningKey },
    }),
    async (request) => {
      const { key, revocation } = await revokeSigningKey(services, {
        ...authorOf(request),
        kid: request.params.kid,
        reason: request.body.reason,
      });
      return {
        ...(toKeyList([key], clock.now())[0] as ReturnType<typeof toKeyList>[number]),
        ...(await toRevocation(revocation, services.revocation.receipts)),
      };
    },
  );
}
