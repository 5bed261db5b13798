/** A tenant at a terminal: the real `signet` with a client credential of a running api. */
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect } from "vitest";
import type { Environment } from "#config/config.ts";
import type { TestApi } from "./api.ts";
import { provision, type Provisioned } from "./factories.ts";
import { type Run, startSignet } from "./signet-command.ts";
import { useStarted } from "./started.ts";

interface Terminal {
  readonly client: Provisioned;
  /** Environment of the commands. */
  readonly environment: Environment;
  /** Directory for a test's files; `config` in it holds the profiles. */
  readonly directory: string;
  close(): Promise<void>;
}

async function openTerminal(api: TestApi, scopes: readonly string[]): Promise<Terminal> {
  const directory = await mkdtemp(join(tmpdir(), "signet-cli-"));
  const client = await provision(api, { scopes });
  return {
    client,
    directory,
    environment: {
      SIGNET_API_URL: api.publicUrl,
      SIGNET_CLIENT_ID: client.clientId,
      SIGNET_CLIENT_SECRET: client.clientSecret,
      SIGNET_HOME: directory,
      SIGNET_CONFIG_DIR: join(directory, "config"),
    },
    close: async () => await rm(directory, { recursive: true, force: true }),
  };
}

/** Provides a terminal to the calling file. */
export function useTenantCommands(api: TestApi, scopes: readonly string[]) {
  const terminal = useStarted("the terminal", async () => await openTerminal(api, scopes));

  async function signet(line: readonly string[], more: Environment = {}, input = ""): Promise<Run> {
    return await startSignet(line, { ...terminal.current.environment, ...more }, input).ended;
  }

  /** Runs a command with --json and returns its output. The command must succeed without errors. */
  async function json<T = Record<string, unknown>>(...line: readonly string[]): Promise<T> {
    const run = await signet([...line, "--json"]);
    expect(run).toMatchObject({ code: 0, stderr: "" });
    return JSON.parse(run.stdout) as T;
  }

  return { terminal, signet, json };
}
