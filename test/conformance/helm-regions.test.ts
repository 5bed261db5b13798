/** The Helm chart with hubs: edges behind them, a cell of its own, and a region of edges alone. */
import { beforeAll, describe, expect, test } from "vitest";
import { readRouteTable } from "#edge/route-table.ts";
import {
  CELL,
  EDGES,
  helm,
  HOME,
  HUBS,
  ALL_INSIDE_APART,
  manifestsOf,
  processOf,
  renderVariants,
} from "../support/helm-chart.ts";
import { allowMinutes } from "../support/limits.ts";
import { selects } from "../support/manifests.ts";

// The first run builds Helm.
allowMinutes(15);

describe.skipIf(helm === undefined)("the chart with hubs", () => {
  beforeAll(async () => await renderVariants([HUBS, HOME, CELL, EDGES, ALL_INSIDE_APART]));

  test("lets edges follow each hub by its own name, without a database, and gives the lease key to no hub", async () => {
    const { environment, secrets } = await processOf(HUBS, "edge");
    const hubs = [0, 1, 2].map((index) => `wss://signet-hub-${index}.signet-hub:8446`);
    expect(environment["SIGNET_HUBS"]?.split(",")).toEqual(hubs);
    expect(Object.keys(environment).join()).not.toContain("DATABASE_URL");
    expect(secrets).toEqual(["signet-lease", "signet-hub-client", "signet-edge-tls", "signet-edge-client"]);
    expect((await processOf(HUBS, "migrate")).secrets).toContain("signet-lease");
    for (const variant of [HUBS, HOME, CELL, EDGES, ALL_INSIDE_APART]) {
      const hub = await processOf(variant, "hub");
      expect(hub.environment, variant).not.toHaveProperty("SIGNET_LEASE_KEY_FILE");
      const login = variant === EDGES || variant === CELL ? [] : ["signet-database-edge"];
      expect(
        hub.secrets.filter((secret) => secret.startsWith("signet-")),
        variant,
      ).toEqual([...login, "signet-hub-tls"]);
    }
    // Each name of a pod is also a Service for other clusters.
    const services = manifestsOf(HUBS).filter(
      ({ kind, metadata }) => kind === "Service" && metadata.name.startsWith("signet-hub"),
    );
    expect(services.map(({ metadata }) => metadata.name)).toEqual([
      "signet-hub",
      "signet-hub-0",
      "signet-hub-1",
      "signet-hub-2",
    ]);
    const pods = services.slice(1).map(({ spec }) => spec?.selector?.["statefulset.kubernetes.io/pod-name"]);
    expect(pods).toEqual(["signet-hub-0", "signet-hub-1", "signet-hub-2"]);
  });

  test.for([HOME, CELL, EDGES])(
    "gives hubs and edges names that the other side accepts with %s",
    async (variant) => {
      const names = new Map(
        manifestsOf(variant)
          .filter(({ kind }) => kind === "Certificate")
          .map(({ metadata, spec }) => [
            metadata.name,
            (spec as unknown as { readonly uris?: readonly string[] }).uris?.map((uri) => `URI:${uri}`),
          ]),
      );
      const [edge, hub] = [await processOf(variant, "edge"), await processOf(variant, "hub")];
      const [hubName] = names.get("signet-hub-tls") ?? [];
      const [edgeName] = names.get("signet-hub-client") ?? [];
      expect(edge.environment["SIGNET_HUB_NAMES"]).toBe(hubName);
      expect(hub.environment["SIGNET_HUB_NAMES"]).toBe(`${hubName},${edgeName}`);
      expect(hub.environment["SIGNET_HUB_RELAY_NAMES"]).toBe(hubName);
    },
  );

  test("keeps edges behind hubs from the database", () => {
    const labels = { "app.kubernetes.io/name": "signet", "app.kubernetes.io/instance": "signet" };
    const reach = (variant: string, component: string): readonly string[] =>
      manifestsOf(variant)
        .filter(
          ({ kind, spec }) =>
            kind === "NetworkPolicy" &&
            spec?.egress !== undefined &&
            selects(spec.podSelector ?? {}, { ...labels, "app.kubernetes.io/component": component }),
        )
        .map(({ metadata }) => metadata.name.replace("signet-", ""))
        .toSorted();
    expect(reach(HUBS, "edge")).toEqual(["edge", "names", "to-hubs"]);
    expect(reach(HUBS, "hub")).toEqual(["database", "names"]);
    expect(reach(CELL, "hub")).toEqual(["names", "to-hubs"]);
    expect(reach(CELL, "api")).toEqual(["database", "names", "temporal", "to-hubs"]);
    expect(reach(EDGES, "hub")).toEqual(["names", "to-hubs"]);
    expect(reach(EDGES, "edge")).toEqual(["edge-extra", "names", "to-hubs"]);
  });

  test("gives a cell its own login at the home cell, which creates it, and lets its apis follow the hubs", async () => {
    const home = await processOf(HOME, "migrate");
    expect(home.secrets).toEqual(expect.arrayContaining(["signet-database-home", "signet-lease"]));
    expect((await processOf(HOME, "worker")).secrets).not.toContain("signet-database-home");
    for (const process of ["migrate", "worker", "api"]) {
      const { environment, secrets } = await processOf(CELL, process);
      expect(environment["SIGNET_HOME_DATABASE_URL_FILE"], process).toMatch(/database-home\/url$/);
      expect(environment["SIGNET_CHECKPOINT_NAME"]).toBe("api.ap.example.com/log");
      // The home cell's PostgreSQL has the key, and edges and apis check with it.
      expect(secrets.includes("signet-lease"), process).toBe(process === "api");
    }
    const [api, edge] = [await processOf(CELL, "api"), await processOf(CELL, "edge")];
    expect(api.environment["SIGNET_HUBS"]).toBe(
      "wss://signet-hub-0.signet-hub:8446,wss://signet-hub-1.signet-hub:8446",
    );
    expect(api.environment["SIGNET_HUBS"]).toBe(edge.environment["SIGNET_HUBS"]);
    for (const { environment } of [home, api, edge]) {
      expect(environment["SIGNET_CELLS"]).toBe("eu=https://api.eu.example.com,ap=https://api.ap.example.com");
    }
    expect([home, api].map(({ environment }) => environment["SIGNET_CELL"])).toEqual(["eu", "ap"]);
  });

  test("has a route table with which an edge starts, in the other region", () => {
    const table = manifestsOf(EDGES).find(({ metadata }) => metadata.name === "signet-edge-routes")?.data;
    const routes = readRouteTable(Buffer.from(table?.["routes.json"] ?? ""), {
      checksOnly: false,
      environment: () => undefined,
      file: () => Buffer.alloc(32, 7).toString("base64"),
    });
    expect(routes.map(({ methods, pattern }) => `${methods.join(",")} ${pattern}`)).toEqual([
      "POST /v1/inference/{model}",
    ]);
  });
});
