import { type Static, Type } from "typebox";
import type { CredentialOwner } from "#database/repositories/tokens/credentials.ts";
import {
  NAMED_MAX,
  PROCESS_STATES,
  type Receipt,
  RECEIPT_OUTCOMES,
  RECEIPT_WAITS,
  type ReceiptWait,
} from "#revocation/receipt.ts";
import type { Receipts } from "#revocation/receipts.ts";
import type { Revocation } from "#revocation/publish-revocation.ts";
import { Body, Closed, Id, Nullable, OneOf, Resource, TextLine, Timestamp } from "#http/common.ts";
import type { FoundLeak } from "#tokens/leaks/find-leak.ts";
import { LEAK_FORMS, LEAK_LENGTH_MAX } from "#tokens/leaks/recognize-leak.ts";

/** Maximum number of characters of a reason. */
export const REASON_MAX = 500;

/** The reason for a revocation, for the compliance log. */
const Reason = TextLine(REASON_MAX, {
  description: "The reason, for the compliance log; no personal data",
});

export const RevocationRequest = Body("RevocationRequest", {
  reason: Type.Optional(Reason),
  scope: Type.Optional(
    Type.Literal("tenant", {
      description: "Also holds the tenant: its deliveries wait and its endpoints' secrets do not rotate",
    }),
  ),
});

/** Query of the routes that revoke. */
export const RevocationQuery = Closed({
  wait: Type.Optional(
    OneOf(RECEIPT_WAITS, {
      description:
        "Whom the answer waits for, at most 250 ms: `all` processes (default), those of the answering api's `region`, or `none`. The revocation takes effect everywhere within 250 ms in any case",
    }),
  ),
});

/** The receipt of a committed revocation (security decisions D). */
export const RevocationReceipt = Resource("Revocation", {
  revocation_id: Id("revocation"),
  sequence: Type.Integer({ description: "Sequence number, without gaps in the whole deployment" }),
  committed_at: Timestamp,
  compliance: Resource("RevocationEntry", {
    log_index: Type.Integer(),
    leaf_hash: Type.String({ description: "RFC 6962 leaf hash of the entry, hexadecimal" }),
  }),
  edges: Resource("RevocationReach", {
    live: Type.Integer({ description: "Connected processes that admit tokens" }),
    acked: Type.Integer({
      description: "Processes that confirmed the revocation; the others admit no request until they do",
    }),
    max_ms: Nullable(
      Type.Integer({ description: "Upper bound of the slowest confirmation, in milliseconds" }),
    ),
    outcome: OneOf(RECEIPT_OUTCOMES),
    summary: Type.String({
      description:
        "The outcome in words: `applied` by every process in time; `slow_but_safe`, when a process did not confirm in time but its lease had expired, so it admits no request; `pending`, when a process may still admit tokens; `unknown`",
      examples: ["All 2 processes applied the revocation within 12 ms."],
    }),
    processes: Type.Array(
      Resource("RevocationProcess", {
        id: Type.String({
          description: "Identifies the process in its log (`follower`)",
          examples: ["edge-1f3a9c02"],
        }),
        kind: Type.String({ description: "`edge`, `api` or `hub`", examples: ["edge"] }),
        region: Nullable(
          Type.String({ description: "Region of the process (`SIGNET_REGION`); null if it is not set" }),
        ),
        state: OneOf(PROCESS_STATES),
        ms: Nullable(
          Type.Integer({
            description:
              "Upper bound of the time to its confirmation; null without one, or if it started later",
          }),
        ),
      }),
      {
        maxItems: NAMED_MAX,
        description:
          "Connected processes, and those that lost their connection in the last two minutes: at most 200, those without a confirmation first",
      },
    ),
  }),
});

/** Returns the wire form of a revocation, after all processes have confirmed it or the wait has timed out. */
export async function toRevocation(
  revocation: Revocation,
  receipts: Receipts,
  wait?: ReceiptWait,
): Promise<Static<typeof RevocationReceipt>> {
  return toReceipt(revocation, await receipts.of(revocation, wait));
}

