/** Reads forms and verifies that a page of the portal sent them. */
import type { FastifyRequest } from "fastify";
import { type TProperties, Type } from "typebox";
import { type Pairs, readPairs } from "#http/query-string.ts";
import { Closed } from "#http/common.ts";
import type { SignetServer } from "#http/types.ts";
import { SignetError } from "#domain/errors.ts";
import { isSameToken } from "./visit.ts";

const FORM = "application/x-www-form-urlencoded";
const CSRF_LENGTH = 43;

/** Creates the schema of a form: its own fields, and those of every form in a session. */
export function Form<Properties extends TProperties>(properties: Properties) {
  return Closed({
    csrf: Type.String({ maxLength: CSRF_LENGTH }),
    /** Idempotency key of the rendered form, so that a form that is sent twice takes effect once. */
    once: Type.Optional(Type.String({ pattern: "^[A-Za-z0-9_-]{16,64}$" })),
    ...properties,
  });
}

/** A line of text. */
export const Line = (maxLength: number) => Type.String({ maxLength });

function wellFormed(text: string): Pairs {
  const pairs = readPairs(text);
  if (typeof pairs === "string") {
    throw new SignetError("INVALID_REQUEST", { detail: "The form is malformed." });
  }
  return pairs;
}

/** @throws SignetError INVALID_REQUEST */
export function readForm(text: string): Record<string, string | string[]> {
  const lists = new Map<string, string[]>();
  const single: string[] = [];
  for (const pair of text.split("&")) {
    const [name = ""] = pair.split("=", 1);
    // Checkboxes with the same name.
    if (name.endsWith("%5B%5D") || name.endsWith("[]")) {
      for (const [list, entry] of Object.entries(wellFormed(pair))) {
        const entries = lists.get(list);
        if (entries === undefined) {
          lists.set(list, [entry]);
        } else {
          entries.push(entry);
        }
      }
    } else {
      single.push(pair);
    }
  }
  return { ...wellFormed(single.join("&")), ...Object.fromEntries(lists) };
}

/** Makes this scope accept only forms. Fields whose names end in `[]` are lists. */
export function installForms(scope: SignetServer): void {
  scope.removeAllContentTypeParsers();
  scope.addContentTypeParser(FORM, { parseAs: "string" }, (_request, text, done) => {
    try {
      done(null, readForm(text as string));
    } catch (error) {
      done(error as Error);
    }
  });
}

function foreignForm(): SignetError {
  return new SignetError("INVALID_REQUEST", {
    detail: "This form did not come from a signed-in page of this portal. Reload the page and try again.",
  });
}

/**
 * Rejects requests that another site caused. SameSite already withholds the cookie from them, so this is a second
 * defence. For signing in, it is the only one.
 *
 * @throws SignetError INVALID_REQUEST
 */
export function requireOwnOrigin({ headers }: FastifyRequest, origin: string): void {
  const site = headers["sec-fetch-site"];
  const own = site === undefined ? headers.origin === origin : site === "same-origin";
  if (!own) {
    throw foreignForm();
  }
}

/** @throws SignetError INVALID_REQUEST if the form's token is not the session's token */
export function requireFormToken({ body, visit }: FastifyRequest): void {
  const given = (body as { csrf?: unknown } | undefined)?.csrf;
  if (typeof given !== "string" || !isSameToken(given, visit.csrf)) {
    throw foreignForm();
  }
}
