/**
 * A webhook receiver in a container of its own. It appends each request to `received.jsonl` beside its certificate. It
 * answers 200; below /broken 500, while the file `broken` exists.
 */
import { appendFileSync, existsSync, readFileSync } from "node:fs";
import { createServer } from "node:https";

const DIRECTORY = "/receiver";
const pair = readFileSync(`${DIRECTORY}/receiver.pem`);

createServer({ key: pair, cert: pair }, (request, response) => {
  const chunks = [];
  request.on("data", (chunk) => chunks.push(chunk));
  request.on("end", () => {
    const line = {
      path: request.url,
      headers: request.headers,
      body: Buffer.concat(chunks).toString("base64"),
    };
    appendFileSync(`${DIRECTORY}/received.jsonl`, `${JSON.stringify(line)}\n`);
    const broken = request.url.startsWith("/broken") && existsSync(`${DIRECTORY}/broken`);
    response.writeHead(broken ? 500 : 200).end();
  });
}).listen(443);
process.once("SIGTERM", () => process.exit());
