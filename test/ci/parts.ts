/** Runs the parts of a CI run, and measures them. Parts beside others print when those have ended. */
import { spawn } from "node:child_process";

export interface Part {
  readonly name: string;
  readonly command: readonly string[];
  /** Variables besides those of this process. */
  readonly environment?: NodeJS.ProcessEnv;
}

export interface Ran {
  readonly exitCode: number;
  /** What was written to standard output. */
  readonly output: string;
}

/** Takes what a part writes. */
export type Print = (text: string) => void;

const print: Print = (text) => void process.stdout.write(text);

export class Parts {
  readonly #root: string;
  readonly #times: { readonly name: string; seconds: number }[] = [];

  /** @param root working directory of the commands */
  constructor(root: string) {
    this.#root = root;
  }

  /** Adds a part that has ended. */
  add(name: string, seconds: number): void {
    this.#times.push({ name, seconds });
  }

  /** Runs a command, and passes on what it writes. @param held takes it instead */
  async run({ name, command, environment = {} }: Part, held?: Print): Promise<Ran> {
    const [program = "", ...args] = command;
    const time = { name, seconds: 0 };
    this.#times.push(time);
    const began = performance.now();
    const child = spawn(program, args, {
      cwd: this.#root,
      env: { ...process.env, ...environment },
      stdio: ["ignore", "pipe", held === undefined ? "inherit" : "pipe"],
    });
    const texts: string[] = [];
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      texts.push(text);
      (held ?? print)(text);
    });
    child.stderr?.setEncoding("utf8").on("data", held ?? print);
    const exitCode = await new Promise<number>((resolve, reject) => {
      child.once("error", reject).once("close", (code) => resolve(code ?? 1));
    });
    time.seconds = (performance.now() - began) / 1_000;
    return { exitCode, output: texts.join("") };
  }

  /** Runs `front` and `beside` at the same time. Prints what the second writes when both have ended. */
  async together<Front, Beside>(
    front: () => Promise<Front>,
    beside: (to: Print) => Promise<Beside>,
    to = print,
  ): Promise<[Front, Beside]> {
    const held: string[] = [];
    try {
      return await Promise.all([front(), beside((text) => void held.push(text))]);
    } finally {
      to(held.join(""));
    }
  }

  /** Returns a line for each part, in order of their beginnings. @param total seconds since the first one began */
  lines(total: number): readonly string[] {
    return [...this.#times, { name: "total", seconds: total }].map(
      ({ name, seconds }) => `${name.padEnd(60)}${String(Math.round(seconds)).padStart(6)} s`,
    );
  }
}
