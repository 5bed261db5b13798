/**
 * Keeps connections full of pipelined requests, one path per connection, and never reads every other connection.
 * Arguments: port, number of connections, requests at once, paths.
 */
import { connect } from "node:net";

const [port, connections, pipelined, ...paths] = process.argv.slice(2);

for (let index = 0; index < Number(connections); index += 1) {
  const socket = connect(Number(port), "127.0.0.1");
  const requests = `GET ${paths[index % paths.length]} HTTP/1.1\r\nHost: signet\r\n\r\n`.repeat(
    Number(pipelined),
  );
  const fill = () => void socket.write(requests);
  socket.on("error", () => undefined);
  socket.on("connect", fill).on("drain", fill);
  if (Math.floor(index / paths.length) % 2 === 0) {
    socket.resume();
  } else {
    socket.pause();
  }
}
