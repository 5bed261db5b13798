/** The OpenAPI texts of the operators' API. */
import type { OperationTexts } from "./operation.ts";

const REASON = "Reported by the customer";
const HASH = "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328";
const SCOPES = ["webhooks:read", "webhooks:write", "events:publish"];

/** Returns the texts of reading a collection and its members, which have two paths each. */
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
      description: `The path needs only its id.${secret}`,
    },
    [`GET /admin/v1/${parent}/{id}/${path}/{member_id}`]: {
      id: `get${title}Of`,
      summary: `Read a ${noun} of a ${parent.slice(0, -1)}`,
      description: `Returns 404 if it belongs to another ${parent.slice(0, -1)}.${secret}`,
    },
  };
}

const TENANTS: OperationTexts = {
  "POST /admin/v1/tenants": {
    id: "createTenant",
    summary: "Add a tenant",
    description:
      "A tenant is a customer of the platform and has its own data key. `platform` marks the tenant of the platform's own services, which may publish for others; there is at most one.",
    requests: { "a customer": { name: "Acme", region: "eu" } },
  },
  "GET /admin/v1/tenants": {
    id: "listTenants",
    summary: "List tenants",
    description: "Newest first; erased tenants stay in the list.",
  },
  "GET /admin/v1/tenants/{id}": {
    id: "getTenant",
    summary: "Read a tenant",
    description:
      "`state` says whether the tenant gets tokens. `held_at` says since when its deliveries are held.",
  },
  "POST /admin/v1/tenants/{id}/suspend": {
    id: "suspendTenant",
    summary: "Suspend a tenant's access",
    description:
      "The tenant gets no new tokens, and its existing tokens are rejected within 250 ms. `scope: tenant` also holds its deliveries. `resume` undoes both.",
    errors: ["INVALID_STATE"],
    requests: { "with a hold": { reason: REASON, scope: "tenant" } },
  },
  "POST /admin/v1/tenants/{id}/resume": {
    id: "resumeTenant",
    summary: "Undo a suspension and a hold",
    description:
      "The tenant gets tokens again, and its deliveries continue. Revoked credentials stay revoked.",
    errors: ["INVALID_STATE"],
    requests: { "with a reason": { reason: REASON } },
  },
  "POST /admin/v1/tenants/{id}/hold": {
    id: "holdTenant",
    summary: "Hold a tenant's deliveries",
    description:
      "Nothing is sent to the tenant's endpoints, and their secrets do not rotate. Events are still accepted.",
    errors: ["INVALID_STATE"],
    requests: { "with a reason": { reason: REASON } },
  },
  "POST /admin/v1/tenants/{id}/release": {
    id: "releaseTenant",
    summary: "Release a held tenant's deliveries",
    description: "Overdue deliveries are attempted as soon as capacity allows.",
    errors: ["INVALID_STATE"],
    requests: { "with a reason": { reason: REASON } },
  },
  "POST /admin/v1/tenants/{id}/erase": {
    id: "eraseTenant",
    summary: "Erase a tenant",
    description:
      "Destroys the tenant's data key and all its data; this cannot be undone. `confirm` must be the tenant's name. Rows are deleted in the background: `erasure_completed_at` says when that ended. The compliance log stays.",
    errors: ["INVALID_STATE"],
    requests: { "by its name": { confirm: "Acme", reason: "End of contract" } },
  },
  "GET /admin/v1/tenants/{id}/limits": {
    id: "getTenantLimits",
    summary: "Read a tenant's limits",
    description: "`limits` are the effective limits; `own` are those set for this tenant.",
  },
  "PATCH /admin/v1/tenants/{id}/limits": {
    id: "updateTenantLimits",
    summary: "Change a tenant's limits",
    description: "Absent members stay unchanged; `null` restores the default from the settings.",
    requests: { "more endpoints": { endpoints: 100 } },
  },
  "POST /admin/v1/tenants/{id}/revoke": {
    id: "revokeTenant",
    summary: "Revoke a tenant",
    description:
      "For emergencies: every token of the tenant is rejected within 250 ms, and it gets no new ones. The response is a receipt: the committed revocation, its entry in the compliance log, and how many edges have applied it.",
    requests: { "with a hold": { reason: REASON, scope: "tenant" } },
  },
};