function toReceipt(
  revocation: Revocation,
  { live, acked, maxMs, outcome, summary, processes }: Receipt,
): Static<typeof RevocationReceipt> {
  return {
    revocation_id: revocation.id,
    sequence: revocation.sequence,
    committed_at: revocation.at.toISOString(),
    compliance: { log_index: revocation.logIndex, leaf_hash: revocation.leafHash },
    edges: {
      live,
      acked,
      max_ms: maxMs,
      outcome,
      summary,
      processes: processes.map((process) => ({ ...process })),
    },
  };
}

/** What leaked. It may be a secret, so errors never repeat it. */
export const LeakTarget = Type.String({
  minLength: 1,
  maxLength: LEAK_LENGTH_MAX,
  description: `What leaked: ${LEAK_FORMS}. Secrets and tokens are neither stored nor logged`,
  "x-wanted": LEAK_FORMS,
});

/** A revoked object. */
const RevokedObject = Resource("RevokedObject", {
  kind: OneOf(["credential", "signing_secret", "jti", "kid", "cert"]),
  target: Type.String({
    description:
      "Id of the credential, also of a signing secret; jti of the token; key id; SHA-256 of the certificate",
  }),
  tenant_id: Nullable(Id("tenant")),
  credential_id: Nullable(Id("credential", "The credential; for a token, the one that got it")),
  client_id: Nullable(Type.String()),
  version: Nullable(Type.Integer({ description: "Version of the secret that leaked" })),
  expires_at: Nullable(Timestamp),
  expired: Type.Boolean({ description: "Whether the token had already expired" }),
});

/** The receipt of a revocation by what leaked. */
export const LeakReceipt = Resource("LeakRevocation", {
  revoked: Type.Array(RevokedObject, { minItems: 1 }),
  ...RevocationReceipt.properties,
});

type RevokedObject = Static<typeof RevokedObject>;

/** Members that say nothing about an object. */
const UNSAID = {
  tenant_id: null,
  credential_id: null,
  client_id: null,
  version: null,
  expires_at: null,
  expired: false,
};

function ownerMembers({ id, tenant_id, client_id }: CredentialOwner) {
  return { tenant_id, credential_id: id, client_id };
}

function toRevokedToken(
  { kind, jti: target, owner, expiresAt }: Extract<FoundLeak, { kind: "jti" }>,
  nowMs: number,
): RevokedObject {
  return {
    ...UNSAID,
    kind,
    target,
    ...(owner === null ? {} : ownerMembers(owner)),
    expires_at: expiresAt === null ? null : new Date(expiresAt).toISOString(),
    expired: expiresAt !== null && expiresAt <= nowMs,
  };
}

function toRevokedObjects(leak: FoundLeak, nowMs: number): RevokedObject[] {
  if (leak.kind === "jti") {
    return [toRevokedToken(leak, nowMs)];
  }
  if (leak.kind === "kid" || leak.kind === "cert") {
    return [{ ...UNSAID, kind: leak.kind, target: leak.kind === "kid" ? leak.kid : leak.sha256 }];
  }
  const { kind, version } = leak;
  const owners = leak.kind === "credential" ? leak.owners : [leak.owner];
  return owners.map((owner) => ({ ...UNSAID, kind, target: owner.id, ...ownerMembers(owner), version }));
}

/**
 * Returns the wire form of the revocations of what leaked, with the receipt of the last one: a process that applies it
 * applies the earlier ones too.
 */
export async function toLeak(
  leak: FoundLeak,
  revocations: readonly Revocation[],
  {
    receipts,
    wait,
    nowMs,
  }: { readonly receipts: Receipts; readonly wait: ReceiptWait | undefined; readonly nowMs: number },
): Promise<Static<typeof LeakReceipt>> {
  const sorted = revocations.toSorted((left, right) => left.sequence - right.sequence);
  const last = sorted.pop();
  if (last === undefined) {
    throw new Error("nothing was revoked");
  }
  const receipt = await toRevocation(last, receipts, wait);
  // By now these are read once each, and recorded.
  await Promise.all(sorted.map(async (earlier) => await receipts.of(earlier, wait)));
  return { revoked: toRevokedObjects(leak, nowMs), ...receipt };
}
