/** The state of the whole deployment. */
import { type Static, Type } from "typebox";
import { Id, Nullable, Resource, Timestamp } from "#http/common.ts";

/** Certificates that end within so many days are listed. */
export const CERTIFICATES_DAYS = 30;

const Count = (description: string) => Type.Integer({ description });
const Seconds = (description: string) => Nullable(Type.Integer({ description }));
const OfTenant = { tenant_id: Id("tenant"), tenant_name: Type.String() };

export const FailingEndpoint = Type.Object({
  ...OfTenant,
  id: Id("endpoint"),
  state: Type.String(),
  disabled_reason: Nullable(Type.String()),
  since: Timestamp,
});

export const EndingCertificate = Type.Object({
  ...OfTenant,
  endpoint_id: Id("endpoint"),
  ends_at: Timestamp,
});

export const Overview = Resource("Overview", {
  at: Timestamp,
  counted_max: Count("Limit of all counts: this value means that or more"),
  temporal_reachable: Type.Boolean(),
  attempts_per_second: Type.Number({
    description: "Attempts of all live workers, over their last seconds",
    examples: [31.2],
  }),
  workers: Type.Array(
    Type.Object({
      id: Type.String(),
      seen_at: Timestamp,
      alive: Type.Boolean(),
      attempts_per_second: Type.Number({ examples: [15.6] }),
    }),
  ),
  followers: Type.Array(
    Type.Object({
      region: Nullable(Type.String({ description: "`SIGNET_REGION`; null if it is not set" })),
      kind: Type.String({ description: "`edge`, `api` or `hub`", examples: ["edge"] }),
      version: Nullable(Type.String()),
      connected: Count("Processes that are connected"),
      behind: Count("Those that have not acknowledged the last revocation"),
      behind_ms: Nullable(Type.Integer({ description: "Age of that revocation; null if none is behind" })),
      lease_ms: Nullable(Type.Integer({ description: "How long a proof lets such a process admit tokens" })),
    }),
    { description: "Processes that follow the revocations, by region, kind and version" },
  ),
  queues: Type.Object({
    waiting: Count("Accepted deliveries that no worker has claimed"),
    started: Count("Claimed deliveries without the outcome of their first attempt"),
    retrying: Count("Deliveries that wait for another attempt"),
    dead_letters: Count("Dead letters that can be replayed"),
    expiring: Count("Dead letters that expire within a day"),
    verifications: Count("Endpoints whose verification has not begun"),
    replays_running: Count("Replay jobs that run"),
    replays_paused: Count("Replay jobs that are paused"),
  }),
  lag: Type.Array(
    Type.Object({
      ...OfTenant,
      held: Type.Boolean(),
      waiting: Count("Deliveries that no worker has claimed, 100 at most"),
      oldest_waiting_seconds: Seconds("Age of the oldest of them"),
      overdue: Count("Retries that are late by 30 seconds or more, 1,000 at most"),
      most_overdue_seconds: Seconds("Delay of the latest of them"),
    }),
    { description: "The 20 tenants that are furthest behind; held ones last" },
  ),
  endpoints: Type.Object({
    failing: Count("Endpoints that have accepted nothing since a failure"),
    stopped: Count("Endpoints that the service has disabled"),
    slow: Count("Endpoints that were slow or failing within the last minute"),
    worst: Type.Array(FailingEndpoint, { description: "Up to 20 of the failing and stopped ones" }),
  }),
  rotations: Type.Object({
    credentials: Count("Client secrets that were due a week ago"),
    endpoint_secrets: Count("Endpoint secrets that should have rotated a day ago, of 2,000 endpoints"),
    signing_key: Type.Boolean({ description: "Whether the signing key is older than it should be" }),
  }),
  certificates: Type.Object({
    files: Type.Array(Type.Object({ file: Type.String(), ends_at: Timestamp }), {
      description: "The certificate files of the api process that answers",
    }),
    endpoints: Type.Array(EndingCertificate, {
      description: `Client certificates of deliveries that end within ${CERTIFICATES_DAYS} days, 20 at most`,
    }),
  }),
  checkpoints: Type.Object({
    newest_at: Nullable(Timestamp),
    size: Nullable(Count("Number of entries that the newest checkpoint covers")),
    oldest_unsigned_at: Nullable(Timestamp),
  }),
});

export type Overview = Static<typeof Overview>;
