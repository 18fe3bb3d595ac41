/* A module that listens to all keyspace notifications and runs commands when they come, as modules of other people do.
 *
 *     LISTENER.ON event word ...     when this event is published, run this command; % stands for the name of the key
 *     LISTENER.OFF                   forget all commands
 *     LISTENER.RUNS                  how many commands were run
 *
 * Notifications that its own commands cause run nothing. The declarations are those of redismodule.h. */
#include <stddef.h>
#include <string.h>

typedef struct Ctx Ctx;
typedef struct String String;
typedef struct Reply Reply;
typedef int (*Command)(Ctx *, String **, int);
typedef int (*Listener)(Ctx *, int, const char *, String *);

static int (*GetApi)(const char *, void *);
static void (*SetModuleAttribs)(Ctx *, const char *, int, int);
static int (*CreateCommand)(Ctx *, const char *, Command, const char *, int, int, int);
static int (*SubscribeToKeyspaceEvents)(Ctx *, int, Listener);
static Reply *(*Call)(Ctx *, const char *, const char *, ...);
static void (*FreeCallReply)(Reply *);
static const char *(*StringPtrLen)(const String *, size_t *);
static String *(*CreateString)(Ctx *, const char *, size_t);
static void (*FreeString)(Ctx *, String *);
static void (*RetainString)(Ctx *, String *);
static int (*ReplyWithLongLong)(Ctx *, long long);

/* The classes g $ l s h z x e t d n. */
enum { EVENTS = 0x7fc | 1 << 13 | 1 << 14, MOST_COMMANDS = 32, MOST_WORDS = 16 };

static struct { char event[64]; int words; String *word[MOST_WORDS]; } commands[MOST_COMMANDS];
static int count, runs, running;

static void run(Ctx *ctx, int which, String *key) {
    String *words[MOST_WORDS];
    size_t length;
    for (int at = 0; at < commands[which].words; at++) {
        const char *text = StringPtrLen(commands[which].word[at], &length);
        words[at] = length == 1 && *text == '%' ? key : commands[which].word[at];
    }
    char name[64];
    const char *text = StringPtrLen(words[0], &length);
    if (length >= sizeof name) return;
    memcpy(name, text, length);
    name[length] = 0;
    Reply *reply = Call(ctx, name, "!v", words + 1, (size_t)commands[which].words - 1);
    if (reply) FreeCallReply(reply);
    runs++;
}

static int listen(Ctx *ctx, int type, const char *event, String *key) {
    (void)type;
    if (running) return 0;
    running = 1;
    /* The server may free its string while the command runs. */
    size_t length;
    const char *text = StringPtrLen(key, &length);
    String *copy = CreateString(NULL, text, length);
    for (int at = 0; at < count; at++)
        if (!strcmp(commands[at].event, event)) run(ctx, at, copy);
    FreeString(NULL, copy);
    running = 0;
    return 0;
}

static int on(Ctx *ctx, String **argv, int argc) {
    size_t length;
    const char *event = argc > 2 ? StringPtrLen(argv[1], &length) : NULL;
    if (!event || argc - 2 > MOST_WORDS || count == MOST_COMMANDS || length >= sizeof commands[0].event)
        return ReplyWithLongLong(ctx, -1);
    memcpy(commands[count].event, event, length);
    commands[count].event[length] = 0;
    commands[count].words = argc - 2;
    for (int at = 2; at < argc; at++) {
        RetainString(NULL, argv[at]);
        commands[count].word[at - 2] = argv[at];
    }
    return ReplyWithLongLong(ctx, ++count);
}

static int off(Ctx *ctx, String **argv, int argc) {
    (void)argv, (void)argc;
    count = 0;
    return ReplyWithLongLong(ctx, 0);
}

static int told(Ctx *ctx, String **argv, int argc) {
    (void)argv, (void)argc;
    return ReplyWithLongLong(ctx, runs);
}

int RedisModule_OnLoad(Ctx *ctx) {
    GetApi = (int (*)(const char *, void *))((void **)ctx)[0];
#define GET(name) if (GetApi("RedisModule_" #name, (void *)&name)) return 1
    GET(SetModuleAttribs); GET(CreateCommand); GET(SubscribeToKeyspaceEvents); GET(Call); GET(FreeCallReply);
    GET(StringPtrLen); GET(CreateString); GET(FreeString); GET(RetainString); GET(ReplyWithLongLong);
    SetModuleAttribs(ctx, "listener", 1, 1);
    if (CreateCommand(ctx, "LISTENER.ON", on, "", 0, 0, 0)) return 1;
    if (CreateCommand(ctx, "LISTENER.OFF", off, "", 0, 0, 0)) return 1;
    if (CreateCommand(ctx, "LISTENER.RUNS", told, "", 0, 0, 0)) return 1;
    return SubscribeToKeyspaceEvents(ctx, EVENTS, listen);
}
