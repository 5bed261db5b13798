/** All resources of the API, over one transport. */
import type { Transport } from "../transport.ts";
import { Compliance } from "./compliance.ts";
import { Credentials } from "./credentials.ts";
import { DeadLetters } from "./dead-letters.ts";
import { Deliveries } from "./deliveries.ts";
import { Endpoints } from "./endpoints.ts";
import { EventTypes } from "./event-types.ts";
import { Events } from "./events.ts";
import { Portal } from "./portal.ts";
import { Replays } from "./replays.ts";
import { Streams } from "./streams.ts";

export class Resources {
  readonly endpoints: Endpoints;
  readonly eventTypes: EventTypes;
  readonly events: Events;
  readonly deliveries: Deliveries;
  readonly deadLetters: DeadLetters;
  readonly replays: Replays;
  readonly credentials: Credentials;
  readonly compliance: Compliance;
  readonly streams: Streams;
  readonly portal: Portal;

  constructor(transport: Transport) {
    this.endpoints = new Endpoints(transport);
    this.eventTypes = new EventTypes(transport);
    this.events = new Events(transport);
    this.deliveries = new Deliveries(transport);
    this.deadLetters = new DeadLetters(transport);
    this.replays = new Replays(transport);
    this.credentials = new Credentials(transport);
    this.compliance = new Compliance(transport);
    this.streams = new Streams(transport);
    this.portal = new Portal(transport);
  }
}
