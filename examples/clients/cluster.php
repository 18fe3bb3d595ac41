#!/usr/bin/env php
<?php
// Sells a seat in each of thirty shows of a cluster, with the extension phpredis 5 or newer.
//
//     php cluster.php [HOST [PORT]]
//
// The first argument of `rawCommand` of a `RedisCluster` is the key whose master gets the request. It is not sent.

declare(strict_types=1);

const PLAN = '{"areas":[{"id":"box","rows":[{"label":"1","rank":1,"tier":"gold","seats":"1-40"}]}]}';
const SHOWS = 30;

/** Sends a command to the master of a key. phpredis replies `false` to null and to an error. */
function ask(RedisCluster $cluster, string $key, string ...$words): mixed
{
    $cluster->clearLastError();
    $reply = $cluster->rawCommand($key, ...$words);
    if ($cluster->getLastError() !== null) {
        throw new RuntimeException($cluster->getLastError());
    }
    return $reply;
}

/** Sells one seat, under a token that was chosen before the first request. */
function sell(RedisCluster $cluster, string $show): void
{
    $token = bin2hex(random_bytes(16));
    ask($cluster, $show, 'SEAT.CREATE', $show, PLAN);
    ask($cluster, $show, 'SEAT.HOLD', $show, 'ann', '1', 'TTL', '60000', 'TOKEN', $token);
    ask($cluster, $show, 'SEAT.CONFIRM', $show, $token, 'USER', 'ann', 'ORDER', $token);
}

$address = ($argv[1] ?? '127.0.0.1') . ':' . ($argv[2] ?? '6379');
try {
    $cluster = new RedisCluster(null, [$address], 5.0, 5.0);
    for ($number = 0; $number < SHOWS; $number++) {
        sell($cluster, "show:$number");
    }
    echo 'sold ', SHOWS, ' seats in ', count($cluster->_masters()), " masters\n";
} catch (Exception $error) {
    fwrite(STDERR, $error->getMessage() . "\n");
    exit(1);
}
