#include "app/sampling_options.h"

#include <array>
#include <limits>

namespace quire {
namespace {

struct Row {
  std::string_view field;
  double value;                  // of the table; small models babble without cuts
  double lo, hi;                 // what a file may say
  std::string_view hf, gguf;     // the keys of the two
  double SamplingChoice::* own;  // null: no option
};

constexpr double kMostTokens = std::numeric_limits<int>::max();

constexpr std::array kRows = {
    Row{"temperature", 0.8, 0, 100, "hf_generation.temperature", "general.sampling.temp", &SamplingChoice::temperature},
    Row{"top_k", 40, 0, kMostTokens, "hf_generation.top_k", "general.sampling.top_k", nullptr},
    Row{"top_p", 0.95, 0, 1, "hf_generation.top_p", "general.sampling.top_p", &SamplingChoice::top_p},
    Row{"min_p", 0.05, 0, 1, "hf_generation.min_p", "general.sampling.min_p", &SamplingChoice::min_p},
    Row{"repetition_penalty", 1, 0.01, 100, "hf_generation.repetition_penalty", "general.sampling.penalty_repeat",
        nullptr},
};

// An option that was not given is -1.
Status check_one(const char* name, double value, double hi) {
  return value == -1 ? Status{} : in_range(name, value, 0, hi);
}

}  // namespace

void declare_sampling_options(CommandLine& line, SamplingChoice& choice) {
  line.option("--temperature,--temp", choice.temperature,
              "0 always takes the likeliest token, -1: as the model recommends, else 0.8");
  line.option("--top-k", choice.top_k,
              "draw from so many of the likeliest tokens, 0: from all, -1: as the model recommends, else 40");
  line.option("--top-p", choice.top_p,
              "draw from the likeliest tokens of this share together, -1: as the model recommends, else 0.95");
  line.option("--min-p", choice.min_p,
              "draw from tokens at least this share of the likeliest, -1: as the model recommends, else 0.05");
}

Status check(const SamplingChoice& choice) {
  QR_TRY_VOID(check_one("--temperature", choice.temperature, 100));
  QR_TRY_VOID(check_one("--top-k", choice.top_k, kMostTokens));
  QR_TRY_VOID(check_one("--top-p", choice.top_p, 1));
  return check_one("--min-p", choice.min_p, 1);
}

SamplingDefaults model_sampling(const Metadata& meta) {
  SamplingDefaults out;
  for (const Row& row : kRows) {
    out.set(row.field, row.value, "table");
    if (const auto value = meta.get_double(row.gguf, row.lo, row.hi)) out.set(row.field, *value, "general.sampling");
    if (const auto value = meta.get_double(row.hf, row.lo, row.hi))
      out.set(row.field, *value, "generation_config.json");
  }
  return out;
}

void apply(const SamplingChoice& choice, SamplingDefaults& defaults) {
  for (const Row& row : kRows) {
    if (row.own != nullptr && choice.*row.own >= 0) defaults.set(row.field, choice.*row.own, "option");
  }
  if (choice.top_k >= 0) defaults.set("top_k", choice.top_k, "option");
}

SamplingParams sampling_params(const SamplingDefaults& defaults) {
  SamplingParams out;
  out.temperature = static_cast<float>(defaults.get("temperature", 1));
  out.top_k = static_cast<int>(defaults.get("top_k", 0));
  out.top_p = static_cast<float>(defaults.get("top_p", 1));
  out.min_p = static_cast<float>(defaults.get("min_p", 0));
  out.repetition_penalty = static_cast<float>(defaults.get("repetition_penalty", 1));
  return out;
}

}  // namespace quire
