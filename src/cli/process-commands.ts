/** Commands that run a process of the service. What they do is the composition root's business (src/processes/main.ts). */

export type ProcessName = "api" | "worker" | "edge" | "serve" | "doctor" | "migrate";

/** Runs a process command; gets the options by name. */
export type RunProcess = (options: Readonly<Record<string, unknown>>) => Promise<void>;

interface ProcessCommand {
  readonly name: ProcessName;
  readonly description: string;
  readonly options?: readonly { readonly flags: string; readonly description: string }[];
}

export const PROCESS_COMMANDS: readonly ProcessCommand[] = [
  { name: "api", description: "run the public and the operators' API" },
  { name: "worker", description: "run the delivery engine" },
  { name: "edge", description: "check tokens and scopes in front of the data plane and the API" },
  { name: "serve", description: "run everything in one process on embedded PostgreSQL and Temporal" },
  {
    name: "doctor",
    description: "look at everything that the service depends on and say what to mend",
    options: [
      {
        flags: "--replay <count>",
        description: "replay so many open workflows on this build, before a deploy",
      },
      { flags: "--json", description: "print an object" },
    ],
  },
  { name: "migrate", description: "bring the database to this version's schema" },
];
