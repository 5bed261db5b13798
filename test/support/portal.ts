/** A portal visitor without a browser: cookies, forms, page texts. */
import type { Answer, TestApi } from "./api.ts";
import { bearer } from "./factories.ts";

/** An api that shows a portal. */
type Site = Pick<TestApi, "publicUrl" | "request">;

export interface PortalVisitor {
  readonly cookie: string;
  /** Returns the CSRF token of its forms. */
  csrf(): Promise<string>;
  get(path: string): Promise<Answer>;
  /** Sends a form with the session's token, as a page of the portal would. */
  post(path: string, fields?: Readonly<Record<string, string>>): Promise<Answer>;
}

/** Requests a sign-in link with the token. */
export async function mintLink(api: Site, token: string, body: object = {}): Promise<string> {
  const answer = await api.request("/v1/portal/links", {
    method: "POST",
    headers: { ...bearer(token), "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  return String(answer.body["url"]);
}

/** Submits the form of a sign-in link's page. */
export async function openLink(
  api: Site,
  url: string,
  headers: Record<string, string> = {},
): Promise<Answer> {
  return await api.request("/portal/sign-in", {
    method: "POST",
    redirect: "manual",
    headers: { "content-type": "application/x-www-form-urlencoded", origin: api.publicUrl, ...headers },
    body: new URLSearchParams({ link: new URL(url).searchParams.get("link") ?? "" }).toString(),
  });
}

/** Returns the hidden token of a page's forms. */
function csrfOf({ text }: Answer): string {
  return /name="csrf" value="([^"]+)"/.exec(text)?.[1] ?? "";
}

/** Signs in with a token that holds portal:sign_in. */
export async function signInToPortal(api: Site, token: string, body: object = {}): Promise<PortalVisitor> {
  const opened = await openLink(api, await mintLink(api, token, body));
  const [cookie = ""] = (opened.headers.get("set-cookie") ?? "").split(";");
  const get = async (path: string): Promise<Answer> =>
    await api.request(path, { headers: { cookie }, redirect: "manual" });
  const csrf = async (): Promise<string> => csrfOf(await get("/portal/sessions"));
  return {
    cookie,
    csrf,
    get,
    post: async (path, fields = {}) =>
      await api.request(path, {
        method: "POST",
        redirect: "manual",
        headers: {
          cookie,
          "content-type": "application/x-www-form-urlencoded",
          origin: api.publicUrl,
          "sec-fetch-site": "same-origin",
        },
        body: new URLSearchParams({ csrf: await csrf(), ...fields }).toString(),
      }),
  };
}
