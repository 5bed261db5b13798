/**
 * Answers Temporal's stack-trace query where the SDK collects no stacks of promises (docs/decisions/0007). A workflow
 * waits for an activity, a timer, a signal or a condition, so the place of each such call is enough. It is formatted
 * only if a query asks.
 */
import { RawValue } from "@temporalio/common";
import type { WorkflowInterceptors } from "@temporalio/workflow";

/** Frames that say nothing about our workflows. */
const OF_THE_SDK = /[\\/]@temporalio[\\/]|<anonymous>|[\\/]workflows[\\/]stack-trace\.[jt]s/;
const FRAME = /^ *at (?:(.*) \()?(.*?):(\d+):(\d+)\)?$/;

/** Internals of the SDK that are used here. `test/integration/temporal/sdk-patches.test.ts` checks that they exist. */
interface Activator {
  /** What the workflow waits for, by the name of the kind and then by number. */
  readonly completions: Readonly<Record<string, Map<number, object>>>;
  readonly blockedConditions: Map<number, object>;
  /** Whether the SDK collects stacks itself. */
  readonly stackTracesEnabled: boolean;
  readonly queryHandlers: Map<string, { readonly handler: () => unknown; readonly description: string }>;
}

interface Wait {
  readonly kind: string;
  readonly frames: readonly string[];
}

/** Notes where each wait begins. Returns what the workflow waits for now. */
function followWaits({ completions, blockedConditions }: Activator): () => readonly Wait[] {
  const kinds = [...Object.entries(completions), ["condition", blockedConditions] as const];
  const origins = new WeakMap<object, Error>();
  for (const [, waits] of kinds) {
    const set = waits.set.bind(waits);
    waits.set = (number, wait) => {
      origins.set(wait, new Error("origin"));
      return set(number, wait);
    };
  }
  const framesOf = (wait: object): readonly string[] =>
    (origins.get(wait)?.stack ?? "")
      .split("\n")
      .slice(1)
      .filter((frame) => !OF_THE_SDK.test(frame));
  return () =>
    kinds.flatMap(([kind, waits]) => [...waits.values()].map((wait) => ({ kind, frames: framesOf(wait) })));
}

function locationOf(frame: string): object {
  const [, name, path, line, column] = FRAME.exec(frame) ?? [];
  return {
    function_name: name,
    file_path: path,
    line: line === undefined ? undefined : Number(line),
    column: column === undefined ? undefined : Number(column),
    internal_code: false,
  };
}

/** Called by the SDK for each workflow. Intercepts nothing. */
export function interceptors(): WorkflowInterceptors {
  const { __TEMPORAL_ACTIVATOR__: activator } = globalThis as { readonly __TEMPORAL_ACTIVATOR__?: Activator };
  if (activator === undefined || activator.stackTracesEnabled) {
    return {};
  }
  const waits = followWaits(activator);
  activator.queryHandlers.set("__stack_trace", {
    handler: () =>
      new RawValue(
        waits()
          .map(({ kind, frames }) => [`waits for: ${kind}`, ...frames].join("\n"))
          .join("\n\n"),
      ),
    description: "Returns where the workflow waits.",
  });
  activator.queryHandlers.set("__enhanced_stack_trace", {
    handler: () =>
      new RawValue({
        sdk: { name: "typescript", version: "" },
        stacks: waits().map(({ frames }) => ({ locations: frames.map(locationOf) })),
        sources: {},
      }),
    description: "Returns where the workflow waits, for programs.",
  });
  return {};
}