const ROLES: OperationTexts = {
  "POST /admin/v1/tenants/{id}/roles": {
    id: "createRole",
    summary: "Add a role to a tenant",
    description:
      "A role is a named set of scopes. Only roles of the platform's own tenant may have `events:publish_any`.",
    errors: ["INVALID_STATE"],
    requests: { "for webhooks": { name: "publisher", scopes: SCOPES } },
  },
  ...reading({ noun: "role", path: "roles", parent: "tenants" }),
  "PATCH /admin/v1/roles/{id}": {
    id: "updateRole",
    summary: "Replace a role's scopes",
    description: "Principals keep their scopes until they are reprovisioned.",
    requests: { "fewer scopes": { scopes: ["webhooks:read"] } },
  },
};

const PRINCIPALS: OperationTexts = {
  "POST /admin/v1/tenants/{id}/principals": {
    id: "createPrincipal",
    summary: "Add a principal to a tenant",
    description:
      "A principal is a service that holds credentials. It gets a copy of its role's current scopes.",
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
    description: "New tokens get these scopes; tokens already issued keep theirs until they expire.",
  },
  "POST /admin/v1/principals/{id}/revoke": {
    id: "revokePrincipal",
    summary: "Revoke a principal",
    description:
      "For emergencies: every token of its credentials is rejected within 250 ms, and it gets no new ones.",
    requests: { "with a reason": { reason: REASON } },
  },
};

const CREDENTIALS: OperationTexts = {
  "POST /admin/v1/principals/{id}/credentials": {
    id: "createCredential",
    summary: "Add a credential to a principal",
    description:
      "The secret is shown only in this response. In production with mutual TLS, a credential must name the client's certificate. A `workload` has no secret: it authenticates with its certificate or its keys.",
    errors: ["INVALID_STATE"],
    requests: {
      "with a certificate": { san_uri: "spiffe://acme.example/billing" },
      "a workload": { rotation_mode: "workload", certificate_thumbprints: [HASH] },
    },
  },
  ...reading(
    { noun: "credential", path: "credentials", parent: "principals" },
    " It never includes the secret.",
  ),
  "POST /admin/v1/credentials/{id}/revoke": {
    id: "revokeCredential",
    summary: "Revoke a credential",
    description:
      "For emergencies: the credential gets no new tokens, and every edge rejects its existing tokens within 250 ms. `scope: tenant` also holds the tenant's deliveries.",
    requests: { "with a reason": { reason: REASON }, "with a hold": { reason: REASON, scope: "tenant" } },
  },
  "POST /admin/v1/revocations": {
    id: "revokeTarget",
    summary: "Revoke a token or a certificate",
    description:
      "Names the token by its `jti`, or the certificate by its SHA-256. The service need not have seen either before.",
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
      "`read` reads everything, `provision` creates tenants and their resources, `security` revokes, erases and appoints operators. The operator needs a token or a registered certificate.",
    errors: ["LIMIT_EXCEEDED"],
    requests: { "on call": { name: "Ada", role: "security" } },
  },
  "GET /admin/v1/operators": {
    id: "listOperators",
    summary: "List operators",
    description: "Newest first, including revoked operators.",
  },
  "GET /admin/v1/operators/{id}": {
    id: "getOperator",
    summary: "Read an operator",
    description: "Returns its role, its certificates and whether it is revoked.",
  },
  "PATCH /admin/v1/operators/{id}": {
    id: "updateOperator",
    summary: "Change an operator's role or certificates",
    description: "Absent members stay unchanged. The last operator who can appoint others keeps that role.",
    errors: ["INVALID_STATE"],
    requests: { "another role": { role: "provision" } },
  },
  "POST /admin/v1/operators/{id}/revoke": {
    id: "revokeOperator",
    summary: "Revoke an operator permanently",
    description:
      "Revokes all its tokens and certificates too. The last operator who can appoint others cannot be revoked.",
    errors: ["INVALID_STATE"],
    requests: { "with a reason": { reason: "Left the company" } },
  },
  "POST /admin/v1/operators/{id}/tokens": {
    id: "createOperatorToken",
    summary: "Create a token for an operator",
    description: "The token is shown only in this response.",
    errors: ["INVALID_STATE", "LIMIT_EXCEEDED"],
  },
  "GET /admin/v1/operators/{id}/tokens": {
    id: "listOperatorTokens",
    summary: "List an operator's tokens",
    description: "Newest first, without their values.",
  },
  "DELETE /admin/v1/operators/{id}/tokens/{token_id}": {
    id: "revokeOperatorToken",
    summary: "Revoke an operator's token",
    description:
      "Takes effect at once and permanently. The last token or certificate that can appoint operators cannot be revoked.",
    errors: ["INVALID_STATE"],
  },
};

