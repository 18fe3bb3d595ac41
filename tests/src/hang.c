/* Storage that does not answer: where a file named `hung` is resolved, or a directory of that name is read, the call does
   not return. Loaded by LD_PRELOAD. */
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void hang(const char *path) {
    const char *last = strrchr(path, '/');
    while (last && strcmp(last, "/hung") == 0) pause();
}

DIR *opendir(const char *path) {
    hang(path);
    DIR *(*next)(const char *) = (DIR *(*)(const char *))dlsym(RTLD_NEXT, "opendir");
    return next ? next(path) : NULL;
}

char *realpath(const char *restrict path, char *restrict resolved) {
    hang(path);
    char *(*next)(const char *, char *) = (char *(*)(const char *, char *))dlsym(RTLD_NEXT, "realpath");
    return next ? next(path, resolved) : NULL;
}
