/** The try-out of the Helm chart: PostgreSQL, Temporal and every key inside. */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { beforeAll, describe, expect, inject, test } from "vitest";
import { parse } from "yaml";
import { run } from "#tools/go-program.ts";
import { readTrustAnchors } from "#http/mutual-tls/trust.ts";
import { readCompose } from "../support/compose-file.ts";
import {
  ALL_INSIDE,
  ALL_INSIDE_APART,
  containersOf,
  helm,
  manifestsOf,
  podsOf,
  renderVariants,
} from "../support/helm-chart.ts";
import { allowMinutes } from "../support/limits.ts";
import type { PodSpec } from "../support/manifests.ts";

// The first run builds Helm.
allowMinutes(15);

const REPOSITORY = join(import.meta.dirname, "..", "..");
const CHART = "deploy/helm/signet";
/** Services of the compose file, and the containers that do the same if all is inside. */
const INSIDE = [
  ["postgres", "postgresql"],
  ["temporal-indexes-back", "temporal-indexes-back"],
  ["temporal-schema", "temporal-schema"],
  ["temporal-indexes", "temporal-indexes"],
  ["temporal", "temporal"],
] as const;
/** Their variables with names of hosts, paths and secrets, which differ. */
const OF_THE_CLUSTER =
  /_TLS_.*(CERT|KEY|NAME|FILE)$|^SQL_CA|SSLROOTCERT|HOST$|SEEDS$|PASSWORD$|PWD$|^DYNAMIC_CONFIG/;

/** The requests of a node's system pods (kubeadm, minikube): CPUs in thousandths. */
const SYSTEM_CPU = 850;

/** Returns what a pod asks for: CPUs in thousandths, memory in MiB. */
function requestsOf({ initContainers = [], containers }: PodSpec): { cpu: number; memory: number } {
  const asks = (of: PodSpec["containers"]): readonly { cpu: number; memory: number }[] =>
    of.map(({ resources: { requests } }) => {
      expect(requests).toEqual({
        cpu: expect.stringMatching(/^\d+m$/) as string,
        memory: expect.stringMatching(/^\d+Mi$/) as string,
      });
      return { cpu: Number.parseInt(requests.cpu, 10), memory: Number.parseInt(requests.memory, 10) };
    });
  const most = (key: "cpu" | "memory"): number =>
    Math.max(
      asks(containers).reduce((sum, ask) => sum + ask[key], 0),
      ...asks(initContainers).map((ask) => ask[key]),
    );
  return { cpu: most("cpu"), memory: most("memory") };
}

