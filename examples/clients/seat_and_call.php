#!/usr/bin/env php
<?php
// Sells two seats, makes a call and follows the events of the show, with the extension phpredis 5 or newer.
//
//     php seat_and_call.php [HOST [PORT]]

declare(strict_types=1);

const SHOW = '{example}:show';
const POOL = '{example}:pool';
const PLAN = '{"areas":[{"id":"box","rows":[{"label":"1","rank":1,"tier":"gold","seats":"1-40"}]}],"events":1000}';
const ATTEMPTS = 10;

/** A connection that is opened again when it breaks. */
final class Client
{
    private ?Redis $redis = null;

    public function __construct(private string $host, private int $port)
    {
    }

    /**
     * Runs a request, and runs it again when the connection breaks before the reply. The first request may have been
     * executed. With a token this does no harm: the reply is the same.
     */
    public function withRetry(callable $request): mixed
    {
        for ($attempt = 1; ; $attempt++) {
            try {
                return $request($this->redis ??= $this->connect());
            } catch (RedisException $error) {
                $this->redis = null;
                if ($attempt === ATTEMPTS) {
                    throw $error;
                }
                usleep($attempt * 100_000);
            }
        }
    }

    /** Sends a command. An error of the server is final; phpredis reports it by `getLastError`. */
    public function ask(string ...$words): mixed
    {
        [$reply, $error] = $this->withRetry(function (Redis $redis) use ($words): array {
            $redis->clearLastError();
            $reply = $redis->rawCommand(...$words);
            return [$reply, $redis->getLastError()];
        });
        if ($error !== null) {
            throw new RuntimeException($error);
        }
        return $reply;
    }

    private function connect(): Redis
    {
        $redis = new Redis();
        $redis->connect($this->host, $this->port, 5.0, null, 0, 5.0);
        // The request is sent again here, once for each attempt, and not in the extension.
        $redis->setOption(Redis::OPT_MAX_RETRIES, 0);
        return $redis;
    }
}

/** In RESP2 a record is a flat list of names and values. */
function record(array $reply): array
{
    $fields = [];
    foreach (array_chunk($reply, 2) as [$name, $value]) {
        $fields[$name] = $value;
    }
    return $fields;
}

/** Holds two seats and sells them, both under a token that was chosen before the first request. */
function sell(Client $client, string $token): void
{
    $client->ask('SEAT.CREATE', SHOW, PLAN);
    $reply = $client->ask('SEAT.HOLD', SHOW, 'ann', '2', 'TTL', '60000', 'TIER', 'gold', 'TOKEN', $token);
    if (!is_array($reply)) {
        throw new RuntimeException('sold out');
    }
    echo 'held ', implode(' ', record($reply)['seats']), "\n";
    echo 'sold ', $client->ask('SEAT.CONFIRM', SHOW, $token, 'USER', 'ann', 'ORDER', $token), "\n";
}

/** Takes a free number for a call, and ends the call. */
function call(Client $client, string $token): void
{
    $client->ask('NUMPOOL.ADD', POOL, '5550100', '5550101');
    $client->ask('NUMPOOL.REG', POOL, '5550100', '5550101', 'SWITCH', 'sw1');
    $reply = $client->ask('NUMPOOL.CALL', POOL, 'TTL', '60000', 'LEASE', $token);
    if (!is_array($reply)) {
        throw new RuntimeException('all numbers are busy');
    }
    $number = record($reply)['number'];
    echo "called $number\n";
    // 1, or 0 if the request was sent twice: the call has ended in both cases.
    $client->ask('NUMPOOL.HANGUP', POOL, $number, 'LEASE', $token);
    echo "hung up\n";
}

/** Reads the event stream until the sale of this token. A service stores the last id, and goes on after it. */
function follow(Client $client, string $token): void
{
    $last = '0';
    while (true) {
        $reply = $client->withRetry(fn (Redis $redis) => $redis->xRead([SHOW . ':evt' => $last], -1, 1000));
        foreach ($reply[SHOW . ':evt'] ?? [] as $id => $fields) {
            $last = $id;
            if (($fields['token'] ?? null) !== $token) {
                continue;
            }
            echo "event {$fields['event']}\n";
            if ($fields['event'] === 'confirmed') {
                return;
            }
        }
    }
}

$client = new Client($argv[1] ?? '127.0.0.1', (int) ($argv[2] ?? 6379));
$token = bin2hex(random_bytes(16));
try {
    sell($client, $token);
    call($client, $token);
    follow($client, $token);
} catch (RuntimeException | RedisException $error) {
    fwrite(STDERR, $error->getMessage() . "\n");
    exit(1);
}
