/** Wires the status lists: places for tokens of the audiences that ask for them, and the lists for every verifier. */
import { randomBytes } from "node:crypto";
import type { StatusListServices } from "#api/routes/status-lists.ts";
import { createRandomPool } from "#crypto/random-pool.ts";
import {
  findStatusList,
  insertPlacedTokens,
  listStatusLists,
  readRevokedPlaces,
  reservePlaces,
} from "#database/repositories/tokens/status-lists.ts";
import { newId } from "#domain/ids.ts";
import { FruitlessLookups } from "#http/rate-limits/fruitless-lookups.ts";
import { statusListsUrl } from "#tokens/oauth/metadata.ts";
import { StatusListDocuments } from "#tokens/status-lists/documents.ts";
import { LIST_ENDS_MS, LIST_OPEN_MS, LIST_SIZE, StatusPlaces } from "#tokens/status-lists/places.ts";
import type { ApiProcessServices } from "./services.ts";

const ORDER_KEY_BYTES = 32;
/** Lists that the aggregation names. 7,000 tokens per second fill about 15 before the first of them ends. */
const ADDRESSES_MAX = 1_000;

export interface StatusLists {
  /** Undefined if no audience asks for places. */
  readonly places: StatusPlaces | undefined;
  readonly routes: StatusListServices;
}

/** @param replaceRevokedKey reads the signing keys again if the one that signs is revoked */
export function createStatusLists(
  services: ApiProcessServices,
  replaceRevokedKey: () => Promise<unknown>,
): StatusLists {
  const { config, issuer, keys, clock, timers } = services;
  const { issuer: pool } = services.pools;
  const { statusListAudiences: audiences = [], statusListTtlSeconds: ttlSeconds } = config;
  const uriOf = (id: string): string => `${statusListsUrl(issuer)}/${id}`;
  const liveSince = (): Date => new Date(clock.now() - LIST_ENDS_MS);

  async function reserve(count: number) {
    const nowMs = clock.now();
    return await reservePlaces(pool, {
      id: newId("statusList", nowMs, randomBytes),
      orderKey: randomBytes(ORDER_KEY_BYTES),
      count,
      size: LIST_SIZE,
      now: new Date(nowMs),
      openSince: new Date(nowMs - LIST_OPEN_MS),
    });
  }

  const insert = async (tokens: Parameters<typeof insertPlacedTokens>[1]): Promise<void> =>
    await insertPlacedTokens(pool, tokens);
  return {
    places:
      audiences.length === 0
        ? undefined
        : new StatusPlaces({
            audiences,
            reserve,
            insert,
            uriOf,
            clock,
            timers,
            randomBytes: createRandomPool(),
          }),
    routes: {
      documents: new StatusListDocuments({
        issuer,
        ttlSeconds,
        uriOf,
        find: async (id) => await findStatusList(pool, id, liveSince()),
        readRevoked: async (list) => await readRevokedPlaces(pool, list),
        view: services.revocation.follower.view,
        signingKey: () => keys.signingKey(),
        replaceRevokedKey,
        clock,
      }),
      addresses: async () => (await listStatusLists(pool, liveSince(), ADDRESSES_MAX)).map(uriOf),
      lookups: new FruitlessLookups(config.tokenRatePerAddress, timers.monotonic),
    },
  };
}
