/**
 * The URL standard's own tests (test/corpora): as the URL of an endpoint, each is refused with a reason, or stored in the
 * form that the standard gives it. No worker runs, so nothing is sent.
 */
import { beforeAll, expect, test } from "vitest";
import { useSharedApi } from "../support/api.ts";
import { expectDocumented, inParallel, readCorpus } from "../support/corpora.ts";
import { allowMinutes } from "../support/limits.ts";
import { createTenant, expectRefusal, type Tenant } from "../support/tenant.ts";

interface Case {
  readonly input: string;
  readonly base: string | null;
  readonly href?: string;
  readonly failure?: true;
}

const CASES = readCorpus<readonly Case[]>("url-standard/urltestdata");
allowMinutes(5);

const api = useSharedApi();
let tenant: Tenant;

beforeAll(async () => {
  tenant = await createTenant(api);
  await api.admin("PATCH", `/tenants/${tenant.tenantId}/limits`, { endpoints: 2_000 });
});

/** Registers an endpoint. @returns the stored URL, or undefined if the URL was refused with a reason */
async function stored(url: string): Promise<string | undefined> {
  const answer = await tenant.post("/v1/webhooks/endpoints", { url, events: ["corpus.url"] });
  if (answer.status === 201) {
    return String(answer.body["url"]);
  }
  const isForm = url === "" || url.length > 2_048 || !url.isWellFormed() || url.includes("\0");
  const code =
    answer.status === 400 ? "INVALID_REQUEST" : isForm ? "VALIDATION_FAILED" : "TARGET_URL_FORBIDDEN";
  expectRefusal(answer, answer.status === 400 ? 400 : 422, code);
  return undefined;
}

test("an absolute URL is stored as the standard reads it, and what the standard refuses is refused", async () => {
  const alone = CASES.filter(({ base, failure }) => base === null || failure === true);
  const urls = await inParallel(alone, async ({ input }) => await stored(input));
  const faults = alone.filter(({ href }, at) => urls[at] !== undefined && urls[at] !== href);
  expect(faults).toEqual([]);
  const accepted = urls.filter((url) => url !== undefined).length;
  // What the standard reads and an endpoint may not have (docs/egress.md): other schemes, user names, odd spellings.
  const differences = alone.filter(({ href }, at) => href !== undefined && urls[at] === undefined).length;
  const refused = alone.length - accepted;
  expectDocumented("urltestdata, absolute URLs", { accepted, refused, differences });
});

test("the form that the standard gives a URL is stored unchanged", async () => {
  const forms = [...new Set(CASES.flatMap(({ href }) => href ?? []))];
  const urls = await inParallel(forms, stored);
  expect(forms.filter((form, at) => urls[at] !== undefined && urls[at] !== form)).toEqual([]);
  const accepted = urls.filter((url) => url !== undefined).length;
  const refused = forms.length - accepted;
  expectDocumented("urltestdata, normal forms", { accepted, refused, differences: refused });
});
