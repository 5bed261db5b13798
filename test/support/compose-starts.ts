/**
 * Starts services of docker-compose.yml many times in one process of the image's code, which takes a fraction of a
 * second each. What the command line adds is checked by starts as separate processes (compose-run.ts).
 */
import { spawn } from "node:child_process";
import { once } from "node:events";
import { join } from "node:path";
import type { Variables } from "./compose-file.ts";
import { IMAGE_ENVIRONMENT } from "./processes.ts";

const PROGRAM = join(import.meta.dirname, "compose-starts-process.mjs");

/** `ended`: it reported an error; `waiting`: a worker that cannot reach Temporal. */
type StartState = "started" | "ended" | "waiting";

/** One start of a service. */
export interface ComposeStart {
  readonly state: StartState;
  /** Its log so far, and its error. */
  readonly text: string;
  stop(): Promise<void>;
}

export interface ComposeStarts {
  start(name: string, environment: Variables): Promise<ComposeStart>;
  /** Returns the configuration errors of a service for each environment; an empty string is none. */
  problemsOf(name: string, environments: readonly Variables[]): Promise<readonly string[]>;
  close(): Promise<void>;
}

interface Answer {
  readonly id: number;
  readonly state?: StartState;
  readonly text?: string;
  readonly problems?: readonly string[];
  readonly failure?: string;
}

/** Starts the process. @param directory directory with the image's content */
export async function openStarts(directory: string): Promise<ComposeStarts> {
  const child = spawn(process.execPath, [PROGRAM], {
    cwd: directory,
    env: IMAGE_ENVIRONMENT,
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream?.setEncoding("utf8").on("data", (text: string) => (output += text));
  }
  const waiting = new Map<number, { resolve: (answer: Answer) => void; reject: (error: Error) => void }>();
  const answerOf = async (id: number): Promise<Answer> =>
    await new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
  child.on("message", (answer: Answer) => {
    const asked = waiting.get(answer.id);
    waiting.delete(answer.id);
    if (answer.failure === undefined) {
      asked?.resolve(answer);
    } else {
      asked?.reject(new Error(answer.failure));
    }
  });
  const ended = once(child, "close").then(() => {
    for (const { reject } of waiting.values()) {
      reject(new Error(`the process of the starts ended:\n${output}`));
    }
  });
  let asked = 0;
  const ask = async (question: object): Promise<Answer> => {
    asked += 1;
    const answer = answerOf(asked);
    child.send({ id: asked, ...question });
    return await answer;
  };
  await answerOf(0);
  return {
    start: async (name, environment) => {
      const { id, state = "ended", text = "" } = await ask({ action: "start", name, environment });
      return { state, text, stop: async () => void (await ask({ action: "stop", start: id })) };
    },
    problemsOf: async (name, environments) =>
      (await ask({ action: "check", name, environments })).problems ?? [],
    close: async () => {
      child.kill("SIGKILL");
      await ended;
    },
  };
}
