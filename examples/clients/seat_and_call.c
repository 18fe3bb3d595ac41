/* Sells two seats, makes a call and follows the events of the show, with hiredis.
 *
 *     cc -std=c11 -o seat_and_call seat_and_call.c -lhiredis
 *     ./seat_and_call [HOST [PORT]]
 */
#define _POSIX_C_SOURCE 200809L

#include <hiredis/hiredis.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

#define SHOW "{example}:show"
#define POOL "{example}:pool"
#define PLAN                                                                                                           \
    "{\"areas\":[{\"id\":\"box\",\"rows\":[{\"label\":\"1\",\"rank\":1,\"tier\":\"gold\",\"seats\":\"1-40\"}]}],"       \
    "\"events\":1000}"

enum { ATTEMPTS = 10 };

/* A connection that is opened again when it breaks. */
struct client {
    const char *host;
    int port;
    redisContext *context;
};

static void fail(const char *why) {
    fprintf(stderr, "%s\n", why);
    exit(EXIT_FAILURE);
}

static void disconnect(struct client *client) {
    if (client->context != NULL) redisFree(client->context);
    client->context = NULL;
}

static int connected(struct client *client) {
    struct timeval limit = {.tv_sec = 5};
    if (client->context == NULL) client->context = redisConnectWithTimeout(client->host, client->port, limit);
    if (client->context != NULL && client->context->err == 0 && redisSetTimeout(client->context, limit) == REDIS_OK)
        return 1;
    disconnect(client);
    return 0;
}

/* Sends a request, and sends it again when the connection breaks before the reply. The first request may have been
 * executed. With a token this does no harm: the reply is the same. An error of the server is final.
 * The caller frees the reply. */
static redisReply *ask(struct client *client, const char *format, ...) {
    for (int attempt = 1; attempt <= ATTEMPTS; attempt++) {
        if (connected(client)) {
            va_list arguments;
            va_start(arguments, format);
            redisReply *reply = redisvCommand(client->context, format, arguments);
            va_end(arguments);
            if (reply != NULL && reply->type == REDIS_REPLY_ERROR) fail(reply->str);
            if (reply != NULL) return reply;
            disconnect(client);
        }
        struct timespec pause = {.tv_nsec = attempt * 90000000L};
        nanosleep(&pause, NULL);
    }
    fail("the server cannot be reached");
    return NULL;
}

/* The value of a name in a flat list of names and values, which is a record in RESP2. */
static const redisReply *field(const redisReply *record, const char *name) {
    for (size_t i = 0; i + 1 < record->elements; i += 2)
        if (strcmp(record->element[i]->str, name) == 0) return record->element[i + 1];
    return NULL;
}

static const char *text(const redisReply *record, const char *name) {
    const redisReply *value = field(record, name);
    return value != NULL && value->type == REDIS_REPLY_STRING ? value->str : "";
}

/* Holds two seats and sells them, both under a token that was chosen before the first request. */
static void sell(struct client *client, const char *token) {
    freeReplyObject(ask(client, "SEAT.CREATE %s %s", SHOW, PLAN));
    redisReply *hold = ask(client, "SEAT.HOLD %s ann 2 TTL 60000 TIER gold TOKEN %s", SHOW, token);
    if (hold->type == REDIS_REPLY_NIL) fail("sold out");
    const redisReply *seats = field(hold, "seats");
    if (seats == NULL) fail("the hold names no seats");
    printf("held");
    for (size_t i = 0; i < seats->elements; i++) printf(" %s", seats->element[i]->str);
    printf("\n");
    freeReplyObject(hold);
    redisReply *sold = ask(client, "SEAT.CONFIRM %s %s USER ann ORDER %s", SHOW, token, token);
    printf("sold %lld\n", sold->integer);
    freeReplyObject(sold);
}

/* Takes a free number for a call, and ends the call. */
static void call(struct client *client, const char *token) {
    freeReplyObject(ask(client, "NUMPOOL.ADD %s 5550100 5550101", POOL));
    freeReplyObject(ask(client, "NUMPOOL.REG %s 5550100 5550101 SWITCH sw1", POOL));
    redisReply *lease = ask(client, "NUMPOOL.CALL %s TTL 60000 LEASE %s", POOL, token);
    if (lease->type == REDIS_REPLY_NIL) fail("all numbers are busy");
    printf("called %s\n", text(lease, "number"));
    /* 1, or 0 if the request was sent twice: the call has ended in both cases. */
    freeReplyObject(ask(client, "NUMPOOL.HANGUP %s %s LEASE %s", POOL, text(lease, "number"), token));
    printf("hung up\n");
    freeReplyObject(lease);
}

/* Reads the event stream until the sale of this token. A service stores the last id, and goes on after it. */
static void follow(struct client *client, const char *token) {
    char last[64] = "0";
    for (int sold = 0; !sold;) {
        redisReply *streams = ask(client, "XREAD BLOCK 1000 STREAMS %s:evt %s", SHOW, last);
        size_t count = streams->type == REDIS_REPLY_ARRAY ? streams->element[0]->element[1]->elements : 0;
        for (size_t i = 0; i < count && !sold; i++) {
            const redisReply *entry = streams->element[0]->element[1]->element[i];
            snprintf(last, sizeof last, "%s", entry->element[0]->str);
            if (strcmp(text(entry->element[1], "token"), token) != 0) continue;
            printf("event %s\n", text(entry->element[1], "event"));
            sold = strcmp(text(entry->element[1], "event"), "confirmed") == 0;
        }
        freeReplyObject(streams);
    }
}

int main(int count, char **arguments) {
    struct client client = {
        .host = count > 1 ? arguments[1] : "127.0.0.1",
        .port = count > 2 ? atoi(arguments[2]) : 6379,
    };
    unsigned char bytes[16];
    char token[2 * sizeof bytes + 1];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) fail("there are no random numbers");
    for (size_t i = 0; i < sizeof bytes; i++) snprintf(token + 2 * i, 3, "%02x", bytes[i]);
    sell(&client, token);
    call(&client, token);
    follow(&client, token);
    disconnect(&client);
    return EXIT_SUCCESS;
}
