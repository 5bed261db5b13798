/** Operations of tenants on their catalogue of event types. */
import { createHash } from "node:crypto";
import type { Pool, Queryable } from "#database/pool.ts";
import {
  addSchema,
  deleteEventType,
  type EventTypeContent,
  type EventTypeRow,
  findEventType,
  insertEventType,
  listEventTypes,
  listSchemas,
  lockCatalogue,
  type SchemaRow,
  updateEventType,
  useSchema,
} from "#database/repositories/endpoints/event-types.ts";
import type { TenantAndType } from "#database/repositories/webhooks/matches.ts";
import { tenantTransaction } from "#database/transaction.ts";
import type { Clock } from "#domain/clock.ts";
import { parseExactJson } from "#domain/decimal.ts";
import { SlidingWindow } from "#domain/sliding-window.ts";
import {
  type FieldProblem,
  found,
  noSuch,
  SignetError,
  tooManyRequests,
  validationFailed,
} from "#domain/errors.ts";
import { SCHEMA_MAX } from "./schema-gate.ts";
import { compileSchema, schemaProblems } from "./schema-validator.ts";

const VERSIONS_MAX = 100;
/** Limited because reading a schema blocks the event loop for everyone. */
const SCHEMA_LIMITS = [{ count: 30, perMs: 60_000 }];
const SCHEMA_KEYS_MAX = 10_000;

/** A change of an event type. Absent members keep their value; in a new type they are empty. */
export interface EventTypeChange {
  readonly description?: string | null;
  /** JSON text of a schema, which becomes the next version. */
  readonly schema?: string;
  /** The version that events are checked against from now on, null for none. */
  readonly schemaVersion?: number | null;
  /** JSON texts. */
  readonly examples?: readonly string[];
  readonly deprecated?: boolean;
  readonly replacedBy?: string | null;
  readonly archived?: boolean;
}

export interface EventTypeServiceOptions {
  /** signet_api */
  readonly pool: Pool;
  /** Returns the maximum number of types in a tenant's catalogue. */
  readonly typesMax: (tenantId: string) => Promise<number>;
  readonly clock: Clock;
}

export class EventTypeService {
  readonly #pool: Pool;
  readonly #typesMax: (tenantId: string) => Promise<number>;
  readonly #clock: Clock;
  readonly #window = new SlidingWindow(SCHEMA_LIMITS, SCHEMA_KEYS_MAX);

  constructor({ pool, typesMax, clock }: EventTypeServiceOptions) {
    this.#pool = pool;
    this.#typesMax = typesMax;
    this.#clock = clock;
  }

  /** @throws SignetError CONFLICT, LIMIT_EXCEEDED, RATE_LIMITED, VALIDATION_FAILED */
  async create(pair: TenantAndType, change: EventTypeChange): Promise<EventTypeRow> {
    this.#checkSchema(pair.tenantId, change);
    const typesMax = await this.#typesMax(pair.tenantId);
    const now = new Date(this.#clock.now());
    return await tenantTransaction(this.#pool, pair.tenantId, async (db) => {
      if ((await lockCatalogue(db, pair.tenantId)) >= typesMax) {
        throw new SignetError("LIMIT_EXCEEDED", {
          detail: `A catalogue has at most ${typesMax} event types.`,
        });
      }
      if (!(await insertEventType(db, pair, contentAfter(undefined, change, now), now))) {
        throw new SignetError("CONFLICT", { detail: "The catalogue already has this event type." });
      }
      return await this.#applySchema(db, { pair, change, now });
    });
  }

  /** @throws SignetError NOT_FOUND, LIMIT_EXCEEDED, RATE_LIMITED, VALIDATION_FAILED */
  async update(pair: TenantAndType, change: EventTypeChange): Promise<EventTypeRow> {
    this.#checkSchema(pair.tenantId, change);
    const now = new Date(this.#clock.now());
    return await tenantTransaction(this.#pool, pair.tenantId, async (db) => {
      await lockCatalogue(db, pair.tenantId);
      const current = await mustFind(db, pair);
      await updateEventType(db, pair, contentAfter(current, change, now), now);
      return await this.#applySchema(db, { pair, change, now, current });
    });
  }

  /** @throws SignetError NOT_FOUND */
  async find(pair: TenantAndType): Promise<EventTypeRow> {
    return await tenantTransaction(this.#pool, pair.tenantId, async (db) => await mustFind(db, pair));
  }

  /** Lists types by name, after `after` if given. Archived types are included on request. */
  async list(
    tenantId: string,
    page: { readonly after: string | null; readonly archived: boolean; readonly limit: number },
  ): Promise<EventTypeRow[]> {
    return await tenantTransaction(
      this.#pool,
      tenantId,
      async (db) => await listEventTypes(db, tenantId, page),
    );
  }

  /**
   * Lists the versions of the type's schema, newest first.
   *
   * @throws SignetError NOT_FOUND
   */
  async versions(
    pair: TenantAndType,
    page: { readonly before: number | null; readonly limit: number },
  ): Promise<SchemaRow[]> {
    return await tenantTransaction(this.#pool, pair.tenantId, async (db) => {
      await mustFind(db, pair);
      return await listSchemas(db, pair, page);
    });
  }