const AUDIT: OperationTexts = {
  "GET /admin/v1/audit": {
    id: "listAuditEntries",
    summary: "List entries of the compliance log",
    description: "Entries of all tenants, newest first.",
  },
  "GET /admin/v1/audit/{idx}": {
    id: "getAuditEntry",
    summary: "Read an entry of the compliance log",
    description: "Includes the bytes that the leaf hash covers.",
  },
  "GET /admin/v1/audit/checkpoint": {
    id: "getAuditCheckpoint",
    summary: "Read the newest signed checkpoint",
    description: "A signed note (C2SP) over the tree's root; 404 before the first checkpoint.",
    errors: ["NOT_FOUND"],
  },
  "GET /admin/v1/audit/proof/inclusion": {
    id: "getAuditInclusionProof",
    summary: "Prove that an entry is in the log",
    description: "Returns the sibling hashes on the entry's path to the root (RFC 9162).",
    errors: ["NOT_FOUND"],
  },
  "GET /admin/v1/audit/proof/consistency": {
    id: "getAuditConsistencyProof",
    summary: "Prove that the log has only grown",
    description: "Compares the trees of two sizes (RFC 9162).",
    errors: ["NOT_FOUND"],
  },
  "GET /admin/v1/audit/export": {
    id: "exportAudit",
    summary: "Export the compliance log",
    description:
      "Returns the whole log and its checkpoints, one JSON object per line, as `signet audit verify` reads it. A truncated response is not the whole log.",
    answer: { type: "string", description: "One JSON object per line" },
    answerType: "application/x-ndjson",
    answered: '{"kind":"entry","index":0}\n',
  },
};

const KEYS: OperationTexts = {
  "GET /admin/v1/signing-keys": {
    id: "listSigningKeys",
    summary: "List the keys that sign tokens",
    description: "Newest first, without private keys.",
  },
  "POST /admin/v1/signing-keys/rotate": {
    id: "rotateSigningKey",
    summary: "Rotate the signing key early",
    description:
      "The next key signs once it has been published for an hour; if there is none, one is created.",
    requests: { "with a reason": { reason: "Before the audit" } },
  },
  "POST /admin/v1/signing-keys/{kid}/revoke": {
    id: "revokeSigningKey",
    summary: "Revoke a signing key",
    description:
      "For emergencies: every token signed with this key is rejected within 250 ms; another key signs at once.",
    errors: ["INVALID_STATE"],
    requests: { "with its reason": { reason: "The key was exposed" } },
  },
  "POST /admin/v1/key-encryption/rewrap": {
    id: "rewrapKeys",
    summary: "Rewrap keys with the newest key-encryption key",
    description:
      "Each request rewraps one page, while the service runs: continue with `next_cursor` until it is null. `unreadable` lists what no configured key can unwrap.",
  },
  "POST /admin/v1/codec/decode": {
    id: "decodePayloads",
    summary: "Decrypt payloads of Temporal histories",
    description:
      "The remote codec of the Temporal UI and CLI. Payloads that this service did not encrypt are returned unchanged. The compliance log gets two entries per operator, namespace and minute: one before the first response, and one with the count of the others when the minute ends.",
    requests: {
      "of a history": { payloads: [{ metadata: { encoding: "anNvbi9wbGFpbg==" }, data: "e30=" }] },
    },
  },
  "POST /admin/v1/codec/encode": {
    id: "encodePayloads",
    summary: "Encrypt payloads for Temporal",
    description:
      "For the Temporal CLI, when an operator starts or signals a workflow. Uses the service's keys. Each request is recorded in the compliance log.",
    answered: { payloads: [{ metadata: { encoding: "anNvbi9wbGFpbg==" }, data: "e30=" }] },
    requests: { "of a signal": { payloads: [{ metadata: { encoding: "anNvbi9wbGFpbg==" }, data: "e30=" }] } },
  },
  "GET /admin/v1/openapi.json": {
    id: "getOpenApi",
    summary: "Read this document",
    description: "OpenAPI 3.1, generated by the running service.",
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

/** The tags in reading order. */
export const OPERATOR_TAGS = [
  { name: "tenants", description: "Customers of the platform: limits, suspension and erasure" },
  { name: "roles", description: "Named sets of scopes" },
  { name: "principals", description: "Services that hold credentials" },
  { name: "credentials", description: "Client ids and secrets" },
  { name: "revocations", description: "Tokens and certificates that every process rejects" },
  { name: "operators", description: "People and programs that may use this API" },
  { name: "audit", description: "The compliance log of all tenants, with proofs" },
  { name: "signing-keys", description: "Keys that sign access tokens" },
  { name: "key-encryption", description: "Keys that wrap keys and secrets" },
  { name: "temporal", description: "Payloads of workflow histories" },
];
