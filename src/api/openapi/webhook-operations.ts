/** Endpoints, event types, events, deliveries and dead letters, as the OpenAPI document tells of them. */
import type { OperationTexts } from "./operation.ts";

const EVENT = { type: "inference.completed", data: { run: 7, result: "ok" } };
const DELIVERY_ID = "dlv_01jd3c5xq8m2v7k9r4t6w0zy";

const ENDPOINT_OPERATIONS: OperationTexts = {
  "POST /v1/webhooks/endpoints": {
    id: "createEndpoint",
    summary: "Register an endpoint",
    description:
      "A signed ping goes to the URL at once. The endpoint is `PENDING`, and gets no events, until it has answered one with 200 within 5 seconds. The secret is shown in this answer only.",
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
      "RFC 7517, of one endpoint or of all endpoints of a tenant (the newest 1,000): the key that signs, the one before while its overlap lasts, and the next one. `kid` is the endpoint and the version of its secret. Send `If-None-Match`: 304 while nothing has changed.",
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
    description: "Newest first; never a secret.",
  },
  "GET /v1/webhooks/endpoints/{id}": {
    id: "getEndpoint",
    summary: "Read an endpoint",
    description: "`verification` says how far the challenge has come, `disabled_reason` why nothing is sent.",
  },
  "PATCH /v1/webhooks/endpoints/{id}": {
    id: "updateEndpoint",
    summary: "Change an endpoint",
    description:
      "What is absent stays; `null` takes away what may be absent. Another URL must answer the challenge again: the endpoint is `PENDING` until then.",
    errors: ["INVALID_STATE", "TARGET_URL_FORBIDDEN", "LIMIT_EXCEEDED"],
    requests: { "other types": { events: ["pipeline.failed"] } },
  },
  "DELETE /v1/webhooks/endpoints/{id}": {
    id: "deleteEndpoint",
    summary: "Delete an endpoint",
    description: "Its secrets are erased now; deliveries that wait end as `CANCELLED`.",
  },
  "POST /v1/webhooks/endpoints/{id}/verify": {
    id: "verifyEndpoint",
    summary: "Send the verification ping again",
    description: "For an endpoint that is `PENDING`; a new run of pings begins.",
    errors: ["INVALID_STATE"],
  },
  "POST /v1/webhooks/endpoints/{id}/enable": {
    id: "enableEndpoint",
    summary: "Enable a disabled endpoint",
    description: "It is `PENDING` and must answer the challenge before it gets events again.",
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
      "Delivered as any other event, to this endpoint only; `endpoint.test` unless the body says otherwise.",
    errors: ["INVALID_STATE"],
    requests: { "of a type": EVENT },
  },
  "GET /v1/webhooks/endpoints/{id}/secret": {
    id: "listEndpointSecrets",
    summary: "List the versions of an endpoint's secret",
    description: "Newest first; a fingerprint, never the value.",
  },
  "PATCH /v1/webhooks/endpoints/{id}/secret": {
    id: "updateEndpointSecrets",
    summary: "Say how an endpoint signs and how often its secret changes",
    description:
      "`ed25519` adds `v1a` signatures that are verified with a public key. With `rotation_days` the secret changes on schedule; with a `recipient` the new one is encrypted to that key.",
    errors: ["INVALID_STATE"],
    requests: { "every 90 days": { rotation_days: 90 } },
  },
  "POST /v1/webhooks/endpoints/{id}/secret/rotate": {
    id: "rotateEndpointSecret",
    summary: "Give an endpoint its next secret",
    description:
      "Both secrets sign for `overlap_seconds`. 0 is for a secret that is compromised: every earlier one is dead at once.",
    errors: ["INVALID_STATE"],
    requests: { "with a day of overlap": { overlap_seconds: 86_400 }, compromised: { overlap_seconds: 0 } },
  },
  "POST /v1/webhooks/endpoints/{id}/secret/activate": {
    id: "activateEndpointSecret",
    summary: "Make the next secret the first one now",
    description:
      "For a receiver that knows the new secret already and does not want to wait for the overlap.",
    errors: ["INVALID_STATE"],
  },
  "POST /v1/webhooks/endpoints/{id}/grade": {
    id: "gradeEndpoint",
    summary: "Grade a receiver",
    description:
      "Sends requests that a good receiver accepts or refuses (a wrong signature, an old timestamp, a repetition …) and reports what it did. One at a time.",
    errors: ["INVALID_STATE"],
  },
  "GET /v1/webhooks/endpoints/{id}/grades": {
    id: "listGrades",
    summary: "List the grades of a receiver",
    description: "Newest first; the newest 20 are kept. Each with its score, without its report.",
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
      "With a JSON Schema, events of the type are checked when they are published. Types that are not in the catalogue can be published too.",
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
    description: "By name.",
  },
  "GET /v1/webhooks/event-types/{name}": {
    id: "getEventType",
    summary: "Read an event type",
    description: "With its schema and examples as they were written.",
  },
  "PATCH /v1/webhooks/event-types/{name}": {
    id: "updateEventType",
    summary: "Change an event type",
    description: "A schema that differs becomes the next version; versions that are there never change.",
    errors: ["INVALID_STATE", "LIMIT_EXCEEDED"],
    requests: { deprecate: { deprecated: true, replaced_by: "inference.finished" } },
  },
  "DELETE /v1/webhooks/event-types/{name}": {
    id: "deleteEventType",
    summary: "Take an event type out of the catalogue",
    description: "With all versions of its schema. Events that were published stay.",
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
      "202 means that the event is on disk together with its deliveries. The `data` of an event has at most 256 KiB, a batch 4 MiB; the items of a batch stand for themselves. A request may be signed with a credential's signing secret instead of carrying a token; its repetition is answered with 200 and `duplicate`.",
    errors: ["SIGNATURE_INVALID", "PAYLOAD_EXPIRED", "TIMESTAMP_MISMATCH", "REPLAY_CONFLICT"],
    requests: {
      "one event": EVENT,
      "with an id of one's own": { ...EVENT, id: "run-7", occurred_at: "2025-11-20T14:46:40.000Z" },
      "a batch": { events: [EVENT, { type: "pipeline.failed", data: { run: 8 } }] },
    },
  },
  "GET /v1/events": {
    id: "listEvents",
    summary: "List events",
    description: "Newest first, by type and time.",
  },
  "GET /v1/events/{id}": {
    id: "getEvent",
    summary: "Read an event",
    description: "`data` comes as it was published, byte for byte; null once it is erased.",
  },
  "DELETE /v1/events/{id}/content": {
    id: "eraseEventContent",
    summary: "Erase an event's content",
    description:
      "Destroys the event's data and what receivers answered to it. Deliveries that still wait end as `CANCELLED`.",
  },
};

