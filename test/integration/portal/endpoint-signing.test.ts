/** The portal's pages on an endpoint's signatures: rotations with a chosen overlap, Ed25519, and automatic rotation. */
import { generateKeyPairSync } from "node:crypto";
import { beforeAll, expect, test } from "vitest";
import type { Answer } from "#test/support/answer.ts";
import { useSharedApi } from "#test/support/api.ts";
import { type PortalVisitor, signInToPortal } from "#test/support/portal.ts";
import { createEndpoint, createTenant, rows, type Tenant } from "#test/support/tenant.ts";

const api = useSharedApi();
const SCOPES = ["portal:sign_in", "webhooks:read", "webhooks:write"];

let tenant: Tenant;
let visitor: PortalVisitor;

const secretOf = ({ text }: Answer): string => /whsec_[A-Za-z0-9+/=]+/.exec(text)?.[0] ?? "";
const errorOf = ({ text }: Answer, name: string): string =>
  new RegExp(`<p class="error" id="${name}-error">([^<]*)</p>`).exec(text)?.[1] ?? "";

async function secretsOf(id: string): Promise<Answer> {
  return await tenant.get(`/v1/webhooks/endpoints/${id}/secret`);
}

async function statesOf(id: string): Promise<unknown> {
  return rows(await secretsOf(id)).map(({ state }) => state);
}

const saveSigning = async (id: string, fields: Readonly<Record<string, string>>): Promise<Answer> =>
  await visitor.post(`/portal/endpoints/${id}/signing`, { rotation_days: "", recipient: "", ...fields });

beforeAll(async () => {
  tenant = await createTenant(api, SCOPES);
  visitor = await signInToPortal(api, tenant.token);
});

test("a secret is rotated with the chosen overlap, or without one if it was leaked", async () => {
  const { id } = await createEndpoint(api, tenant);
  const path = `/portal/endpoints/${id}/secret/rotate`;
  const rotated = await visitor.post(path, { overlap: "3600" });
  expect(secretOf(rotated)).not.toBe("");
  expect(rotated.text).toContain("Both secrets sign during the overlap");
  const [next] = rows(await secretsOf(id));
  expect(next).toMatchObject({ state: "NEXT" });
  const [, current] = rows(await secretsOf(id));
  const signsForMs = Date.parse(String(current?.["signs_until"])) - Date.parse(String(next?.["created_at"]));
  // One overlap as the new secret and one as the old one.
  expect(signsForMs).toBe(2 * 3_600_000);
  const page = await visitor.get(`/portal/endpoints/${id}`);
  expect(page.text).toContain("Use the new secret now");
  expect(page.text).not.toContain("Rotate secret");
  const replaced = await visitor.post(path, { overlap: "0" });
  expect(replaced.text).toContain("all earlier secrets have stopped signing");
  expect(await statesOf(id)).toEqual(["CURRENT", "RETIRED", "RETIRED"]);
  expect((await visitor.get(`/portal/endpoints/${id}`)).text).toContain("Rotate secret");
  expect(await visitor.post(path, { overlap: "12" })).toMatchObject({ status: 422 });
});

test("Ed25519 can be enabled with automatic rotation, and its public key is shown", async () => {
  const { id } = await createEndpoint(api, tenant);
  expect(await saveSigning(id, { signing: "ed25519", rotation_days: "30" })).toMatchObject({ status: 303 });
  const { body } = await secretsOf(id);
  expect(body).toMatchObject({ signing: "ed25519", rotation_days: 30 });
  const [version] = body["data"] as { public_key: string }[];
  const { text } = await visitor.get(`/portal/endpoints/${id}`);
  expect(text).toContain(version?.public_key ?? "missing");
  expect(text).toContain("every 30 days");
  const form = await visitor.get(`/portal/endpoints/${id}/signing`);
  expect(form.text).toMatch(/<option value="ed25519"\s+selected>/);
  expect(await saveSigning(id, { signing: "hmac-sha256" })).toMatchObject({ status: 303 });
  expect(await secretsOf(id)).toMatchObject({ body: { signing: "hmac-sha256", rotation_days: null } });
});

test("new secrets are encrypted to a public key; private and invalid keys are rejected beside the field", async () => {
  const { id } = await createEndpoint(api, tenant);
  const keys = generateKeyPairSync("x25519");
  const recipient = JSON.stringify(keys.publicKey.export({ format: "jwk" }));
  const saved = await saveSigning(id, { signing: "hmac-sha256", rotation_days: "7", recipient });
  expect(saved).toMatchObject({ status: 303 });
  expect(await secretsOf(id)).toMatchObject({
    body: { rotation_days: 7, recipient: JSON.parse(recipient) as unknown },
  });
  const { d = "", ...rest } = keys.privateKey.export({ format: "jwk" });
  const secret = JSON.stringify({ ...rest, d });
  const pem = keys.privateKey.export({ format: "pem", type: "pkcs8" }).toString();
  const cases: readonly (readonly [Readonly<Record<string, string>>, string, string])[] = [
    [{ recipient: "key" }, "recipient", "is not JSON"],
    [{ recipient: "[]" }, "recipient", "must be an object"],
    [{ recipient: secret }, "recipient", "is a private key"],
    [{ recipient: pem }, "recipient", "is a private key"],
    // Truncated JSON cannot be classified.
    [{ recipient: secret.slice(0, -1) }, "recipient", "is not JSON"],
    [{ recipient: secret, rotation_days: "soon" }, "recipient", "is a private key"],
    [{ recipient: '{"kty":"OKP","crv":"X25519","x":"AA"}' }, "recipient", "must be a public key"],
    [{ rotation_days: "7" }, "rotation_days", "requires a recipient"],
    [{ rotation_days: "soon" }, "rotation_days", "must be a whole number from 1 to 365"],
    [{ rotation_days: "366" }, "rotation_days", "from 1 to 365, not 366"],
  ];
  for (const [fields, field, message] of cases) {
    const answer = await saveSigning(id, { signing: "hmac-sha256", ...fields });
    expect({ fields, status: answer.status }).toEqual({ fields, status: 422 });
    expect(errorOf(answer, field)).toContain(message);
    expect(answer.text).not.toContain(d);
    expect(answer.text).not.toContain(pem.slice(32, 60));
  }
  expect(await secretsOf(id)).toMatchObject({ body: { rotation_days: 7 } });
});
