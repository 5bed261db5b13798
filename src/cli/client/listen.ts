/** `signet listen`: registers a local endpoint while the command runs. */
import { connect } from "node:net";
import { setTimeout as delay } from "node:timers/promises";
import { Command } from "commander";
import type { Endpoint, RegisteredEndpoint } from "#lib/client/api-types.ts";
import { SignetApiError } from "#lib/client/errors.ts";
import { asObject } from "#lib/client/json.ts";
import { stringifyWithRaw } from "#lib/client/raw-json.ts";
import type { SignetClient } from "#lib/client/signet-client.ts";
import { systemClock } from "#runtime/machine-timers.ts";
import { messageOf } from "#runtime/thrown.ts";
import { painter } from "../colours.ts";
import type { CliContext } from "../context.ts";
import { CommandError, misused } from "../exit-codes.ts";
import { printable, printableJson } from "../output.ts";
import { asTenant, type Invocation, wholeNumber, withExamples, words } from "./command.ts";
import { untilInterrupted } from "./interrupted.ts";
import { LocalReceiver, type ReceivedDelivery } from "./local-receiver.ts";
import type { ClientOptions } from "./open-client.ts";

const DESCRIPTION = "signet listen";
const MARK = "signet_listen";
const CONNECT_MS = 1_000;
const REMOVAL_MS = 5_000;
const ASK_AGAIN_MS = 250;
/** Maximum number of polls for the state ACTIVE, 90 seconds in total. */
const ASKED_MAX = 360;
const LOOPBACK = new Set(["localhost", "127.0.0.1", "[::1]"]);

interface ListenOptions extends ClientOptions {
  readonly events: string;
  readonly port: string;
  readonly forwardTo?: string;
  readonly url?: string;
  readonly count?: string;
}

/** Checks whether the address refuses connections. */
async function isGone(address: string): Promise<boolean> {
  const { hostname, port } = new URL(address);
  return await new Promise((resolve) => {
    const socket = connect({ host: hostname, port: Number(port), timeout: CONNECT_MS });
    const end = (gone: boolean): void => {
      socket.destroy();
      resolve(gone);
    };
    socket.once("connect", () => end(false));
    socket.once("timeout", () => end(false));
    socket.once("error", (error) => end(asObject(error)["code"] === "ECONNREFUSED"));
  });
}

/** Checks whether the endpoint belongs to a `signet listen` that ended without removing it. */
async function isLeftOver({ url, metadata }: Endpoint, own: string): Promise<boolean> {
  const marked = asObject(metadata)[MARK] === true && url.startsWith("http://127.0.0.1:");
  return marked && (url === own || (await isGone(url)));
}

async function removeLeftOver(signet: SignetClient, own: string): Promise<void> {
  for await (const endpoint of signet.endpoints.list({ limit: 100 })) {
    if (await isLeftOver(endpoint, own)) {
      await signet.endpoints.delete(endpoint.id);
    }
  }
}

/** Removes the endpoint. If that fails, the next `signet listen` removes it. */
async function removeEndpoint(signet: SignetClient, id: string, context: CliContext): Promise<void> {
  try {
    await signet.endpoints.delete(id, { signal: AbortSignal.timeout(REMOVAL_MS) });
  } catch (error) {
    if (!(error instanceof SignetApiError && error.status === 404)) {
      context.stderr(`signet: ${id} is still registered: ${messageOf(error)}\n`);
    }
  }
}

/** Returns the text for a delivery: one line, and the published data. */
function describe(context: CliContext, delivery: ReceivedDelivery): string {
  const { received_at: at, event_type: type, delivery_id: id, attempt, status, problem, scheme } = delivery;
  const paint = painter(context.terminal?.colour === true);
  const verdict =
    problem === null ? paint("green", `verified (${scheme})`) : paint("red", `NOT VERIFIED (${problem})`);
  const answered = status < 300 ? String(status) : paint("red", String(status));
  const again = delivery.repeated ? "  repeated" : "";
  const line = `${at.slice(11, 19)}  ${printable(type)}  ${printable(id)}  attempt ${attempt}  ${verdict}  ${answered}${again}\n`;
  const { data } = asObject(delivery.payload);
  if (delivery.payload === null || type === "ping") {
    return line;
  }
  const shown = stringifyWithRaw(data, 2)
    .split("\n")
    .map((text) => `  ${printable(text)}\n`)
    .join("");
  return line + paint("dim", shown);
}

async function openReceiver(
  { port, forwardTo }: ListenOptions,
  context: CliContext,
  onDelivery: (delivery: ReceivedDelivery) => void,
): Promise<LocalReceiver> {
  try {
    return await LocalReceiver.start({
      port: wholeNumber("--port", port),
      now: () => systemClock.now(),
      fetch: context.fetch,
      forwardTo,
      onDelivery,
      onForwardFailure: (message) => context.stderr(`signet: ${forwardTo} did not answer: ${message}\n`),
    });
  } catch (error) {
    if (error instanceof CommandError) {
      throw error;
    }
    throw new CommandError(`The receiver cannot listen on port ${port}: ${messageOf(error)}`, {
      cause: error,
    });
  }
}

/** A port with or without its colon, or a path: of this machine. */
const OF_LOCALHOST = /^(?::?(?=\d{1,5}(?:[/?]|$))|(?=\/))/;

