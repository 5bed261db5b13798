/** What a tenant may set of its endpoints, and what a change of it changes. */
import type { Endpoint, EndpointSettings } from "../database/repositories/endpoints.ts";

/** Settings by their names here, with those on the wire. */
const WIRE_NAMES: Readonly<Record<keyof EndpointSettings, string>> = {
  url: "url",
  eventTypes: "events",
  metadata: "metadata",
  description: "description",
  filter: "filter",
};

const NAMES = Object.keys(WIRE_NAMES) as (keyof EndpointSettings)[];

export interface SettingsChange {
  /** All settings, those that stay as they are too. */
  readonly settings: EndpointSettings;
  /** What differs, by wire names. */
  readonly changed: readonly string[];
}

/** The settings after a change of some of them. Members that are absent stay. */
export function changeSettings(
  current: Endpoint,
  change: Readonly<Partial<EndpointSettings>>,
): SettingsChange {
  const settings: EndpointSettings = { ...current, ...change };
  const changed = NAMES.filter((name) => !isSame(current[name], settings[name]));
  return { settings, changed: changed.map((name) => WIRE_NAMES[name]) };
}

/** Settings are texts, numbers, and lists of them. */
function isSame(one: unknown, other: unknown): boolean {
  return one === other || JSON.stringify(one) === JSON.stringify(other);
}
