#include "CEmbedded.h"

// #embed is a part of C23.
#pragma clang diagnostic ignored "-Wc23-extensions"

static const char version[] = {
#embed "../../../VERSION"
    , 0};

const char *embedded_version(void) { return version; }

// scripts/build-release links the file that defines it.
extern const char push_server_revision[] __attribute__((weak));

const char *embedded_revision(void) { return push_server_revision; }
