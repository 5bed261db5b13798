import type { FastifyReply, FastifyRequest } from "fastify";
import { describe, expect, test } from "vitest";
import type { Identity } from "#domain/identity.ts";
import type { SignetError } from "#domain/errors.ts";
import { createAdmission, createScopeGuard } from "#tokens/guards/authentication.ts";

const THUMBPRINT = "A4DtL2JmUMhAsvJj5tKyn64SqzmuXbMrJa0n761y5v0";
const IDENTITY: Identity = {
  tenantId: "ten_1",
  principalId: "prn_1",
  credentialId: "crd_1",
  clientId: "cl_1",
  scopes: new Set(["inference:read", "telemetry:export"]),
  region: "eu",
  jti: "j",
  kid: "k",
  issuedAt: 0,
  certificateThumbprint: undefined,
};

interface Guarded {
  readonly required?: readonly string[];
  readonly identity?: Partial<Identity>;
  /** `x5t#S256` of the connection's certificate. */
  readonly x5t?: string;
  readonly bindingRequired?: boolean;
}

/** Returns the guard's error; undefined if it admits the request. */
async function refusal(guarded: Guarded): Promise<SignetError | undefined> {
  const { required = [], identity = {}, x5t, bindingRequired = false } = guarded;
  const guard = createScopeGuard({
    verify: async () => await Promise.resolve({ ...IDENTITY, ...identity }),
    binding: { bindingRequired },
    admit: createAdmission(),
  })(required);
  const request = {
    headers: { authorization: "Bearer a.b.c" },
    routeOptions: { method: "POST", url: "/v1/pipelines/:id", config: {} },
    clientCertificate: x5t === undefined ? undefined : { x5t },
  } as unknown as FastifyRequest;
  return await new Promise((resolve) => {
    guard.call({} as never, request, {} as FastifyReply, (error) =>
      resolve(error as SignetError | undefined),
    );
  });
}

describe("scopes", () => {
  test.each([[[]], [["inference:read"]], [["telemetry:export", "inference:read"]]])(
    "%j are within the token's",
    async (required) => {
      expect(await refusal({ required })).toBeUndefined();
    },
  );

  test.each([
    [["pipeline:write"], "pipeline:write"],
    [["inference:read", "pipeline:write"], "pipeline:write"],
    [["pipeline:write", "pipeline:read"], "pipeline:write pipeline:read"],
    [["inference:read "], "inference:read "],
    [["inference"], "inference"],
  ])("%j are not, and the error names what is missing: %j", async (required, missing) => {
    expect(await refusal({ required })).toMatchObject({
      code: "SCOPE_VIOLATION",
      status: 403,
      message: `POST /v1/pipelines/{id} requires scope ${required.join(" ")}.`,
      extensions: { missing_permission: missing, required_scopes: required },
    });
  });
});

describe("a token that is bound to a certificate", () => {
  const identity = { certificateThumbprint: THUMBPRINT };
  const mismatch = { code: "CERT_BINDING_MISMATCH", status: 401 };

  test("is admitted with that certificate only", async () => {
    expect(await refusal({ identity, x5t: THUMBPRINT })).toBeUndefined();
    for (const x5t of [THUMBPRINT.replace("A4", "B4"), THUMBPRINT.slice(0, -1), ""]) {
      expect(await refusal({ identity, x5t })).toMatchObject(mismatch);
    }
    expect(await refusal({ identity })).toMatchObject(mismatch);
  });

  test("is required where the settings say so", async () => {
    expect(await refusal({ x5t: THUMBPRINT })).toBeUndefined();
    expect(await refusal({ x5t: THUMBPRINT, bindingRequired: true })).toMatchObject(mismatch);
  });
});
