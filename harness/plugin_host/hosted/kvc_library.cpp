#include "hosted/kvc_library.h"

#include <dlfcn.h>

#include <filesystem>

#include "kvc/check.h"
#include "kvc/footprint.h"

namespace kvc {

std::string kvc_library(const char* name) {
  Dl_info about{};
  static const char* (*const in_libkvc)(CacheTensor) = &to_string;
  KVC_CHECK(::dladdr(reinterpret_cast<const void*>(in_libkvc), &about) != 0, "libkvc.so is not found");
  return std::filesystem::absolute(about.dli_fname).replace_filename(name).string();
}

}  // namespace kvc
