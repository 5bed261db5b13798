/** The OpenAPI texts of endpoints, event types, events, deliveries and dead letters. */
import type { OperationTexts } from "./operation.ts";

const EVENT = { type: "inference.completed", data: { run: 7, result: "ok" } };
const DELIVERY_ID = "dlv_01jd3c5xq8m2v7k9r4t6w0zy";

const ENDPOINT_OPERATIONS: OperationTexts = {
  "POST /v1/webhooks/endpoints": {
    id: "createEndpoint",
    summary: "Register an endpoint",
    description:
      "The service sends a signed ping to the URL at once. The endpoint is `PENDING` and gets no events until it answers a ping with 200 within 5 seconds. The secret is shown only in this response.",
    errors: ["TARGET_URL_FORBIDDEN", "LIMIT_EXCEEDED"],
    requests: {
      "some types": {
        url: "https://example.com/hooks",
        events: ["inference.completed", "pipeline.failed"],
        metadata: { team: "payments" },
      },
      "everything, filtered": {
        url: "https://example.com/large",
        events: ["*"],
        filter: { "data.amount": { $gte: 100 } },
      },
    },
  },
  "GET /.well-known/webhooks/{id}/jwks.json": {
    id: "endpointKeySet",
    summary: "Read the Ed25519 keys that deliveries are signed with",
    description:
      "RFC 7517. `id` names one endpoint, or a tenant for all its endpoints (the newest 1,000). The set contains the current key, the previous one during its overlap, and the next one. `kid` is the endpoint's id and the version of its secret. With `If-None-Match`, returns 304 if nothing has changed.",
    errors: ["NOT_FOUND", "RATE_LIMITED"],
    answer: {
      type: "object",
      required: ["keys"],
      properties: { keys: { type: "array", items: { type: "object", additionalProperties: true } } },
    },
    answered: {
      keys: [
        {
          kty: "OKP",
          crv: "Ed25519",
          alg: "EdDSA",
          use: "sig",
          kid: "ep_01jd3c5xq8m2v7k9r4t6w0zy.1",
          x: "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo",
        },
      ],
    },
  },
  "GET /v1/webhooks/endpoints": {
    id: "listEndpoints",
    summary: "List the tenant's endpoints",
    description: "Newest first, without secrets.",
  },
  "GET /v1/webhooks/endpoints/{id}": {
    id: "getEndpoint",
    summary: "Read an endpoint",
    description:
      "`verification` shows the progress of the challenge. `disabled_reason` says why nothing is sent.",
  },
  "PATCH /v1/webhooks/endpoints/{id}": {
    id: "updateEndpoint",
    summary: "Change an endpoint",
    description:
      "Absent members stay unchanged; `null` removes an optional member. A new URL must answer the challenge again: the endpoint is `PENDING` until then.",
    errors: ["INVALID_STATE", "TARGET_URL_FORBIDDEN", "LIMIT_EXCEEDED"],
    requests: { "other types": { events: ["pipeline.failed"] } },
  },
  "DELETE /v1/webhooks/endpoints/{id}": {
    id: "deleteEndpoint",
    summary: "Delete an endpoint",
    description: "Its secrets are erased at once; waiting deliveries end as `CANCELLED`.",
  },
  "POST /v1/webhooks/endpoints/{id}/verify": {
    id: "verifyEndpoint",
    summary: "Send the verification ping again",
    description: "Only for an endpoint that is `PENDING`; starts a new series of pings.",
    errors: ["INVALID_STATE"],
  },
  "POST /v1/webhooks/endpoints/{id}/enable": {
    id: "enableEndpoint",
    summary: "Enable a disabled endpoint",
    description: "The endpoint becomes `PENDING` and must answer the challenge before it gets events again.",
    errors: ["INVALID_STATE"],
  },
  "POST /v1/webhooks/endpoints/{id}/disable": {
    id: "disableEndpoint",
    summary: "Disable an endpoint",
    description:
      "Nothing is sent to it. Events for it become dead letters, which can be replayed for 7 days.",
    errors: ["INVALID_STATE"],
  },
  "POST /v1/webhooks/endpoints/{id}/test": {
    id: "testEndpoint",
    summary: "Send a test event",
    description:
      "The event is delivered like any other, but only to this endpoint. Its type is `endpoint.test` by default.",
    errors: ["INVALID_STATE"],
    requests: { "of a type": EVENT },
  },
  "GET /v1/webhooks/endpoints/{id}/secret": {
    id: "listEndpointSecrets",
    summary: "List the versions of an endpoint's secret",
    description: "Newest first, with fingerprints instead of values.",
  },
  "PATCH /v1/webhooks/endpoints/{id}/secret": {
    id: "updateEndpointSecrets",
    summary: "Set how an endpoint signs and how often its secret rotates",
    description:
      "`ed25519` adds `v1a` signatures, which receivers verify with a public key. With `rotation_days` the secret rotates on schedule; with a `recipient` the new secret is encrypted to that key.",
    errors: ["INVALID_STATE"],
    requests: { "every 90 days": { rotation_days: 90 } },
  },
  "POST /v1/webhooks/endpoints/{id}/secret/rotate": {
    id: "rotateEndpointSecret",
    summary: "Rotate an endpoint's secret",
    description:
      "Both secrets sign for `overlap_seconds`. Use 0 for a compromised secret: every earlier one stops signing at once.",
    errors: ["INVALID_STATE"],
    requests: { "with a day of overlap": { overlap_seconds: 86_400 }, compromised: { overlap_seconds: 0 } },
  },
  "POST /v1/webhooks/endpoints/{id}/secret/activate": {
    id: "activateEndpointSecret",
    summary: "Make the next secret the primary one now",
    description: "For a receiver that already has the new secret and need not wait for the overlap.",
    errors: ["INVALID_STATE"],
  },
  "POST /v1/webhooks/endpoints/{id}/grade": {
    id: "gradeEndpoint",
    summary: "Grade a receiver",
    description:
      "Sends requests that a correct receiver must accept or reject (a wrong signature, an old timestamp, a repetition …) and reports its responses. An endpoint can have one running grade at a time.",
    errors: ["INVALID_STATE"],
  },
  "GET /v1/webhooks/endpoints/{id}/grades": {
    id: "listGrades",
    summary: "List the grades of a receiver",
    description: "Newest first; the newest 20 are kept. Each has its score but not its report.",
  },
  "GET /v1/webhooks/endpoints/{id}/grades/{grade_id}": {
    id: "getGrade",
    summary: "Read a grade",
    description: "`report` is null until the grade is `COMPLETED`.",
  },
};

