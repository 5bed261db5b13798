/** A shop: it publishes an event for each order, and sends a receipt for each `order.paid` that it receives. */
// region shop
import { randomUUID } from "node:crypto";
import { setTimeout } from "node:timers/promises";
import { Pool } from "pg";
import { FileCredentialStore, SignetApiError, SignetClient } from "@signet-delivery/client";

const IDLE_MS = 500;

export class Shop {
  #database;
  #signet;

  constructor({ SIGNET_URL, SIGNET_CREDENTIAL_FILE, DATABASE_URL }) {
    this.#database = new Pool({ connectionString: DATABASE_URL });
    this.#signet = new SignetClient({
      baseUrl: SIGNET_URL,
      store: new FileCredentialStore(SIGNET_CREDENTIAL_FILE),
    });
  }
  // endregion

  // region store
  /** Stores an event. A repeated delivery has the same id and changes nothing. */
  async store({ id, type, fromService, payload }) {
    const event = { type, fromService, data: payload.data };
    await this.#database.query("INSERT INTO inbox (id, event) VALUES ($1, $2) ON CONFLICT DO NOTHING", [
      id,
      event,
    ]);
  }
  // endregion

  // region pay
  /** Publishes the event of a paid order. Within a day, a repetition with the same id publishes nothing more. */
  async pay(item) {
    const order = randomUUID();
    const event = { id: order, type: "order.paid", data: { order, item } };
    const { id } = await this.#signet.events.publish(event);
    return { order, event: id };
  }
  // endregion

  // region handle
  async #handle({ type, fromService, data }) {
    if (type === "order.paid") {
      console.log(`receipt for order ${data.order}`);
    } else if (type === "delivery.dead_lettered" && fromService) {
      for (const id of data.delivery_ids) {
        await this.#replayOnce(id);
      }
    }
  }

  /** Replays a dead letter once. If it fails again, a person has to look at its receiver. */
  async #replayOnce(id) {
    try {
      const letter = await this.#signet.deadLetters.get(id);
      if (letter.cycle > 1 || letter.reason !== "attempts_exhausted") {
        console.error(`dead letter ${id} of ${letter.endpoint_id}: ${letter.last_error}`);
        return;
      }
      await this.#signet.deadLetters.replay(id);
      console.log(`replayed ${id}`);
    } catch (error) {
      // It is no longer a dead letter: somebody was faster, or its week has ended.
      if (!(error instanceof SignetApiError && [404, 409, 410].includes(error.status))) {
        throw error;
      }
    }
  }
  // endregion

  // region work
  /** Handles stored events until the process ends. Several processes may do so at once. */
  async work() {
    for (;;) {
      const found = await this.#handleNext().catch(console.error);
      if (found !== true) {
        await setTimeout(IDLE_MS);
      }
    }
  }

  /** Returns whether there was an event. */
  async #handleNext() {
    const connection = await this.#database.connect();
    try {
      await connection.query("BEGIN");
      const { rows } = await connection.query(
        `SELECT id, event FROM inbox WHERE done_at IS NULL AND due_at <= now()
          ORDER BY due_at LIMIT 1 FOR UPDATE SKIP LOCKED`,
      );
      for (const { id, event } of rows) {
        const change = await this.#handle(event).then(
          () => "done_at = now()",
          (error) => {
            console.error(error);
            return "due_at = now() + interval '1 minute'";
          },
        );
        await connection.query(`UPDATE inbox SET ${change} WHERE id = $1`, [id]);
      }
      await connection.query("COMMIT");
      connection.release();
      return rows.length > 0;
    } catch (error) {
      connection.release(error);
      throw error;
    }
  }
  // endregion
}
