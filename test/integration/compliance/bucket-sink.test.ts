/** Checkpoints in a bucket with object lock, on a gateway of S3. */
import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { S3 } from "@aws-sdk/client-s3";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openBucketSink } from "#compliance/bucket-sink.ts";
import { CheckpointKey } from "#compliance/checkpoint-key.ts";
import { type CheckpointSink, createFileSink } from "#compliance/checkpoint-sink.ts";
import { loadCheckpointSigning } from "#compliance/open-signer.ts";
import { signCheckpoint } from "#compliance/sign-checkpoint.ts";
import { loadConfig } from "#config/config.ts";
import { systemClock } from "#runtime/machine-timers.ts";
import { NODE_CRYPTO } from "#lib/transparency-log/node-crypto.ts";
import { parseVerifierKey } from "#lib/transparency-log/signed-note.ts";
import { createLogger } from "#observability/logger.ts";
import { createPool, type Pool } from "#database/pool.ts";
import { examineBucket } from "#processes/doctor/checks.ts";
import { useTestApi } from "#test/support/api.ts";
import { AWS_REGION, type AwsServer, startAwsServer, withoutAwsServer } from "#test/support/aws-server.ts";
import { runSignet } from "#test/support/command-line.ts";
import { eventually } from "#test/support/eventually.ts";
import { provision } from "#test/support/factories.ts";
import { freePort } from "#test/support/free-port.ts";
import { allowMinutes } from "#test/support/limits.ts";
import { spawnSignet } from "#test/support/processes.ts";
import { sql } from "#test/support/tenant.ts";

// The first run builds the gateway.
allowMinutes(15);

const api = useTestApi();
const LOCK_MS = 30 * 86_400_000;
const log = createLogger({ level: "silent" });
const sources = { clock: systemClock, randomBytes };

test("a worker says which package a bucket needs", async () => {
  // The image has no optional packages.
  const child = spawnSignet(["worker"], {
    ...api.environment,
    SIGNET_METRICS_LISTEN: "127.0.0.1:0",
    SIGNET_CHECKPOINT_DIR: "",
    SIGNET_CHECKPOINT_S3_URL: "s3://checkpoints",
  });
  expect(await child.ended).toEqual({ code: 1, signal: null });
  expect(child.output()).toContain(
    "SIGNET_CHECKPOINT_S3_URL cannot be used: a package is missing: run `npm install @aws-sdk/client-s3@3`",
  );
});