/**
 * Completes an address without a scheme, such as `localhost:3000/hook`, `3000` or `/hook`. Parsers take the first part for
 * a scheme, for an IPv4 address or for a host.
 */
export function forwardUrl(given: string | undefined): string | undefined {
  if (given === undefined || given.includes("://")) {
    return given;
  }
  const local = given.replace(OF_LOCALHOST, () => (given.startsWith("/") ? "localhost" : "localhost:"));
  return `http://${local}`;
}

/** Checks that the service can reach the receiver: only a local service reaches a loopback address. */
function checkReach(baseUrl: string, { url, forwardTo, count }: ListenOptions): void {
  if (url === undefined && !LOOPBACK.has(new URL(baseUrl).hostname)) {
    throw new CommandError(
      `${new URL(baseUrl).host} cannot reach this machine's loopback address: start a tunnel, and give its public address with --url (and its local port with --port).`,
    );
  }
  if (forwardTo !== undefined && !/^https?:$/.test(URL.parse(forwardTo)?.protocol ?? "")) {
    throw misused("--forward-to takes an http or https URL.");
  }
  if (count !== undefined) {
    wholeNumber("--count", count);
  }
}

async function register(
  signet: SignetClient,
  url: string,
  { events }: ListenOptions,
): Promise<RegisteredEndpoint> {
  return await signet.endpoints.create({
    url,
    events: words(events),
    description: DESCRIPTION,
    metadata: { [MARK]: true },
  });
}

/** Prints how the command listens; with `--json`, to standard error, because standard output holds only deliveries. */
function announce(
  context: CliContext,
  endpoint: RegisteredEndpoint,
  { baseUrl, identity, options }: Invocation<ListenOptions>,
): void {
  const say = options.json === true ? context.stderr : context.stdout;
  say(`Listening as ${endpoint.id} for ${endpoint.events.join(", ")} at ${baseUrl}, with ${identity}.\n`);
  if (options.forwardTo !== undefined) {
    say(`Forwarding to ${options.forwardTo}; verify its requests with ${endpoint.secret}\n`);
  }
  say("Press Ctrl-C to stop and remove the endpoint.\n");
}

/** Waits until the endpoint is ACTIVE, and prints that events can be published. */
async function sayWhenActive(
  signet: SignetClient,
  id: string,
  {
    say,
    program = "signet",
  }: { readonly say: (text: string) => void; readonly program?: string | undefined },
  signal: AbortSignal,
): Promise<void> {
  for (let asked = 0; asked < ASKED_MAX; asked += 1) {
    await delay(ASK_AGAIN_MS, undefined, { signal });
    const { state, verification } = await signet.endpoints.get(id, { signal });
    if (state === "ACTIVE") {
      say(
        `Ready: publish an event, for instance with \`${program} trigger pipeline.failed\` in another terminal.\n\n`,
      );
      return;
    }
    if (verification.last_error !== null && asked % 10 === 9) {
      say(
        `The ping failed (${verification.last_error}); the next one is at ${verification.next_attempt_at}.\n`,
      );
    }
  }
}

async function listen(invocation: Invocation<ListenOptions>, context: CliContext): Promise<void> {
  const { signet, baseUrl, options } = invocation;
  checkReach(baseUrl, options);
  let left = options.count === undefined ? Number.POSITIVE_INFINITY : Number(options.count);
  let enough = (): void => undefined;
  const counted = new Promise<void>((resolve) => {
    enough = resolve;
  });
  const receiver = await openReceiver(options, context, (delivery) => {
    context.stdout(options.json === true ? `${printableJson(delivery)}\n` : describe(context, delivery));
    left -= delivery.event_type === "ping" ? 0 : 1;
    if (left <= 0) {
      enough();
    }
  });
  const { interrupted, forget } = untilInterrupted();
  const ended = new AbortController();
  try {
    await removeLeftOver(signet, receiver.url);
    const endpoint = await register(signet, options.url ?? receiver.url, options);
    try {
      announce(context, endpoint, invocation);
      receiver.setSecret(endpoint.secret);
      const say = options.json === true ? context.stderr : context.stdout;
      sayWhenActive(signet, endpoint.id, { say, program: context.program }, ended.signal).catch(
        () => undefined,
      );
      await Promise.race([interrupted, counted]);
    } finally {
      ended.abort();
      await removeEndpoint(signet, endpoint.id, context);
    }
  } finally {
    forget();
    await receiver.close();
  }
}

/** `signet listen`. */
export function listenCommand(context: CliContext): Command {
  const command = new Command("listen")
    .description(
      "receive events on this machine: register an endpoint, verify and print deliveries, remove it at the end",
    )
    .option("--events <types>", "event types, separated by commas; * for all", "*")
    .option("--forward-to <url>", "forward verified deliveries to this URL, and return its answer")
    .option("--port <number>", "port on 127.0.0.1; 0 for any free port", "0")
    .option("--url <address>", "public address to register instead, for instance of a tunnel to the port")
    .option("--count <number>", "stop after this number of deliveries");
  asTenant<ListenOptions>(command, context, async (invocation) => {
    const forwardTo = forwardUrl(invocation.options.forwardTo);
    const options = { ...invocation.options, ...(forwardTo === undefined ? {} : { forwardTo }) };
    await listen({ ...invocation, options }, context);
  });
  return withExamples(
    command,
    "signet listen",
    "signet listen --events pipeline.failed --forward-to localhost:3000/hook",
    "signet listen --json --count 1",
  );
}
