/** Routes that read what belongs to a parent: the list, and one member by its id alone or below its parent. */
import { found } from "#domain/errors.ts";
import type { TObject, TSchema, TString } from "typebox";
import type { RowPage } from "#database/repositories/page.ts";
import { Closed, Id, IdParams, Page, PageQuery } from "#http/common.ts";
import { operation } from "../openapi/operation.ts";
import { readPage, toPage } from "../pagination.ts";
import type { SignetServer } from "#http/types.ts";

export interface MemberRoutes<Row> {
  /** Its plural is the last segment of the collection's path. */
  readonly noun: "role" | "principal" | "credential";
  readonly parentNoun: "tenant" | "principal";
  /** What the descriptions add. */
  readonly note?: string;
  /** Path parameter of the route to one member; by default its id. */
  readonly params?: TObject<{ id: TString }>;
  /** A member in the list. */
  readonly listed: TSchema;
  /** A member on its own. */
  readonly schema: TSchema;
  readonly findParent: (id: string) => Promise<object | undefined>;
  /** Returns the presented members of a parent. */
  readonly list: (parentId: string, page: RowPage) => Promise<readonly { readonly id: string }[]>;
  readonly find: (id: string) => Promise<Row | undefined>;
  readonly parentOf: (row: Row) => string;
  readonly present: (row: Row) => unknown;
}

/** Registers `GET {parents}/{id}/{members}`, `{members}/{id}` and `{parents}/{id}/{members}/{member_id}`. */
export function registerMemberRoutes<Row>(server: SignetServer, member: MemberRoutes<Row>): void {
  const { noun, parentNoun, note = "", find, parentOf, present } = member;
  const title = noun.charAt(0).toUpperCase() + noun.slice(1);
  const path = `/admin/v1/${parentNoun}s/:id/${noun}s`;
  const common = { tag: `${noun}s`, operator: "read" } as const;

  server.get(
    path,
    operation({
      ...common,
      id: `list${title}s`,
      summary: `List a ${parentNoun}'s ${noun}s`,
      description: `Newest first.${note}`,
      params: IdParams(parentNoun),
      querystring: Closed(PageQuery),
      response: { 200: Page(member.listed) },
    }),
    async (request) => {
      const { id } = request.params;
      found(await member.findParent(id), parentNoun);
      const page = readPage(request);
      return toPage(await member.list(id, page), page);
    },
  );

  server.get(
    `/admin/v1/${noun}s/:id`,
    operation({
      ...common,
      id: `get${title}`,
      summary: `Read a ${noun}`,
      description: `The path needs only its id.${note}`,
      params: member.params ?? IdParams(noun),
      response: { 200: member.schema },
    }),
    async ({ params }) => present(found(await find(params.id), noun)),
  );

  server.get(
    `${path}/:member_id`,
    operation({
      ...common,
      id: `get${title}Of`,
      summary: `Read a ${noun} of a ${parentNoun}`,
      description: `Returns 404 if it belongs to another ${parentNoun}.${note}`,
      params: Closed({ id: Id(parentNoun), member_id: Id(noun) }),
      response: { 200: member.schema },
    }),
    async ({ params }) => {
      const row = await find(params.member_id);
      return present(found(row !== undefined && parentOf(row) === params.id ? row : undefined, noun));
    },
  );
}
