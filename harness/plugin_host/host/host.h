// The process that runs compressors of shared libraries for others (hosted/host_process.h).
#pragma once

namespace kvc {

// `kvc host`, which others start: LibTorch is ready once, then a fork of it for each compressor that is asked for.
// -> exit code, at the other side's end
int run_host();

}  // namespace kvc
