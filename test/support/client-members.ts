/** Members of the service's responses in `signet/client`. The compiler checks these lists against its types, both ways. */
import type { Attempt } from "../../src/lib/client/resources/deliveries.ts";
import type { Delivery } from "../../src/lib/client/resources/delivery-types.ts";
import type {
  CreatedCredential,
  Credential,
  CredentialDetails,
  Revocation,
  SigningSecret,
} from "../../src/lib/client/resources/credentials.ts";
import type { DeadLetter } from "../../src/lib/client/resources/delivery-types.ts";
import type { Endpoint, RegisteredEndpoint } from "../../src/lib/client/resources/endpoints.ts";
import type { AcceptedEvent, StoredEvent } from "../../src/lib/client/resources/events.ts";
import type { EventType, EventTypeSchema } from "../../src/lib/client/resources/event-types.ts";

type Members<Type> = Readonly<Record<keyof Type, true>>;

const DELIVERY: Members<Delivery> = {
  id: true,
  event_id: true,
  event_type: true,
  endpoint_id: true,
  state: true,
  cycle: true,
  attempt_count: true,
  next_attempt_at: true,
  last_status: true,
  last_error: true,
  workflow_id: true,
  created_at: true,
  delivered_at: true,
  dead_lettered_at: true,
  expires_at: true,
};
const DEAD_LETTER: Members<DeadLetter> = { ...DELIVERY, reason: true, event: true };
const ENDPOINT: Members<Endpoint> = {
  id: true,
  url: true,
  events: true,
  metadata: true,
  description: true,
  filter: true,
  headers: true,
  authentication: true,
  require_echo: true,
  rate_limit: true,
  state: true,
  disabled_reason: true,
  created_at: true,
  updated_at: true,
  verification: true,
};
export const REGISTERED: Members<RegisteredEndpoint> = { ...ENDPOINT, secret: true };
export const ACCEPTED: Members<AcceptedEvent> = { id: true, type: true, created_at: true, deliveries: true };
const STORED: Members<StoredEvent> = {
  ...ACCEPTED,
  source_id: true,
  occurred_at: true,
  content_erased_at: true,
  data: true,
};
const ATTEMPT: Members<Attempt> = {
  id: true,
  cycle: true,
  attempt: true,
  started_at: true,
  duration_ms: true,
  status: true,
  error: true,
  response_body: true,
};
const CREDENTIAL: Members<Credential> = {
  signature_required: true,
  id: true,
  principal_id: true,
  client_id: true,
  state: true,
  rotation_mode: true,
  san_uri: true,
  certificate_thumbprints: true,
  created_at: true,
  revoked_at: true,
  ends_at: true,
  replaced_by: true,
  due_at: true,
  overdue: true,
};
const CREDENTIAL_DETAILS: Members<CredentialDetails> = { ...CREDENTIAL, versions: true };
export const CREATED_CREDENTIAL: Members<CreatedCredential> = {
  ...CREDENTIAL,
  version: true,
  client_secret: true,
};

export const EVENT_TYPE: Members<EventType> = {
  name: true,
  description: true,
  schema_version: true,
  schema: true,
  examples: true,
  deprecated_at: true,
  replaced_by: true,
  archived_at: true,
  created_at: true,
  updated_at: true,
};
const EVENT_TYPE_SCHEMA: Members<EventTypeSchema> = { version: true, created_at: true, schema: true };

const SIGNING_SECRET: Members<SigningSecret> = {
  version: true,
  state: true,
  fingerprint: true,
  created_at: true,
  last_used_at: true,
  ends_at: true,
  revoked_at: true,
};

export const REVOCATION: Members<Revocation> = {
  revocation_id: true,
  sequence: true,
  committed_at: true,
  compliance: true,
  edges: true,
};

/** Response members by operation; `data` means the members are those of a list's items. */
export const ANSWERS: Readonly<
  Record<string, { readonly data?: true; readonly members: Readonly<Record<string, true>> }>
> = {
  "POST /v1/webhooks/endpoints": { members: REGISTERED },
  "GET /v1/webhooks/endpoints": { data: true, members: ENDPOINT },
  "GET /v1/webhooks/endpoints/{id}": { members: ENDPOINT },
  "POST /v1/webhooks/endpoints/{id}/verify": { members: ENDPOINT },
  "POST /v1/webhooks/event-types": { members: EVENT_TYPE },
  "GET /v1/webhooks/event-types": { data: true, members: EVENT_TYPE },
  "GET /v1/webhooks/event-types/{name}": { members: EVENT_TYPE },
  "PATCH /v1/webhooks/event-types/{name}": { members: EVENT_TYPE },
  "GET /v1/webhooks/event-types/{name}/versions": { data: true, members: EVENT_TYPE_SCHEMA },
  "GET /v1/events": { data: true, members: STORED },
  "GET /v1/events/{id}": { members: STORED },
  "GET /v1/webhooks/deliveries": { data: true, members: DELIVERY },
  "GET /v1/webhooks/deliveries/{id}": { members: DELIVERY },
  "GET /v1/webhooks/deliveries/{id}/attempts": { data: true, members: ATTEMPT },
  "GET /v1/webhooks/dlq": { data: true, members: DEAD_LETTER },
  "GET /v1/webhooks/dlq/{id}": { members: DEAD_LETTER },
  "POST /v1/webhooks/dlq/{id}/replay": { members: DELIVERY },
  "GET /v1/credentials": { data: true, members: CREDENTIAL },
  "GET /v1/credentials/{id}": { members: CREDENTIAL_DETAILS },
  "POST /v1/credentials": { members: CREATED_CREDENTIAL },
  "PATCH /v1/credentials/{id}": { members: CREDENTIAL },
  "GET /v1/credentials/{id}/signing-secret": { data: true, members: SIGNING_SECRET },
  "POST /v1/credentials/{id}/signing-secret": { members: { ...SIGNING_SECRET, secret: true } },
  "POST /v1/credentials/{id}/signing-secret/revoke": { data: true, members: SIGNING_SECRET },
  "POST /v1/credentials/{id}/revoke": { members: REVOCATION },
};
