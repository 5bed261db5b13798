/** The upstream behind the compared proxies; answers immediately. Argument: port. Prints one line when it listens. */
import { createServer } from "node:http";

const ANSWER = JSON.stringify({ object: "list", data: Array.from({ length: 4 }, (_, id) => ({ id })) });

const server = createServer((_request, response) => {
  response.writeHead(200, { "content-type": "application/json", "content-length": ANSWER.length });
  response.end(ANSWER);
});
server.keepAliveTimeout = 60_000;
server.listen(Number(process.argv[2]), "127.0.0.1", () => {
  process.stdout.write("listening\n");
});
