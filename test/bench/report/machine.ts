/** Describes the machine, without which figures mean nothing. */
import { randomBytes } from "node:crypto";
import { closeSync, fdatasyncSync, openSync, rmSync, writeSync } from "node:fs";
import { availableParallelism, cpus, release, totalmem } from "node:os";
import { join } from "node:path";
import { round } from "./measurement.ts";

const SYNCS = 100;
const PAGE_BYTES = 8_192;

/** Returns the median time to write a page and sync it, in milliseconds: the minimum cost of a commit. */
function diskSyncMs(directory: string): number {
  const path = join(directory, "sync-probe");
  const file = openSync(path, "w");
  const page = randomBytes(PAGE_BYTES);
  const times: number[] = [];
  for (let count = 0; count < SYNCS; count += 1) {
    const began = performance.now();
    writeSync(file, page, 0, PAGE_BYTES, 0);
    fdatasyncSync(file);
    times.push(performance.now() - began);
  }
  closeSync(file);
  rmSync(path);
  return round(times.sort((a, b) => a - b)[SYNCS / 2] ?? Number.NaN, 3);
}

export function describeMachine(directory: string): Readonly<Record<string, unknown>> {
  return {
    cpu: cpus()[0]?.model ?? "unknown",
    cores: availableParallelism(),
    memory_gib: round(totalmem() / 2 ** 30, 1),
    kernel: `${process.platform} ${release()}`,
    node: process.version,
    disk_sync_ms: diskSyncMs(directory),
  };
}
