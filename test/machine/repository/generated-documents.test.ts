/** Checks that generated files agree with the code, and with the OpenAPI document that test/promises compares with the service. */
import { expect, it } from "vitest";
import { GENERATED_DOCUMENTS, withGeneratedParts } from "#tools/generated-parts.ts";
import { type Document, operationsOf, readOpenApi } from "#tools/openapi-schema.ts";
import { readText } from "#tools/repository.ts";
import { sdkFiles } from "#tools/sdk-files.ts";
import { sdkTable } from "#tools/sdk-methods.ts";

it.each(GENERATED_DOCUMENTS)("%s matches the code: run `npm run docs` when this fails", async (name) => {
  const document = await readText(name);
  expect(await withGeneratedParts(document)).toBe(document);
});

it("the types and methods of the SDKs match the OpenAPI document", async () => {
  for (const [path, text] of await sdkFiles(await readOpenApi("tenants"))) {
    expect(await readText(path), path).toBe(text);
  }
});

it("each operation of tenants is a method of the SDKs, or says why it is none", async () => {
  const silent = operationsOf(await readOpenApi("tenants")).filter(({ "x-sdk": sdk }) => sdk === undefined);
  expect(silent.map(({ operationId }) => operationId)).toEqual([]);
});

it("a new operation with `sdk` is a method of all SDKs, without a change by hand", async () => {
  const described = await readOpenApi("tenants");
  const before = await sdkFiles(described);
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
  const document = { ...described, paths };
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
