#ifndef C_EMBEDDED_H
#define C_EMBEDDED_H

#include <stddef.h>

/// A file that is a part of the program.
typedef struct {
    /// The path within its folder, such as `functions/withdrawal.sql`.
    const char *path;
    const unsigned char *bytes;
    size_t count;
} embedded_file;

/// Returns the file of the folder `migrations` at an index, in the order of the paths; `NULL` after the last one.
const embedded_file *embedded_migration_at(size_t index);

/// Returns the file of the operator's page at an index, likewise.
const embedded_file *embedded_page_file_at(size_t index);

/// Returns the version of the program, the text of the file `VERSION`.
const char *embedded_version(void);

/// Returns the commit that the program was built of; `NULL` for a build that is not to be released.
const char *embedded_revision(void);

#endif
