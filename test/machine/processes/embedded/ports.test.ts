import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { expect, it } from "vitest";
import { isListening, isPortFree, requireFreePort } from "#processes/embedded/ports.ts";

it("a port in use is reported with its setting, and is free again once released", async () => {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const use = { what: "the embedded PostgreSQL", host: "127.0.0.1", port, setting: "SIGNET_X_PORT" };
  expect(await isListening("127.0.0.1", port)).toBe(true);
  await expect(requireFreePort(use)).rejects.toMatchObject({
    code: "UNAVAILABLE",
    message: `port ${port} on 127.0.0.1 is taken, and the embedded PostgreSQL needs it: stop the program that has it, or set SIGNET_X_PORT to a free port`,
  });
  server.close();
  await once(server, "close");
  expect(await isPortFree("127.0.0.1", port)).toBe(true);
  expect(await isListening("127.0.0.1", port)).toBe(false);
  await requireFreePort(use);
});
