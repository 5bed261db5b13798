/** Pastes the README's blocks into two terminals beside a newly started service, as a newcomer does. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { labelledBlocks } from "../support/documents.ts";
import { eventually } from "../support/eventually.ts";
import {
  bash,
  type Home,
  killServersOf,
  makeHome,
  type NpmStart,
  npmStart,
  openTerminal,
  ownSettings,
  type Settings,
} from "../support/npm-start.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..");
/** `npm start` on a busy machine. */
const TIMEOUT_MS = 180_000;
/** The README's blocks, each for its own terminal. */
const FIRST_DELIVERY = ["listen", "trigger"] as const;
/** Limit of commands from a clone to a verified delivery, `git clone` and `npm start` included. */
const COMMANDS_MAX = 6;

let directory: Home;
let settings: Settings;
let service: NpmStart;

beforeAll(async () => {
  directory = await makeHome();
  settings = {
    ...(await ownSettings(directory.home)),
    SIGNET_CONFIG_DIR: join(directory.home, "profiles"),
  };
  service = npmStart(settings);
  await service.untilPrinted(/^signet ready$/m);
}, TIMEOUT_MS);

afterAll(async () => {
  await service.interrupt();
  await killServersOf(directory.home);
  await directory.remove();
}, TIMEOUT_MS);

test(
  "a newcomer's own receiver shows a verified delivery after at most six commands",
  { timeout: TIMEOUT_MS },
  async () => {
    const blocks = labelledBlocks(await readFile(join(REPOSITORY, "README.md"), "utf8"));
    expect([...blocks.keys()]).toEqual(FIRST_DELIVERY);
    const lines = FIRST_DELIVERY.flatMap((label) => (blocks.get(label) ?? "").trim().split("\n"));
    expect(lines.length + ["git clone", "npm start"].length).toBeLessThanOrEqual(COMMANDS_MAX);
    const place = { cwd: REPOSITORY, settings };
    const receiver = openTerminal(blocks.get("listen") ?? "exit 1", place);
    try {
      await eventually(() => receiver.output().includes("Ready"), "signet listen", TIMEOUT_MS / 2);
      expect(await bash(blocks.get("trigger") ?? "exit 1", place)).toMatch(
        /dlv_\w+ +ep_\w+ +(QUEUED|DELIVERED)/,
      );
      await eventually(
        () =>
          /pipeline\.failed {2}dlv_\w+ {2}attempt 1 {2}verified \(v1\) {2}200\n {2}\{\n {4}"run": 7\n/.test(
            receiver.output(),
          ),
        "the delivery",
      );
    } finally {
      await receiver.interrupt();
    }
    expect(await bash("npx signet endpoint list --json", place)).not.toContain("signet_listen");
  },
);
