#include "model/model.h"

#include <algorithm>

#include "base/bounded_reader.h"
#include "io/hf_config.h"
#include "io/in_quotes.h"
#include "model/arch/missing.h"
#include "ops/parts.h"

namespace quire {
namespace {

struct Found {
  std::string name;
  const ArchEntry* entry;
};

// What to say of one that is known and not computed, by either of its names.
Status check_computed(const std::string& name) {
  for (const MissingArch& one : missing_archs()) {
    if (name != one.model_type && name != one.gguf) continue;
    return fail(Code::unsupported, in_quotes(name) + " is not supported: " + std::string(one.lacks));
  }
  return {};
}

Result<Found> find_by_name(const ModelFile& file) {
  QR_TRY(const std::string arch, file.meta.get_string("general.architecture"));
  const ArchEntry* entry = Registry<ArchEntry>::get().find(arch);
  if (entry != nullptr) return Found{arch, entry};
  QR_TRY_VOID(check_computed(arch));
  std::string known;
  for (const std::string& name : Registry<ArchEntry>::get().names()) known += " " + name;
  return fail(Code::unsupported, "architecture " + in_quotes(arch) + " is not supported; known:" + known);
}

// A model of several parts names its own type and its text model's.
Result<Found> find_by_model_type(const ModelFile& file) {
  QR_TRY(const std::string type, file.meta.get_string(std::string(kHfPrefix) + "model_type"));
  std::string known;
  for (const std::string& name : Registry<ArchEntry>::get().names()) {
    const ArchEntry* entry = Registry<ArchEntry>::get().find(name);
    for (const std::string_view one : entry->hf.model_types) {
      if (one == type) return Found{name, entry};
      known += " " + std::string(one);
    }
  }
  if (auto computed = check_computed(type); !computed)
    return error_within("config.json: key \"model_type\"", std::move(computed).error());
  return fail(Code::unsupported,
              "config.json: key \"model_type\": " + in_quotes(type) + " is not supported; known:" + known);
}

}  // namespace

std::span<const MissingArch> missing_archs() { return kMissingArchs; }

// Rows that follow each other go in one piece.
void write_kv(const Tensor& k, const Tensor& v, const Pass& pass, const AttnParams& params) {
  const Batch& batch = *pass.batch;
  const auto group = static_cast<size_t>(params.group), tail = static_cast<size_t>(params.tail_group);
  const auto rows_of_batch = [&] {
    store_kv(*pass.ops, {k, v, batch.slots[group], batch.slots[tail]}, pass.kv, params);
  };
  if (batch.again.empty()) return rows_of_batch();
  const std::span<const int32_t> rows = batch.again.span<int32_t>();
  const auto n_rows = std::ssize(rows);
  for (int64_t begin = 0, end = 0; begin < n_rows; begin = end) {
    const int32_t first = rows[static_cast<size_t>(begin)];
    for (end = begin + 1; end < n_rows && rows[static_cast<size_t>(end)] == first + (end - begin);) ++end;
    const int64_t n = end - begin;
    const KvRows some{k.rows(first, n), v.empty() ? Tensor() : v.rows(first, n),
                      batch.again_slots[group].rows(begin, n), batch.again_slots[tail].rows(begin, n)};
    store_kv(*pass.ops, some, pass.kv, params);
  }
  rows_of_batch();  // behind those: a strip that ends here may begin with them
}

Tensor tapped(const Pass& pass, Tap::At at) {
  for (const Tap& tap : pass.taps) {
    if (tap.at == at) return tap.out.rows(0, pass.batch->out_rows.dim(0));
  }
  return {};
}

Result<ModelFile> neutral_form(const ModelFile& file) {
  if (!file.is_hugging_face) return file;
  auto found = find_by_model_type(file);
  if (!found) return error_within(file.path, std::move(found).error());
  return translate_hf(file, found->name, found->entry->hf);
}

Result<std::unique_ptr<Model>> load_model(const ModelFile& file, Ops& ops, const LoadOptions& options) {
  if (file.is_hugging_face) {
    QR_TRY(const ModelFile neutral, neutral_form(file));
    return load_model(neutral, ops, options);
  }
  auto found = find_by_name(file);
  if (!found) return error_within(file.path, std::move(found).error());
  return found->entry->load(file, ops, options);
}

Result<ModelInfo> model_info(const ModelFile& file, const LoadOptions& options) {
  QR_TRY(const ModelFile neutral, neutral_form(file));
  auto found = find_by_name(neutral);
  if (!found) return error_within(file.path, std::move(found).error());
  return found->entry->info(neutral, options);
}

}  // namespace quire
