// See draft_vocabulary.h.
#include "app/draft_vocabulary.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <numeric>

#include "base/bounded_reader.h"
#include "io/folder_files.h"
#include "io/shape_text.h"
#include "model/eagle.h"

namespace quire {
namespace {

constexpr std::string_view kOption = "--draft-vocab ";

Error bad(const std::string& wanted, const std::string& what) {
  return {Code::invalid, std::string(kOption) + wanted + ": " + what};
}

Result<std::vector<Token>> read_d2t(const TensorFile& file, int n_vocab) {
  const auto at = std::ranges::find(file.tensors, "d2t", &SafeTensor::name);
  if (at == file.tensors.end()) return fail(Code::corrupt, file.name + ": tensor \"d2t\": is missing");
  const int64_t n = at->shape.size() == 1 ? at->shape[0] : 0;
  if (at->dtype != "I64" || n < 1 || n > n_vocab) {
    return fail(Code::corrupt, file.name + ": tensor \"d2t\": must be I64 of 1 to " + std::to_string(n_vocab) +
                                   " numbers, is " + at->dtype + " of shape " + shape_text(at->shape));
  }
  auto tokens = tokens_of_offsets(
      file.map->bytes().subspan(static_cast<size_t>(at->offset), static_cast<size_t>(at->bytes)), n_vocab, "draft");
  QR_TRY_VOID(file.map->check_unchanged());
  if (!tokens) return error_within(file.name, std::move(tokens).error());
  std::vector<Token> out = std::move(*tokens);
  std::ranges::sort(out);
  out.erase(std::ranges::unique(out).begin(), out.end());
  return out;
}

}  // namespace

Result<std::vector<Token>> draft_vocabulary(const std::string& wanted, int n_vocab) {
  if (wanted.empty()) return std::vector<Token>{};
  int n = 0;
  const auto [end, error] = std::from_chars(wanted.data(), wanted.data() + wanted.size(), n);
  if (end == wanted.data() + wanted.size()) {
    if (error != std::errc() || n < 1 || n > n_vocab) {
      return tl::make_unexpected(bad(wanted, "the draft has " + std::to_string(n_vocab) + " tokens, so 1 to as many"));
    }
    std::vector<Token> out(static_cast<size_t>(n));
    std::iota(out.begin(), out.end(), 0);
    return out;
  }
  std::error_code failed;
  const std::filesystem::path path = std::filesystem::canonical(wanted, failed);  // a link may lead anywhere
  if (failed || !std::filesystem::is_regular_file(path, failed)) {
    return tl::make_unexpected(bad(wanted, "must be a number of tokens or a file of safetensors with \"d2t\""));
  }
  auto file = open_tensor_file(path.parent_path().string(), path.filename().string());
  if (!file) return error_within(std::string(kOption) + wanted, std::move(file).error());
  auto tokens = read_d2t(*file, n_vocab);
  if (!tokens) return error_within(std::string(kOption) + wanted, std::move(tokens).error());
  return tokens;
}

}  // namespace quire
