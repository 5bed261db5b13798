/** Routes that read one member, by its id alone or below its parent. */
import { found } from "../../domain/errors.ts";
import type { TSchema } from "typebox";
import type { IdNoun } from "../../domain/ids.ts";
import { Closed, Id, IdParams } from "../../http/common.ts";
import type { SignetServer } from "../../http/types.ts";

export interface MemberRoutes<Row> {
  readonly noun: IdNoun;
  /** The collection's last path segment, for instance `roles`. */
  readonly path: string;
  readonly parentNoun: IdNoun;
  readonly parentPath: string;
  readonly schema: TSchema;
  readonly find: (id: string) => Promise<Row | undefined>;
  readonly parentOf: (row: Row) => string;
  readonly present: (row: Row) => unknown;
}

/** Registers `GET /admin/v1/{path}/{id}` and `GET /admin/v1/{parents}/{id}/{path}/{member_id}`. */
export function registerMemberRoutes<Row>(server: SignetServer, member: MemberRoutes<Row>): void {
  const { noun, path, parentNoun, parentPath, find, parentOf, present } = member;
  const response = { 200: member.schema };

  server.get(
    `/admin/v1/${path}/:id`,
    { config: { operator: "read" }, schema: { tags: [path], params: IdParams(noun), response } },
    async ({ params }) => present(found(await find(params.id), noun)),
  );

  server.get(
    `/admin/v1/${parentPath}/:id/${path}/:member_id`,
    {
      config: { operator: "read" },
      schema: { tags: [path], params: Closed({ id: Id(parentNoun), member_id: Id(noun) }), response },
    },
    async ({ params }) => {
      const row = await find(params.member_id);
      return present(found(row !== undefined && parentOf(row) === params.id ? row : undefined, noun));
    },
  );
}
