/** The operators' API, as its OpenAPI document tells of it. */
import type { OperationTexts } from "./operation.ts";

const REASON = "Reported by the customer";
const HASH = "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328";
const SCOPES = ["webhooks:read", "webhooks:write", "events:publish"];

/** Of the collection of a noun and its members, which have two addresses. */
function reading(
  { noun, path, parent }: { readonly noun: string; readonly path: string; readonly parent: string },
  secret = "",
): OperationTexts {
  const title = noun.charAt(0).toUpperCase() + noun.slice(1);
  return {
    [`GET /admin/v1/${parent}/{id}/${path}`]: {
      id: `list${title}s`,
      summary: `List a ${parent.slice(0, -1)}'s ${path}`,
      description: `Newest first.${secret}`,
    },
    [`GET /admin/v1/${path}/{id}`]: {
      id: `get${title}`,
      summary: `Read a ${noun}`,
      description: `By its id alone.${secret}`,
    },
    [`GET /admin/v1/${parent}/{id}/${path}/{member_id}`]: {
      id: `get${title}Of`,
      summary: `Read a ${noun} of a ${parent.slice(0, -1)}`,
      description: `The same, and 404 where it is another ${parent.slice(0, -1)}'s.${secret}`,
    },
  };
}

const TENANTS: OperationTexts = {
  "POST /admin/v1/tenants": {
    id: "createTenant",
    summary: "Add a tenant",
    description:
      "A customer of the platform, with a data key of its own. `platform` is for the tenant of the platform's own services, which may publish for others; there is at most one.",
    requests: { "a customer": { name: "Acme", region: "eu" } },
  },
  "GET /admin/v1/tenants": {
    id: "listTenants",
    summary: "List tenants",
    description: "Newest first; those that are erased stay in the list.",
  },
  "GET /admin/v1/tenants/{id}": {
    id: "getTenant",
    summary: "Read a tenant",
    description: "`state` says whether it gets tokens, `held_at` since when its deliveries wait.",
  },
  "POST /admin/v1/tenants/{id}/suspend": {
    id: "suspendTenant",
    summary: "End a tenant's access",
    description:
      "No new tokens, and those it has are refused within 250 ms. With `scope: tenant` its deliveries wait as well. `resume` undoes it.",
    errors: ["INVALID_STATE"],
    requests: { "with a hold": { reason: REASON, scope: "tenant" } },
  },
  "POST /admin/v1/tenants/{id}/resume": {
    id: "resumeTenant",
    summary: "Undo a suspension and a hold",
    description:
      "The tenant gets tokens again, and its deliveries go on. Credentials that were revoked stay so.",
    errors: ["INVALID_STATE"],
    requests: { "with a reason": { reason: REASON } },
  },
  "POST /admin/v1/tenants/{id}/hold": {
    id: "holdTenant",
    summary: "Let a tenant's deliveries wait",
    description:
      "Nothing is sent, and its endpoints' secrets stay as they are. Events are accepted as before.",
    errors: ["INVALID_STATE"],
    requests: { "with a reason": { reason: REASON } },
  },
  "POST /admin/v1/tenants/{id}/release": {
    id: "releaseTenant",
    summary: "Let a held tenant's deliveries go on",
    description: "What is overdue is attempted as soon as there is room.",
    errors: ["INVALID_STATE"],
    requests: { "with a reason": { reason: REASON } },
  },
  "POST /admin/v1/tenants/{id}/erase": {
    id: "eraseTenant",
    summary: "Erase a tenant",
    description:
      "Destroys the tenant's data key and all that it has; nobody can undo this. `confirm` is the tenant's name, typed. Rows go in the background: `erasure_completed_at` says when that is done. The compliance log stays.",
    errors: ["INVALID_STATE"],
    requests: { "by its name": { confirm: "Acme", reason: "End of contract" } },
  },
  "GET /admin/v1/tenants/{id}/limits": {
    id: "getTenantLimits",
    summary: "Read a tenant's limits",
    description: "Those that were set for it; null where the settings decide.",
  },
  "PATCH /admin/v1/tenants/{id}/limits": {
    id: "updateTenantLimits",
    summary: "Change a tenant's limits",
    description: "What is absent stays; `null` lets the settings decide again.",
    requests: { "more endpoints": { endpoints: 100 } },
  },
  "POST /admin/v1/tenants/{id}/revoke": {
    id: "revokeTenant",
    summary: "Revoke a tenant",
    description:
      "Emergency: every token of the tenant is refused within 250 ms, and it gets no new ones. The answer is the receipt: what was committed, its entry in the compliance log, and how many edges have applied it.",
    requests: { "with a hold": { reason: REASON, scope: "tenant" } },
  },
};

