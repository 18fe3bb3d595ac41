#!/usr/bin/env ruby
# frozen_string_literal: true

# Sells two seats, makes a call and follows the events of the show, with redis-rb 4.1 or newer.
#
#     ruby seat_and_call.rb [HOST [PORT]]

require "json"
require "redis"
require "securerandom"

SHOW = "{example}:show"
POOL = "{example}:pool"
PLAN = {
  areas: [{ id: "box", rows: [{ label: "1", rank: 1, tier: "gold", seats: "1-40" }] }],
  events: 1000
}.freeze
ATTEMPTS = 10

# Runs a request, and runs it again when the connection breaks before the reply. The first request may have been
# executed. With a token this does no harm: the reply is the same. An error of the server is final.
def with_retry
  attempt = 0
  begin
    yield
  rescue Redis::BaseConnectionError
    attempt += 1
    raise if attempt == ATTEMPTS

    sleep(0.1 * attempt)
    retry
  end
end

def ask(client, *request)
  with_retry { client.call(*request) }
end

# In RESP2 a record is a flat list of names and values.
def record(reply)
  reply.each_slice(2).to_h
end

# Holds two seats and sells them, both under a token that was chosen before the first request.
def sell(client, token)
  ask(client, "SEAT.CREATE", SHOW, JSON.generate(PLAN))
  reply = ask(client, "SEAT.HOLD", SHOW, "ann", 2, "TTL", 60_000, "TIER", "gold", "TOKEN", token)
  abort("sold out") if reply.nil?
  puts "held #{record(reply)['seats'].join(' ')}"
  puts "sold #{ask(client, 'SEAT.CONFIRM', SHOW, token, 'USER', 'ann', 'ORDER', token)}"
end

# Takes a free number for a call, and ends the call.
def call(client, token)
  ask(client, "NUMPOOL.ADD", POOL, "5550100", "5550101")
  ask(client, "NUMPOOL.REG", POOL, "5550100", "5550101", "SWITCH", "sw1")
  reply = ask(client, "NUMPOOL.CALL", POOL, "TTL", 60_000, "LEASE", token)
  abort("all numbers are busy") if reply.nil?
  number = record(reply)["number"]
  puts "called #{number}"
  # 1, or 0 if the request was sent twice: the call has ended in both cases.
  ask(client, "NUMPOOL.HANGUP", POOL, number, "LEASE", token)
  puts "hung up"
end

# Reads the event stream until the sale of this token. A service stores the last id, and goes on after it.
def follow(client, token)
  last = "0"
  loop do
    reply = with_retry { client.xread("#{SHOW}:evt", last, block: 1000) }
    reply.fetch("#{SHOW}:evt", []).each do |id, fields|
      last = id
      next if fields["token"] != token

      puts "event #{fields['event']}"
      return if fields["event"] == "confirmed"
    end
  end
end

client = Redis.new(host: ARGV.fetch(0, "127.0.0.1"), port: Integer(ARGV.fetch(1, "6379")), reconnect_attempts: 0)
token = SecureRandom.uuid
sell(client, token)
call(client, token)
follow(client, token)
