/** Upgrades from the images of the last two releases, on their volumes, while clients publish. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { ContainerStack, NO_ENGINE } from "../support/container-stack.ts";
import { allowMinutes } from "../support/limits.ts";
import { type Published, publishDuring } from "../support/publisher.ts";
import { skipUnless } from "../support/skips.ts";
import { useStarted } from "../support/started.ts";
import { type Json, StackClient } from "../support/stack-client.ts";

allowMinutes(15);

const ORIGIN = "https://localhost:8443";
const TYPE = "inference.completed";
/** Longest time without a taken connection. */
const REFUSED_MAX_MS = 2_000;
/** The files of the parts apart. */
const SPLIT = "docker-compose.yml:compose/split.yml";
const MOVES: readonly (readonly [what: string, file: string, running: readonly string[]])[] = [
  ["apart", SPLIT, ["api", "api-b", "edge", "edge-b", "edge-port", "worker"]],
  ["together again", "", ["edge-port", "signet"]],
];
const REPOSITORY = join(import.meta.dirname, "..", "..");

interface Release {
  readonly version: string;
  readonly commit: string;
}

/** Returns the last releases, of which the clone has the commits. The newest one may be this version. */
function lastReleases(): readonly Release[] {
  const log = ["log", "--grep", String.raw`^Release 0\.`, "--format=%H %s"];
  const lines = execFileSync("git", log, { cwd: REPOSITORY, encoding: "utf8" });
  const releases = [...lines.matchAll(/^(\w+) Release (0\.\S+)/gm)];
  return releases.slice(0, 2).map(([, commit = "", version = ""]) => ({ version, commit }));
}

const RELEASES = lastReleases();
const skipped =
  NO_ENGINE ||
  skipUnless(RELEASES.length === 2, "the upgrade of an image", "the clone has no commits of two releases");

describe.skipIf(skipped).each(RELEASES)("a stack of $version", ({ version, commit }) => {
  const image = `signet:${version}`;
  /** Until 0.3.0, the parts were apart, one of each. */
  const apart = version === "0.3.0";
  const stack = useStarted("the stack", async () => await ContainerStack.prepare({ SIGNET_IMAGE: image }));
  let client: StackClient;

  /** Builds the release's image; its version of Node may not be at hand any more. */
  async function buildRelease(): Promise<void> {
    const today = (await stack.current.run("grep -m1 -o 'node:[^ ]*' Dockerfile")).trim();
    await stack.current.run(
      `mkdir released && git -C '${REPOSITORY}' archive ${commit} | tar --extract --directory released\n` +
        "base=$(grep -m1 -o 'node:[^ ]*' released/Dockerfile)\n" +
        'docker image inspect "$base" > /dev/null 2>&1 || docker pull --quiet "$base" > /dev/null 2>&1 ||' +
        ` sed -i "s/$base/${today}/" released/Dockerfile\n` +
        `docker build --quiet --tag ${image} released`,
    );
  }

  /** Upgrades beside 20 events a second. */
  const upgrade = async (): Promise<Published> =>
    await publishDuring(
      { stack: stack.current, client, origin: ORIGIN, type: TYPE, perSecond: 20 },
      async () => await stack.current.run("sh compose/upgrade.sh"),
    );

  /** Returns the running services of Signet itself, in order. */
  async function services(): Promise<readonly string[]> {
    const names = (await stack.current.run("docker compose ps --format '{{.Service}}'")).trim().split("\n");
    return names.filter((name) => !/^(?:postgres|temporal)/.test(name)).toSorted();
  }

  beforeAll(async () => {
    await buildRelease();
    // Not beside the traffic: the upgrade then finds it made.
    await stack.current.run("SIGNET_IMAGE= docker compose build --quiet migrate");
  });

  test("becomes one of this version, with every delivery", async () => {
    const what = apart ? "--profile split up --detach --wait edge worker" : "up --detach --wait signet";
    await stack.current.run(`docker compose ${what}`);
    await stack.current.startReceiver(image);
    await stack.current.run("docker compose run --rm -T init ca > ca.crt");
    await stack.current.run("docker compose run --rm -T init client example > example.pem");
    client = await StackClient.provision(stack.current, ORIGIN, apart ? "api" : "signet");
    await client.newEndpoint("/hook", TYPE);
    await client.newEndpoint("/broken", "order.paid");
    stack.current.breakReceiver(true);
    const retrying = await client.publish("order.paid");
    await stack.current.untilReceived(retrying);

    stack.current.set({ SIGNET_IMAGE: "" });
    const published = await upgrade();
    console.log(
      `from ${version}: ${published.accepted.length} accepted and delivered, repeated ` +
        `${JSON.stringify(published.refusals)}, no connection for ${published.longestRefusalMs} ms`,
    );
    expect(published.longestRefusalMs).toBeLessThanOrEqual(REFUSED_MAX_MS);
    stack.current.breakReceiver(false);
    const { data } = await client.call("GET", `/v1/webhooks/deliveries?event_id=${retrying}`);
    const [delivery] = data as readonly Json[];
    await client.call("POST", `/v1/webhooks/deliveries/${String(delivery?.["id"])}/retry`);
    await stack.current.untilReceived(retrying, 2);
    expect(await services()).toEqual(["edge-port", "signet"]);
    expect(await stack.current.run("docker compose exec -T signet signet doctor")).toMatch(/^(ok .*\n)+$/);
  });

  test.for(apart ? [] : MOVES)("moves beside traffic: the parts %s", async ([what, file, running]) => {
    stack.current.set({ COMPOSE_FILE: file });
    const published = await upgrade();
    console.log(
      `${what}: ${published.accepted.length} accepted and delivered, no connection for ${published.longestRefusalMs} ms`,
    );
    expect(published.longestRefusalMs).toBeLessThanOrEqual(REFUSED_MAX_MS);
    expect(await services()).toEqual(running);
    for (const service of running.filter((name) => name !== "edge-port")) {
      const found = await stack.current.run(`docker compose exec -T ${service} signet doctor`);
      expect(found, service).toMatch(/^(ok .*\n)+$/);
    }
    // Only an edge of its own signs in with this password.
    for (const wrong of file === SPLIT ? ["other"] : []) {
      const password = stack.current.value("SIGNET_EDGE_DATABASE_PASSWORD");
      stack.current.set({ SIGNET_EDGE_DATABASE_PASSWORD: wrong });
      const { code, output } = await stack.current.try("sh compose/upgrade.sh");
      stack.current.set({ SIGNET_EDGE_DATABASE_PASSWORD: password });
      expect(output).toMatch(/password authentication failed for user "signet_edge_login"/);
      expect(code).not.toBe(0);
      expect(await services()).toEqual(running);
    }
  });
});