const EVENT_OPERATIONS: OperationTexts = {
  "POST /v1/webhooks/event-types": {
    id: "createEventType",
    summary: "Add an event type to the catalogue",
    description:
      "With a JSON Schema, events of the type are validated when published. Types outside the catalogue can be published too.",
    errors: ["LIMIT_EXCEEDED"],
    requests: {
      "with a schema": {
        name: "inference.completed",
        description: "A run has ended",
        schema: { type: "object", required: ["run"], properties: { run: { type: "integer" } } },
        examples: [{ run: 7 }],
      },
    },
  },
  "GET /v1/webhooks/event-types": {
    id: "listEventTypes",
    summary: "List the catalogue of event types",
    description: "Ordered by name.",
  },
  "GET /v1/webhooks/event-types/{name}": {
    id: "getEventType",
    summary: "Read an event type",
    description: "Includes its schema and examples as they were submitted.",
  },
  "PATCH /v1/webhooks/event-types/{name}": {
    id: "updateEventType",
    summary: "Change an event type",
    description: "A different schema becomes the next version; existing versions never change.",
    errors: ["INVALID_STATE", "LIMIT_EXCEEDED"],
    requests: { deprecate: { deprecated: true, replaced_by: "inference.finished" } },
  },
  "DELETE /v1/webhooks/event-types/{name}": {
    id: "deleteEventType",
    summary: "Remove an event type from the catalogue",
    description: "Removes all versions of its schema. Published events stay.",
  },
  "GET /v1/webhooks/event-types/{name}/versions": {
    id: "listEventTypeVersions",
    summary: "List the versions of an event type's schema",
    description: "Newest first.",
  },
  "POST /v1/events": {
    id: "publishEvents",
    summary: "Publish an event, or up to 1,000",
    description:
      "202 means that the event and its deliveries are stored durably. The `data` of an event may have at most 256 KiB, a batch 4 MiB. The items of a batch succeed or fail independently. A request may be signed with a credential's signing secret instead of carrying a token; if it is repeated, the response is 200 with `duplicate`.",
    errors: ["SIGNATURE_INVALID", "PAYLOAD_EXPIRED", "TIMESTAMP_MISMATCH", "REPLAY_CONFLICT"],
    requests: {
      "one event": EVENT,
      "with the producer's id": { ...EVENT, id: "run-7", occurred_at: "2025-11-20T14:46:40.000Z" },
      "a batch": { events: [EVENT, { type: "pipeline.failed", data: { run: 8 } }] },
    },
  },
  "GET /v1/events": {
    id: "listEvents",
    summary: "List events",
    description: "Newest first; can be filtered by type and time.",
  },
  "GET /v1/events/{id}": {
    id: "getEvent",
    summary: "Read an event",
    description: "Returns `data` byte for byte as published; null once it is erased.",
  },
  "DELETE /v1/events/{id}/content": {
    id: "eraseEventContent",
    summary: "Erase an event's content",
    description:
      "Destroys the event's data and the receivers' responses to it. Waiting deliveries end as `CANCELLED`.",
  },
};

