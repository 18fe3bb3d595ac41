#!/usr/bin/env node
// Sells two seats, makes a call and follows the events of the show, with ioredis 5 or newer.
//
//     node seat_and_call.js [HOST [PORT]]
"use strict";

const { randomUUID } = require("node:crypto");
const { Redis } = require("ioredis");

const SHOW = "{example}:show";
const POOL = "{example}:pool";
const PLAN = {
  areas: [{ id: "box", rows: [{ label: "1", rank: 1, tier: "gold", seats: "1-40" }] }],
  events: 1000,
};

// ioredis sends a request again when the connection breaks before the reply, up to maxRetriesPerRequest times. The
// first request may have been executed. With a token this does no harm: the reply is the same.
function connect(host, port) {
  const client = new Redis({
    host,
    port,
    maxRetriesPerRequest: 10,
    retryStrategy: (attempt) => Math.min(attempt * 100, 1000),
  });
  // Without a listener ioredis prints every lost connection. Requests that fail in the end are rejected anyway.
  client.on("error", () => {});
  return client;
}

// In RESP2 a record is a flat list of names and values.
function record(reply) {
  const fields = {};
  for (let i = 0; i < reply.length; i += 2) fields[reply[i]] = reply[i + 1];
  return fields;
}

// Holds two seats and sells them, both under a token that was chosen before the first request.
async function sell(client, token) {
  await client.call("SEAT.CREATE", SHOW, JSON.stringify(PLAN));
  const reply = await client.call("SEAT.HOLD", SHOW, "ann", 2, "TTL", 60000, "TIER", "gold", "TOKEN", token);
  if (reply === null) throw new Error("sold out");
  console.log("held", ...record(reply).seats);
  console.log("sold", await client.call("SEAT.CONFIRM", SHOW, token, "USER", "ann", "ORDER", token));
}

// Takes a free number for a call, and ends the call.
async function call(client, token) {
  await client.call("NUMPOOL.ADD", POOL, "5550100", "5550101");
  await client.call("NUMPOOL.REG", POOL, "5550100", "5550101", "SWITCH", "sw1");
  const reply = await client.call("NUMPOOL.CALL", POOL, "TTL", 60000, "LEASE", token);
  if (reply === null) throw new Error("all numbers are busy");
  const { number } = record(reply);
  console.log("called", number);
  // 1, or 0 if the request was sent twice: the call has ended in both cases.
  await client.call("NUMPOOL.HANGUP", POOL, number, "LEASE", token);
  console.log("hung up");
}

// Reads the event stream until the sale of this token. A service stores the last id, and goes on after it.
async function follow(client, token) {
  let last = "0";
  for (;;) {
    const reply = await client.xread("BLOCK", 1000, "STREAMS", `${SHOW}:evt`, last);
    for (const [, entries] of reply ?? []) {
      for (const [id, values] of entries) {
        last = id;
        const fields = record(values);
        if (fields.token !== token) continue;
        console.log("event", fields.event);
        if (fields.event === "confirmed") return;
      }
    }
  }
}

async function main() {
  const [host = "127.0.0.1", port = "6379"] = process.argv.slice(2);
  const client = connect(host, Number(port));
  // A request that blocks holds up all others of its connection, so the reader has its own.
  const reader = client.duplicate();
  reader.on("error", () => {});
  const token = randomUUID();
  try {
    await sell(client, token);
    await call(client, token);
    await follow(reader, token);
  } finally {
    client.disconnect();
    reader.disconnect();
  }
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
