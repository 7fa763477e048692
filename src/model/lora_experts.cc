#include "model/lora_experts.h"

#include <algorithm>
#include <cstring>

#include "io/in_quotes.h"
#include "model/hf_reshape.h"
#include "model/peft_folder.h"

namespace quire {
namespace {

// Of a layer's "blk.0.ffn_": where experts of folders that have them one by one are, "model.layers.0.mlp.experts".
std::string front_of_each(const std::string& container, const HfRules& rules) {
  for (const char* last : {".0.down_proj.weight", ".0.w2.weight"}) {
    const std::vector<Renamed> one = our_names(container + last, rules);
    if (!one.empty() && one.front().rule->reshape == nullptr)
      return one.front().name.substr(0, one.front().name.find("ffn_")) + "ffn_";
  }
  return "";
}

// [n, d, m] of [n, m, d].
std::vector<float> each_transposed(const std::vector<float>& from, int64_t n, int64_t m) {
  const int64_t d = std::ssize(from) / (n * m);
  std::vector<float> out;
  out.reserve(from.size());
  for (int64_t e = 0; e < n; ++e) {
    for (int64_t i = 0; i < d; ++i) {
      for (int64_t j = 0; j < m; ++j) out.push_back(from[static_cast<size_t>((e * m + j) * d + i)]);
    }
  }
  return out;
}

// [n, rank, d] of [d, rank · n].
std::vector<float> by_expert(const std::vector<float>& from, int64_t n, int64_t rank) {
  const int64_t d = std::ssize(from) / (n * rank);
  std::vector<float> out;
  out.reserve(from.size());
  for (int64_t e = 0; e < n; ++e) {
    for (int64_t j = 0; j < rank; ++j) {
      for (int64_t i = 0; i < d; ++i) out.push_back(from[static_cast<size_t>((i * rank + j) * n + e)]);
    }
  }
  return out;
}

}  // namespace

ExpertParameter::ExpertParameter(const AdapterBuilder& builder, const HfRules& rules, const std::string& name) {
  std::vector<Renamed> own = our_names(name, rules);
  std::ranges::sort(own, {}, &Renamed::name);  // gate, then up
  if (own.size() == 1) stack_ = builder.stack_of(own.front().name);
  if (own.size() == 2)
    stack_ = builder.stack_of(own[0].name.substr(0, own[0].name.find("ffn_")) + "ffn_gate_up_exps.weight");
  if (!own.empty()) {
    if (own.front().rule->reshape != nullptr) cut_ = std::move(own);
    return;
  }
  const size_t dot = name.rfind('.');
  const std::string front = front_of_each(name.substr(0, dot), rules), what = name.substr(dot + 1);
  if (front.empty()) return;
  constexpr std::string_view kEnd = "_proj";  // of gate_up_proj, up_proj and down_proj
  if (what.ends_with(kEnd))
    stack_ = builder.stack_of(front + what.substr(0, what.size() - kEnd.size()) + "_exps.weight");
}

std::vector<int64_t> ExpertParameter::a_shape(int64_t rank, bool turned) const {
  return {std::ssize(stack_.experts) * rank, turned ? stack_.n_out : stack_.n_in};
}
std::vector<int64_t> ExpertParameter::b_shape(int64_t rank, bool turned) const {
  return {turned ? stack_.n_in : stack_.n_out, rank * std::ssize(stack_.experts)};
}

std::optional<bool> ExpertParameter::is_turned(int64_t rank, const SafeTensor& a, const SafeTensor& b) const {
  const auto fits = [&](bool turned) { return a.shape == a_shape(rank, turned) && b.shape == b_shape(rank, turned); };
  return fits(false) == fits(true) ? std::nullopt : std::optional(fits(true));
}

Result<LoraMatrices> ExpertParameter::read(
    int64_t rank, bool turned, const SafeTensor& a, const SafeTensor& b, const MappedFile& map) const {
  LoraMatrices out;
  out.rank = rank;
  QR_TRY(out.a, read_finite(a, a_shape(rank, turned), map));  // [n, rank, in]
  QR_TRY(std::vector<float> columns, read_finite(b, b_shape(rank, turned), map));
  columns = by_expert(columns, std::ssize(stack_.experts), rank);  // [n, rank, out]
  if (turned) std::swap(out.a, columns);
  QR_TRY(out.b, rows_of(columns, rank, b.name));
  return out;
}

// [n, n_out, rank], gates before ups.
Result<std::vector<float>> ExpertParameter::rows_of(const std::vector<float>& columns,
                                                    int64_t rank,
                                                    const std::string& name) const {
  const int64_t n = std::ssize(stack_.experts), n_out = stack_.n_out;
  std::vector<float> rows = each_transposed(columns, n, rank);
  if (cut_.empty()) return rows;
  const int64_t n_parts = std::ssize(cut_), n_rows = n_out / n_parts, run = n_rows * rank;
  std::vector<float> out(rows.size());
  for (int64_t part = 0; part < n_parts; ++part) {
    const NameRule& rule = *cut_[static_cast<size_t>(part)].rule;
    const bool turns = makes_rows_of_columns(rule.reshape);
    const HostWeight theirs{name, find_weight_format("f32"),
                            turns ? std::vector{n, rank, n_out} : std::vector{n, n_out, rank},
                            std::as_bytes(std::span(turns ? columns : rows))};
    HostWeight ours = theirs;
    ModelFile memory;
    QR_TRY_VOID(rule.reshape(theirs, {}, ours, memory));
    if (ours.shape != std::vector{n, n_rows, rank})
      return fail(Code::unsupported, "tensor " + in_quotes(name) + ": its rows are not rows of this model");
    for (int64_t e = 0; e < n; ++e) {
      std::memcpy(out.data() + (e * n_parts + part) * run, ours.data.data() + e * run * 4,
                  static_cast<size_t>(run) * 4);
    }
  }
  return out;
}

}  // namespace quire
