/** The connections to the api: mutual TLS with a pinned name, renewed when their files change. */
import type { Agent } from "undici";
import { pinnedNameCheck } from "#http/mutual-tls/client-certificate.ts";
import type { MaterialStore } from "#http/mutual-tls/material.ts";
import type { ReadinessCheck } from "#runtime/readiness.ts";
import { connectionsOf, createAgent, type Target, type UpstreamConnections } from "./dispatchers.ts";
import type { Timers } from "#domain/clock.ts";

/** Time for requests on replaced connections to end, in milliseconds. */
const RETIRE_AFTER_MS = 60_000;
const REFUSAL = "the api's certificate has none of the names in SIGNET_EDGE_API_NAMES";

export interface ApiConnectionsOptions {
  /** Origin of the api. */
  readonly origin: string;
  readonly target: Omit<Target, "tls" | "origin">;
  /** Absent for plain HTTP, in development. */
  readonly files: MaterialStore | undefined;
  /** Pinned names, `DNS:…` or `URI:…`; the api's certificate must have one of them. */
  readonly names: readonly string[];
  readonly timers: Timers;
}

export class ApiConnections {
  readonly origin: string;
  readonly connections: UpstreamConnections = connectionsOf(() => this.#agent);
  /** Of the files; none for plain HTTP. */
  readonly readiness: readonly ReadinessCheck[];
  readonly #options: ApiConnectionsOptions;
  readonly #retired = new Set<Agent>();
  #agent: Agent;

  constructor(options: ApiConnectionsOptions) {
    const { origin, files } = options;
    this.origin = origin;
    this.readiness = files === undefined ? [] : [files];
    this.#options = options;
    this.#agent = this.#createAgent();
    files?.onChange(() => this.#renew());
  }

  async close(): Promise<void> {
    this.#options.files?.close();
    const open = [this.#agent, ...this.#retired];
    this.#retired.clear();
    await Promise.all(open.map(async (one) => await one.destroy()));
  }

  #createAgent(): Agent {
    const { target, files, names } = this.#options;
    if (files === undefined) {
      return createAgent(target);
    }
    const { tls, clientAnchors } = files.current();
    const checkServerIdentity = pinnedNameCheck(names, REFUSAL);
    return createAgent({ ...target, tls: { ca: clientAnchors.pem, ...tls, checkServerIdentity } });
  }

  #renew(): void {
    const before = this.#agent;
    this.#agent = this.#createAgent();
    this.#retired.add(before);
    const close = (): void => {
      // After `close`, it has been destroyed.
      if (this.#retired.delete(before)) {
        void before.close();
      }
    };
    this.#options.timers.after(RETIRE_AFTER_MS, close).unref();
  }
}
