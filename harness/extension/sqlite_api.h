// Included before the statistics' own <sqlite3.h> when they are built as an extension: calls go through the table of
// functions that the loading SQLite hands over.
#pragma once

#include <sqlite3ext.h>

SQLITE_EXTENSION_INIT3
