// A head that a model of tests carries, of the model's own last layer and of numbers from a seed. Test code only.
#pragma once
#include <cmath>
#include <memory>
#include <vector>

#include "base/check.h"
#include "base/rng.h"
#include "model/mtp.h"
#include "tests/support/tiny_model.h"

namespace quire {

// `tiny`, from which `model` was loaded for so many positions, as a file that carries one.
inline std::unique_ptr<Model> tiny_mtp(const TinyModel& tiny, const Model& model, Ops& ops, int n_ctx) {
  LoadOptions options;
  options.k_codec = options.v_codec = find_kv_codec("f16");
  options.n_ctx = n_ctx;
  const int64_t n = model.info().n_embd, n_layers = model.info().n_layers;
  ModelFile file = tiny.file();
  file.meta.values["llama.block_count"] = n_layers + 1;
  file.meta.values["llama.nextn_predict_layers"] = int64_t{1};
  const std::string last = "blk." + std::to_string(n_layers - 1) + ".", head = "blk." + std::to_string(n_layers) + ".";
  const auto add = [&file](HostWeight weight, const std::string& name) {
    weight.name = name;
    file.tensors.push_back(std::move(weight));
  };
  for (const HostWeight& weight : tiny.file().tensors) {
    if (weight.name.starts_with(last)) add(weight, head + weight.name.substr(last.size()));
  }
  for (const char* name : {"nextn.enorm.weight", "nextn.hnorm.weight"})
    add(*tiny.file().find("output_norm.weight"), head + name);
  Rng rng(17);
  std::vector<float> numbers(static_cast<size_t>(2 * n * n));
  for (float& v : numbers) v = rng.normal() / std::sqrt(static_cast<float>(2 * n));
  const HostWeight proj{"", find_weight_format(std::string_view("f32")), {n, 2 * n}, std::as_bytes(std::span(numbers))};
  add(proj, head + "nextn.eh_proj.weight");
  file.sort_tensors();
  auto out = load_mtp(file, model, ops, options);
  QR_CHECK(out, out.error().message);
  return std::move(*out);
}

}  // namespace quire
