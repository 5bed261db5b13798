/**
 * Rules for accepting an event: the schema of its type, and the filters of the endpoints that take it.
 *
 * An event is first checked by the rules that this process knows, before it joins a shared commit. The commit reads
 * the key of the current rules, and returns events that were checked by other rules. So the rules are exact in every
 * process, and events without rules cost nothing.
 */
import type { Pool } from "#database/pool.ts";
import { findSchemaText } from "#database/repositories/endpoints/event-types.ts";
import {
  type EndpointFilter,
  listFilters,
  type MatchedType,
  type TenantAndType,
} from "#database/repositories/webhooks/matches.ts";
import { WeighedMap } from "#domain/bounded-map.ts";
import { parseExactJson } from "#domain/decimal.ts";
import type { FieldProblem, SignetError } from "#domain/errors.ts";
import { compileSchema, type CheckData } from "../event-types/schema-validator.ts";
import { rateLimited } from "#http/rate-limits/rate-limited.ts";
import { nextTurn, Slices } from "#runtime/slices.ts";
import { compileFilter, type EventFilter, type FilteredEvent, stepsOfEvent } from "./event-filter.ts";
import { createTenantReads } from "./tenant-reads.ts";
import type { Timers } from "#domain/clock.ts";

/** Maximum characters of cached rules, for all tenants: of the filters and the schema of each type. */
const RULES_SIZE_MAX = 8_388_608;
/** Counts as characters, for each type and each filter. */
const RULE_OVERHEAD = 256;
/** Maximum characters of schemas that are cached compiled, for all tenants. */
const SCHEMAS_SIZE_MAX = 4_194_304;
/** Maximum characters of a tenant's events that may wait for their check: two batches. */
const WAITING_MAX = 8_388_608;
export const RETRY_AFTER_MS = 1_000;
/** Key of a type without schema and filters. */
const NO_RULES_KEY = "";

/** A filter with all endpoints of a type that have it. It is compiled once, and evaluated once for each event. */
interface SharedFilter {
  readonly admits: EventFilter;
  readonly endpointIds: readonly string[];
}

interface Rules {
  readonly key: string;
  readonly check: CheckData | undefined;
  readonly filters: readonly SharedFilter[];
  /** Places of the endpoints in `filters`. */
  readonly places: ReadonlyMap<string, number>;
  /** Characters of the texts, with {@link RULE_OVERHEAD}. */
  readonly size: number;
}

/** The endpoints whose filter an event does not pass: a bit each, because many events may wait for their commit. */
export class Excluded {
  readonly #places: Rules["places"];
  readonly #bits: Uint8Array;
  /** Number of endpoints. */
  readonly size: number;

  /** @param places all endpoints with a filter, and their places from 0; shared by all events of the same rules */
  constructor(places: ReadonlyMap<string, number>, refusing: readonly string[]) {
    this.#places = places;
    this.size = refusing.length;
    this.#bits = new Uint8Array(refusing.length === 0 ? 0 : Math.ceil(places.size / 8));
    for (const endpointId of refusing) {
      const place = places.get(endpointId) ?? 0;
      this.#bits[place >> 3] = (this.#bits[place >> 3] ?? 0) | (1 << (place & 7));
    }
  }

  /** What an event keeps of its own. */
  get byteLength(): number {
    return this.#bits.byteLength;
  }