const ROLES: OperationTexts = {
  "POST /admin/v1/tenants/{id}/roles": {
    id: "createRole",
    summary: "Add a role to a tenant",
    description: "A named set of scopes. `events:publish_any` is for the platform's own tenant alone.",
    errors: ["INVALID_STATE"],
    requests: { "for webhooks": { name: "publisher", scopes: SCOPES } },
  },
  ...reading({ noun: "role", path: "roles", parent: "tenants" }),
  "PATCH /admin/v1/roles/{id}": {
    id: "updateRole",
    summary: "Replace a role's scopes",
    description:
      "Changes nobody: principals keep the scopes that they were given until they are reprovisioned.",
    requests: { "fewer scopes": { scopes: ["webhooks:read"] } },
  },
};

const PRINCIPALS: OperationTexts = {
  "POST /admin/v1/tenants/{id}/principals": {
    id: "createPrincipal",
    summary: "Add a principal to a tenant",
    description: "A service that holds credentials. The scopes that its role has now are copied to it.",
    errors: ["INVALID_STATE"],
    requests: {
      "in production": {
        name: "billing",
        role_id: "rol_01jd3c5xq8m2v7k9r4t6w0zy",
        region: "eu",
        environment: "production",
      },
    },
  },
  ...reading({ noun: "principal", path: "principals", parent: "tenants" }),
  "POST /admin/v1/principals/{id}/reprovision": {
    id: "reprovisionPrincipal",
    summary: "Copy the role's scopes to a principal again",
    description: "Tokens from now on have them; those that are out keep theirs until they end.",
  },
  "POST /admin/v1/principals/{id}/revoke": {
    id: "revokePrincipal",
    summary: "Revoke a principal",
    description:
      "Emergency: every token of its credentials is refused within 250 ms, and it gets no new ones.",
    requests: { "with a reason": { reason: REASON } },
  },
};

const CREDENTIALS: OperationTexts = {
  "POST /admin/v1/principals/{id}/credentials": {
    id: "createCredential",
    summary: "Add a credential to a principal",
    description:
      "The secret is in this answer only. In production a credential names the client's certificate, once mutual TLS is on. A `workload` has no secret: its certificate, or its keys, are its proof.",
    errors: ["INVALID_STATE"],
    requests: {
      "with a certificate": { san_uri: "spiffe://acme.example/billing" },
      "a workload": { rotation_mode: "workload", certificate_thumbprints: [HASH] },
    },
  },
  ...reading({ noun: "credential", path: "credentials", parent: "principals" }, " Never a secret."),
  "POST /admin/v1/credentials/{id}/revoke": {
    id: "revokeCredential",
    summary: "Revoke a credential",
    description:
      "Emergency: it gets no new tokens, and those that it has are refused within 250 ms at every edge. With `scope: tenant` the tenant's deliveries wait as well.",
    requests: { "with a reason": { reason: REASON }, "with a hold": { reason: REASON, scope: "tenant" } },
  },
  "POST /admin/v1/revocations": {
    id: "revokeTarget",
    summary: "Revoke a token or a certificate",
    description:
      "By the token's `jti`, or by the certificate's SHA-256: the service need not know either before.",
    requests: {
      "a certificate": { kind: "cert", target: HASH, reason: REASON },
      "a token": { kind: "jti", target: "c2lnbmV0LXRva2VuLWlkMQ", reason: REASON },
    },
  },
};

const OPERATORS: OperationTexts = {
  "POST /admin/v1/operators": {
    id: "createOperator",
    summary: "Add an operator",
    description:
      "`read` sees everything, `provision` makes tenants and what they need, `security` revokes, erases and appoints. Give it a token, or name its certificate.",
    errors: ["LIMIT_EXCEEDED"],
    requests: { "on call": { name: "Ada", role: "security" } },
  },
  "GET /admin/v1/operators": {
    id: "listOperators",
    summary: "List operators",
    description: "Newest first, with those that were revoked.",
  },
  "GET /admin/v1/operators/{id}": {
    id: "getOperator",
    summary: "Read an operator",
    description: "Its role, its certificates and whether it may still come in.",
  },
  "PATCH /admin/v1/operators/{id}": {
    id: "updateOperator",
    summary: "Change an operator's role or certificates",
    description: "What is absent stays. The last one who could let others in stays able to.",
    errors: ["INVALID_STATE"],
    requests: { "another role": { role: "provision" } },
  },
  "POST /admin/v1/operators/{id}/revoke": {
    id: "revokeOperator",
    summary: "Shut an operator out for good",
    description: "With all its tokens and certificates. The last one who could let others in stays.",
    errors: ["INVALID_STATE"],
    requests: { "with a reason": { reason: "Left the company" } },
  },
  "POST /admin/v1/operators/{id}/tokens": {
    id: "createOperatorToken",
    summary: "Give an operator a token",
    description: "It is in this answer only.",
    errors: ["INVALID_STATE", "LIMIT_EXCEEDED"],
  },
  "GET /admin/v1/operators/{id}/tokens": {
    id: "listOperatorTokens",
    summary: "List an operator's tokens",
    description: "Newest first; never their values.",
  },
  "DELETE /admin/v1/operators/{id}/tokens/{token_id}": {
    id: "revokeOperatorToken",
    summary: "Revoke a token of an operator",
    description: "At once and for good. The last way in for who could let others in stays.",
    errors: ["INVALID_STATE"],
  },
};

