import { Type } from "typebox";
import { WRAPPED_KINDS, type WrappedKind } from "#database/repositories/wrapped-keys.ts";
import { SignetError } from "#domain/errors.ts";
import { type RewrapPosition, rewrapKeys } from "#tokens/signing-keys/rewrap.ts";
import { Body, Formed, Nullable, Resource } from "#http/common.ts";
import { operation } from "../openapi/operation.ts";
import type { SignetServer } from "#http/types.ts";
import { authorOf } from "./author.ts";
import type { AdminServices } from "./services.ts";

const Rewrapped = Resource("RewrappedKeys", {
  kek_id: Type.String({ description: "The current key-encryption key" }),
  rewrapped: Type.Integer(),
  unreadable: Type.Array(Type.String(), {
    description: "Ids of the secrets and keys that an unknown key wraps",
  }),
  next_cursor: Nullable(Type.String()),
});

/** Parses a cursor, `<kind>|<id>`, which is opaque to callers. */
function readCursor(cursor: string | undefined): RewrapPosition | undefined {
  if (cursor === undefined) {
    return undefined;
  }
  const [, kind, after] =
    /^(\w+)\|([A-Za-z0-9_-]*)$/.exec(Buffer.from(cursor, "base64url").toString("latin1")) ?? [];
  const known = WRAPPED_KINDS.find((candidate): candidate is WrappedKind => candidate === kind);
  if (known === undefined || after === undefined) {
    const detail = "is not next_cursor of the previous response";
    throw new SignetError("INVALID_REQUEST", {
      detail: `The body's cursor ${detail}.`,
      extensions: { errors: [{ pointer: "/cursor", code: "unknown_cursor", detail }] },
    });
  }
  return { kind: known, after };
}

function writeCursor(position: RewrapPosition | undefined): string | null {
  return position === undefined
    ? null
    : Buffer.from(`${position.kind}|${position.after}`, "latin1").toString("base64url");
}

/** Registers the operators' routes for key-encryption keys. */
export function registerKeyEncryptionRoutes(server: SignetServer, services: AdminServices): void {
  server.post(
    "/admin/v1/key-encryption/rewrap",
    operation({
      id: "rewrapKeys",
      tag: "key-encryption",
      operator: "security",
      audits: "key.rewrapped",
      summary: "Rewrap keys with the newest key-encryption key",
      description:
        "Each request rewraps one page, while the service runs: continue with `next_cursor` until it is null. `unreadable` lists what no configured key can unwrap.",
      body: Body("KeyRewrap", {
        cursor: Type.Optional(
          Formed(
            { pattern: "^[A-Za-z0-9_-]+$", wanted: "next_cursor of the previous response" },
            { maxLength: 256 },
          ),
        ),
      }),
      response: { 200: Rewrapped },
    }),
    async (request) => {
      const result = await rewrapKeys(services, authorOf(request), readCursor(request.body.cursor));
      return {
        kek_id: result.kekId,
        rewrapped: result.rewrapped,
        unreadable: [...result.unreadable],
        next_cursor: writeCursor(result.next),
      };
    },
  );
}
