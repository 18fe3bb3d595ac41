/* Storage that does not answer: where a file named `hung` is asked for, the call does not return. Loaded by LD_PRELOAD. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *realpath(const char *restrict path, char *restrict resolved) {
    const char *last = strrchr(path, '/');
    while (last && strcmp(last, "/hung") == 0) pause();
    char *(*next)(const char *, char *) = (char *(*)(const char *, char *))dlsym(RTLD_NEXT, "realpath");
    return next ? next(path, resolved) : NULL;
}
