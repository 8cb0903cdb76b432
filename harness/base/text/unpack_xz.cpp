#include "text/unpack_xz.h"

#include <lzma.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <vector>

#include "kvc/check.h"

namespace kvc {

void unpack_xz(const std::filesystem::path& from, const std::filesystem::path& to) {
  std::ifstream in(from, std::ios::binary);
  KVC_CHECK(in, "'", from.string(), "': ", std::strerror(errno));
  std::ofstream out(to, std::ios::binary);
  lzma_stream stream = LZMA_STREAM_INIT;
  const std::unique_ptr<lzma_stream, void (*)(lzma_stream*)> owner(&stream, &::lzma_end);
  KVC_CHECK(::lzma_stream_decoder(&stream, uint64_t{1} << 30, LZMA_CONCATENATED) == LZMA_OK, "liblzma does not start");
  std::vector<char> packed(1 << 20), plain(1 << 20);
  lzma_ret status = LZMA_OK;
  while (status == LZMA_OK) {
    if (stream.avail_in == 0 && in) {
      in.read(packed.data(), static_cast<std::streamsize>(packed.size()));
      stream.next_in = reinterpret_cast<const uint8_t*>(packed.data());
      stream.avail_in = static_cast<size_t>(in.gcount());
    }
    stream.next_out = reinterpret_cast<uint8_t*>(plain.data());
    stream.avail_out = plain.size();
    status = ::lzma_code(&stream, in ? LZMA_RUN : LZMA_FINISH);
    out.write(plain.data(), static_cast<std::streamsize>(plain.size() - stream.avail_out));
  }
  KVC_CHECK(status == LZMA_STREAM_END, "'", from.string(),
            "': ", status == LZMA_FORMAT_ERROR ? "it is no .xz file" : "it is damaged or cut off");
  if (!out.flush()) throw EnvironmentError(concat("'", to.string(), "': ", std::strerror(errno)));
}

}  // namespace kvc
