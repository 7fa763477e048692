#include "io/gguf_split.h"

#include <algorithm>
#include <cstdio>
#include <iterator>

#include "base/bounded_reader.h"
#include "io/in_quotes.h"

namespace quire {
namespace {

constexpr int64_t kMaxParts = 200;  // fewer than base/mmap.h's maps

std::string ending(int64_t no, int64_t count) {
  char text[64];
  std::snprintf(text, sizeof text, "-%05d-of-%05d.gguf", static_cast<int>(no) + 1, static_cast<int>(count));
  return text;
}

Status differs(std::string_view key, int64_t found, int64_t wanted) {
  if (found == wanted) return {};
  return fail(Code::corrupt, "key \"" + std::string(key) + "\": is " + std::to_string(found) + ", " +
                                 std::to_string(wanted) + " wanted");
}

}  // namespace

Result<GgufSplit> read_gguf_split(const Metadata& meta) {
  GgufSplit out;
  QR_TRY(out.count, meta.get_int_or("split.count", 0, kMaxParts, 1));
  out.count = std::max<int64_t>(out.count, 1);
  if (out.count == 1) return out;
  QR_TRY(out.no, meta.get_int("split.no", 0, out.count - 1));
  QR_TRY(out.n_tensors, meta.get_int("split.tensors.count", 0, int64_t{1} << 31));
  return out;
}

Result<std::string> gguf_part_path(const std::string& path, const GgufSplit& split, int64_t no) {
  const std::string own = ending(split.no, split.count);
  if (path.ends_with(own)) return path.substr(0, path.size() - own.size()) + ending(no, split.count);
  return fail(Code::corrupt, "is part " + std::to_string(split.no + 1) + " of " + std::to_string(split.count) +
                                 ", so its name must end with " + own + " for the others to be found");
}

Status add_gguf_part(ModelFile& whole, int64_t no, ModelFile part) {
  QR_TRY(const GgufSplit wanted, read_gguf_split(whole.meta));
  QR_TRY(const GgufSplit found, read_gguf_split(part.meta));
  QR_TRY_VOID(differs("split.count", found.count, wanted.count));
  QR_TRY_VOID(differs("split.no", found.no, no));
  QR_TRY_VOID(differs("split.tensors.count", found.n_tensors, wanted.n_tensors));
  QR_TRY(const std::string arch, whole.meta.get_string_or("general.architecture", ""));
  QR_TRY(const std::string own, part.meta.get_string_or("general.architecture", arch));
  if (own != arch) {
    return fail(Code::corrupt,
                "key \"general.architecture\": is " + in_quotes(own) + ", the first part's is " + in_quotes(arch));
  }
  for (HostWeight& weight : part.tensors) {
    if (whole.find(weight.name) != nullptr) {
      return fail(Code::corrupt, "tensor " + in_quotes(weight.name) + ": is in an earlier part too");
    }
  }
  std::move(part.tensors.begin(), part.tensors.end(), std::back_inserter(whole.tensors));
  whole.sort_tensors();
  whole.maps.insert(whole.maps.end(), part.maps.begin(), part.maps.end());
  whole.file_bytes += part.file_bytes;
  return {};
}

}  // namespace quire