const AUDIT: OperationTexts = {
  "GET /admin/v1/audit": {
    id: "listAuditEntries",
    summary: "List entries of the compliance log",
    description: "Of all tenants, newest first.",
  },
  "GET /admin/v1/audit/{idx}": {
    id: "getAuditEntry",
    summary: "Read an entry of the compliance log",
    description: "With the bytes that its leaf is the hash of.",
  },
  "GET /admin/v1/audit/checkpoint": {
    id: "getAuditCheckpoint",
    summary: "Read the newest signed checkpoint",
    description: "A signed note (C2SP) over the root of the tree; 404 before the first is signed.",
    errors: ["NOT_FOUND"],
  },
  "GET /admin/v1/audit/proof/inclusion": {
    id: "getAuditInclusionProof",
    summary: "Prove that an entry is in the log",
    description: "The hashes beside the entry's way to the root (RFC 9162).",
    errors: ["NOT_FOUND"],
  },
  "GET /admin/v1/audit/proof/consistency": {
    id: "getAuditConsistencyProof",
    summary: "Prove that the log has only grown",
    description: "From the tree of one size to that of another (RFC 9162).",
    errors: ["NOT_FOUND"],
  },
  "GET /admin/v1/audit/export": {
    id: "exportAudit",
    summary: "Export the compliance log",
    description:
      "The whole log as it stands with its checkpoints, a JSON object a line: what `signet audit verify` reads. An answer that breaks off is not the whole log.",
    answer: { type: "string", description: "A JSON object a line" },
    answerType: "application/x-ndjson",
    answered: '{"kind":"entry","index":0}\n',
  },
};

const KEYS: OperationTexts = {
  "GET /admin/v1/signing-keys": {
    id: "listSigningKeys",
    summary: "List the keys that sign tokens",
    description: "Newest first, without their private halves.",
  },
  "POST /admin/v1/signing-keys/rotate": {
    id: "rotateSigningKey",
    summary: "Hasten the next signing key",
    description: "It signs as soon as it has been published for an hour; one is made if there is none.",
    requests: { "with a reason": { reason: "Before the audit" } },
  },
  "POST /admin/v1/signing-keys/{kid}/revoke": {
    id: "revokeSigningKey",
    summary: "Revoke a signing key",
    description:
      "Emergency: every token that it has signed is refused within 250 ms; another key signs at once.",
    errors: ["INVALID_STATE"],
    requests: { "with its reason": { reason: "The key was exposed" } },
  },
  "POST /admin/v1/key-encryption/rewrap": {
    id: "rewrapKeys",
    summary: "Bring wrapped keys under the newest key-encryption key",
    description:
      "A part of them for each request, while the service runs: go on with `next_cursor` until it is null. `unreadable` names what no key that is configured opens.",
  },
  "POST /admin/v1/codec/decode": {
    id: "decodePayloads",
    summary: "Decrypt payloads of Temporal histories",
    description:
      "The remote codec of the Temporal UI and CLI. What is no ciphertext of ours comes back as it is. The compliance log tells of it for each operator, namespace and minute: an entry before the first answer of the minute, and one with the count of what followed when it is over.",
    requests: {
      "of a history": { payloads: [{ metadata: { encoding: "anNvbi9wbGFpbg==" }, data: "e30=" }] },
    },
  },
  "POST /admin/v1/codec/encode": {
    id: "encodePayloads",
    summary: "Encrypt payloads for Temporal",
    description:
      "For the Temporal CLI, where an operator starts or signals a workflow: with the keys that the service has. Each request is in the compliance log.",
    answered: { payloads: [{ metadata: { encoding: "anNvbi9wbGFpbg==" }, data: "e30=" }] },
    requests: { "of a signal": { payloads: [{ metadata: { encoding: "anNvbi9wbGFpbg==" }, data: "e30=" }] } },
  },
  "GET /admin/v1/openapi.json": {
    id: "getOpenApi",
    summary: "Read this document",
    description: "OpenAPI 3.1, as the running service is.",
    answer: { type: "object", description: "An OpenAPI 3.1 document", additionalProperties: true },
    answered: { openapi: "3.1.0" },
  },
};

export const OPERATOR_OPERATIONS: OperationTexts = {
  ...TENANTS,
  ...ROLES,
  ...PRINCIPALS,
  ...CREDENTIALS,
  ...OPERATORS,
  ...AUDIT,
  ...KEYS,
};

/** In reading order. */
export const OPERATOR_TAGS = [
  { name: "tenants", description: "Customers of the platform, their limits, and their end" },
  { name: "roles", description: "Named sets of scopes" },
  { name: "principals", description: "Services that hold credentials" },
  { name: "credentials", description: "Client ids and secrets" },
  { name: "revocations", description: "What is refused from now on, everywhere" },
  { name: "operators", description: "People and programs that may use this API" },
  { name: "audit", description: "The compliance log of all tenants, with proofs" },
  { name: "signing-keys", description: "What signs access tokens" },
  { name: "key-encryption", description: "What wraps keys and secrets" },
  { name: "temporal", description: "Histories of workflows" },
];
