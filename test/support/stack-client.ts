/** A tenant's client of a stack in containers: its credential, its tokens and its calls over mutual TLS. */
import { bearer } from "./factories.ts";
import { type Answer, jsonBody, readAnswer } from "./answer.ts";
import type { ContainerStack } from "./container-stack.ts";
import { eventually } from "./eventually.ts";

const SCOPES = "webhooks:write webhooks:read webhooks:replay events:publish portal:sign_in";
/** Shorter than a token's life. */
const TOKEN_USED_MS = 60_000;
const PATIENCE_MS = 120_000;

export interface Json {
  readonly [member: string]: unknown;
}

/** Calls the API at one address, with the certificate `example.pem` and the root `ca.crt` of the stack's clone. */
export class StackClient {
  readonly #stack: ContainerStack;
  readonly #origin: string;
  readonly credential: Json;
  #held: { readonly token: Promise<string>; readonly untilMs: number } | undefined;

  private constructor(stack: ContainerStack, origin: string, credential: Json) {
    this.#stack = stack;
    this.#origin = origin;
    this.credential = credential;
  }

  /** Creates a tenant with a client for webhooks, as an operator does in a service's container. */
  static async provision(stack: ContainerStack, origin: string, service = "signet"): Promise<StackClient> {
    const signet = async (command: string): Promise<Json> => await stack.signet(command, service);
    const { id: tenant } = await signet("tenant create Example --region eu");
    const of = `--tenant ${String(tenant)}`;
    const { id: role } = await signet(`role create publisher ${of} --scopes '${SCOPES}'`);
    const what = `--role ${String(role)} --region eu --environment production`;
    const { id: principal } = await signet(`principal create service ${of} ${what}`);
    const certificate = "--san-uri spiffe://signet.compose/client/example";
    const credential = await signet(`credential create --principal ${String(principal)} ${certificate}`);
    return new StackClient(stack, origin, credential);
  }

  /** Returns a client that has a token already. */
  static withToken(stack: ContainerStack, origin: string, token: string): StackClient {
    const client = new StackClient(stack, origin, {});
    client.#held = { token: Promise.resolve(token), untilMs: Number.POSITIVE_INFINITY };
    return client;
  }

  /** Returns the same client at another address. */
  at(origin: string): StackClient {
    return new StackClient(this.#stack, origin, this.credential);
  }

  /** Returns a valid access token. */
  async token(): Promise<string> {
    if (this.#held === undefined || Date.now() > this.#held.untilMs) {
      this.#held = { token: this.#newToken(), untilMs: Date.now() + TOKEN_USED_MS };
    }
    return await this.#held.token;
  }

  async #newToken(): Promise<string> {
    const { client_id, client_secret } = this.credential;
    const asked = { grant_type: "client_credentials", client_id, client_secret };
    const issued = async (): Promise<string | undefined> => {
      const { status, body } = await this.#send("POST", "/v1/auth/token", {}, asked);
      return status === 200 ? String(body["access_token"]) : undefined;
    };
    // A process may just be down.
    return await eventually(issued, "a token", PATIENCE_MS);
  }

  /** Sends a request with a token. */
  async ask(method: string, path: string, body?: Json): Promise<Answer> {
    return await this.#send(method, path, bearer(await this.token()), body);
  }

  /** Sends a request with a token. @throws Error unless it succeeds */
  async call(method: string, path: string, body?: Json): Promise<Json> {
    const answer = await this.ask(method, path, body);
    if (answer.status >= 300) {
      throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
    }
    return answer.body;
  }

  /** Creates an endpoint at the stack's receiver, and waits until it is active. */
  async newEndpoint(path: string, type: string): Promise<Json> {
    const url = `https://receiver.example.com${path}`;
    const made = await this.call("POST", "/v1/webhooks/endpoints", { url, events: [type] });
    const isActive = async (): Promise<boolean> =>
      (await this.call("GET", `/v1/webhooks/endpoints/${String(made["id"])}`))["state"] === "ACTIVE";
    await eventually(isActive, "the endpoint to be active", PATIENCE_MS);
    return made;
  }

  /** Publishes an event. Returns its id. */
  async publish(type: string, data: Json = {}): Promise<string> {
    return String((await this.call("POST", "/v1/events", { type, data }))["id"]);
  }

  async #send(
    method: string,
    path: string,
    headers: Readonly<Record<string, string>>,
    body?: Json,
  ): Promise<Answer> {
    const { headers: content, ...init } = jsonBody(body);
    const request = { method, ...init, headers: { ...headers, ...content } };
    return await readAnswer(await this.#stack.clientFetch()(`${this.#origin}${path}`, request));
  }
}
