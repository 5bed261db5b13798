/**
 * Starts the image's services in one process (see compose-starts.ts), each time with the complete environment of a
 * container. The working directory is the image's.
 */
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { inspect } from "node:util";

const load = async (path) => await import(pathToFileURL(join(process.cwd(), "dist", "src", path)).href);
const { loadConfig } = await load("config/config.js");
const { createLogger } = await load("observability/logger.js");
const { withMetrics } = await load("processes/with-metrics.js");
const { startApi } = await load("processes/api.js");
const { startEdge } = await load("processes/edge.js");
const { startWorker } = await load("processes/worker.js");
const { runMigrate } = await load("processes/migrate.js");

/** A worker waits for Temporal without limit. */
const WAITS = /Temporal cannot be reached yet/;

const SERVICES = {
  api: async ({ config, log }) => await startApi({ config, log }),
  edge: async ({ config, environment, log }) => await startEdge({ config, environment, log }),
  worker: async ({ config, log, stopping }) => await startWorker({ config, log, stopping }),
};
const starts = new Map();

const configOf = (name, environment) => loadConfig(environment, name === "edge" ? "edge" : "service");

/** Starts a service as src/processes/main.ts does. Returns its state once it is known, and its output so far. */
async function start({ id, name, environment }) {
  let text = "";
  let sayWaiting;
  const waiting = new Promise((resolve) => (sayWaiting = resolve));
  const write = (line) => {
    text += line;
    if (WAITS.test(line)) {
      sayWaiting("waiting");
    }
  };
  const stopping = new AbortController();
  const run = async () => {
    const config = configOf(name, environment);
    const log = createLogger({ level: config.logLevel, destination: { write } });
    const parts = { config, environment, log, stopping: stopping.signal };
    return name === "migrate"
      ? void (await runMigrate(config, log))
      : await withMetrics(name, config, log, async () => await SERVICES[name](parts));
  };
  const running = run();
  starts.set(id, { running, stopping });
  try {
    const state = await Promise.race([running.then(() => "started"), waiting]);
    return { state, text };
  } catch (error) {
    return { state: "ended", text: text + inspect(error) };
  }
}

/** Also ends a start that is still waiting. */
async function stop({ start: id }) {
  const { running, stopping } = starts.get(id);
  stopping.abort();
  const service = await running.catch(() => undefined);
  await service?.close();
  return {};
}

/** Returns the configuration errors for each environment. */
function check({ name, environments }) {
  const problems = environments.map((environment) => {
    try {
      configOf(name, environment);
      return "";
    } catch (error) {
      return error.message;
    }
  });
  return { problems };
}

const ACTIONS = { start, stop, check };

async function answer(message) {
  try {
    return await ACTIONS[message.action](message);
  } catch (error) {
    return { failure: inspect(error) };
  }
}

process.on("message", (message) => {
  void answer(message).then((said) => process.send({ ...said, id: message.id }));
});
// The tests have ended.
process.on("disconnect", () => process.exit());
// A start that failed may leave connections behind, which later lose their database.
process.on("uncaughtException", (error) => console.error(error));
process.send({ id: 0 });
