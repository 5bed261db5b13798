import { once } from "node:events";
import { type AddressInfo, createServer, type Socket } from "node:net";
import { expect, onTestFinished, test } from "vitest";
import { certificatesOf } from "../../../src/http/mutual-tls/trust.ts";
import { createHubOpener } from "../../../src/revocation/hub-socket.ts";
import { newRoot, serverPair } from "../../support/certificates.ts";

const root = await newRoot();
const tls = {
  ...(await serverPair(root)),
  anchors: { pem: root.cert, certificates: certificatesOf(root.cert) },
  names: ["DNS:hub.test"],
  relays: [],
};

test.each(["ws", "wss"])(
  "an attempt to reach a hub that accepts and says nothing ends with its signal, over %s",
  async (scheme) => {
    const silent = createServer().listen(0, "127.0.0.1");
    onTestFinished(() => void silent.close());
    await once(silent, "listening");
    const { port } = silent.address() as AddressInfo;
    const ending = new AbortController();
    const opening = createHubOpener(() => (scheme === "wss" ? tls : undefined))(
      `${scheme}://127.0.0.1:${port}`,
      { onMessage: () => undefined, onClose: () => undefined },
      ending.signal,
    );
    const [accepted] = (await once(silent, "connection")) as [Socket];
    // A part of the handshake has arrived, and nothing answers.
    await once(accepted, "data");
    const closed = once(accepted, "close");
    accepted.on("error", () => undefined);
    ending.abort(new Error("its time is over"));
    await expect(opening).rejects.toThrow("its time is over");
    await closed;
  },
);
