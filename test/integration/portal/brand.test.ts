/** The portal in the brand of the installation or a tenant, and in frames of listed origins. */
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { beforeAll, describe, expect, test } from "vitest";
import { useTestApi } from "#test/support/api.ts";
import { runSignet } from "#test/support/command-line.ts";
import { mintLink, openLink, signInToPortal } from "#test/support/portal.ts";
import { createTenant, type Tenant } from "#test/support/tenant.ts";

const FRAME = "https://app.example.com";
/** A PNG of one pixel, in base64. */
const LOGO =
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";
const api = useTestApi({
  environment: {
    SIGNET_PORTAL_NAME: "Hooks by Acme",
    SIGNET_PORTAL_ACCENT: "#7a1fa2",
    SIGNET_PORTAL_RETURN_URL: "https://app.example.com/settings?a=1&b=2",
    SIGNET_PORTAL_SUPPORT: "help@example.com",
    SIGNET_PORTAL_FRAME_ORIGINS: `${FRAME}, https://admin.example.com`,
  },
});
const SCOPES = ["portal:sign_in", "webhooks:read"];

let tenant: Tenant;

const change = async (id: string, body: object) => await api.admin("PATCH", `/tenants/${id}/portal`, body);

beforeAll(async () => {
  tenant = await createTenant(api, SCOPES);
});

describe("the installation's brand", () => {
  test("is on every page: name, colours, return link and support, without the service's own", async () => {
    const visitor = await signInToPortal(api, tenant.token);
    const signIn = (await mintLink(api, tenant.token)).slice(api.publicUrl.length);
    for (const { text } of [
      await visitor.get("/portal"),
      await api.request(signIn),
      await api.request("/portal/sign-in"),
      await visitor.get("/portal/endpoints/ep_000000000000000000000000"),
    ]) {
      expect(text).toContain("Hooks by Acme</title>");
      expect(text).toContain('href="https://app.example.com/settings?a=1&amp;b=2" target="_top"');
      expect(text).toContain('href="mailto:help@example.com"');
      expect(text).not.toMatch(/Signet|icon\.[0-9a-f]/);
    }
    const styles = /href="(\/portal\/brand\/installation\/[0-9a-f]{16}\.css)"/.exec(
      (await visitor.get("/portal")).text,
    )?.[1];
    const sheet = await api.request(String(styles));
    expect(sheet.headers.get("cache-control")).toContain("immutable");
    expect(sheet.text).toMatch(
      /^:root\{--accent:#7a1fa2;--on-accent:#ffffff\}@media\(prefers-color-scheme:dark\)\{:root\{--accent:#[0-9a-f]{6};--on-accent:#0d1730\}\}$/,
    );
  });
});

describe("a tenant's brand", () => {
  test("overrides the settings on its pages, its sign-in page and after its session, and is logged", async () => {
    const other = await createTenant(api, SCOPES);
    const given = {
      name: "Globex <Hooks>",
      accent: "#00695c",
      support: "https://globex.example/help",
      logo: LOGO,
    };
    expect(await change(other.tenantId, given)).toMatchObject({
      status: 200,
      body: { name: "Globex <Hooks>", accent: "#00695c", return_url: null, logo: { type: "image/png" } },
    });
    const visitor = await signInToPortal(api, other.token);
    const { text } = await visitor.get("/portal");
    expect(text).toContain("Globex &lt;Hooks&gt;</title>");
    expect(text).toContain("https://app.example.com/settings");
    const [, image = ""] = /<img src="(\/portal\/brand\/ten_[^"]+\.png)"/.exec(text) ?? [];
    const served = await fetch(`${api.publicUrl}${image}`);
    expect(served.headers.get("content-type")).toBe("image/png");
    expect(served.headers.get("x-content-type-options")).toBe("nosniff");
    expect(Buffer.from(await served.arrayBuffer()).toString("base64")).toBe(LOGO);
    const link = await mintLink(api, other.token);
    expect((await api.request(link.slice(api.publicUrl.length))).text).toContain("Sign in to Globex");
    await openLink(api, link);
    expect((await openLink(api, link)).text).toContain("Globex");
    await visitor.post("/portal/sign-out");
    expect((await visitor.get("/portal")).text).toContain("Globex");
    expect((await (await signInToPortal(api, tenant.token)).get("/portal")).text).not.toContain("Globex");
    const { body } = await api.admin("GET", `/audit?tenant_id=${other.tenantId}`);
    expect(JSON.stringify(body)).toContain("tenant.portal_changed");
    expect(await change(other.tenantId, { logo: null, accent: null })).toMatchObject({
      body: { accent: null, logo: null, name: "Globex <Hooks>" },
    });
  });

  test("is set by operators on the command line, and reset with default", async () => {
    const directory = await mkdtemp(join(tmpdir(), "signet-brand-"));
    const file = join(directory, "logo.png");
    await writeFile(file, Buffer.from(LOGO, "base64"));
    const { tenantId } = await createTenant(api, SCOPES);
    const run = async (...options: string[]) =>
      await runSignet(["tenant", "portal", tenantId, ...options, "--json"], api.environment);
    const set = await run("--name", "Initech", "--logo", file, "--return-url", "https://initech.example");
    expect(JSON.parse(set.stdout)).toMatchObject({ name: "Initech", logo: { bytes: 70 } });
    expect(JSON.parse((await run("--name", "default")).stdout)).toMatchObject({
      name: null,
      return_url: "https://initech.example",
    });
    expect(await run("--accent", "#ffcc00")).toMatchObject({
      code: 1,
      stderr: expect.stringContaining("the nearest such colour is") as string,
    });
    expect(await run("--logo", join(directory, "none"))).toMatchObject({ code: 1 });
    await rm(directory, { recursive: true });
  });

  test.each([
    [{ accent: "#ffcc00" }, "/accent", "text needs 4.5:1; the nearest such colour is #"],
    [{ accent_dark: "#101010" }, "/accent_dark", "to the dark pages"],
    [{ accent: "red" }, "/accent", "must be a colour"],
    [{ return_url: "javascript:alert(1)" }, "/return_url", "must be an https URL"],
    [{ support: "javascript:alert(1)" }, "/support", "must be an e-mail address"],
    [{ logo: Buffer.from("<svg/>").toString("base64") }, "/logo", "must be a PNG or WebP"],
    [{ name: "two\nlines" }, "/name", "without line breaks"],
  ])("%j is rejected", async (body, pointer, detail) => {
    const answer = await change(tenant.tenantId, body);
    expect(answer.status).toBe(422);
    expect(answer.body["errors"]).toEqual([
      expect.objectContaining({ pointer, detail: expect.stringContaining(detail) as string }),
    ]);
  });
});

