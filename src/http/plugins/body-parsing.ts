/** Parses JSON bodies strictly, with the opaque members that the route declares. */
import type { preValidationHookHandler, RouteOptions } from "fastify";
import { SignetError, validationFailed } from "#domain/errors.ts";
import { createStrictJsonParser } from "../strict-json.ts";
import type { SignetServer } from "../types.ts";

/** Default body limit, in bytes. */
export const BODY_LIMIT = 65_536;
/** Maximum nesting depth of a body outside its opaque members. */
export const BODY_DEPTH = 16;

type ReadBody = (bytes: Uint8Array) => unknown;

const readPlain = createStrictJsonParser({ maxDepth: BODY_DEPTH });

function hasMembers(body: unknown): boolean {
  return body !== undefined && (typeof body !== "object" || body === null || Object.keys(body).length > 0);
}

const requireBody: preValidationHookHandler = (request, _reply, done) => {
  if (request.body === undefined) {
    throw new SignetError("INVALID_REQUEST", { detail: "A JSON body is required." });
  }
  done();
};

const refuseBody: preValidationHookHandler = (request, _reply, done) => {
  if (hasMembers(request.body)) {
    throw validationFailed([{ pointer: "", code: "unknown_member", detail: "must have no members" }]);
  }
  done();
};

const emptyBody: preValidationHookHandler = (request, _reply, done) => {
  if (request.body === undefined) {
    request.body = {};
  }
  done();
};

function bodyCheck({ schema, config }: RouteOptions): preValidationHookHandler {
  if (schema?.body === undefined) {
    return refuseBody;
  }
  return config?.optionalBody === true ? emptyBody : requireBody;
}

/** Installs the parser, and for each route the check that a body is present exactly if the route declares one. */
export function installBodyParsing(server: SignetServer): void {
  const readers = new WeakMap<object, ReadBody>();
  server.addHook("onRoute", (route) => {
    const { opaque, rawBody, proxied } = route.config ?? {};
    if (opaque !== undefined) {
      readers.set(opaque, createStrictJsonParser({ maxDepth: BODY_DEPTH, opaque }));
    }
    if (rawBody !== true && proxied !== true) {
      route.preValidation = [bodyCheck(route), ...[route.preValidation ?? []].flat()];
    }
  });
  server.removeAllContentTypeParsers();
  server.addContentTypeParser("application/json", { parseAs: "buffer" }, (request, bytes, done) => {
    const { opaque } = request.routeOptions.config;
    const read = (opaque === undefined ? undefined : readers.get(opaque)) ?? readPlain;
    // Clients may send the header even with an empty body.
    const parse = (): unknown => (bytes.length === 0 ? undefined : read(bytes as Buffer));
    if (request.verifyBody === undefined) {
      done(null, parse());
      return;
    }
    request
      .verifyBody(bytes as Buffer)
      .then(parse)
      .then((body) => done(null, body), done);
  });
}
