/**
 * Checkpoints in a bucket of S3, or of another server that speaks its protocol. Object lock keeps every checkpoint from
 * being changed or removed before its time, also by the bucket's administrators.
 *
 * A locked object can still be hidden by a delete marker, or by a newer version. So a number's checkpoint is always its
 * key's oldest version, which the lock protects.
 */
import type { ListObjectVersionsCommandInput, ObjectVersion, S3 } from "@aws-sdk/client-s3";
import type { BucketPlace } from "#config/compliance.ts";
import type { Clock } from "#domain/clock.ts";
import { optionalPackage } from "#runtime/optional-package.ts";
import { failureOf, messageOf } from "#runtime/thrown.ts";
import {
  checkpointPath,
  type CheckpointSink,
  type KeptCheckpoint,
  SinkUnusableError,
} from "./checkpoint-sink.ts";

const CONNECT_MS = 5_000;
const REQUEST_MS = 15_000;
const TRIES_MAX = 3;
/** A note has a few hundred bytes. */
const NOTE_BYTES_MAX = 65_536;
/** Region of servers that have none. */
const NO_REGION = "us-east-1";
const GROUP = /(\d{9})\/$/;
const FILE = /\/(\d{12})\.txt$/;

/** Answers of S3 to a PUT whose key exists already (412), or is being written (409). */
const TAKEN: readonly unknown[] = [409, 412];

export interface BucketSinkOptions {
  readonly place: BucketPlace;
  readonly lock: { readonly mode: "compliance" | "governance"; readonly forMs: number };
  readonly clock: Clock;
}

function statusOf(error: unknown): number | undefined {
  return (error as { readonly $metadata?: { readonly httpStatusCode?: number } }).$metadata?.httpStatusCode;
}

/** Answers to a request that may be repeated: timeout, too many. */
const PASSING: readonly unknown[] = [408, 429];

/** Whether the settings, the credentials or the bucket are at fault, rather than the network or a busy server. */
function isLasting(error: unknown): boolean {
  const status = statusOf(error);
  const isOfCredentials =
    error instanceof Error && /^(CredentialsProviderError|TokenProviderError)$/.test(error.name);
  return (
    isOfCredentials || (status !== undefined && status >= 300 && status < 500 && !PASSING.includes(status))
  );
}

async function connect({ region, endpoint }: BucketPlace): Promise<S3> {
  const { S3 } = await optionalPackage(
    "@aws-sdk/client-s3@3",
    async () => await import("@aws-sdk/client-s3"),
  );
  return new S3({
    ...(region === undefined ? {} : { region }),
    ...(endpoint === undefined ? {} : { endpoint, forcePathStyle: true, region: region ?? NO_REGION }),
    maxAttempts: TRIES_MAX,
    requestHandler: {
      connectionTimeout: CONNECT_MS,
      requestTimeout: REQUEST_MS,
      throwOnRequestTimeout: true,
    },
  });
}

/** What is below a prefix, also if it is hidden. */
interface Listing {
  /** Prefixes up to the delimiter, ascending. */
  readonly groups: readonly string[];
  /** The oldest version of each key, ascending. */
  readonly oldest: ReadonlyMap<string, ObjectVersion>;
}

/** The sink on an open client. */
class BucketSink implements CheckpointSink {
  readonly place: string;
  readonly #s3: S3;
  readonly #options: BucketSinkOptions;
  readonly #bucket: string;
  #isLocked = false;

  constructor(s3: S3, options: BucketSinkOptions) {
    const { bucket, prefix } = options.place;
    this.place = `s3://${bucket}/${prefix}`;
    this.#s3 = s3;
    this.#options = options;
    this.#bucket = bucket;
  }

  async check(): Promise<void> {
    try {
      await this.#requireLock();
      await this.newest();
    } catch (error) {
      throw isLasting(error) ? new SinkUnusableError(failureOf(error), { cause: error }) : error;
    }
  }