describe.skipIf(withoutAwsServer("VersityGW", "checkpoints in a bucket"))("a bucket", () => {
  let aws: AwsServer;
  let s3: S3;
  beforeAll(async () => {
    aws = await startAwsServer("VersityGW");
    s3 = new S3({ region: AWS_REGION, endpoint: aws.url, forcePathStyle: true });
  });
  afterAll(async () => {
    s3.destroy();
    await aws.close();
  });

  async function createBucket(locked = true): Promise<string> {
    const Bucket = `checkpoints-${randomBytes(6).toString("hex")}`;
    await s3.createBucket({
      Bucket,
      CreateBucketConfiguration: { LocationConstraint: AWS_REGION },
      ObjectLockEnabledForBucket: locked,
    });
    return Bucket;
  }

  async function open(bucket: string, prefix = "log/", endpoint = aws.url): Promise<CheckpointSink> {
    return await openBucketSink({
      place: { bucket, prefix, region: AWS_REGION, endpoint },
      lock: { mode: "compliance", forMs: LOCK_MS },
      clock: systemClock,
    });
  }

  function settings(bucket: string, endpoint = aws.url) {
    const url = `s3://${bucket}/log?region=${AWS_REGION}&endpoint=${endpoint}`;
    return loadConfig({ ...api.environment, SIGNET_CHECKPOINT_DIR: "", SIGNET_CHECKPOINT_S3_URL: url });
  }

  describe("of a running worker", () => {
    const environment: Record<string, string> = { SIGNET_CHECKPOINT_DIR: "" };
    beforeAll(async () => {
      const place = `s3://${await createBucket()}/log?region=${AWS_REGION}&endpoint=${aws.url}`;
      environment["SIGNET_CHECKPOINT_S3_URL"] = place;
    });
    const working = useTestApi({ worker: true, environment });

    test("gets a checkpoint soon after a revocation", async () => {
      const { credentialId } = await provision(working);
      const revoked = await working.admin("POST", `/credentials/${credentialId}/revoke`, { reason: "test" });
      expect(revoked.status).toBe(200);
      const { checkpointBucket } = loadConfig(working.environment);
      const sink = await open(checkpointBucket?.bucket ?? "");
      const kept = await eventually(async () => await sink.newest(), "a checkpoint in the bucket");
      const [published] = await eventually(async () => {
        const found = await sql<{ note: string }>(
          working,
          `SELECT note FROM clog_checkpoint WHERE seq = ${kept.seq}`,
        );
        return found.length > 0 && found;
      }, "its copy in the database");
      expect(published?.note).toBe(kept.note);
    });
  });

  describe("takes checkpoints", () => {
    const pools: Pool[] = [];
    const key = new CheckpointKey("test.example/log", randomBytes(32));
    afterAll(async () => {
      await Promise.all(pools.map(async (pool) => await pool.end()));
    });

    async function signer(sink: CheckpointSink) {
      const openPool = (role: "signet_audit" | "signet_worker"): Pool => {
        const pool = createPool({ url: api.database.url, role, max: 2, log });
        pools.push(pool);
        return pool;
      };
      const trusted = [await parseVerifierKey(key.verifierKey, NODE_CRYPTO)];
      const [auditPool, pool] = [openPool("signet_audit"), openPool("signet_worker")];
      return { key, trusted, sink, auditPool, pool, clock: systemClock };
    }

    test("of concurrent signers as one chain, which a copy of the bucket verifies", async () => {
      const bucket = await createBucket();
      const sign = async () => await signCheckpoint(await signer(await open(bucket)));
      await Promise.all(
        Array.from({ length: 8 }, async () => {
          await api.admin("POST", "/tenants", { name: "one more", region: "eu" });
          return await sign();
        }),
      );
      await sign();
      expect(await sign()).toMatchObject({ signed: false });

      const published = await sql<{ seq: number; note: string }>(
        api,
        "SELECT seq, note FROM clog_checkpoint ORDER BY seq",
      );
      expect(published.map(({ seq }) => seq)).toEqual(published.map((_row, index) => index + 1));
      const sink = await open(bucket);
      expect(await sink.newest()).toEqual(published.at(-1));
      expect(await Promise.all(published.map(async ({ seq }) => await sink.read(seq)))).toEqual(published);

      // As `aws s3 sync` does.
      const directory = await mkdtemp(join(tmpdir(), "signet-bucket-"));
      const { Contents = [] } = await s3.listObjectsV2({ Bucket: bucket, Prefix: "log/" });
      expect(Contents).toHaveLength(published.length);
      for (const { Key = "" } of Contents) {
        const path = join(directory, Key.slice("log/".length));
        const { Body } = await s3.getObject({ Bucket: bucket, Key });
        await mkdir(dirname(path), { recursive: true });
        await writeFile(path, (await Body?.transformToString()) ?? "");
      }
      expect(await createFileSink(directory, randomBytes).newest()).toEqual(published.at(-1));
      const verify = ["audit", "verify", "--vkey", key.verifierKey, "--checkpoint"];
      expect(await runSignet([...verify, directory], api.environment)).toMatchObject({ code: 0 });
      const direct = await runSignet([...verify, `s3://${bucket}/log`], api.environment);
      expect(direct).toMatchObject({ code: 1 });
      expect(direct.stderr).toContain(`aws s3 sync s3://${bucket}/log DIRECTORY`);
      await rm(directory, { recursive: true });
    });
  });

  test("locks each checkpoint for the time of the setting, and never writes a number twice", async () => {
    const Bucket = await createBucket();
    const sink = await open(Bucket);
    const before = Date.now();
    expect(await sink.append({ seq: 1, note: "first" })).toBe(true);
    expect(await sink.append({ seq: 1, note: "second" })).toBe(false);
    const { Versions = [] } = await s3.listObjectVersions({ Bucket });
    expect(Versions.map(({ Key }) => Key)).toEqual(["log/000000000/000000000001.txt"]);
    const [{ Key, VersionId } = {}] = Versions;
    const head = await s3.headObject({ Bucket, Key });
    expect(head.ObjectLockMode).toBe("COMPLIANCE");
    const lockedMs = (head.ObjectLockRetainUntilDate?.getTime() ?? 0) - before;
    expect(Math.abs(lockedMs - LOCK_MS)).toBeLessThan(60_000);
    await expect(
      s3.deleteObject({ Bucket, Key, VersionId, BypassGovernanceRetention: true }),
    ).rejects.toMatchObject({ name: "AccessDenied" });
    expect(await sink.read(1)).toEqual({ seq: 1, note: "first" });
  });

  test("shows the first version of a number, whatever hides it", async () => {
    const Bucket = await createBucket();
    const sink = await open(Bucket);
    await sink.append({ seq: 1, note: "first" });
    await sink.append({ seq: 2, note: "second" });
    const Key = "log/000000000/000000000002.txt";
    await s3.putObject({ Bucket, Key, Body: "forged" });
    expect(await sink.newest()).toEqual({ seq: 2, note: "second" });
    await s3.deleteObject({ Bucket, Key });
    await expect(s3.getObject({ Bucket, Key })).rejects.toMatchObject({ name: "NoSuchKey" });
    expect(await sink.newest()).toEqual({ seq: 2, note: "second" });
    expect(await sink.read(2)).toEqual({ seq: 2, note: "second" });
    expect(await sink.append({ seq: 2, note: "another" })).toBe(false);
    expect(await sink.read(2)).toEqual({ seq: 2, note: "second" });
  });

  test("loses a number to the first version behind a delete marker, although S3 took the second", async () => {
    // S3 of AWS does not count an object behind a delete marker as one that exists. The gateway does.
    const answers = (url: string): string => {
      const version = (id: string) =>
        `<Version><Key>log/000000000/000000000001.txt</Key><VersionId>${id}</VersionId></Version>`;
      return url.includes("object-lock")
        ? "<ObjectLockConfiguration><ObjectLockEnabled>Enabled</ObjectLockEnabled></ObjectLockConfiguration>"
        : `<ListVersionsResult>${version("second")}${version("first")}</ListVersionsResult>`;
    };
    const server = createServer(({ method, url = "" }, response) => {
      response.setHeader("x-amz-version-id", "second");
      response.end(method === "PUT" ? "" : answers(url));
    });
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const { port } = server.address() as AddressInfo;
    const sink = await open("bucket", "log/", `http://127.0.0.1:${port}`);
    expect(await sink.append({ seq: 1, note: "another" })).toBe(false);
    server.closeAllConnections();
    server.close();
  });

  test("finds the newest of many, below its prefix only", async () => {
    const Bucket = await createBucket();
    const sink = await open(Bucket, "");
    expect(await sink.newest()).toBeUndefined();
    for (const seq of [999, 1_000, 12_345]) {
      expect(await sink.append({ seq, note: `note ${seq}` })).toBe(true);
    }
    await s3.putObject({ Bucket, Key: "readme.txt", Body: "x" });
    await s3.putObject({ Bucket, Key: "000000012/readme.txt", Body: "x" });
    await s3.putObject({ Bucket, Key: "zzz/000000099/000000099000.txt", Body: "x" });
    expect(await sink.newest()).toEqual({ seq: 12_345, note: "note 12345" });
    expect(await sink.read(1_000)).toEqual({ seq: 1_000, note: "note 1000" });
    expect(await sink.read(1)).toBeUndefined();
    // More versions of one key than S3 lists at once.
    const Key = "000000012/000000012345.txt";
    for (let batch = 0; batch < 11; batch += 1) {
      await Promise.all(
        Array.from({ length: 100 }, async () => await s3.putObject({ Bucket, Key, Body: "forged" })),
      );
    }
    expect(await sink.newest()).toEqual({ seq: 12_345, note: "note 12345" });
  });

  test("without object lock stops the start, and the doctor names it", async () => {
    const bucket = await createBucket(false);
    await expect(loadCheckpointSigning(settings(bucket), sources, log)).rejects.toThrow(
      `SIGNET_CHECKPOINT_S3_URL cannot be used: bucket ${bucket} has no object lock`,
    );
    const sink = await open(bucket);
    await expect(sink.append({ seq: 1, note: "first" })).rejects.toThrow("has no object lock");
    expect(await examineBucket(async () => await Promise.resolve(sink))).toMatchObject({
      check: "bucket",
      ok: false,
      detail: expect.stringContaining("has no object lock") as string,
    });
    expect((await s3.listObjectVersions({ Bucket: bucket })).Versions ?? []).toEqual([]);
  });

  test("that rejects the credentials stops the start", async () => {
    const bucket = await createBucket();
    const secret = process.env["AWS_SECRET_ACCESS_KEY"];
    process.env["AWS_SECRET_ACCESS_KEY"] = "wrong";
    const opening = loadCheckpointSigning(settings(bucket), sources, log);
    await expect(opening).rejects.toThrow("SIGNET_CHECKPOINT_S3_URL cannot be used: SignatureDoesNotMatch");
    process.env["AWS_SECRET_ACCESS_KEY"] = secret;
  });

  test("that does not exist stops the start; one that does not answer delays checkpoints only", async () => {
    await expect(loadCheckpointSigning(settings("no-such-bucket"), sources, log)).rejects.toThrow(
      "SIGNET_CHECKPOINT_S3_URL cannot be used: NoSuchBucket",
    );
    const nobody = `http://127.0.0.1:${await freePort()}`;
    const bucket = await createBucket();
    const { sink } = await loadCheckpointSigning(settings(bucket, nobody), sources, log);
    await expect(sink.append({ seq: 1, note: "first" })).rejects.toThrow("ECONNREFUSED");
    const { sink: reached } = await loadCheckpointSigning(settings(bucket), sources, log);
    expect(reached.place).toBe(`s3://${bucket}/log/`);
    expect(await examineBucket(async () => await Promise.resolve(reached))).toEqual({
      check: "bucket",
      ok: true,
      detail: `s3://${bucket}/log/ has object lock; no checkpoint yet`,
    });
  });
});
