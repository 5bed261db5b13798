/** Runs the shell and TypeScript examples of docs/signed-producers.md against a real API. */
import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { publishSigned } from "#docs/examples/publish-signed.ts";
import { useSharedApi } from "#test/support/api.ts";
import { createProducer } from "#test/support/producer.ts";
import { createTenant } from "#test/support/tenant.ts";

const api = useSharedApi();
const run = promisify(execFile);
const PAGE = new URL("../../../docs/signed-producers.md", import.meta.url);

async function blocks(language: string): Promise<string[]> {
  const page = await readFile(PAGE, "utf8");
  return [...page.matchAll(new RegExp(`\`\`\`${language}\n([\\s\\S]*?)\`\`\``, "g"))].map(
    ([, code]) => code ?? "",
  );
}

test("the shell lines create a secret and publish an event", async () => {
  const tenant = await createTenant(api, ["events:publish", "credentials:write"]);
  const [make = "", publish = ""] = await blocks("sh");
  const paste = async (block: string, secret = ""): Promise<string> => {
    const text = block
      .replace("http://127.0.0.1:8080", api.publicUrl)
      .replace("crd_…", tenant.credentialId)
      .replace("$(signet token)", tenant.token)
      .replace("whsec_…", secret);
    return (await run("bash", ["-ec", text])).stdout;
  };
  const { secret } = JSON.parse(await paste(make)) as { secret: string };
  const published = await paste(publish, secret);
  expect(JSON.parse(published)).toMatchObject({ type: "order.paid", deliveries: 0 });
});

test("the TypeScript matches the example file, which publishes an event once", async () => {
  const [code = ""] = await blocks("ts");
  expect(await readFile(new URL("./examples/publish-signed.ts", PAGE), "utf8")).toContain(code);
  const producer = await createProducer(api);
  const to = { url: api.publicUrl, credentialId: producer.keyId, secret: producer.secret };
  const event = { id: "order-1", type: "order.paid", data: { order: 1 } };
  expect((await publishSigned(to, event)).status).toBe(202);
  const again = await publishSigned(to, event);
  expect([again.status, await again.json()]).toEqual([200, { duplicate: true }]);
});
