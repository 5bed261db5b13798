/** Settings of the compliance log's checkpoints (security decisions E). */
import { resolve } from "node:path";
import { duration, isThisMachine, list, oneOf, type Parser, setting } from "./setting.ts";

const SEED_BYTES = 32;

/** Parses the seed of an Ed25519 key: exactly 32 bytes in base64, as printed by `openssl rand -base64 32`. */
export const checkpointSeed: Parser<Buffer> = (value) => {
  const bytes = Buffer.from(value, "base64");
  if (bytes.length !== SEED_BYTES || bytes.toString("base64") !== value) {
    throw new Error("must be 32 bytes in base64");
  }
  return bytes;
};

const logName: Parser<string> = (value) => {
  if (!/^[A-Za-z0-9][A-Za-z0-9._:/-]{0,127}$/.test(value)) {
    throw new Error("must be letters, digits and . _ : / -, 128 at most");
  }
  return value;
};

/** Where checkpoints are kept in a bucket of S3. */
export interface BucketPlace {
  readonly bucket: string;
  /** Empty, or ends with a slash. */
  readonly prefix: string;
  /** Undefined: from the standard variables or files of AWS. */
  readonly region: string | undefined;
  /** Address of another server that speaks S3. */
  readonly endpoint: string | undefined;
}

const BUCKET_PARAMETERS: readonly string[] = ["region", "endpoint"];

function isEncrypted(endpoint: string): boolean {
  if (!URL.canParse(endpoint)) {
    return false;
  }
  const { protocol, hostname } = new URL(endpoint);
  return protocol === "https:" || (protocol === "http:" && isThisMachine(hostname));
}

/** Parses `s3://bucket/prefix?region=…&endpoint=…`. */
const bucketUrl: Parser<BucketPlace> = (value) => {
  const [, bucket, path, query] =
    /^s3:\/\/([a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?:\/([A-Za-z0-9!_.*'()/-]{0,500}))?(?:\?(.*))?$/.exec(
      value,
    ) ?? [];
  if (bucket === undefined) {
    throw new Error("must be s3://bucket/prefix, with ?region=… and &endpoint=… where they are needed");
  }
  const parameters = new URLSearchParams(query);
  const unknown = [...parameters.keys()].filter((name) => !BUCKET_PARAMETERS.includes(name));
  if (unknown.length > 0) {
    throw new Error(`has the unknown parameters ${unknown.join(", ")}; known are region and endpoint`);
  }
  const endpoint = parameters.get("endpoint") ?? undefined;
  if (endpoint !== undefined && !isEncrypted(endpoint)) {
    throw new Error("must have an https endpoint, or one on this machine");
  }
  const prefix = (path ?? "").replace(/\/+$/, "");
  return {
    bucket,
    prefix: prefix === "" ? "" : `${prefix}/`,
    region: parameters.get("region") ?? undefined,
    endpoint,
  };
};

export const COMPLIANCE_SETTINGS = {
  checkpointKey: setting(
    "SIGNET_CHECKPOINT_KEY",
    checkpointSeed,
    undefined,
    "worker: key that signs the compliance log, base64, 32 bytes; use it for nothing else, and keep it from the database's administrators. Generated in development",
  ),
  checkpointKeyFile: setting(
    "SIGNET_CHECKPOINT_KEY_FILE",
    resolve,
    undefined,
    "file with its value, instead of SIGNET_CHECKPOINT_KEY",
  ),
  checkpointName: setting(
    "SIGNET_CHECKPOINT_NAME",
    logName,
    "signet/compliance",
    "name of the log in its checkpoints, best a host and a path of your own; cannot change later, because it is part of the verifier key",
  ),
  checkpointDir: setting(
    "SIGNET_CHECKPOINT_DIR",
    resolve,
    undefined,
    "worker: directory of the signed checkpoints, outside the database and shared by all workers. Development: under SIGNET_HOME",
  ),
  checkpointBucket: setting(
    "SIGNET_CHECKPOINT_S3_URL",
    bucketUrl,
    undefined,
    "worker: bucket with object lock for the signed checkpoints, instead of SIGNET_CHECKPOINT_DIR: `s3://bucket/prefix?region=eu-west-1`, and `&endpoint=https://…` for a server other than AWS. Credentials come from the standard variables and files of AWS",
  ),
  checkpointLockMode: setting(
    "SIGNET_CHECKPOINT_S3_MODE",
    oneOf("compliance", "governance"),
    "compliance",
    "how the bucket locks checkpoints: `compliance`, which nobody can lift before its time, or `governance`, which people with a special permission can",
  ),
  checkpointLockMs: setting(
    "SIGNET_CHECKPOINT_S3_RETENTION",
    duration("1d", "36500d"),
    "365d",
    "how long the bucket locks each checkpoint",
  ),
  checkpointPreviousKeys: setting(
    "SIGNET_CHECKPOINT_PREVIOUS",
    list,
    "",
    "verifier keys of previous checkpoint keys, comma-separated; checkpoints signed by them may be extended",
  ),
} as const;

/** Returns the problem of settings that contradict each other. */
export function complianceProblems({
  checkpointDir,
  checkpointBucket,
}: {
  readonly checkpointDir?: string | undefined;
  readonly checkpointBucket?: BucketPlace | undefined;
}): string[] {
  return checkpointDir !== undefined && checkpointBucket !== undefined
    ? ["SIGNET_CHECKPOINT_S3_URL and SIGNET_CHECKPOINT_DIR must not both be set"]
    : [];
}
