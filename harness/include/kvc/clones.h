// KVC_CLONES before a function compiles it once for each level of x86-64; the machine's version is chosen at load time,
// so loops need no intrinsics. There is only one version on other machines, and under ThreadSanitizer, whose runtime is
// not initialized at that time.
#pragma once

#if defined(__x86_64__) && !defined(__SANITIZE_THREAD__)
#define KVC_CLONES __attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default")))
#else
#define KVC_CLONES
#endif
