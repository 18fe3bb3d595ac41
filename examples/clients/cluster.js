#!/usr/bin/env node
// Sells a seat in each of thirty shows of a cluster, with ioredis 5 or newer.
//
//     node cluster.js [HOST [PORT]]
//
// ioredis knows the keys of Redis's own commands only. It sends any other command to some master, and follows the reply
// MOVED; a pipeline fails. This program asks the server once where the keys of the commands are,
// and so sends each request to the master of its slot.
"use strict";

const { randomUUID } = require("node:crypto");
const { Cluster, Command } = require("ioredis");

const PLAN = { areas: [{ id: "box", rows: [{ label: "1", rank: 1, tier: "gold", seats: "1-40" }] }] };
const SHOWS = 30;
const COMMANDS = ["SEAT.CREATE", "SEAT.HOLD", "SEAT.CONFIRM", "SEAT.ZMPOP"];

// The position of the first key of each command, by the key specifications of the server.
async function keyPositions(client) {
  const positions = new Map();
  const infos = await client.call("COMMAND", "INFO", ...COMMANDS);
  COMMANDS.forEach((name, i) => {
    const [, , , , , , , , specifications] = infos[i];
    const [specification] = specifications.map(record);
    const begin = record(record(specification.begin_search).spec);
    const find = record(specification.find_keys);
    // `keynum`: the number of keys is an argument, and the keys follow it.
    const first = find.type === "keynum" ? record(find.spec).firstkey : 0;
    positions.set(name, begin.index + first);
  });
  return positions;
}

// In RESP2 a record is a flat list of names and values.
function record(reply) {
  const fields = {};
  for (let i = 0; i < reply.length; i += 2) fields[reply[i]] = reply[i + 1];
  return fields;
}

// Sends a command to the master of the slot of its first key.
function ask(client, positions, name, ...words) {
  const command = new Command(name, words.map(String), { replyEncoding: "utf8" });
  command.keys = [command.args[positions.get(name) - 1]];
  return client.sendCommand(command);
}

// Sells one seat, under a token that was chosen before the first request; replies its id.
async function sell(client, positions, show) {
  const token = randomUUID();
  await ask(client, positions, "SEAT.CREATE", show, JSON.stringify(PLAN));
  const hold = await ask(client, positions, "SEAT.HOLD", show, "ann", 1, "TTL", 60000, "TOKEN", token);
  await ask(client, positions, "SEAT.CONFIRM", show, token, "USER", "ann", "ORDER", token);
  // A command whose first argument is the number of its keys.
  await ask(client, positions, "SEAT.ZMPOP", 2, `{${show}}:a`, `{${show}}:b`, "MIN");
  return record(hold).seats[0];
}

async function main() {
  const [host = "127.0.0.1", port = "6379"] = process.argv.slice(2);
  const client = new Cluster([{ host, port: Number(port) }]);
  try {
    const positions = await keyPositions(client);
    const sold = [];
    for (let number = 0; number < SHOWS; number++) sold.push(await sell(client, positions, `show:${number}`));
    console.log("sold", sold.length, "seats in", client.nodes("master").length, "masters");
  } finally {
    client.disconnect();
  }
}

main().catch((error) => {
  console.error(error.message);
  process.exitCode = 1;
});
