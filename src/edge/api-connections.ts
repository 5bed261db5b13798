/** The connections to the api: mutual TLS with a pinned name, renewed when their files change. */
import type { Agent } from "undici";
import { pinnedNameCheck } from "#http/mutual-tls/client-certificate.ts";
import { type Material, type MaterialFiles, openMaterial } from "#http/mutual-tls/material.ts";
import type { Logger } from "#observability/logger.ts";
import type { ReadinessCheck } from "#runtime/readiness.ts";
import { connectionsOf, createAgent, type Target, type UpstreamConnections } from "./dispatchers.ts";
import type { Timers } from "#domain/clock.ts";

/** Time for requests on replaced connections to end, in milliseconds. */
const RETIRE_AFTER_MS = 60_000;
const REFUSAL = "the api's certificate has none of the names in SIGNET_EDGE_API_NAMES";

export interface ApiConnectionsOptions {
  readonly target: Omit<Target, "tls" | "origin">;
  /** Absent for plain HTTP, in development. */
  readonly files?: MaterialFiles | undefined;
  /** Pinned names, `DNS:…` or `URI:…`; the api's certificate must have one of them. */
  readonly names: readonly string[];
  readonly timers: Timers;
  readonly log: Logger;
}

export interface ApiConnections {
  readonly connections: UpstreamConnections;
  /** Of the files; none for plain HTTP. */
  readonly readiness: readonly ReadinessCheck[];
  close(): Promise<void>;
}

/**
 * Creates the connections.
 *
 * @throws TrustError if the files are unusable
 */
export async function openApiConnections(options: ApiConnectionsOptions): Promise<ApiConnections> {
  const { target, files, names, timers, log } = options;
  if (files === undefined) {
    const agent = createAgent(target);
    return {
      connections: connectionsOf(() => agent),
      readiness: [],
      close: async () => await agent.destroy(),
    };
  }
  const retired = new Set<Agent>();
  let agent: Agent | undefined;

  function renew({ tls, clientAnchors }: Material): void {
    const before = agent;
    agent = createAgent({
      ...target,
      tls: {
        ca: clientAnchors.pem,
        ...tls,
        checkServerIdentity: pinnedNameCheck(names, REFUSAL),
      },
    });
    if (before !== undefined) {
      retired.add(before);
      const close = (): void => {
        // After `close`, it has been destroyed.
        if (retired.delete(before)) {
          void before.close();
        }
      };
      timers.after(RETIRE_AFTER_MS, close).unref();
    }
  }

  const material = await openMaterial(files, log, renew);
  renew(material.current());
  return {
    connections: connectionsOf(() => agent as Agent),
    readiness: [material.readiness],
    close: async () => {
      material.close();
      const open = [agent, ...retired];
      retired.clear();
      await Promise.all(open.map(async (one) => await one?.destroy()));
    },
  };
}
