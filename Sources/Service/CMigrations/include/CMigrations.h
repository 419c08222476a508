#ifndef C_MIGRATIONS_H
#define C_MIGRATIONS_H

#include <stddef.h>

/// A file of the folder migrations, which is a part of the program.
typedef struct {
    /// The path within the folder, such as `functions/withdrawal.sql`.
    const char *path;
    const unsigned char *bytes;
    size_t count;
} embedded_migration;

/// Returns the file at an index, in the order of the paths; `NULL` after the last one.
const embedded_migration *embedded_migration_at(size_t index);

#endif
