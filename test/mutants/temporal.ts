/** Mutants of the workflows, and of what they show and take in Temporal. */
import type { Mutant } from "./mutant.ts";

export const TEMPORAL: readonly Mutant[] = [
  {
    name: "bulk-replay-ends-after-a-page",
    breaks: "A bulk replay replays every dead letter of its filter (specification 3)",
    file: "workflows/replay-deliveries.ts",
    find: `    if (inbox.length > 0) {
      continue;
    }
    if (status.state === "COMPLETED" || status.state === "CANCELLED") {`,
    replace: '    if (status.state !== "PAUSED") {',
    caughtBy: "test/promises/histories.test.ts",
  },
  {
    name: "query-brings-events-without-a-time",
    breaks: "A query after a worker's end changes nothing in a workflow (decision 7)",
    file: "workflows/task-time.ts",
    find: "now.time === seen.time",
    replace: 'now.time === ""',
    caughtBy: "test/unit/workflows/task-time.test.ts",
  },
  {
    name: "replay-signal-ignored",
    breaks: "An operator's replay signal replays dead letters (architecture 3)",
    file: "workflows/member-requests.ts",
    find: 'kind === "replay" && phase !== "DEAD_LETTERED"',
    replace: 'kind === "replay" && phase === "DEAD_LETTERED"',
    caughtBy: "test/promises/dead-letters.test.ts",
  },
  {
    name: "unnamed-request-reaches-strangers",
    breaks: "A request to a list of several endpoints must name its deliveries (docs/temporal.md)",
    file: "workflows/member-requests.ts",
    find: 'kind === "release" || ledger.mixed',
    replace: 'kind === "release"',
    caughtBy: "test/workflows/operator-requests.test.ts",
  },
  {
    name: "cancellation-loses-deliveries",
    breaks:
      "Request Cancellation of a list of several endpoints hands its deliveries back (docs/temporal.md)",
    file: "workflows/member-requests.ts",
    find: "if (!ledger.mixed) {",
    replace: "if (ledger.mixed || !ledger.mixed) {",
    caughtBy: "test/workflows/operator-requests.test.ts",
  },
  {
    name: "mixed-list-found-by-endpoint",
    breaks: "A batch by endpoint or tenant reaches no list of several (docs/temporal.md)",
    file: "src/webhooks/engine/carrier-starter.ts",
    find: "...(endpoints.length === 1\n",
    replace: "...(endpoints.length >= 1\n",
    caughtBy: "test/workflows/operator-requests.test.ts",
  },
  {
    name: "workflow-command-without-patch",
    breaks: "Workflows that earlier releases started continue under this code (CONTRIBUTING)",
    file: "workflows/carrier-visibility.ts",
    find: "new Set([2, 5, 9, 13, 17]);",
    replace: "new Set([2, 3, 5, 9, 13, 17]);",
    caughtBy: "test/promises/histories.test.ts",
  },
  {
    name: "retry-request-lost",
    breaks: "An immediate attempt that is requested after an answer is made (wire.md, retry)",
    file: "workflows/delivery-ledger.ts",
    find: "(exactly ? beforeMs : 0)",
    replace: "(exactly ? 0 * beforeMs : 0)",
    caughtBy: "test/unit/workflows/delivery-ledger.test.ts",
  },
  {
    name: "dead-letter-stays-beside-retries",
    breaks:
      "Every dead letter is a member of a workflow of dead letters of its endpoint (docs/guarantees.md)",
    file: "workflows/delivery-ledger.ts",
    find: "return this.#mixed || !this.onlyDeadLetters",
    replace: "return this.#mixed",
    caughtBy: "test/workflows/dead-letter.test.ts",
  },
  {
    name: "lost-dead-letter-stays-lost",
    breaks: "A dead letter whose workflow is gone gets another within two minutes (docs/guarantees.md)",
    file: "src/webhooks/engine/letter-reconciler.ts",
    find: "if (lost.length > 0) {",
    replace: "if (lost.length > 1_000) {",
    caughtBy: "test/workflows/dead-letter.test.ts",
  },
  {
    name: "claim-of-a-killed-worker-counts",
    breaks: "A dead letter whose workflow is gone gets another within two minutes (docs/guarantees.md)",
    file: "src/database/repositories/webhooks/reconciliation.ts",
    find: "CASE WHEN w.id IS NOT NULL THEN d.claimed_at END",
    replace: "d.claimed_at",
    caughtBy: "test/workflows/list-claims.test.ts",
  },
  {
    name: "published-dead-letter-without-workflow",
    breaks: "Events for a disabled endpoint are in the queue of Temporal, too (docs/guarantees.md)",
    file: "src/webhooks/engine/dispatcher.ts",
    find: "await this.#lanes.letterRound()",
    replace: "false",
    caughtBy: "test/workflows/gone-endpoints.test.ts",
  },
  {
    name: "lone-retry-takes-the-name-of-a-list",
    breaks: "A list starts with all of its members, even if its first one has left it (decision 37)",
    file: "src/database/repositories/webhooks/list-claims.ts",
    find: '"NOT EXISTS (SELECT',
    replace: '"true OR NOT EXISTS (SELECT',
    caughtBy: "test/workflows/list-claims.test.ts",
  },
  {
    name: "retry-waits-for-the-end-of-another-workflow",
    breaks: "A delivery whose id names an open workflow of others gets another one at once (decision 37)",
    file: "src/webhooks/engine/list-lanes.ts",
    find: "await this.#startElsewhere(carrier, members, start);",
    replace: "this.#retryLists += 0;",
    caughtBy: "test/workflows/reconciler.test.ts",
  },
];