  has(endpointId: string): boolean {
    const place = this.#places.get(endpointId);
    return place !== undefined && ((this.#bits[place >> 3] ?? 0) & (1 << (place & 7))) !== 0;
  }
}

/** The result of checking an event by one version of the rules. */
export interface Checked {
  readonly key: string;
  readonly excluded: Excluded;
  /** Why the event is rejected. */
  readonly problems: readonly FieldProblem[];
}

/** The parts of an event that rules use. */
export interface RuledEvent extends TenantAndType {
  /** Raw JSON text. */
  readonly data: string;
}

const NO_RULES: Checked = { key: NO_RULES_KEY, excluded: new Excluded(new Map(), []), problems: [] };

/** @param filters sum of the hashes of the filters; null without any */
function keyOf(schemaDigest: string | null, filters: string | null): string {
  return schemaDigest === null && filters === null ? NO_RULES_KEY : `${schemaDigest ?? ""}|${filters ?? ""}`;
}

/** Returns the key under which ingest keeps what it knows about a tenant and type. */
export function placeOf(tenantId: string, type: string): string {
  return `${tenantId}/${type}`;
}

/** Returns the key of the current rules, to be compared with the key in {@link Checked}. */
export function rulesKey({ schema_digest: schemaDigest, filters }: MatchedType): string {
  return keyOf(schemaDigest, filters);
}

function check({ key, check: checkData, filters, places }: Rules, { type, data }: RuledEvent): Checked {
  const value = parseExactJson(data);
  const problems = checkData === undefined ? [] : checkData(value);
  const refusing = problems.length > 0 ? [] : refusingEndpoints(filters, { type, data: value });
  return { key, excluded: new Excluded(places, refusing), problems };
}

function tooMuchToCheck(): SignetError {
  return rateLimited(
    "publish",
    RETRY_AFTER_MS,
    "Too many events are waiting for their schema and filter checks.",
  );
}

export class EventRules {
  readonly #pool: Pool;
  readonly #known = new WeighedMap<string, Rules>(RULES_SIZE_MAX);
  readonly #loading = new Map<string, Promise<Rules>>();
  readonly #readInTurn: (pair: TenantAndType) => Promise<Rules>;
  readonly #schemas = new WeighedMap<string, CheckData>(SCHEMAS_SIZE_MAX);
  readonly #slices = new Slices({ sizeMax: WAITING_MAX, refusal: tooMuchToCheck });
  #compiling: Promise<unknown> = Promise.resolve();

  /** @param pool role signet_ingest */
  constructor(pool: Pool, timers: Timers) {
    this.#pool = pool;
    this.#readInTurn = createTenantReads(pool, timers, async (pair) => await this.#read(pair));
  }

  /**
   * Checks an event by the cached rules. A rejection is not final, because the rules may have changed. Returns a
   * promise only if the check has to wait: a batch of events with many filters can take minutes.
   */
  check(event: RuledEvent): Checked | Promise<Checked> {
    const rules = this.#known.get(placeOf(event.tenantId, event.type));
    return rules === undefined ? NO_RULES : this.#checkInTurn(rules, event);
  }

  /** Checks an event by the current rules. */
  async checkCurrent(event: RuledEvent): Promise<Checked> {
    const rules = await this.#load(event);
    return rules.key === NO_RULES_KEY ? NO_RULES : await this.#checkInTurn(rules, event);
  }

  #checkInTurn(rules: Rules, event: RuledEvent): Checked | Promise<Checked> {
    return this.#slices.run(event.tenantId, () => check(rules, event), event.data.length);
  }

  /** Concurrent events of a type share one read. */
  async #load({ tenantId, type }: TenantAndType): Promise<Rules> {
    const place = placeOf(tenantId, type);
    const loading =
      this.#loading.get(place) ??
      this.#readInTurn({ tenantId, type }).finally(() => this.#loading.delete(place));
    this.#loading.set(place, loading);
    const rules = await loading;
    if (rules.key === NO_RULES_KEY) {
      this.#known.delete(place);
    } else {
      this.#known.put(place, rules, rules.size);
    }
    return rules;
  }

  async #read(pair: TenantAndType): Promise<Rules> {
    const schema = await findSchemaText(this.#pool, pair);
    const filters = await listFilters(this.#pool, pair);
    const hashes = filters.reduce((sum, { hash }) => sum + BigInt(hash), 0n);
    const shared = shareFilters(filters);
    const texts = new Set(filters.map(({ filter }) => filter));
    return {
      key: keyOf(schema?.digest ?? null, filters.length === 0 ? null : String(hashes)),
      check: schema === undefined ? undefined : await this.#compiled(schema.digest, schema.text),
      filters: shared,
      places: new Map(filters.map(({ endpoint_id: endpointId }, place) => [endpointId, place])),
      size: texts
        .values()
        .reduce(
          (size, text) => size + text.length,
          (schema?.text.length ?? 0) + (1 + filters.length) * RULE_OVERHEAD,
        ),
    };
  }

  async #compiled(digest: string, text: string): Promise<CheckData> {
    const turn = this.#compiling.then(async () => {
      const known = this.#schemas.get(digest);
      if (known === undefined) {
        await nextTurn();
      }
      const compiled = known ?? compileSchema(parseExactJson(text));
      this.#schemas.put(digest, compiled, text.length);
      return compiled;
    });
    this.#compiling = turn.catch(() => undefined);
    return await turn;
  }
}

/** Compiles the filters of a type's endpoints. */
export function shareFilters(filters: readonly EndpointFilter[]): SharedFilter[] {
  return [...Map.groupBy(filters, ({ filter }) => filter)].map(([text, sharing]) => ({
    admits: readFilter(text),
    endpointIds: sharing.map((one) => one.endpoint_id),
  }));
}

/** Returns the endpoints whose filter an event does not pass. */
export function refusingEndpoints(filters: readonly SharedFilter[], event: FilteredEvent): string[] {
  const steps = stepsOfEvent();
  return filters.flatMap(({ admits, endpointIds }) => (admits(event, steps) ? [] : endpointIds));
}

/** Compiles a stored filter, which was validated when it was stored. */
export function readFilter(text: string): EventFilter {
  const filter = compileFilter(JSON.parse(text));
  if (typeof filter !== "function") {
    throw new Error(`a stored filter cannot be read: ${filter.pointer} ${filter.detail}`);
  }
  return filter;
}
