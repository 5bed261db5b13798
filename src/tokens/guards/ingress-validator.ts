/**
 * The ingress validator (specification 6): routes that declare `signatures` may also be called with a producer's signature
 * instead of a token, or with both. Who signs is looked up before the body is read, within its limit of size; the
 * signature is checked over the bytes that came, before anything parses them; then the request counts, and needs its
 * scopes, as one with a token does.
 */
import type { FastifyRequest, preValidationAsyncHookHandler } from "fastify";
import { signatureInvalid, type ProducerAuthenticator } from "../producers/authenticate-producer.ts";
import type { SignetServer } from "../../http/types.ts";
import type { AdmitRequest } from "./authentication.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /** Takes a producer's signature too. */
    signatures?: true;
  }
  interface FastifyRequest {
    /** The credential that a signed request names, from its headers on. */
    signer: string | undefined;
    /** What a signature covers, from the body on. */
    signed: { readonly credentialId: string; readonly eventId: string } | undefined;
  }
}

export interface IngressValidator {
  /** Whether this is a signed request to a route that takes signatures. */
  takes(request: FastifyRequest): boolean;
  /** Reads the headers of a signed request; true when nothing but the signature says who it is. */
  begin(request: FastifyRequest): Promise<boolean>;
  /** Token and signature must be of one credential. @throws SignetError `SIGNATURE_INVALID` */
  requireSameCredential(request: FastifyRequest): void;
  /** The guard after the body, in place of the one before it. */
  guard(required: readonly string[]): preValidationAsyncHookHandler;
}

/** Makes the validator; `admit` is what a request with a token goes through too. */
export function createIngressValidator(
  producers: ProducerAuthenticator,
  admit: AdmitRequest,
): IngressValidator {
  return {
    takes: ({ routeOptions, headers }) =>
      routeOptions.config.signatures === true && producers.isSigned(headers),
    begin: async (request) => {
      const { headers, clientAddress: address, clientCertificate: certificate } = request;
      const producer = await producers.identify({ headers, address, certificate });
      const { credentialId } = producer;
      request.signer = credentialId;
      const alone = headers.authorization === undefined;
      request.verifyBody = async (body) => {
        const { identity, eventId } = await producer.verify(body);
        request.signed = { credentialId, eventId };
        if (alone) {
          request.identity = identity;
        }
      };
      return alone;
    },
    requireSameCredential: (request) => {
      const { signer, identity } = request;
      if (signer !== undefined && signer !== identity.credentialId) {
        throw signatureInvalid("The access token and the signature are of two different credentials.");
      }
    },
    guard: (required) => async (request, reply) => {
      if (request.signer === undefined) {
        return;
      }
      if (request.signed === undefined) {
        throw signatureInvalid();
      }
      if (request.headers.authorization === undefined) {
        await admit(request, reply, required);
      }
    },
  };
}

/** Makes room for what a signed request carries. */
export function decorateSignedRequests(server: SignetServer): void {
  server.decorateRequest("signer");
  server.decorateRequest("signed");
}
