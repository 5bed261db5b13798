/** Checks that generated documents agree with the routes: these come from an api whose scripts a thread bundles. */
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { clientTypes } from "#tools/client-types.ts";
import { describedApi } from "#tools/described-api.ts";
import { GENERATED_DOCUMENTS, withGeneratedParts } from "#tools/generated-parts.ts";
import { goModels } from "#tools/go-models.ts";
import { type Document, operationsOf } from "#tools/openapi-schema.ts";
import { PYTHON_MODELS, pythonModels } from "#tools/python-models.ts";
import { sdkFiles } from "#tools/sdk-files.ts";
import { sdkTable } from "#tools/sdk-methods.ts";

const REPOSITORY = join(import.meta.dirname, "..", "..", "..");

async function read(path: string): Promise<string> {
  return await readFile(join(REPOSITORY, path), "utf8");
}

it.each(GENERATED_DOCUMENTS)("%s matches the code: run `npm run docs` when this fails", async (name) => {
  const document = await read(name);
  expect(await withGeneratedParts(document)).toBe(document);
});

it("src/lib/client/api-types.ts matches the routes' schemas", async () => {
  expect(await read("src/lib/client/api-types.ts")).toBe(await clientTypes(await describedApi()));
});

it("sdk/go/models.gen.go matches the routes' schemas", async () => {
  expect(await read("sdk/go/models.gen.go")).toBe(goModels(await describedApi()));
});

it("sdk/python's models match the routes' schemas", async () => {
  expect(await read(PYTHON_MODELS)).toBe(pythonModels(await describedApi()));
});

it("the methods of the SDKs match the routes' declarations", async () => {
  for (const [path, text] of await sdkFiles(await describedApi())) {
    expect(await read(path), path).toBe(text);
  }
});

it("each operation of tenants is a method of the SDKs, or says why it is none", async () => {
  const described = (await describedApi()) as unknown as Document;
  const silent = operationsOf(described).filter(({ "x-sdk": sdk }) => sdk === undefined);
  expect(silent.map(({ operationId }) => operationId)).toEqual([]);
});

it("a new operation with `sdk` is a method of all SDKs, without a change by hand", async () => {
  const described = structuredClone(await describedApi()) as unknown as Document;
  const before = await sdkFiles(described as unknown as Record<string, unknown>);
  const disable = described.paths["/v1/webhooks/endpoints/{id}/disable"]?.["post"];
  const paths: Document["paths"] = {
    ...described.paths,
    "/v1/webhooks/endpoints/{id}/hush": {
      post: {
        ...(disable as NonNullable<typeof disable>),
        operationId: "hushEndpoint",
        "x-sdk": { name: "endpoints.hushAll", repeat: "safe" },
        summary: "Hush an endpoint",
        description: "Nothing is sent.",
      },
    },
  };
  const document = { ...described, paths } as unknown as Record<string, unknown>;
  const changed = [...(await sdkFiles(document))].filter(([path, text]) => before.get(path) !== text);
  expect(changed.map(([path]) => path)).toEqual([
    "src/lib/client/resources/endpoints.ts",
    "sdk/go/resources.gen.go",
    "sdk/python/src/signet_delivery/resources/endpoints.py",
  ]);
  const [typescript, go, python] = changed.map(([, text]) => text);
  expect(typescript).toContain(`  /** Hushes an endpoint. Nothing is sent. */
  async hushAll(id: string, options: CallOptions = {}): Promise<Endpoint> {
    return await this.request("POST", at\`/v1/webhooks/endpoints/\${id}/hush\`, options, { repeatable: true });
  }
`);
  expect(go).toContain(`// HushAll hushes an endpoint. Nothing is sent.
func (e *Endpoints) HushAll(ctx context.Context, id string, options ...CallOption) (*Endpoint, error) {
	return post[Endpoint](ctx, e.api, at("/v1/webhooks/endpoints/{}/hush", id), nil, options)
}
`);
  expect(python).toContain(`    def hush_all(self, id: str) -> models.Endpoint:
        """Hushes an endpoint.

        Nothing is sent.
        """
        answer = self._transport.post(f"/v1/webhooks/endpoints/{segment(id)}/hush", repeatable=True)
        return cast(models.Endpoint, answer)
`);
  const calls = (["typescript", "go", "python"] as const).map((language) =>
    sdkTable(document, language).map(([, methods]) => methods),
  );
  expect(calls.map(([endpoints]) => endpoints?.at(-1))).toEqual(["hushAll", expect.any(String), "hush_all"]);
  expect(calls[1]?.[0]).toContain("HushAll");
});
