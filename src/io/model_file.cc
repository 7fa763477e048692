#include "io/model_file.h"

#include <algorithm>
#include <filesystem>

#include "base/bounded_reader.h"
#include "base/mmap.h"
#include "io/ggml_types.h"
#include "io/gguf.h"
#include "io/gguf_factors.h"
#include "io/gguf_split.h"
#include "io/hf_folder.h"
#include "io/in_quotes.h"
#include "io/shape_text.h"
#include "io/tokenizer_meta.h"

namespace quire {
namespace {

Result<HostWeight> make_weight(const GgufTensor& tensor, std::span<const std::byte> file) {
  HostWeight weight;
  weight.name = tensor.name;
  weight.format = find_weight_format(tensor.type);
  if (weight.format == nullptr) {
    std::string known;
    for (const WeightFormat* format : weight_formats()) {
      if (format->is_in_gguf()) known += (known.empty() ? "" : ", ") + std::string(format->name);
    }
    return fail(Code::unsupported, "tensor " + in_quotes(tensor.name) + ": byte " + std::to_string(tensor.offset) +
                                       ": tensor type " + std::string(find_ggml_type(tensor.type)->name) +
                                       " is not supported yet (supported: " + known + ")");
  }
  weight.shape = tensor.shape;
  weight.data = file.subspan(static_cast<size_t>(tensor.offset), static_cast<size_t>(tensor.bytes));
  return weight;
}

Result<ModelFile> from_gguf(const std::shared_ptr<const MappedFile>& map, GgufParts parts) {
  ModelFile model;
  QR_TRY(GgufHeader header, parse_gguf(map->bytes(), parts));
  model.path = map->path();
  model.container = "GGUF v" + std::to_string(header.version);
  model.file_bytes = map->size();
  model.meta = std::move(header.meta);
  model.tensors.reserve(header.tensors.size());
  for (const GgufTensor& tensor : header.tensors) {
    QR_TRY(model.tensors.emplace_back(), make_weight(tensor, map->bytes()));
  }
  QR_TRY(const std::string tokenizer, model.meta.get_string_or("tokenizer.ggml.model", "none"));
  model.has_tokenizer = tokenizer != "none" && tokenizer != "no_vocab";
  if (model.has_tokenizer) {
    QR_TRY(model.tokenizer, read_tokenizer(model.meta));
  }
  model.maps.push_back(map);
  return model;
}

Result<ModelFile> open_gguf(const std::string& path, GgufParts parts) {
  QR_TRY(const auto map, MappedFile::open(path));
  if (!is_gguf(map->bytes())) {
    const auto start = map->bytes().first(std::min<size_t>(map->bytes().size(), 4));
    return fail(Code::unsupported, path + ": byte 0: no model file known here: \"GGUF\" expected, " +
                                       in_quotes({reinterpret_cast<const char*>(start.data()), start.size()}) +
                                       " found");
  }
  auto model = from_gguf(map, parts);
  QR_TRY_VOID(map->check_unchanged());  // first: a file that shrank explains every other error
  if (!model) return error_within(path, std::move(model).error());
  return model;
}

// The model that `first` is the first file of, with the tensors of all files.
Result<ModelFile> with_further_parts(ModelFile first, const std::string& path, const GgufSplit& split) {
  for (int64_t no = 1; no < split.count; ++no) {
    QR_TRY(const std::string next, gguf_part_path(path, split, no));
    QR_TRY(ModelFile part, open_gguf(next, GgufParts::all));
    auto added = add_gguf_part(first, no, std::move(part));
    if (!added) return error_within(next, std::move(added).error());
  }
  if (static_cast<int64_t>(first.tensors.size()) == split.n_tensors) return first;
  return fail(Code::corrupt, path + ": key \"split.tensors.count\": is " + std::to_string(split.n_tensors) +
                                 ", the parts hold " + std::to_string(first.tensors.size()) + " tensors");
}

Result<ModelFile> open_parts(const std::string& path, GgufParts parts) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    if (is_hf_folder(path)) return parts == GgufParts::all ? open_hf_folder(path) : open_hf_metadata(path);
    return fail(Code::unsupported, path +
                                       ": is a folder without config.json; a .gguf file or a Hugging Face folder "
                                       "is wanted");
  }
  QR_TRY(ModelFile named, open_gguf(path, parts));
  const auto split = read_gguf_split(named.meta);
  if (!split) return error_within(path, split.error());
  if (split->count == 1) return named;
  auto first = gguf_part_path(path, *split, 0);
  if (!first) return error_within(path, std::move(first).error());
  if (split->no != 0) {
    QR_TRY(named, open_gguf(*first, parts));
    const auto again = read_gguf_split(named.meta);
    if (!again || again->no != 0 || again->count != split->count) {
      return fail(Code::corrupt, *first + ": is not the first of " + std::to_string(split->count) + " parts");
    }
  }
  if (parts == GgufParts::facts) return named;
  return with_further_parts(std::move(named), *first, GgufSplit{0, split->count, split->n_tensors});
}

}  // namespace

const HostWeight* ModelFile::find(std::string_view name) const {
  const auto it = std::lower_bound(tensors.begin(), tensors.end(), name,
                                   [](const HostWeight& w, std::string_view wanted) { return w.name < wanted; });
  return it != tensors.end() && it->name == name ? &*it : nullptr;
}

std::string ModelFile::shown(std::string_view tensor) const { return in_quotes(spelling ? spelling(tensor) : tensor); }

void ModelFile::sort_tensors() {
  std::sort(tensors.begin(), tensors.end(), [](const HostWeight& a, const HostWeight& b) { return a.name < b.name; });
}

Status ModelFile::check_unchanged() const {
  for (const auto& map : maps) QR_TRY_VOID(map->check_unchanged());
  return {};
}

void ModelFile::release(const HostWeight& weight) const {
  for (const auto& part : weight.stored()) {
    for (const auto& map : maps) {
      const std::span<const std::byte> all = map->bytes();
      const bool inside = part.data() >= all.data() && part.data() < all.data() + all.size();
      if (inside) map->release(part);
    }
  }
}

Result<const HostWeight*> ModelFile::get(std::string_view name, const std::vector<int64_t>& shape) const {
  const HostWeight* weight = find(name);
  if (weight == nullptr) {
    return fail(Code::not_found,
                path + ": tensor " + shown(name) + ": is missing, shape " + shape_text(shape) + " wanted");
  }
  if (weight->shape != shape) {
    return fail(Code::corrupt, path + ": tensor " + shown(name) + ": has shape " + shape_text(weight->shape) + ", " +
                                   shape_text(shape) + " wanted");
  }
  return weight;
}

Result<ModelFile> open_model(const std::string& path) {
  QR_TRY(ModelFile model, open_parts(path, GgufParts::all));
  if (!model.is_hugging_face) {
    if (auto taken = take_factors(model); !taken) return error_within(path, std::move(taken).error());
  }
  return model;
}

Result<ModelFile> open_model_metadata(const std::string& path) { return open_parts(path, GgufParts::facts); }

}  // namespace quire
