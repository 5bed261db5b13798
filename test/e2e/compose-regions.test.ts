/** The profiles `region` and `cell` of docker-compose.yml: hubs with an edge, and a second cell. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { parseCompose, parseDockerfile } from "../support/compose-file.ts";
import {
  activeEndpoint,
  call,
  clientFetch,
  type Json,
  pasteCellExample,
  provision,
  signet,
} from "../support/compose-reach.ts";
import {
  type DataPlane,
  startDataPlane,
  startTrustedReceiver,
  withVariables,
} from "../support/compose-region.ts";
import { type ComposeRun, makePlace, type Place, prepareCompose } from "../support/compose-run.ts";
import { type ComposeServers, startServers } from "../support/compose-servers.ts";
import { type Answer, readAnswer, unlessStale } from "../support/answer.ts";
import { eventually } from "../support/eventually.ts";
import { allowMinutes } from "../support/limits.ts";
import { productionImage } from "../support/processes.ts";
import { type Receiver, verifyReceived } from "../support/receiver-server.ts";

allowMinutes(4);

const REPOSITORY = join(import.meta.dirname, "..", "..");
const VARIABLES = {
  POSTGRES_PASSWORD: "a",
  TEMPORAL_DATABASE_PASSWORD: "b",
  SIGNET_DATABASE_PASSWORD: "c",
  SIGNET_EDGE_DATABASE_PASSWORD: "d",
  SIGNET_CELL_DATABASE_PASSWORD: "e",
  SIGNET_ALLOWED_TARGET_CIDRS: "127.0.0.0/8",
};
const HOME = ["edge", "worker", "api", "migrate"] as const;
const REGION = ["remote-edge", "hub-b", "hub-a"] as const;
const CELL = ["api-us", "worker-us", "migrate-us"] as const;

let servers: ComposeServers;
let cellServers: ComposeServers;
let place: Place;
let cell: Place;
let compose: ComposeRun;
let receiver: Receiver;
let region: DataPlane | undefined;

beforeAll(async () => {
  const [text, image] = await Promise.all(
    ["docker-compose.yml", "Dockerfile"].map(async (name) => await readFile(join(REPOSITORY, name), "utf8")),
  );
  const file = parseCompose(text ?? "", VARIABLES);
  servers = await startServers(file);
  cellServers = await startServers(file, servers);
  [place, cell] = await Promise.all([makePlace(file, servers), makePlace(file, cellServers)]);
  const trusted = await startTrustedReceiver(place);
  ({ receiver } = trusted);
  region = await startDataPlane(place);
  compose = await prepareCompose({
    file: withVariables(file, {
      worker: trusted.variables,
      "worker-us": trusted.variables,
      "remote-edge": { SIGNET_EDGE_ROUTES: region.routesFile },
    }),
    image: parseDockerfile(image ?? ""),
    directory: productionImage(),
    place,
    cell,
  });
  await compose.up([...CELL, ...REGION, ...HOME]);
});

afterAll(async () => {
  await compose?.down();
  await receiver?.close();
  region?.close();
  await Promise.all([place?.close(), cell?.close()]);
  await cellServers?.close();
  await servers?.close();
});

test("a token is revoked in the second region, behind hubs, and refused there while the hubs are gone", async () => {
  const [origin, remote] = [compose.published(8443), compose.published(8444)];
  const tls = clientFetch(place);
  const { client_id, client_secret } = await provision(compose);
  const asked = { client_id, client_secret, grant_type: "client_credentials" };
  const token = String((await call(tls, `${origin}/v1/auth/token`, undefined, asked))["access_token"]);
  const ask = async (): Promise<Response> =>
    await tls(`${remote}/v1/data`, { headers: { authorization: `Bearer ${token}` } });
  const decision = async (): Promise<Answer> => await unlessStale(async () => await readAnswer(await ask()));
  expect(await decision()).toMatchObject({ status: 200 });
  await eventually(async () => {
    const { followers } = (await signet(compose, "top")) as { readonly followers: readonly Json[] };
    expect(followers.filter(({ region }) => region === "ap")).toMatchObject([
      { kind: "edge", connected: 1, behind: 0 },
      { kind: "hub", connected: 2, behind: 0 },
    ]);
    return true;
  }, "the edge and the hubs among the followers");

  // The drill of the runbook.
  await compose.down(["hub-a", "hub-b"]);
  const refused = async () => [await ask()].find(({ status }) => status === 503);
  const answer = await eventually(refused, "the edge without hubs to refuse");
  expect(await answer.json()).toMatchObject({ code: "REVOCATION_STALE" });
  expect(answer.headers.get("retry-after")).toBe("1");
  await compose.up(["hub-a", "hub-b"]);
  await eventually(async () => (await ask()).ok, "the edge to admit again");

  const receipt = await signet(compose, "revoke", String(client_id), "--reason", "leaked");
  expect(JSON.stringify(receipt)).toContain('"region":"ap"');
  expect(await decision()).toMatchObject({ status: 401 });
});

test("an event of the region us is delivered in the second cell, to which the home cell sends its client", async () => {
  expect(await compose.exec("api-us", ["signet", "doctor"])).toMatch(
    /^(ok .*\n)*ok +home cell.*\n(ok .*\n)*$/,
  );
  const otherKey = ["SIGNET_KEK_FILE=", `SIGNET_KEK=${Buffer.alloc(32, 1).toString("base64")}`];
  const withOtherKey = compose.exec("api-us", ["env", ...otherKey, "node", "src/bootstrap.mjs", "doctor"]);
  await expect(withOtherKey).rejects.toThrow(/keys .*check that SIGNET_KEK is the one/);
  const tls = clientFetch(place);
  const origin = compose.published(8445);
  const { answers, token } = await pasteCellExample(compose, place);
  expect(answers).toMatchObject([
    { status: 421, code: "MISDIRECTED_REQUEST", region: "us", base_url: origin },
    { type: "order.paid" },
  ]);
  const endpoint = await activeEndpoint(tls, origin, token, `${receiver.url}/us`);
  const event = await call(tls, `${origin}/v1/events`, token, { type: "inference.completed", data: {} });
  const delivered = await eventually(
    async () => receiver.requests.find(({ rawBody }) => rawBody.includes(String(event["id"]))),
    "the delivery",
  );
  expect(verifyReceived(delivered, [String(endpoint["secret"])]).payload).toMatchObject({ id: event["id"] });
});

test("the services end with code 0", async () => {
  const ends = await compose.down();
  const running = [...HOME, ...REGION, ...CELL].filter((name) => !name.startsWith("migrate"));
  expect(Object.fromEntries([...ends].map(([name, { code }]) => [name, code]))).toEqual(
    Object.fromEntries(running.map((name) => [name, 0])),
  );
});
