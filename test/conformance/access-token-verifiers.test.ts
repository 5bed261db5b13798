/**
 * The programs of docs/verify-access-tokens.md accept genuine access tokens, and no others: those of an issuer whose key the
 * test has, and of a real api.
 */
import { generateKeyPairSync, type KeyObject, randomUUID, X509Certificate } from "node:crypto";
import { cp, mkdtemp, writeFile } from "node:fs/promises";
import { createServer, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { type JWTPayload, SignJWT } from "jose";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { useSharedApi } from "../support/api.ts";
import { CACHE } from "../support/cache.ts";
import { certificateFiles, clientPair, newRoot, today, x5t } from "../support/certificates.ts";
import { startUpstream, type TestUpstream } from "../support/edge.ts";
import { startEnvoy, withoutEnvoy } from "../support/envoy.ts";
import { accessToken, provision } from "../support/factories.ts";
import { BRIEF_JAVA } from "../support/generated-clients.ts";
import { allowMinutes } from "../support/limits.ts";
import { runProcess, type SpawnedProcess } from "../support/processes.ts";
import { lacks } from "../support/skips.ts";

const MINUTES = 15;
allowMinutes(MINUTES);

const EXAMPLES = join(import.meta.dirname, "..", "..", "docs", "examples", "verify-access-tokens");
const AUDIENCE = "signet";
const api = useSharedApi();

interface Program {
  readonly name: string;
  /** Directory below docs/examples/verify-access-tokens. */
  readonly folder: string;
  /** Succeeds if the runtime and its registry are there. */
  readonly probe: string;
  /** Commands that install and build it. */
  readonly prepare: readonly (readonly string[])[];
  readonly command: string;
}

const MAVEN = ["mvn", "--quiet", "--batch-mode"];
const java = {
  folder: "java",
  probe: "mvn --version",
  prepare: [[...MAVEN, "package", "dependency:copy-dependencies"]],
};
const JAVA = "java -cp 'target/classes:target/dependency/*' Main";
const PROGRAMS: readonly Program[] = [
  {
    name: "PyJWT",
    folder: "python",
    probe: "python3 -m pip index versions PyJWT",
    prepare: [
      ["python3", "-m", "venv", ".venv"],
      [".venv/bin/pip", "install", "--quiet", "-r", "requirements.txt"],
    ],
    command: ".venv/bin/python access_tokens.py",
  },
  {
    name: "golang-jwt",
    folder: "go",
    probe: "go list -m github.com/golang-jwt/jwt/v5@latest",
    prepare: [["go", "build", "-o", "verify", "."]],
    command: "./verify",
  },
  {
    name: "jsonwebtoken for Rust",
    folder: "rust",
    probe: "cargo --version",
    prepare: [["cargo", "build", "--quiet", "--locked"]],
    command: '"$CARGO_TARGET_DIR/debug/access-tokens"',
  },
  { name: "Nimbus", ...java, command: `${JAVA} nimbus` },
  { name: "Spring Security", ...java, command: `${JAVA} spring` },
];

const environment = {
  ...process.env,
  GOTOOLCHAIN: "local",
  JAVA_TOOL_OPTIONS: BRIEF_JAVA,
  CARGO_PROFILE_DEV_DEBUG: "0",
  // Packages that an earlier run has compiled.
  CARGO_TARGET_DIR: join(CACHE, "access-tokens-rust"),
};

const root = await newRoot();
const certificate = await clientPair(root);
const der = new X509Certificate(certificate.cert).raw.toString("base64");
const own = generateKeyPairSync("ec", { namedCurve: "P-256" });
const other = generateKeyPairSync("ec", { namedCurve: "P-256" });
const jwk = { ...own.publicKey.export({ format: "jwk" }), kid: "own", alg: "ES256", use: "sig" };
/** The test's own issuer. Its address is known before the tests, and in the Envoy's configuration it has a name. */
let issuer = "";

interface Made {
  readonly header?: Record<string, unknown>;
  readonly claims?: JWTPayload;
  readonly key?: KeyObject | Uint8Array;
}

/** Returns a token as the service makes it, with changes; undefined removes a member. */
async function token({ header, claims, key = own.privateKey }: Made = {}): Promise<string> {
  const now = Math.floor(Date.now() / 1_000);
  return await new SignJWT({
    iss: issuer,
    sub: "cl_1",
    aud: AUDIENCE,
    client_id: "cl_1",
    scope: "inference:read events:publish",
    iat: now,
    exp: now + 900,
    jti: randomUUID(),
    ...claims,
  })
    .setProtectedHeader({ alg: "ES256", typ: "at+jwt", kid: "own", ...header })
    .sign(key);
}

const unsigned = async (): Promise<string> => {
  const [, payload] = (await token()).split(".");
  return `${Buffer.from('{"alg":"none","typ":"at+jwt","kid":"own"}').toString("base64url")}.${payload}.`;
};
const altered = (genuine: string): string => {
  const [header, payload = "", signature] = genuine.split(".");
  const claims = JSON.parse(Buffer.from(payload, "base64url").toString()) as object;
  const changed = Buffer.from(JSON.stringify({ ...claims, scope: "all" })).toString("base64url");
  return [header, changed, signature].join(".");
};
const seconds = (ago: number): number => Math.floor(Date.now() / 1_000) - ago;
const bound = { cnf: { "x5t#S256": x5t(certificate) } };

/** Lines that are accepted, and those that are not. The tolerance of the libraries for clocks is a minute at most. */
const ACCEPTED: Readonly<Record<string, () => Promise<string>>> = {
  "a genuine token": async () => await token(),
  "a token that is bound to the client's certificate": async () => `${await token({ claims: bound })} ${der}`,
};
const REFUSED: Readonly<Record<string, () => Promise<string>>> = {
  "a changed claim": async () => altered(await token()),
  "another key": async () => await token({ key: other.privateKey }),
  "an unknown key id": async () => await token({ header: { kid: "other" } }),
  "no signature": unsigned,
  "HMAC with the public key": async () =>
    await token({
      header: { alg: "HS256" },
      key: new TextEncoder().encode(own.publicKey.export({ format: "pem", type: "spki" }) as string),
    }),
  "the type JWT": async () => await token({ header: { typ: "JWT" } }),
  "the type of security events": async () => await token({ header: { typ: "secevent+jwt" } }),
  "no type": async () => await token({ header: { typ: undefined } }),
  "another issuer": async () => await token({ claims: { iss: "https://other.example" } }),
  "another audience": async () => await token({ claims: { aud: "other" } }),
  "no audience": async () => await token({ claims: { aud: undefined } as never }),
  "an end in the past": async () => await token({ claims: { iat: seconds(1_100), exp: seconds(200) } }),
  "no end": async () => await token({ claims: { exp: undefined } as never }),
  "a bound token without a certificate": async () => await token({ claims: bound }),
  "a bound token with another certificate": async () =>
    `${await token({ claims: { cnf: { "x5t#S256": x5t(await clientPair(root)) } } })} ${der}`,
  "no token": async () => await Promise.resolve("x"),
};

function publishKeys(server: Server): Server {
  return server.on("request", (_request, response) => {
    response.setHeader("content-type", "application/json");
    response.end(JSON.stringify({ keys: [jwk] }));
  });
}

async function listening(server: Server): Promise<number> {
  await new Promise<void>((resolve) => void server.listen(0, "127.0.0.1", resolve));
  return (server.address() as AddressInfo).port;
}

const keyServer = publishKeys(createServer());
beforeAll(async () => {
  issuer = `http://127.0.0.1:${await listening(keyServer)}`;
});
afterAll(() => void keyServer.close());

/** Programs of one folder are built once. */
const built = new Map<string, Promise<string>>();

async function build({ folder, prepare }: Program): Promise<string> {
  const cwd = await mkdtemp(join(inject("runDirectory"), `verifier-${folder}-`));
  await cp(join(EXAMPLES, folder), cwd, { recursive: true });
  for (const command of prepare) {
    await runProcess({ command, cwd, environment });
  }
  return cwd;
}

/** Returns for each line whether the program accepts it. */
async function verdicts(
  program: Program,
  from: string,
  lines: readonly string[],
): Promise<readonly boolean[]> {
  const directory = built.get(program.folder) ?? build(program);
  built.set(program.folder, directory);
  const cwd = await directory;
  const path = join(cwd, randomUUID());
  await writeFile(path, `${lines.join("\n")}\n`);
  const output = await runProcess({
    command: ["sh", "-c", `${program.command} < ${path}`],
    cwd,
    environment: { ...environment, ISSUER: from, AUDIENCE },
  });
  const answers = output.trim().split("\n");
  expect(answers, output).toHaveLength(lines.length);
  return answers.map((line) => "sub" in (JSON.parse(line) as object));
}

const isLacking = ({ name, probe }: Program): boolean => lacks(`access tokens with ${name}`, probe);

describe.each(PROGRAMS.filter((program) => !isLacking(program)))("$name", (program) => {
  test("accepts genuine tokens and refuses all others", async () => {
    const cases = { ...ACCEPTED, ...REFUSED };
    const lines = await Promise.all(Object.values(cases).map(async (line) => await line()));
    const found = await verdicts(program, issuer, lines);
    const accepted = Object.keys(cases).filter((_name, index) => found[index]);
    expect(accepted).toEqual(Object.keys(ACCEPTED));
  });

  test("accepts tokens of the service", async () => {
    const genuine = await accessToken(api, await provision(api, { scopes: ["inference:read"] }));
    expect(await verdicts(program, api.publicUrl, [genuine, altered(genuine)])).toEqual([true, false]);
  });
});

describe.skipIf(withoutEnvoy("docs/proxies/envoy-jwt.yaml in a real Envoy"))("Envoy", () => {
  const files = certificateFiles();
  let running: SpawnedProcess;
  let upstream: TestUpstream;
  let keys: Server;
  let port: number;

  beforeAll(async () => {
    issuer = "https://api.example.com";
    files.write("ca.crt", root.cert);
    const names = [{ type: "dns", value: "api.example.com" } as const];
    const pair = await root.issue({ subject: "CN=api", names, purposes: ["serverAuth"], ...today() });
    keys = publishKeys(createTlsServer(pair));
    upstream = await startUpstream();
    const keysPort = await listening(keys);
    ({ port, running } = await startEnvoy("envoy-jwt.yaml", files, {
      "address: api.example.com, port_value: 443": `address: 127.0.0.1, port_value: ${keysPort}`,
      "address: data.internal, port_value: 8080": `address: 127.0.0.1, port_value: ${new URL(upstream.origin).port}`,
    }));
  });
  afterAll(async () => {
    await running.stop();
    await upstream.close();
    keys.close();
    files.remove();
  });

  const ask = async (authorization: string): Promise<number> =>
    (await fetch(`http://127.0.0.1:${port}/`, { headers: { authorization } })).status;

  test("admits genuine tokens that have the scope", async () => {
    expect(await ask(`Bearer ${await token()}`), running.output()).toBe(200);
    const narrow = await token({ claims: { scope: "inference:reader events:publish" } });
    expect(await ask(`Bearer ${narrow}`)).toBe(403);
  });

  test("refuses all others: 403 for another audience, else 401", async () => {
    // It looks at neither the type nor the certificate; the audience keeps other tokens of the service out.
    const beyond = /type|bound/;
    for (const [name, line] of Object.entries(REFUSED).filter(([each]) => !beyond.test(each))) {
      const status = name.includes("audience") ? 403 : 401;
      expect(await ask(`Bearer ${await line()}`), name).toBe(status);
    }
    expect(await ask("")).toBe(401);
  });
});