describe("a frame", () => {
  const headers = { "sec-fetch-site": "same-origin", "sec-fetch-dest": "iframe" };

  test("is allowed for the listed origins only", async () => {
    for (const path of ["/portal", "/portal/sign-in", "/portal/nothing"]) {
      const answer = await api.request(path);
      expect(answer.headers.get("content-security-policy")).toContain(
        `frame-ancestors ${FRAME} https://admin.example.com;`,
      );
      expect(answer.headers.get("x-frame-options")).toBeNull();
    }
  });

  test("has a partitioned cookie, and no other page gets it", async () => {
    const opened = await openLink(api, await mintLink(api, tenant.token), headers);
    const [cookie = "", other = ""] = opened.headers.getSetCookie();
    expect(cookie).toMatch(
      /^signet_portal_frame=[^;]+; Path=\/; HttpOnly; SameSite=None; Secure; Partitioned$/,
    );
    expect(other).toMatch(/^signet_portal=; .*Max-Age=0$/);
    const [pair = ""] = cookie.split(";");
    expect(await api.request("/portal", { headers: { cookie: pair } })).toMatchObject({ status: 200 });
    expect(await api.request("/portal", { headers: { cookie: `${pair}; ${pair}` } })).toMatchObject({
      status: 401,
    });
    const top = await openLink(api, await mintLink(api, tenant.token));
    expect(top.headers.getSetCookie()[0]).toMatch(
      /^signet_portal=[^;]+; Path=\/; HttpOnly; SameSite=Strict$/,
    );
  });
});

test("a link that was used or has expired has a page for people", async () => {
  const link = await mintLink(api, tenant.token);
  await openLink(api, link);
  for (const answer of [
    await openLink(api, link),
    await api.request(link.slice(api.publicUrl.length)),
    await api.request("/portal/sign-in?link=nonsense"),
  ]) {
    expect(answer.status).toBe(401);
    expect(answer.text).toContain("This link was already used or has expired");
    expect(answer.text).toContain("Go to Hooks by Acme");
    expect(answer.text).not.toMatch(/POST|\/v1\//);
  }
});
