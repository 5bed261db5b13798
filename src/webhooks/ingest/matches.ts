/** What ingest remembers of the endpoints of each tenant and type. */
import type { Pool } from "#database/pool.ts";
import { matchEndpoints, type MatchedType } from "#database/repositories/webhooks/matches.ts";
import { WeighedMap } from "#domain/bounded-map.ts";
import { placeOf, rulesKey } from "./event-rules.ts";
import { createTenantReads } from "./tenant-reads.ts";
import type { Timers } from "#domain/clock.ts";

/** Endpoints that are remembered, of some 200 bytes each. */
const ENDPOINTS_MAX = 200_000;
/** A match without endpoints takes as much memory as some endpoints. */
const MATCH_WEIGHT = 4;

/** A match with the key of its rules. It is in doubt if its tenant had another version: the next insert compares it. */
export type KnownMatch = MatchedType & { readonly rulesKey: string; readonly isDoubted: boolean };

/** Types of one tenant. */
interface TenantTypes {
  readonly tenantId: string;
  readonly types: readonly string[];
}

function weightOf({ endpoints }: KnownMatch): number {
  return MATCH_WEIGHT + endpoints.length;
}

export class Matches {
  readonly #known = new WeighedMap<string, KnownMatch>(ENDPOINTS_MAX);
  readonly #match: (asked: TenantTypes) => Promise<MatchedType[]>;

  /** @param pool role signet_ingest */
  constructor(pool: Pool, timers: Timers) {
    this.#match = createTenantReads(
      pool,
      timers,
      async ({ tenantId, types }) =>
        await matchEndpoints(
          pool,
          types.map((type) => ({ tenantId, type })),
        ),
    );
  }

  /** Returns the match at a {@link placeOf}, which may be outdated: the insert tells. */
  known(place: string): KnownMatch | undefined {
    return this.#known.get(place);
  }

  /** Reads those matches of a tenant that are not known. Afterwards at least that of the first type is. */
  async read({ tenantId, types }: TenantTypes): Promise<void> {
    const missing = [...new Set(types)].filter((type) => this.known(placeOf(tenantId, type)) === undefined);
    if (missing.length === 0) {
      return;
    }
    const found = new Map(
      (await this.#match({ tenantId, types: missing })).map((match) => [match.type, match]),
    );
    // The first one is put last: what is put later may displace it.
    for (const type of missing.toReversed()) {
      const match = found.get(type) as MatchedType;
      const known = { ...match, rulesKey: rulesKey(match), isDoubted: false };
      this.#known.put(placeOf(tenantId, type), known, weightOf(known));
    }
  }

  /** Forgets a match, but not a newer one that has replaced it. */
  forget(match: KnownMatch): void {
    const place = placeOf(match.tenant_id, match.type);
    if (this.known(place) === match) {
      this.#known.delete(place);
    }
  }

  /** Notes that a match was outdated: the next insert compares it, or it is forgotten if this one has. */
  doubt(match: KnownMatch, wasCompared: boolean): void {
    if (wasCompared) {
      this.forget(match);
    } else {
      this.#replace(match, { ...match, isDoubted: true });
    }
  }

  /** Notes at which version of its tenant a match was found to be current; undefined if it was the known one. */
  renew(match: KnownMatch, version: string | undefined): void {
    if (version !== undefined || match.isDoubted) {
      this.#replace(match, { ...match, version: version ?? match.version, isDoubted: false });
    }
  }

  #replace(match: KnownMatch, by: KnownMatch): void {
    const place = placeOf(match.tenant_id, match.type);
    if (this.known(place) === match) {
      this.#known.put(place, by, weightOf(by));
    }
  }
}
