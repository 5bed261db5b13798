import { spawn } from "node:child_process";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { lockHome } from "#processes/embedded/lock.ts";
import { processIdentity } from "#processes/embedded/process-identity.ts";

let home: string;

beforeEach(async () => {
  home = join(await mkdtemp(join(tmpdir(), "signet-lock-")), ".signet");
});

afterEach(async () => {
  await rm(join(home, ".."), { recursive: true, force: true });
});

async function writeLock(text: string): Promise<void> {
  const release = await lockHome(home);
  await release();
  await writeFile(join(home, "lock"), text);
}

async function deadPid(): Promise<number> {
  const child = spawn("true");
  await new Promise((resolve) => child.once("exit", resolve));
  return child.pid ?? 0;
}

it("only one holder at a time: the second gets one line with the holder and the remedy", async () => {
  const release = await lockHome(home);
  await expect(lockHome(home)).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message: `${home} is in use by another signet (pid ${process.pid}): stop it first, or set SIGNET_HOME to another directory`,
  });
  await release();
  await (
    await lockHome(home)
  )();
});

it.each([
  ["", false],
  [", also after one that died while it took it over", true],
])("one contender takes over the lock of a dead holder%s", async (_name, isLate) => {
  const dead = JSON.stringify({ pid: await deadPid(), identity: "1/2/3" });
  // With few rounds, the order that went wrong did not occur.
  for (let round = 0; round < 50; round += 1) {
    await writeLock(dead);
    if (isLate) {
      await writeFile(join(home, "lock.next"), dead);
    }
    const attempts = await Promise.allSettled(Array.from({ length: 8 }, () => lockHome(home)));
    const [taken, ...others] = attempts.flatMap((attempt) =>
      attempt.status === "fulfilled" ? [attempt.value] : [],
    );
    expect(others).toEqual([]);
    await expect(lockHome(home)).rejects.toMatchObject({ code: "UNAVAILABLE" });
    await taken?.();
    expect(await readdir(home)).toEqual([]);
  }
});

it("a lock is stale when its pid now belongs to another process", async () => {
  await writeLock(JSON.stringify({ pid: process.ppid, identity: `${process.ppid}/0/another boot` }));
  await (
    await lockHome(home)
  )();
  await writeLock(JSON.stringify({ pid: process.ppid, identity: processIdentity(process.ppid) }));
  await expect(lockHome(home)).rejects.toThrow(`pid ${process.ppid}`);
});

it("an unreadable lock does not block", async () => {
  await writeLock("{");
  await (
    await lockHome(home)
  )();
});

it("releasing does not remove another holder's lock", async () => {
  const release = await lockHome(home);
  await writeFile(join(home, "lock"), "somebody else's");
  await release();
  expect(await readFile(join(home, "lock"), "utf8")).toBe("somebody else's");
});
