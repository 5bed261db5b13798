/** A receiver of webhooks: `SECRET=whsec_… node docs/examples/receiver.ts`. Its port is the argument. */
import { createServer } from "node:http";
import { buffer } from "node:stream/consumers";
import { accept } from "./verify-with-signet.ts";

const secret = process.env["SECRET"] ?? "";

createServer((request, response) => {
  buffer(request)
    .then((rawBody) => {
      console.log("accepted", JSON.stringify(accept(secret, rawBody, request.headers)));
      response.writeHead(200).end();
    })
    .catch((error: unknown) => {
      console.log("refused", String(error));
      response.writeHead(401).end();
    });
}).listen(Number(process.argv[2] ?? 9000), "127.0.0.1");
