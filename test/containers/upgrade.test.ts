/** An upgrade from the last release's image, on its volumes, while clients publish. */
import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { ContainerStack, NO_ENGINE } from "../support/container-stack.ts";
import { allowMinutes } from "../support/limits.ts";
import { publishDuring } from "../support/publisher.ts";
import { skipUnless } from "../support/skips.ts";
import { useStarted } from "../support/started.ts";
import { type Json, StackClient } from "../support/stack-client.ts";

allowMinutes(15);

const ORIGIN = "https://localhost:8443";
const TYPE = "inference.completed";
const REPOSITORY = join(import.meta.dirname, "..", "..");

/** Returns the commit of the last release, if the clone has it. */
function lastRelease(): { readonly commit: string; readonly version: string } | undefined {
  const log = ["log", "-1", "--grep", String.raw`^Release 0\.`, "--format=%H %s"];
  const [, commit, version] =
    /^(\w+) Release (\S+)/.exec(execFileSync("git", log, { cwd: REPOSITORY, encoding: "utf8" })) ?? [];
  return commit === undefined || version === undefined ? undefined : { commit, version };
}

const release = lastRelease();
const skipped =
  NO_ENGINE ||
  skipUnless(release !== undefined, "the upgrade of an image", "the clone has no commit of a release");

describe.skipIf(skipped)("a stack of the last release", () => {
  const image = `signet:${release?.version}`;
  const stack = useStarted("the stack", async () => await ContainerStack.prepare({ SIGNET_IMAGE: image }));
  let client: StackClient;

  /** Builds the release's image; its version of Node may not be at hand any more. */
  async function buildRelease(): Promise<void> {
    const today = (await stack.current.run("grep -m1 -o 'node:[^ ]*' Dockerfile")).trim();
    await stack.current.run(
      `mkdir released && git -C '${REPOSITORY}' archive ${release?.commit} | tar --extract --directory released\n` +
        "base=$(grep -m1 -o 'node:[^ ]*' released/Dockerfile)\n" +
        'docker image inspect "$base" > /dev/null 2>&1 || docker pull --quiet "$base" > /dev/null 2>&1 ||' +
        ` sed -i "s/$base/${today}/" released/Dockerfile\n` +
        `docker build --quiet --tag ${image} released`,
    );
  }

  beforeAll(async () => {
    await buildRelease();
  });

  test("becomes one of this version, with every delivery", async () => {
    // One of each, as it had.
    await stack.current.run("docker compose up --detach --wait edge worker");
    await stack.current.startReceiver(image);
    await stack.current.run("docker compose run --rm -T init ca > ca.crt");
    await stack.current.run("docker compose run --rm -T init client example > example.pem");
    client = await StackClient.provision(stack.current, ORIGIN);
    await client.newEndpoint("/hook", TYPE);
    await client.newEndpoint("/broken", "order.paid");
    stack.current.breakReceiver(true);
    const retrying = await client.publish("order.paid");
    await stack.current.untilReceived(retrying);

    stack.current.set({ SIGNET_IMAGE: "" });
    const published = await publishDuring(
      { stack: stack.current, client, origin: ORIGIN, type: TYPE, perSecond: 20 },
      () => stack.current.run("sh compose/upgrade.sh"),
    );
    console.log(
      `from ${release?.version}: ${published.accepted.length} accepted and delivered, repeated ` +
        `${JSON.stringify(published.refusals)}, no connection for ${published.longestRefusalMs} ms`,
    );
    expect(published.longestRefusalMs).toBeLessThanOrEqual(2_000);
    stack.current.breakReceiver(false);
    const { data } = await client.call("GET", `/v1/webhooks/deliveries?event_id=${retrying}`);
    const [delivery] = data as readonly Json[];
    await client.call("POST", `/v1/webhooks/deliveries/${String(delivery?.["id"])}/retry`);
    await stack.current.untilReceived(retrying, 2);
    expect(await stack.current.run("docker compose exec -T worker signet doctor")).toMatch(/^(ok .*\n)+$/);
  });
});
