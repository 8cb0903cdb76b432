// KVC_CLONES before a function: compiled once for each kind of x86-64 machine, and the first call picks this one's.
// Loops need no intrinsics for it. Elsewhere there is one version; under ThreadSanitizer, too, whose runtime is not yet
// there when a program's start picks.
#pragma once

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define KVC_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define KVC_CLONES
#endif
