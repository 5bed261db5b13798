/** Commands that run a process of the service. The composition root implements them (src/processes/main.ts). */

export type ProcessName = "api" | "worker" | "all" | "edge" | "hub" | "serve" | "doctor" | "migrate";

/** Runs a process command with its options by name. */
export type RunProcess = (options: Readonly<Record<string, unknown>>) => Promise<void>;

interface ProcessCommand {
  readonly name: ProcessName;
  readonly description: string;
  readonly options?: readonly { readonly flags: string; readonly description: string }[];
}

export const PROCESS_COMMANDS: readonly ProcessCommand[] = [
  { name: "api", description: "run the public and the operators' API" },
  { name: "worker", description: "run the delivery engine" },
  {
    name: "all",
    description:
      "run both APIs and the delivery engine in one process, and the edge if there is a route table; split them from about 1,000 events per second",
  },
  {
    name: "edge",
    description: "run the edge, which checks tokens and scopes for the data plane and the API",
  },
  { name: "hub", description: "run a hub, which relays revocations to the edges of a region" },
  {
    name: "serve",
    description: "run everything in one process on embedded PostgreSQL and Temporal",
    options: [{ flags: "--verbose", description: "also print details of each step, and commands for curl" }],
  },
  {
    name: "doctor",
    description: "check everything that the service depends on and report what to fix",
    options: [
      {
        flags: "--replay <count>",
        description:
          "replay this number of open workflows on this build, the oldest and the newest of each type, before a deployment",
      },
      { flags: "--json", description: "print an object as JSON" },
    ],
  },
  { name: "migrate", description: "migrate the database to this version's schema" },
];
