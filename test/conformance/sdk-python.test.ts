/**
 * The Python SDK: its wheel, built offline and installed in an empty environment, passes its own tests, its types hold,
 * and it calls a real service.
 */
import { generateKeyPairSync } from "node:crypto";
import { mkdtemp, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { useTestApi } from "../support/api.ts";
import { CACHE, pythonWith } from "../support/cache.ts";
import {
  certificateFiles,
  clientPair,
  newRoot,
  serverPair,
  thumbprint,
  mutualTlsSettings,
} from "../support/certificates.ts";
import { provision, type Provisioned } from "../support/factories.ts";
import { freePort } from "../support/free-port.ts";
import { allowMinutes } from "../support/limits.ts";
import { runProcess } from "../support/processes.ts";
import { lacks } from "../support/skips.ts";
import { sql, WEBHOOK_SCOPES } from "../support/tenant.ts";
import { webhookSignatures } from "../vectors/cases.ts";

allowMinutes(10);

const REPOSITORY = join(import.meta.dirname, "..", "..");
const PACKAGE = join(REPOSITORY, "sdk", "python");
const PROGRAMS = join(import.meta.dirname, "sdk-python");
/** The last version of mypy that checks for Python 3.9. */
const TOOLS = ["hatchling==1.33.0", "mypy==1.19.1", "cryptography==50.0.2"];
const FRAMEWORKS = [
  "flask==3.1.3",
  "django==5.2.19",
  "fastapi==0.165.0",
  "httpx==0.28.1",
  "functions-framework==3.10.2",
  "mangum==0.22.0",
];
const ENVIRONMENTS = join(CACHE, "sdk-python");
const DAY_MS = 86_400_000;

/** Whether Python or PyPI is missing, which skips these tests. */
const lacksPython = lacks("the Python SDK", "python3 -m pip index versions hatchling");

const { vectors } = webhookSignatures();
const root = await newRoot();
const server = await serverPair(root);
const [own, other] = [await clientPair(root), await clientPair(root)];
const files = certificateFiles();
const edge = `127.0.0.1:${await freePort()}`;
afterAll(() => files.remove());

describe.skipIf(lacksPython)("the Python SDK", () => {
  /** A short retry window: an event becomes a dead letter before the test times out. */
  const api = useTestApi({ worker: true, environment: { SIGNET_RETRY_WINDOW_MS: "2000" } });
  let directory: string;
  /** An environment with the tools, and one with nothing but the wheel. */
  let tools: string;
  let empty: string;
  let wheel: string;

  async function run(command: readonly string[], more: NodeJS.ProcessEnv = {}, cwd = directory) {
    const environment = { ...process.env, PYTHONDONTWRITEBYTECODE: "1", ...more };
    return await runProcess({ command, cwd, environment });
  }

  /** Returns the Python of an environment with these packages. It stays between runs, by their versions. */
  const withTools = async (packages: readonly string[]): Promise<string> =>
    await pythonWith(packages, join(ENVIRONMENTS, packages.join("+")));

  /** Adds the installed package to the environment with the tools. */
  async function withPackage(): Promise<NodeJS.ProcessEnv> {
    const program = "import sysconfig; print(sysconfig.get_path('purelib'))";
    return { PYTHONPATH: (await run([empty, "-c", program])).trim() };
  }

  beforeAll(async () => {
    directory = await mkdtemp(join(inject("runDirectory"), "sdk-python-"));
    tools = await withTools(TOOLS);
    const offline = ["--quiet", "--no-index", "--no-deps"];
    const built = join(directory, "wheel");
    await run([tools, "-m", "pip", "wheel", ...offline, "--no-build-isolation", "-w", built, PACKAGE]);
    const { version } = JSON.parse(await readFile(join(REPOSITORY, "package.json"), "utf8")) as {
      version: string;
    };
    wheel = join(built, `signet_delivery-${version}-py3-none-any.whl`);
    await run(["python3", "-m", "venv", "--without-pip", join(directory, "empty")]);
    empty = join(directory, "empty", "bin", "python");
    await run([tools, "-m", "pip", "--python", empty, "install", ...offline, wheel]);
  });

  test("comes as a small wheel with its types and its licence, and without dependencies", async () => {
    const program = [
      "import json, sys, zipfile",
      "wheel = zipfile.ZipFile(sys.argv[1])",
      "names = wheel.namelist()",
      "metadata = next(name for name in names if name.endswith('/METADATA'))",
      "size = sum(each.compress_size for each in wheel.infolist())",
      "print(json.dumps([names, wheel.read(metadata).decode(), size]))",
    ].join("\n");
    const [names, metadata, size] = JSON.parse(await run([empty, "-c", program, wheel])) as [
      string[],
      string,
      number,
    ];
    expect(names).toEqual(expect.arrayContaining(["signet_delivery/py.typed", "signet_delivery/models.py"]));
    expect(names.filter((name) => name.endsWith("/licenses/LICENSE"))).toHaveLength(1);
    const own = /^signet_delivery(-[\d.]+\.dist-info)?\//;
    expect(names.filter((name) => !own.test(name))).toEqual([]);
    expect(metadata.match(/^Requires-Dist: .*$/gm)).toEqual([
      "Requires-Dist: cryptography>=42; extra == 'crypto'",
    ]);
    expect(size).toBeLessThan(60_000);
  });

  test("passes its tests, and all vectors but Ed25519's, with nothing but Python", async () => {
    const unittest = ["-m", "unittest", "discover", "-s", "tests", "-t", "."];
    const output = await run([empty, ...unittest], { SIGNET_TEST_WITHOUT_ED25519: "1" }, PACKAGE);
    const hmac = vectors.filter(({ algorithm }) => algorithm === undefined);
    expect(output).toContain(`${hmac.length} vectors`);
  });

  test("passes all vectors with cryptography", async () => {
    const output = await run([tools, "-m", "unittest", "tests.test_vectors"], await withPackage(), PACKAGE);
    expect(output).toContain(`${vectors.length} vectors`);
  });

  test("receives through each framework and platform that its README names, and refuses what was changed", async () => {
    const environment = { README: join(PACKAGE, "README.md"), ...(await withPackage()) };
    const output = await run([await withTools(FRAMEWORKS), join(PROGRAMS, "frameworks.py")], environment);
    const answers = JSON.parse(output) as Readonly<Record<string, unknown>>;
    expect(Object.keys(answers)).toHaveLength(9);
    for (const [name, found] of Object.entries(answers)) {
      expect(found, name).toEqual([
        [200, { processed: true }],
        [200, { processed: false }],
        [200, { challenge: "c1" }],
        [401, { error: "SIGNATURE_INVALID" }],
        [400, { error: "HEADERS_MALFORMED" }],
      ]);
    }
  });

  test("authenticates with a private key", async () => {
    const pairs = {
      ec: generateKeyPairSync("ec", { namedCurve: "P-256" }),
      rsa: generateKeyPairSync("rsa", { modulusLength: 2048 }),
      ed25519: generateKeyPairSync("ed25519"),
    };
    const environment: NodeJS.ProcessEnv = { SIGNET_URL: api.publicUrl, ...(await withPackage()) };
    for (const [name, { publicKey, privateKey }] of Object.entries(pairs)) {
      const keys = [{ ...publicKey.export({ format: "jwk" }), kid: "k1" }];
      const client = await provision(api, { credential: { rotation_mode: "workload", jwks: { keys } } });
      environment[`CLIENT_${name}`] = client.clientId;
      environment[`KEY_${name}`] = privateKey.export({ format: "pem", type: "pkcs8" }).toString();
    }
    const output = await run([tools, join(PROGRAMS, "private_key.py")], environment);
    expect(output.trim().split("\n")).toEqual(Array(3).fill("credentials:read"));
  });

  test("is strictly typed for Python 3.9, and so are programs that use it as its README does", async () => {
    const mypy = [tools, "-m", "mypy", "--strict", "--python-version", "3.9"];
    const cache = ["--cache-dir", join(directory, "mypy")];
    await run([...mypy, ...cache, "src"], {}, PACKAGE);
    const readme = await readFile(join(PACKAGE, "README.md"), "utf8");
    const blocks = [...readme.matchAll(/^```python\n([\s\S]*?)^```$/gm)].map(([, code = ""]) => code);
    // The others need a framework or Redis: frameworks.py runs those of frameworks.
    const plain = blocks.filter((code) => !/^@|redis|event, context/m.test(code));
    expect(plain.length).toBeGreaterThan(4);
    const given = "secret, old, new = '', '', ''\nbody = b''\nheaders = {'': ''}\n";
    await writeFile(join(directory, "readme.py"), given + plain.join("\n"));
    const installed = ["--python-executable", empty, join(directory, "readme.py")];
    await run([...mypy, ...cache, ...installed, join(PACKAGE, "examples"), join(PACKAGE, "tests")]);
  });

  async function credentialFile(client: Provisioned): Promise<string> {
    const path = join(directory, `${client.clientId}.json`);
    const { clientId, clientSecret } = client;
    const content = { client_id: clientId, client_secret: clientSecret, version: 1 };
    await writeFile(path, JSON.stringify(content), { mode: 0o600 });
    return path;
  }

  test("calls every method of a service: registers, publishes, receives, replays, reads typed errors", async () => {
    const client = await provision(api, {
      scopes: [
        ...WEBHOOK_SCOPES,
        "credentials:read",
        "credentials:write",
        "credentials:revoke",
        "compliance:read",
        "portal:sign_in",
        "ssf:manage",
        "ssf:read",
      ],
    });
    const output = await run([empty, join(PROGRAMS, "live.py")], {
      SIGNET_URL: api.publicUrl,
      SIGNET_CREDENTIAL_FILE: await credentialFile(client),
      CLIENT_ID: client.clientId,
      CLIENT_SECRET: client.clientSecret,
      EXAMPLES: join(PACKAGE, "examples"),
      PORT: String(await freePort()),
    });
    expect(JSON.parse(output)).toEqual({ methods: 78, uncalled: [] });
  });

  describe("over mutual TLS", () => {
    /** As in production, tenants use one address. */
    const secured = useTestApi({ environment: mutualTlsSettings(files, { listen: edge, server, root }) });

    test("authenticates with its certificate, and uses a renewed one", async () => {
      const client = await provision(secured, {
        scopes: ["credentials:read"],
        credential: {
          certificate_thumbprints: [own, other].map(thumbprint),
          rotation_mode: "workload",
        },
      });
      for (const [name, pair] of [["client", own] as const, ["other", other] as const]) {
        files.write(`${name}.crt`, pair.cert);
        files.write(`${name}.key`, pair.key);
      }
      const output = await run([empty, join(PROGRAMS, "mutual_tls.py")], {
        SIGNET_URL: secured.publicUrl,
        CLIENT_ID: client.clientId,
        FILES: files.path("."),
      });
      expect(output.trim()).toBe("CONNECTION");
    });
  });

  test("follows the rotation of its own secret", async () => {
    const client = await provision(api, { environment: "production" });
    const path = await credentialFile(client);
    const environment = { SIGNET_URL: api.publicUrl, SIGNET_CREDENTIAL_FILE: path };
    const versions = async () => (await run([empty, join(PROGRAMS, "rotation.py")], environment)).trim();
    const states = async () =>
      (
        await sql(api, "SELECT state FROM secret_versions WHERE credential_id = $1 ORDER BY version", [
          client.credentialId,
        ])
      ).map(({ state }) => state);
    expect(await versions()).toBe("1 None");
    api.clock.advance(30 * DAY_MS);
    expect(await versions()).toBe("1 2");
    expect(await states()).toEqual(["ACTIVE", "PENDING"]);
    expect(await versions()).toBe("2 None");
    expect(await states()).toEqual(["RETIRING", "ACTIVE"]);
  });
});
