/**
 * Answers of pipelined requests (RFC 9112 section 9.3.2). Node begins all requests of a connection and lets their answers
 * wait in a row; when the connection goes, it tells the first answer and none of those behind it. Whatever they hold,
 * an upstream's connection or a stream of events, would be held for ever.
 */
import type { ServerResponse } from "node:http";
import type { Socket } from "node:net";
import type { SignetServer } from "../types.ts";

/** Answers that wait, by their connection. */
const waiting = new WeakMap<Socket, Set<ServerResponse>>();

function endAll(answers: ReadonlySet<ServerResponse>): void {
  for (const answer of answers) {
    // One that has had its turn hears from Node.
    if (answer.socket === null && !answer.destroyed) {
      answer.destroy();
      answer.emit("close");
    }
  }
}

function endWithConnection(answer: ServerResponse, connection: Socket): void {
  let answers = waiting.get(connection);
  if (answers === undefined) {
    const fresh = new Set<ServerResponse>();
    waiting.set(connection, fresh);
    connection.once("close", () => endAll(fresh));
    answers = fresh;
  }
  answers.add(answer);
  answer.once("close", () => answers.delete(answer));
}

/** Has every answer that waits behind another one end with its connection. */
export function installPipelinedAnswers(server: SignetServer): void {
  server.addHook("onRequest", (request, reply, done) => {
    if (reply.raw.socket === null) {
      endWithConnection(reply.raw, request.raw.socket);
    }
    done();
  });
}