  /**
   * Removes a type. Its events are then accepted without checks.
   *
   * @throws SignetError NOT_FOUND
   */
  async remove(pair: TenantAndType): Promise<void> {
    await tenantTransaction(this.#pool, pair.tenantId, async (db) => {
      if (!(await deleteEventType(db, pair))) {
        throw noSuch("event type");
      }
    });
  }

  #checkSchema(tenantId: string, { schema, schemaVersion, examples }: EventTypeChange): void {
    if (schema === undefined && examples === undefined && schemaVersion === undefined) {
      return;
    }
    const waitMs = this.#window.take(tenantId, this.#clock.now());
    if (waitMs > 0) {
      throw tooManyRequests(waitMs, "Schemas and examples can be changed 30 times per minute.");
    }
    if (schema === undefined) {
      return;
    }
    if (schemaVersion !== undefined) {
      refuse({ pointer: "/schema_version", code: "conflict", detail: "cannot be combined with schema" });
    }
    if (Buffer.byteLength(schema) > SCHEMA_MAX) {
      throw new SignetError("LIMIT_EXCEEDED", { detail: `schema may have at most ${SCHEMA_MAX} bytes.` });
    }
    refuse(...schemaProblems(parseExactJson(schema)).map((problem) => withPointerPrefix(problem, "/schema")));
  }

  /** Last step of a change: stores a changed schema, and checks the examples against it. */
  async #applySchema(
    db: Queryable,
    {
      pair,
      change: { schema, schemaVersion, examples },
      now,
      current,
    }: {
      readonly pair: TenantAndType;
      readonly change: EventTypeChange;
      readonly now: Date;
      readonly current?: EventTypeRow;
    },
  ): Promise<EventTypeRow> {
    if (schema !== undefined && schema !== current?.schema) {
      const digest = createHash("sha256").update(schema).digest("hex");
      if ((await addSchema(db, pair, { text: schema, digest, now })) > VERSIONS_MAX) {
        throw new SignetError("LIMIT_EXCEEDED", { detail: `A type has at most ${VERSIONS_MAX} versions.` });
      }
    }
    if (schemaVersion !== undefined && !(await useSchema(db, pair, schemaVersion))) {
      refuse({ pointer: "/schema_version", code: "unknown", detail: "is not a version of this type" });
    }
    const row = await mustFind(db, pair);
    if (schema !== undefined || schemaVersion !== undefined || examples !== undefined) {
      checkExamples(row);
    }
    return row;
  }
}

/** Returns the content after a change. */
function contentAfter(
  current: EventTypeRow | undefined,
  change: EventTypeChange,
  now: Date,
): EventTypeContent {
  const since = (flag: boolean | undefined, before: Date | null | undefined): Date | null => {
    if (flag === undefined) {
      return before ?? null;
    }
    return flag ? (before ?? now) : null;
  };
  return {
    description: change.description === undefined ? (current?.description ?? null) : change.description,
    examples: change.examples === undefined ? (current?.examples ?? "[]") : `[${change.examples.join(",")}]`,
    deprecatedAt: since(change.deprecated, current?.deprecated_at),
    replacedBy: change.replacedBy === undefined ? (current?.replaced_by ?? null) : change.replacedBy,
    archivedAt: since(change.archived, current?.archived_at),
  };
}

function checkExamples({ schema, examples }: EventTypeRow): void {
  if (schema === null || examples === "[]") {
    return;
  }
  const check = compileSchema(parseExactJson(schema));
  const problems = (parseExactJson(examples) as unknown[]).flatMap((example, index) =>
    check(example).map(({ pointer, ...rest }) => ({
      ...rest,
      pointer: `/examples/${index}${pointer.slice("/data".length)}`,
    })),
  );
  refuse(...problems);
}

function withPointerPrefix(problem: FieldProblem, under: string): FieldProblem {
  return { ...problem, pointer: `${under}${problem.pointer}` };
}

function refuse(...problems: readonly FieldProblem[]): void {
  if (problems.length > 0) {
    throw validationFailed(problems);
  }
}

async function mustFind(db: Queryable, pair: TenantAndType): Promise<EventTypeRow> {
  return found(await findEventType(db, pair), "event type");
}
