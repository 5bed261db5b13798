/** Faults of the receivers of the client library, and of the files that it reads. */
import type { Mutant } from "./mutant.ts";

export const RECEIVERS: readonly Mutant[] = [
  {
    name: "adapters-without-headers",
    breaks: "A receiver works behind adapters that fill headers alone (docs/verify-webhooks.md, Node)",
    file: "src/lib/receiver/node-http.ts",
    find: "return { ...Object.fromEntries(joined), ...headersDistinct };",
    replace: "return joined.length < 0 ? Object.fromEntries(joined) : headersDistinct;",
    caughtBy: "test/machine/lib/receiver/adapters.test.ts",
  },
  {
    name: "kept-bytes-are-ignored",
    breaks: "A receiver takes the bytes that a platform keeps as rawBody (docs/verify-webhooks.md, Node)",
    file: "src/lib/receiver/node-http.ts",
    find: "const kept = bytesOf(rawBody) ?? bytesOf(body);",
    replace: "const kept = bytesOf(rawBody) === null ? undefined : bytesOf(body);",
    caughtBy: "test/machine/lib/receiver/adapters.test.ts",
  },
  {
    name: "receiver-starts-without-its-secret",
    breaks:
      "A receiver without its secret does not start (docs/verify-webhooks.md, Mistakes of the receiver)",
    file: "src/lib/receiver/receive.ts",
    find: 'typeof given === "function" ? given : readSecrets(given)',
    replace: 'typeof given === "function" ? given : () => readSecrets(given)',
    caughtBy: "test/unit/lib/receiver/receive.test.ts",
  },
  {
    name: "failures-are-silent",
    breaks:
      "A receiver prints failures that nobody hears (docs/verify-webhooks.md, Mistakes of the receiver)",
    file: "src/lib/receiver/report.ts",
    find: "if (printed.has(kind) || printed.size >= KINDS_MAX) {",
    replace: "if (printed.has(kind) || printed.size < KINDS_MAX) {",
    caughtBy: "test/unit/lib/receiver/receive.test.ts",
  },
  {
    name: "each-forgery-is-printed",
    breaks: "A receiver prints each kind once (docs/verify-webhooks.md, Mistakes of the receiver)",
    file: "src/lib/receiver/report.ts",
    find: "    printed.add(kind);\n",
    replace: "",
    caughtBy: "test/unit/lib/receiver/receive.test.ts",
  },
  {
    name: "handler-blames-the-sender",
    breaks: "A failure of the program is a 500 (docs/verify-webhooks.md, Answers)",
    file: "src/lib/receiver/receive.ts",
    find: "        report(error, undefined, place);\n",
    replace:
      "        report(error, undefined, place);\n        if (error instanceof VerificationError) {\n          return refusal(error);\n        }\n",
    caughtBy: "test/unit/lib/receiver/receive.test.ts",
  },
  {
    name: "read-body-blames-the-sender",
    breaks:
      "A body that was read before is the program's mistake (docs/verify-webhooks.md, Mistakes of the receiver)",
    file: "src/lib/receiver/node-http.ts",
    find: "if (request.readableDidRead || request.readableEnded) {",
    replace: "if (request.readableDidRead && request.destroyed) {",
    caughtBy: "test/machine/lib/receiver/adapters.test.ts",
  },
  {
    name: "credential-without-its-file",
    breaks: "An error about a credential names its file (docs/client.md, Errors)",
    file: "src/lib/client/credential-keeper.ts",
    find: "`${place} does not exist`",
    replace: '"there is no file"',
    caughtBy: "test/machine/lib/client/credential-keeper.test.ts",
  },
  {
    name: "one-name-is-one-failure",
    breaks: "Each class of failure is printed once where nobody listens (docs/verify-webhooks.md)",
    file: "src/lib/receiver/report.ts",
    find: "return `500 ${place} ",
    replace: "return `500 ${place.length > 0} ",
    caughtBy: "test/unit/lib/receiver/receive.test.ts",
  },
  {
    name: "byte-order-mark-is-no-json",
    breaks: "A signed body may begin with a byte order mark, in every language (test/vectors)",
    file: "src/lib/receiver/verify.ts",
    find: 'new TextDecoder("utf-8", { fatal: true })',
    replace: 'new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })',
    caughtBy: "test/unit/lib/receiver/vectors.test.ts",
  },
  {
    name: "weak-point-verifies-webhooks",
    breaks: "A public key of small order is no receiver's key, in every language (test/vectors)",
    file: "src/lib/receiver/ed25519.ts",
    find: 'return soundKey(createPublicKey({ key: der, format: "der", type: "spki" }));',
    replace:
      'const key = createPublicKey({ key: der, format: "der", type: "spki" });\n  return der.length > 0 ? key : soundKey(key);',
    caughtBy: "test/unit/lib/receiver/vectors.test.ts",
  },
  {
    name: "secret-with-its-newline",
    breaks: "A client's secret may come from a file, with its newline (docs/client.md)",
    file: "src/lib/options.ts",
    find: "  return value.trim();",
    replace: "  return value;",
    caughtBy: "test/machine/lib/client/transport.test.ts",
  },
  {
    name: "status-list-issuer-unchecked",
    breaks: "A verifier with a mistake in its options does not start",
    file: "src/lib/status-list/index.ts",
    find: "if (!URL.canParse(issuer)) {",
    replace: "if (issuer === undefined) {",
    caughtBy: "test/unit/lib/status-list/status-list-client.test.ts",
  },
];