describe.skipIf(helm === undefined)("the chart with all inside", () => {
  beforeAll(async () => await renderVariants([ALL_INSIDE, ALL_INSIDE_APART]));

  test.for([ALL_INSIDE, ALL_INSIDE_APART])(
    "fits a node with two CPUs and 4 GiB beside the system's pods, also during an upgrade: %s",
    (variant) => {
      const total = { cpu: 0, memory: 0 };
      for (const { kind, spec: { template, replicas = 1, strategy } = {} } of manifestsOf(variant)) {
        if (template !== undefined) {
          const { cpu, memory } = requestsOf(template.spec);
          const pods = kind === "Deployment" && strategy?.type !== "Recreate" ? replicas + 1 : replicas;
          total.cpu += pods * cpu;
          total.memory += pods * memory;
        }
      }
      expect(total.cpu + SYSTEM_CPU).toBeLessThan(1_500);
      expect(total.memory).toBeLessThan(2_048);
    },
  );

  test("keeps keys and data together: an uninstallation deletes both", () => {
    const sets = manifestsOf(ALL_INSIDE).filter(
      ({ kind, spec }) => kind === "StatefulSet" && JSON.stringify(spec).includes("volumeClaimTemplates"),
    );
    expect(sets.map(({ spec }) => spec?.persistentVolumeClaimRetentionPolicy)).toEqual([
      { whenDeleted: "Delete", whenScaled: "Retain" },
    ]);
    const kept = manifestsOf(ALL_INSIDE).filter(
      ({ metadata }) => metadata.annotations?.["helm.sh/resource-policy"],
    );
    expect(kept).toEqual([]);
  });

  test("runs PostgreSQL and Temporal as the compose file does", async () => {
    const { services } = readCompose(REPOSITORY);
    const containers = podsOf(ALL_INSIDE).flatMap(({ spec }) => containersOf(spec));
    for (const [service, own] of INSIDE) {
      const container = containers.find(({ name }) => name === own);
      const composed = services[service];
      expect(container?.image, service).toBe(composed?.image);
      const variables = container?.env ?? [];
      const names = variables.map(({ name }) => name);
      expect(new Set(names), service).toEqual(new Set(Object.keys(composed?.environment ?? {})));
      for (const { name, value = "" } of variables.filter(
        (variable) => !OF_THE_CLUSTER.test(variable.name),
      )) {
        expect(value, `${service} ${name}`).toBe(composed?.environment?.[name]);
      }
    }
  });

  test("gives them the settings of the compose file", async () => {
    const { services } = readCompose(REPOSITORY);
    const containers = podsOf(ALL_INSIDE).flatMap(({ spec }) => containersOf(spec));
    const settings = (words: unknown): readonly string[] =>
      (words as readonly string[]).filter((word) => !word.includes("_file="));
    const postgresql = containers.find(({ name }) => name === "postgresql");
    expect(settings(postgresql?.args)).toEqual(settings(services["postgres"]?.command));
    const files = manifestsOf(ALL_INSIDE).find(({ metadata }) => metadata.name === "signet-all-inside")?.data;
    expect(parse(files?.["dynamic-config.yaml"] ?? "")).toEqual(
      parse(await readFile(join(REPOSITORY, "compose", "temporal-dynamic-config.yaml"), "utf8")),
    );
  });

  test("makes certificates by which the processes know each other, and one for a client", async () => {
    const directory = await mkdtemp(join(inject("runDirectory"), "helm-notes-"));
    const secrets = new Map(
      manifestsOf(ALL_INSIDE_APART)
        .filter(({ kind }) => kind === "Secret")
        .map(({ metadata, data = {} }) => [metadata.name, data]),
    );
    const read = (secret: string, file: string): string =>
      Buffer.from(secrets.get(secret)?.[file] ?? "", "base64").toString();
    const [clients, internal] = ["clients-ca.crt", "internal-ca.crt"].map(
      (file) => new X509Certificate(read("signet-all-inside-ca", file)),
    );
    for (const [secret, ca, name] of [
      ["signet-api-tls", clients, "signet-api"],
      ["signet-edge-tls", clients, "localhost"],
      ["signet-edge-client", clients, "signet-edge-client"],
      ["signet-hub-tls", clients, "signet-hub"],
      ["signet-hub-client", clients, "signet-edge-client"],
      ["signet-postgresql", internal, "signet-postgresql"],
      ["signet-temporal-server", internal, "signet-temporal"],
      ["signet-temporal-client", internal, "signet"],
    ] as const) {
      const certificate = new X509Certificate(read(secret, "tls.crt"));
      expect(certificate.checkHost(name), secret).toBe(name);
      expect(ca !== undefined && certificate.checkIssued(ca), secret).toBe(true);
      expect(certificate.checkPrivateKey(createPrivateKey(read(secret, "tls.key"))), secret).toBe(true);
    }
    const trust = manifestsOf(ALL_INSIDE_APART).find(({ metadata }) => metadata.name === "signet-trust");
    await writeFile(join(directory, "trust.crt"), trust?.data?.["clients-ca.crt"] ?? "");
    const anchors = await readTrustAnchors(join(directory, "trust.crt"), { development: false });
    expect(anchors.pem).toBe(read("signet-all-inside-ca", "clients-ca.crt"));

    const notes = await readFile(join(REPOSITORY, CHART, "templates", "NOTES.txt"), "utf8");
    const commands = notes
      .split("\n")
      .flatMap((line) => /^ {2}((?:openssl|printf) .*)/.exec(line)?.[1] ?? []);
    expect(commands).toHaveLength(3);
    await writeFile(join(directory, "ca.crt"), read("signet-all-inside-ca", "clients-ca.crt"));
    await writeFile(join(directory, "ca.key"), read("signet-all-inside-ca", "clients-ca.key"));
    await run("sh", ["-euc", commands.join("\n")], { cwd: directory });
    const client = new X509Certificate(await readFile(join(directory, "client.crt")));
    expect(clients !== undefined && client.checkIssued(clients)).toBe(true);
    expect(client.subjectAltName).toBe("URI:spiffe://signet.example/client/example");
  });
});
