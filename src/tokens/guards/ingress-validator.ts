/**
 * The ingress validator (contract 6). Routes that declare `signatures` also accept a producer's signature, instead
 * of a token or with one. The signer is looked up before the body is read. The signature is verified over the raw
 * bytes, before they are parsed. After that, the request counts and needs scopes like one with a token.
 */
import type { FastifyRequest, preValidationAsyncHookHandler } from "fastify";
import { signatureInvalid, type ProducerAuthenticator } from "../producers/authenticate-producer.ts";
import type { SignetServer } from "#http/types.ts";
import type { AdmitRequest } from "./admission.ts";

declare module "fastify" {
  interface FastifyContextConfig {
    /** Whether the route also accepts a producer's signature. */
    signatures?: true;
  }
  interface FastifyRequest {
    /** The credential named by a signed request; set once the headers are read. */
    signer: string | undefined;
    /** The credential and the id that the signature covers; set once the body is verified. */
    signed: { readonly credentialId: string; readonly eventId: string } | undefined;
  }
}

export class IngressValidator {
  readonly #producers: ProducerAuthenticator;
  readonly #admit: AdmitRequest;

  /** @param admit also serves requests with a token */
  constructor(producers: ProducerAuthenticator, admit: AdmitRequest) {
    this.#producers = producers;
    this.#admit = admit;
  }

  /** Whether this is a signed request to a route that accepts signatures. */
  takes({ routeOptions, headers }: FastifyRequest): boolean {
    return routeOptions.config.signatures === true && this.#producers.isSigned(headers);
  }

  /** Reads the headers of a signed request. Returns true if only the signature identifies the caller. */
  async begin(request: FastifyRequest): Promise<boolean> {
    const { headers, clientAddress: address, clientCertificate: certificate } = request;
    const producer = await this.#producers.identify({ headers, address, certificate });
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
  }

  /** Requires that token and signature belong to the same credential. @throws SignetError `SIGNATURE_INVALID` */
  requireSameCredential({ signer, identity }: FastifyRequest): void {
    if (signer !== undefined && signer !== identity.credentialId) {
      throw signatureInvalid("The access token and the signature belong to different credentials.");
    }
  }

  /** Returns the guard that runs after the body is read. */
  guard(required: readonly string[]): preValidationAsyncHookHandler {
    return async (request, reply) => {
      if (request.signer === undefined) {
        return;
      }
      if (request.signed === undefined) {
        throw signatureInvalid();
      }
      if (request.headers.authorization === undefined) {
        await this.#admit(request, reply, required);
      }
    };
  }
}

/** Declares the properties of signed requests. */
export function decorateSignedRequests(server: SignetServer): void {
  server.decorateRequest("signer");
  server.decorateRequest("signed");
}
