/** A receiver that verifies every delivery with its secrets, using both Signet's library and the stock one. */
import { createServer, type Server, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { buffer } from "node:stream/consumers";
import { Webhook } from "standardwebhooks";
import { verify } from "#lib/receiver/verify.ts";

export class VerifyingReceiver {
  readonly #server: Server;
  readonly #delivered = new Set<string>();
  #secrets: readonly string[] = [];
  #refused = 0;
  #requests = 0;

  private constructor() {
    this.#server = createServer((request, response) => {
      buffer(request).then(
        (body) => this.#receive(request.headers as Record<string, string>, body, response),
        () => response.destroy(),
      );
    });
  }

  static async open(): Promise<VerifyingReceiver> {
    const receiver = new VerifyingReceiver();
    await new Promise<void>((resolve, reject) => {
      receiver.#server.once("error", reject).listen(0, "127.0.0.1", resolve);
    });
    return receiver;
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/hook`;
  }

  /** Number of accepted events, each counted once. */
  get delivered(): number {
    return this.#delivered.size;
  }

  /** Number of requests with an invalid signature. */
  get refused(): number {
    return this.#refused;
  }

  get counts(): Readonly<Record<string, number>> {
    return { requests: this.#requests, delivered: this.delivered, refused: this.#refused };
  }

  /** Replaces the known secrets. */
  know(secrets: readonly string[]): void {
    this.#secrets = secrets;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise<void>((resolve) => {
      this.#server.close(() => resolve());
    });
  }

  #receive(headers: Record<string, string>, body: Buffer, response: ServerResponse): void {
    const isPing = headers["x-service-event-type"] === "ping";
    const secrets = this.#secrets;
    try {
      verify({ rawBody: body, headers, secrets, now: Date.now() });
      if (!secrets.some((secret) => isAcceptedByStock(secret, body, headers))) {
        throw new Error("the stock library rejected the signature");
      }
      // Check the single-signature header as well, for receivers that know no other.
      verify({ rawBody: body, headers: withoutStandard(headers), secrets, now: Date.now() });
    } catch {
      // A ping may arrive before the receiver has its first secret.
      this.#refused += isPing ? 0 : 1;
      response.writeHead(isPing ? 200 : 401).end();
      return;
    }
    if (!isPing) {
      this.#requests += 1;
      this.#delivered.add(headers["webhook-id"] ?? "");
    }
    response.writeHead(200).end();
  }
}

function isAcceptedByStock(secret: string, body: Buffer, headers: Record<string, string>): boolean {
  try {
    new Webhook(secret).verify(body, headers);
    return true;
  } catch {
    return false;
  }
}

function withoutStandard(headers: Record<string, string>): Record<string, string> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !name.startsWith("webhook-")));
}
