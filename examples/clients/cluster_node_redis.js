#!/usr/bin/env node
// Sells a seat in each of thirty shows of a cluster, with node-redis (the package redis) 5 or newer.
//
//     node cluster_node_redis.js [HOST [PORT]]
//
// node-redis knows the keys of Redis's own commands only, so the program names the key of each request. A request that
// changes nothing may be marked as such: with `useReplicas`, node-redis then sends it to a replica.
"use strict";

const { randomUUID } = require("node:crypto");
const { createCluster } = require("redis");

const PLAN = { areas: [{ id: "box", rows: [{ label: "1", rank: 1, tier: "gold", seats: "1-40" }] }] };
const SHOWS = 30;

// In RESP2 a record is a flat list of names and values.
function record(reply) {
  const fields = {};
  for (let i = 0; i < reply.length; i += 2) fields[reply[i]] = reply[i + 1];
  return fields;
}

// Sells one seat, under a token that was chosen before the first request; replies its id.
async function sell(client, show) {
  const write = (...words) => client.sendCommand(show, false, words.map(String));
  const token = randomUUID();
  await write("SEAT.CREATE", show, JSON.stringify(PLAN));
  const hold = await write("SEAT.HOLD", show, "ann", 1, "TTL", 60000, "TOKEN", token);
  await write("SEAT.CONFIRM", show, token, "USER", "ann", "ORDER", token);
  await client.sendCommand(show, true, ["SEAT.STAT", show]);
  return record(hold).seats[0];
}

async function main() {
  const [host = "127.0.0.1", port = "6379"] = process.argv.slice(2);
  const client = createCluster({ rootNodes: [{ url: `redis://${host}:${port}` }] });
  await client.connect();
  try {
    const sold = [];
    for (let number = 0; number < SHOWS; number++) sold.push(await sell(client, `show:${number}`));
    console.log("sold", sold.length, "seats in", client.masters.length, "masters");
  } finally {
    client.destroy();
  }
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
