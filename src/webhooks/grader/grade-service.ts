/** Operations of tenants on grades: request one, and read the results. */
import type { Pool } from "#database/pool.ts";
import {
  findGrade,
  type Grade,
  gradesSince,
  type GradeSummary,
  insertGrade,
  listGrades,
  trimGrades,
} from "#database/repositories/endpoints/endpoint-grades.ts";
import { findEndpoint, lockEndpoint } from "#database/repositories/endpoints/endpoints.ts";
import { tenantTransaction } from "#database/transaction.ts";
import type { Clock } from "#domain/clock.ts";
import { newId, type RandomBytes } from "#domain/ids.ts";
import { requireWebhooks } from "../sending/delivery-format.ts";
import { found, noSuch, SignetError, tooManyRequests } from "#domain/errors.ts";

/** Per endpoint. */
const GRADES_PER_HOUR = 12;
const HOUR_MS = 3_600_000;
const GRADES_KEPT = 20;

export interface GradeServiceOptions {
  /** Role signet_api. */
  readonly pool: Pool;
  readonly clock: Clock;
  readonly randomBytes: RandomBytes;
}

export class GradeService {
  readonly #options: GradeServiceOptions;

  constructor(options: GradeServiceOptions) {
    this.#options = options;
  }

  /**
   * Requests a grade. Only a receiver that has acknowledged its ping gets invalid requests.
   *
   * @throws SignetError NOT_FOUND, INVALID_STATE if the endpoint is not ACTIVE or is being graded, RATE_LIMITED
   */
  async start(tenantId: string, endpointId: string): Promise<Grade> {
    const { pool, clock, randomBytes } = this.#options;
    const place = { tenantId, endpointId };
    return await tenantTransaction(pool, tenantId, async (db) => {
      const endpoint = requireWebhooks(found(await lockEndpoint(db, tenantId, endpointId), "endpoint"));
      if (endpoint.state !== "ACTIVE") {
        throw new SignetError("INVALID_STATE", {
          detail: `The endpoint is ${endpoint.state}: only ACTIVE endpoints can be graded.`,
        });
      }
      const nowMs = clock.now();
      const recent = await gradesSince(db, place, new Date(nowMs - HOUR_MS));
      const [oldest] = recent;
      if (oldest !== undefined && recent.length >= GRADES_PER_HOUR) {
        const waitMs = oldest.getTime() + HOUR_MS - nowMs;
        throw tooManyRequests(waitMs, `An endpoint can be graded at most ${GRADES_PER_HOUR} times per hour.`);
      }
      const id = newId("grade", nowMs, randomBytes);
      const grade = await insertGrade(db, { ...place, id, now: new Date(nowMs) });
      if (grade === undefined) {
        throw new SignetError("INVALID_STATE", { detail: "The endpoint is being graded." });
      }
      await trimGrades(db, place, GRADES_KEPT);
      return grade;
    });
  }

  /** @throws SignetError NOT_FOUND */
  async find(tenantId: string, endpointId: string, id: string): Promise<Grade> {
    return found(
      await tenantTransaction(
        this.#options.pool,
        tenantId,
        async (db) => await findGrade(db, { id, tenantId, endpointId }),
      ),
      "grade",
    );
  }

  /**
   * Lists the stored grades of an endpoint, newest first.
   *
   * @param page.before only grades before this id
   * @throws SignetError NOT_FOUND
   */
  async list(
    tenantId: string,
    endpointId: string,
    page: { readonly before: string | null; readonly limit: number },
  ): Promise<GradeSummary[]> {
    return await tenantTransaction(this.#options.pool, tenantId, async (db) => {
      if ((await findEndpoint(db, tenantId, endpointId)) === undefined) {
        throw noSuch("endpoint");
      }
      return await listGrades(db, { tenantId, endpointId }, page);
    });
  }
}