const DELIVERY_OPERATIONS: OperationTexts = {
  "GET /v1/webhooks/deliveries": {
    id: "listDeliveries",
    summary: "List deliveries",
    description: "Newest first. A delivery is one event on its way to one endpoint.",
  },
  "GET /v1/webhooks/deliveries/{id}": {
    id: "getDelivery",
    summary: "Read a delivery",
    description: "`next_attempt_at` says when it is tried again, `last_error` why it was not delivered.",
  },
  "GET /v1/webhooks/deliveries/stream": {
    id: "streamDeliveries",
    summary: "Follow deliveries as they change",
    description:
      "Server-sent events. `ready` comes first: what changes from then on is told. Each `delivery` is a delivery as it stands now, of the tenant's newest 200, looked at once a second; a change of an older one is not told, and of several changes within a second the last is. At least every 5 seconds comes a line `:`, with an `id` that everything before it has been told up to: a new stream that is given it in `Last-Event-ID`, by whichever process, first tells what may have changed since, some of it perhaps again, and its `ready` has `complete`: false where more came than the newest 200. `end` with its `reason` (`expired`, `revoked`, `closing`) is the last event: with the token, the stream ends. A tenant may have 10 streams open for each api process; the next is answered with 429.",
    answer: { type: "string", description: "Server-sent events" },
    answerType: "text/event-stream",
    answered: "event: ready\\ndata: {}\\n\\nid: 1763650000000\\n: still here\\n\\n",
    errors: ["RATE_LIMITED"],
  },
  "GET /v1/webhooks/stats": {
    id: "getDeliveryStats",
    summary: "Deliveries of the last 24 hours, by hour",
    description:
      "Volume, success and latency, of all endpoints or of one. Of an hour with more than 1,000 deliveries the newest 1,000 are looked at: then `complete` is false, and its numbers are those of that sample. Up to 30 seconds old.",
  },
  "GET /v1/webhooks/deliveries/{id}/attempts": {
    id: "listAttempts",
    summary: "List a delivery's attempts",
    description: "The requests of every cycle, oldest first, with the first 4 KiB of the answer.",
  },
  "POST /v1/webhooks/deliveries/{id}/retry": {
    id: "retryDelivery",
    summary: "Attempt a delivery now",
    description: "Makes the next attempt early and uses its slot; later ones stay where they are.",
    errors: ["INVALID_STATE"],
  },
  "POST /v1/webhooks/deliveries/{id}/cancel": {
    id: "cancelDelivery",
    summary: "Cancel a delivery",
    description: "It is not attempted any more. A request that is under way may still arrive.",
    errors: ["INVALID_STATE"],
  },
  "GET /v1/webhooks/dlq": {
    id: "listDeadLetters",
    summary: "Read the dead-letter queue",
    description:
      "Newest first, with their events. A dead letter can be replayed for 7 days, until `expires_at`.",
  },
  "GET /v1/webhooks/dlq/groups": {
    id: "listDeadLetterGroups",
    summary: "Count dead letters by endpoint and class of failure",
    description: "From kept counts, so that it is as quick with a million of them.",
  },
  "GET /v1/webhooks/dlq/export": {
    id: "exportDeadLetters",
    summary: "Export dead letters as lines of JSON",
    description:
      "All that the filters name, a dead letter a line, newest first. It breaks off when the token is revoked: an answer that does is not all of them.",
    answer: { type: "string", description: "NDJSON" },
    answerType: "application/x-ndjson",
    answered: '{"id":"dlv_01jd3c5xq8m2v7k9r4t6w0zy","state":"DEAD_LETTERED"}\\n',
  },
  "GET /v1/webhooks/dlq/{id}": {
    id: "getDeadLetter",
    summary: "Read a dead letter",
    description: "Its id is its delivery's.",
    errors: ["DLQ_ENTRY_EXPIRED"],
  },
  "POST /v1/webhooks/dlq/{id}/replay": {
    id: "replayDeadLetter",
    summary: "Replay a dead letter",
    description: "Gives it a fresh cycle of 17 attempts, with the same event id.",
    errors: ["INVALID_STATE", "DLQ_ENTRY_EXPIRED"],
  },
  "POST /v1/webhooks/dlq/replay": {
    id: "replayDeadLetters",
    summary: "Replay many dead letters",
    description:
      "By ids or by the filters of the list, one of the two. The job is durable and keeps to `rate_per_second`. With `dry_run` it is only counted what would be replayed, and answered with 200.",
    errors: ["LIMIT_EXCEEDED", "INVALID_STATE"],
    requests: {
      "by ids": { ids: [DELIVERY_ID] },
      "by a filter, to count": { filter: { last_error: "timeout" }, dry_run: true },
    },
  },
  "POST /v1/webhooks/endpoints/{id}/replay-missing": {
    id: "replayMissing",
    summary: "Send an endpoint the events that it has never got",
    description:
      "For an endpoint that was registered, or took a type, too late: events of the time span that match it now and have no delivery to it.",
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
    description: "`done`, `failed` and `skipped` of `total` say how far it is.",
  },
  "GET /v1/webhooks/replays/{id}/items": {
    id: "listReplayItems",
    summary: "List what a replay job did with each item",
    description: "In the order in which they are replayed.",
  },
  "POST /v1/webhooks/replays/{id}/pause": {
    id: "pauseReplay",
    summary: "Pause a replay job",
    description: "What was replayed stays so.",
    errors: ["INVALID_STATE"],
  },
  "POST /v1/webhooks/replays/{id}/resume": {
    id: "resumeReplay",
    summary: "Resume a paused replay job",
    description: "It goes on where it was.",
    errors: ["INVALID_STATE"],
  },
  "POST /v1/webhooks/replays/{id}/cancel": {
    id: "cancelReplay",
    summary: "Cancel a replay job",
    description: "What was replayed stays so, the rest stays in the queue.",
    errors: ["INVALID_STATE"],
  },
};

export const WEBHOOK_OPERATIONS: OperationTexts = {
  ...ENDPOINT_OPERATIONS,
  ...EVENT_OPERATIONS,
  ...DELIVERY_OPERATIONS,
};
