/** The shop as an Express application. */
// region app
import express from "express";
import { webhookListener } from "@signet-delivery/client/receiver";
import { Shop } from "./shop.mjs";

const { WEBHOOK_SECRET, PORT = "3000" } = process.env;
const shop = new Shop(process.env);
const app = express();

// Before any body parser, because the signature covers the raw bytes.
app.post(
  "/hook",
  webhookListener({
    secrets: [WEBHOOK_SECRET],
    onEvent: (event) => shop.store(event),
    onError: console.error,
  }),
);

app.post("/orders", express.json(), async (request, response) => {
  response.status(201).json(await shop.pay(String(request.body?.item)));
});

app.listen(Number(PORT), "127.0.0.1", () => console.log("shop ready"));
await shop.work();
// endregion