const DELIVERY_OPERATIONS: OperationTexts = {
  "GET /v1/webhooks/deliveries": {
    id: "listDeliveries",
    summary: "List deliveries",
    description: "Newest first. A delivery sends one event to one endpoint.",
  },
  "GET /v1/webhooks/deliveries/{id}": {
    id: "getDelivery",
    summary: "Read a delivery",
    description:
      "`next_attempt_at` is the time of the next attempt; `last_error` says why the last one failed.",
  },
  "GET /v1/webhooks/deliveries/stream": {
    id: "streamDeliveries",
    summary: "Stream deliveries as they change",
    description:
      "Server-sent events. The first event is `ready`: the stream reports changes from then on. Each `delivery` event contains the current state of one of the tenant's newest 200 deliveries. They are checked once a second. Changes of older deliveries are not reported, and of several changes within a second only the last is. At least every 5 seconds there is a comment line `:` with an `id`, which covers everything before it. Send this `id` as `Last-Event-ID` to continue with a new stream, from any process. The new stream first reports the deliveries that may have changed since, some of them possibly again. In its `ready`, `complete` is false if the newest 200 deliveries do not reach back that far. The last event is `end` with a `reason` (`expired`, `revoked`, `closing`); a stream ends with its token. A tenant may have 10 open streams per api process; further ones get 429.",
    answer: { type: "string", description: "Server-sent events" },
    answerType: "text/event-stream",
    answered: "event: ready\\ndata: {}\\n\\nid: 1763650000000\\n: still here\\n\\n",
    errors: ["RATE_LIMITED"],
  },
  "GET /v1/webhooks/stats": {
    id: "getDeliveryStats",
    summary: "Deliveries of the last 24 hours, by hour",
    description:
      "Returns volume, success and latency for all endpoints or for one. An hour with more than 1,000 deliveries is sampled: `complete` is false, and its numbers cover the newest 1,000. The numbers may be 30 seconds old.",
  },
  "GET /v1/webhooks/deliveries/{id}/attempts": {
    id: "listAttempts",
    summary: "List a delivery's attempts",
    description: "The requests of every cycle, oldest first, with the first 4 KiB of each response.",
  },
  "POST /v1/webhooks/deliveries/{id}/retry": {
    id: "retryDelivery",
    summary: "Attempt a delivery now",
    description: "Makes the next scheduled attempt now; later attempts keep their times.",
    errors: ["INVALID_STATE"],
  },
  "POST /v1/webhooks/deliveries/{id}/cancel": {
    id: "cancelDelivery",
    summary: "Cancel a delivery",
    description: "No more attempts are made. A request already in flight may still arrive.",
    errors: ["INVALID_STATE"],
  },
  "GET /v1/webhooks/dlq": {
    id: "listDeadLetters",
    summary: "Read the dead-letter queue",
    description:
      "Newest first, including their events. A dead letter can be replayed for 7 days, until `expires_at`.",
  },
  "GET /v1/webhooks/dlq/groups": {
    id: "listDeadLetterGroups",
    summary: "Count dead letters by endpoint and class of failure",
    description: "Reads stored counts, so it stays fast with a million dead letters.",
  },
  "GET /v1/webhooks/dlq/export": {
    id: "exportDeadLetters",
    summary: "Export dead letters as lines of JSON",
    description:
      "Returns all dead letters that match the filters, one per line, newest first. If the token is revoked, the response breaks off; a truncated response is incomplete.",
    answer: { type: "string", description: "NDJSON" },
    answerType: "application/x-ndjson",
    answered: '{"id":"dlv_01jd3c5xq8m2v7k9r4t6w0zy","state":"DEAD_LETTERED"}\\n',
  },
  "GET /v1/webhooks/dlq/{id}": {
    id: "getDeadLetter",
    summary: "Read a dead letter",
    description: "A dead letter has the id of its delivery.",
    errors: ["DLQ_ENTRY_EXPIRED"],
  },
  "POST /v1/webhooks/dlq/{id}/replay": {
    id: "replayDeadLetter",
    summary: "Replay a dead letter",
    description: "Starts a new cycle of 17 attempts, with the same event id.",
    errors: ["INVALID_STATE", "DLQ_ENTRY_EXPIRED"],
  },
  "POST /v1/webhooks/dlq/replay": {
    id: "replayDeadLetters",
    summary: "Replay many dead letters",
    description:
      "Selects dead letters either by ids or by the filters of the list. The job is durable and limited to `rate_per_second`. With `dry_run`, the response is 200 with the number of dead letters, and nothing is replayed.",
    errors: ["LIMIT_EXCEEDED", "INVALID_STATE"],
    requests: {
      "by ids": { ids: [DELIVERY_ID] },
      "by a filter, to count": { filter: { last_error: "timeout" }, dry_run: true },
    },
  },
  "POST /v1/webhooks/endpoints/{id}/replay-missing": {
    id: "replayMissing",
    summary: "Send an endpoint the events that it missed",
    description:
      "For an endpoint that was registered, or subscribed to a type, too late. Sends the events of the time span that match it now and have no delivery to it.",
    errors: ["LIMIT_EXCEEDED", "INVALID_STATE"],
    requests: { "since a day": { since: "2025-11-19T00:00:00.000Z" } },
  },
  "GET /v1/webhooks/replays": {
    id: "listReplays",
    summary: "List replay jobs",
    description: "Newest first.",
  },
  "GET /v1/webhooks/replays/{id}": {
    id: "getReplay",
    summary: "Read a replay job",
    description: "`done`, `failed` and `skipped` show its progress towards `total`.",
  },
  "GET /v1/webhooks/replays/{id}/items": {
    id: "listReplayItems",
    summary: "List the items of a replay job with their results",
    description: "In the order of replay.",
  },
  "POST /v1/webhooks/replays/{id}/pause": {
    id: "pauseReplay",
    summary: "Pause a replay job",
    description: "Items already replayed stay replayed.",
    errors: ["INVALID_STATE"],
  },
  "POST /v1/webhooks/replays/{id}/resume": {
    id: "resumeReplay",
    summary: "Resume a paused replay job",
    description: "The job continues where it stopped.",
    errors: ["INVALID_STATE"],
  },
  "POST /v1/webhooks/replays/{id}/cancel": {
    id: "cancelReplay",
    summary: "Cancel a replay job",
    description: "Items already replayed stay replayed; the others stay in the queue.",
    errors: ["INVALID_STATE"],
  },
};

export const WEBHOOK_OPERATIONS: OperationTexts = {
  ...ENDPOINT_OPERATIONS,
  ...EVENT_OPERATIONS,
  ...DELIVERY_OPERATIONS,
};
