/** Publishes events over the public API, in a separate process. */
import { LedgerWriter } from "./ledger-writer.ts";
import { monotonicMs } from "./monotonic.ts";
import {
  ACCEPTED,
  type ClosedLoop,
  type Published,
  type PublishPlan,
  RequestWriter,
} from "./publish-plan.ts";
import { type ApiAnswer, ApiConnection } from "./publisher-connection.ts";
import { serve } from "./rpc.ts";

const OPEN_LOOP_CONNECTIONS_MAX = 1_000;
const REPEAT_MS = 100;

/** A plan in progress. */
class Publication {
  readonly plan: PublishPlan;
  readonly writer: RequestWriter;
  readonly published: Published;
  readonly repeated: Record<number, number> = {};
  readonly ledger: LedgerWriter | undefined;
  #connections = 0;

  constructor(plan: PublishPlan) {
    this.plan = plan;
    this.ledger = plan.ledger === undefined ? undefined : new LedgerWriter(plan.ledger);
    this.writer = new RequestWriter(plan);
    this.published = {
      started: new Float64Array(plan.count).fill(Number.NaN),
      acked: new Float64Array(plan.count).fill(Number.NaN),
      status: new Uint16Array(plan.count),
      repeated: this.repeated,
    };
  }

  connect(): ApiConnection {
    const { host, ports } = this.plan;
    this.#connections += 1;
    return new ApiConnection(host, ports[this.#connections % ports.length] ?? 0);
  }

  /** @param offset position of the event within the plan */
  started(offset: number, atMs: number): void {
    this.published.started[offset] = atMs;
  }

  acked(offset: number, status: number): void {
    const atMs = monotonicMs();
    this.published.acked[offset] = atMs;
    this.published.status[offset] = status;
    if (status === ACCEPTED) {
      const sent_ms = this.published.started[offset] ?? Number.NaN;
      this.ledger?.append({ accepted: this.plan.from + offset, sent_ms, at_ms: atMs });
    }
  }
}

/** Returns whether an event that was not accepted is sent again. */
function isRepeated({ plan, published, repeated }: Publication, offset: number, status: number): boolean {
  const { persistMs } = plan;
  const sinceMs = monotonicMs() - (published.started[offset] ?? 0);
  if (persistMs === undefined || status === ACCEPTED || sinceMs > persistMs) {
    return false;
  }
  repeated[status] = (repeated[status] ?? 0) + 1;
  return true;
}

/** Serves one connection of a closed loop: sends the next request after each response. */
async function loop(publication: Publication, next: () => Request | undefined): Promise<void> {
  let connection = publication.connect();
  await new Promise<void>((resolve) => {
    const send = (request: Request): void => {
      if (!connection.usable) {
        connection = publication.connect();
      }
      connection.send(request.text, (answer) => {
        if (isRepeated(publication, request.offsets[0] ?? 0, answer.status)) {
          setTimeout(send, REPEAT_MS, request);
          return;
        }
        record(publication, request.offsets, answer);
        step();
      });
    };
    const step = (): void => {
      const request = next();
      if (request === undefined) {
        resolve();
        return;
      }
      const now = monotonicMs();
      for (const offset of request.offsets) {
        publication.started(offset, now);
      }
      send(request);
    };
    step();
  });
  connection.close();
}

interface Request {
  readonly text: string;
  readonly offsets: readonly number[];
}

/** Records a batch response, whose items are accepted or refused one by one. */
function record(publication: Publication, offsets: readonly number[], { status, body }: ApiAnswer): void {
  if (offsets.length === 1 || status !== ACCEPTED) {
    for (const offset of offsets) {
      publication.acked(offset, status);
    }
    return;
  }
  const { data } = JSON.parse(body.toString("utf8")) as { data: { index: number; id?: string }[] };
  for (const { index, id } of data) {
    publication.acked(offsets[index] ?? 0, id === undefined ? 422 : status);
  }
}

/** Returns the events of a batch: consecutive ones of one tenant, so that each index keeps its tenant. */
function batchOffsets(request: number, { plan }: Publication, batch: number): number[] {
  const tenants = plan.tokens.length;
  const tenant = request % tenants;
  const round = Math.floor(request / tenants);
  const offsets: number[] = [];
  for (let item = 0; item < batch; item += 1) {
    const offset = (round * batch + item) * tenants + tenant;
    if (offset < plan.count) {
      offsets.push(offset);
    }
  }
  return offsets;
}

async function closedLoop(publication: Publication, { connections, batch }: ClosedLoop): Promise<void> {
  const { plan, writer } = publication;
  const tenants = plan.tokens.length;
  const requests = batch === 1 ? plan.count : Math.ceil(plan.count / (batch * tenants)) * tenants;
  let taken = 0;
  const next = (): Request | undefined => {
    const request = taken;
    taken += 1;
    if (request >= requests) {
      return undefined;
    }
    if (batch === 1) {
      return { text: writer.single(plan.from + request), offsets: [request] };
    }
    const offsets = batchOffsets(request, publication, batch);
    const indexes = offsets.map((offset) => plan.from + offset);
    return offsets.length === 0 ? next() : { text: writer.batch(indexes), offsets };
  };
  await Promise.all(Array.from({ length: connections }, async () => await loop(publication, next)));
}

async function openLoop(publication: Publication, perSecond: number): Promise<void> {
  const { plan, writer } = publication;
  const idle: ApiConnection[] = [];
  let connections = 0;
  let answers = 0;
  const begin = monotonicMs() + 5;
  const due = (offset: number): number => begin + (offset * 1_000) / perSecond;
  await new Promise<void>((resolve) => {
    const release = (connection: ApiConnection): void => {
      if (connection.usable) {
        idle.push(connection);
      } else {
        connections -= 1;
      }
    };
    const answered = (sent: number, status: number): void => {
      if (isRepeated(publication, sent, status)) {
        setTimeout(repeat, REPEAT_MS, sent);
        return;
      }
      publication.acked(sent, status);
      answers += 1;
      if (answers === plan.count) {
        resolve();
      }
    };
    const take = (): ApiConnection | undefined => {
      for (let found = idle.pop(); found !== undefined; found = idle.pop()) {
        if (found.usable) {
          return found;
        }
        connections -= 1;
      }
      if (connections >= OPEN_LOOP_CONNECTIONS_MAX) {
        return undefined;
      }
      connections += 1;
      return publication.connect();
    };
    /** Returns false if every connection is busy. */
    const send = (sent: number): boolean => {
      const connection = take();
      connection?.send(writer.single(plan.from + sent), ({ status }) => {
        release(connection);
        answered(sent, status);
      });
      return connection !== undefined;
    };
    const repeat = (sent: number): void => {
      if (!send(sent)) {
        setTimeout(repeat, REPEAT_MS, sent);
      }
    };
    let offset = 0;
    const tick = (): void => {
      const now = monotonicMs();
      while (offset < plan.count && due(offset) <= now) {
        publication.started(offset, due(offset));
        if (!send(offset)) {
          break;
        }
        offset += 1;
      }
      if (offset < plan.count) {
        setTimeout(tick, Math.max(1, due(offset) - monotonicMs()));
      }
    };
    setTimeout(tick, 5);
  });
  for (const connection of idle) {
    connection.close();
  }
}

serve({
  publish: async (plan: PublishPlan) => {
    const publication = new Publication(plan);
    if (plan.pace.kind === "closed") {
      await closedLoop(publication, plan.pace);
    } else {
      await openLoop(publication, plan.pace.perSecond);
    }
    await publication.ledger?.settled();
    return publication.published;
  },
});