  async newest(): Promise<KeptCheckpoint | undefined> {
    const { groups } = await this.#list(this.#options.place.prefix, "/");
    for (const group of groups.filter((name) => GROUP.test(name)).toReversed()) {
      const { oldest } = await this.#list(group);
      const last = [...oldest.values()].findLast(({ Key = "" }) => FILE.test(Key));
      if (last !== undefined) {
        return await this.#get(Number.parseInt(FILE.exec(last.Key ?? "")?.[1] ?? "", 10), last);
      }
    }
    return undefined;
  }

  async read(seq: number): Promise<KeptCheckpoint | undefined> {
    const version = await this.#oldestOf(seq);
    return version && (await this.#get(seq, version));
  }

  async append({ seq, note }: KeptCheckpoint): Promise<boolean> {
    await this.#requireLock();
    const { lock, clock } = this.#options;
    try {
      const { VersionId } = await this.#s3.putObject({
        Bucket: this.#bucket,
        Key: this.#keyOf(seq),
        Body: note,
        ContentType: "text/plain; charset=utf-8",
        IfNoneMatch: "*",
        ObjectLockMode: lock.mode === "compliance" ? "COMPLIANCE" : "GOVERNANCE",
        ObjectLockRetainUntilDate: new Date(clock.now() + lock.forMs),
      });
      // The condition does not see a checkpoint behind a delete marker.
      return (await this.#oldestOf(seq))?.VersionId === VersionId;
    } catch (error) {
      if (TAKEN.includes(statusOf(error))) {
        return false;
      }
      throw error;
    }
  }

  #keyOf(seq: number): string {
    return `${this.#options.place.prefix}${checkpointPath(seq)}`;
  }

  /** Without a lock, a checkpoint could be replaced. */
  async #requireLock(): Promise<void> {
    if (this.#isLocked) {
      return;
    }
    const found = await this.#s3
      .getObjectLockConfiguration({ Bucket: this.#bucket })
      .catch((error: unknown) => {
        if (error instanceof Error && error.name === "ObjectLockConfigurationNotFoundError") {
          return undefined;
        }
        throw error;
      });
    if (found?.ObjectLockConfiguration?.ObjectLockEnabled !== "Enabled") {
      throw new SinkUnusableError(
        `bucket ${this.#bucket} has no object lock: enable it, or create another bucket with it`,
      );
    }
    this.#isLocked = true;
  }

  async #list(below: string, delimiter?: "/"): Promise<Listing> {
    const groups: string[] = [];
    const oldest = new Map<string, ObjectVersion>();
    const request = { Bucket: this.#bucket, Prefix: below, ...(delimiter && { Delimiter: delimiter }) };
    let position: Pick<ListObjectVersionsCommandInput, "KeyMarker" | "VersionIdMarker"> = {};
    for (;;) {
      const page = await this.#s3.listObjectVersions({ ...request, ...position });
      groups.push(...(page.CommonPrefixes ?? []).map(({ Prefix = "" }) => Prefix));
      // The versions of a key come newest first.
      for (const version of page.Versions ?? []) {
        oldest.set(version.Key ?? "", version);
      }
      if (page.IsTruncated !== true) {
        return { groups, oldest };
      }
      position = { KeyMarker: page.NextKeyMarker, VersionIdMarker: page.NextVersionIdMarker };
    }
  }

  async #oldestOf(seq: number): Promise<ObjectVersion | undefined> {
    const key = this.#keyOf(seq);
    return (await this.#list(key)).oldest.get(key);
  }

  async #get(seq: number, { Key, VersionId }: ObjectVersion): Promise<KeptCheckpoint> {
    const { Body, ContentLength = 0 } = await this.#s3.getObject({ Bucket: this.#bucket, Key, VersionId });
    if (Body === undefined || ContentLength > NOTE_BYTES_MAX) {
      throw new Error(`checkpoint ${seq} in the bucket is no note: it has ${ContentLength} bytes`);
    }
    return { seq, note: await Body.transformToString("utf-8") };
  }
}

/** Opens the sink, without a request. @throws SinkUnusableError if the client's package is missing */
export async function openBucketSink(options: BucketSinkOptions): Promise<CheckpointSink> {
  try {
    return new BucketSink(await connect(options.place), options);
  } catch (error) {
    throw new SinkUnusableError(messageOf(error), { cause: error });
  }
}
