// The same cheats, from a plugin that says that it evicts.
#define CHEATS "evicting_cheats"
#define CHEATS_EVICT true
#include "cheats/cheats.cpp"
