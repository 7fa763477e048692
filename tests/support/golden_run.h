// A model's run against what a reference computed of it (expected.json of tests/golden): the logprobs of every token
// and of all after the last one, and every greedy choice.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "app/forward.h"
#include "app/wire.h"
#include "base/json.h"

namespace quire {

inline constexpr double kTolerance = 1e-3;  // of logprobs
inline constexpr double kRounded = 0.1;     // of half of them, where products round activations to BF16

inline std::vector<Token> tokens_of(const Json& list) {
  std::vector<Token> out;
  for (const Json& item : *list.as_array()) out.push_back(static_cast<Token>(*item.as_int()));
  return out;
}

// Natural logarithms of the softmax of one row.
inline std::vector<double> logprobs_of(std::span<const float> logits) {
  const double max = static_cast<double>(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float v : logits) sum += std::exp(static_cast<double>(v) - max);
  std::vector<double> out;
  for (const float v : logits) out.push_back(static_cast<double>(v) - max - std::log(sum));
  return out;
}

inline Result<std::vector<float>> logits_of(const LoadedModel& loaded, std::span<const Token> ids, size_t chunk) {
  QR_TRY(Forward forward, Forward::make(*loaded.model, *loaded.ops, static_cast<int>(ids.size()),
                                        static_cast<int>(std::min(chunk, ids.size()))));
  std::vector<float> out;
  for (size_t at = 0; at < ids.size(); at += chunk) {
    QR_TRY(const Tensor part, forward.run(ids.subspan(at, std::min(chunk, ids.size() - at))));
    out.insert(out.end(), part.ptr<float>(), part.ptr<float>() + part.n_elements());
  }
  return out;
}

// Of rounded activations, which may choose another expert or move a logprob of −40 far: half of the positions are near.
inline void check_median(std::span<const float> logits,
                         std::span<const Token> ids,
                         const Json::Array& chosen,
                         double most) {
  const size_t n_vocab = logits.size() / (ids.size() - 1);
  std::vector<double> off;
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    const std::vector<double> row = logprobs_of(logits.subspan(i * n_vocab, n_vocab));
    off.push_back(std::fabs(row[static_cast<size_t>(ids[i + 1])] - chosen[i].number()));
  }
  std::nth_element(off.begin(), off.begin() + std::ssize(off) / 2, off.end());
  ASSERT_LE(off[off.size() / 2], most);
}

inline void check_run(const LoadedModel& loaded, const Json& run, size_t chunk, double tolerance) {
  std::vector<Token> ids = tokens_of(*run.find("prompt_ids"));
  const size_t n_prompt = ids.size();
  const std::vector<Token> greedy = tokens_of(*run.find("greedy_ids"));
  ids.insert(ids.end(), greedy.begin(), greedy.end());
  const auto n_vocab = static_cast<size_t>(loaded.model->info().n_vocab);
  const auto logits = logits_of(loaded, std::span(ids).first(ids.size() - 1), chunk);
  ASSERT_TRUE(logits) << logits.error().message;
  const Json::Array& chosen = *run.find("logprobs")->as_array();
  const Json::Array& last = *run.find("last_logprobs")->as_array();
  ASSERT_EQ(chosen.size() + 1, ids.size());
  if (tolerance > kTolerance) return check_median(*logits, ids, chosen, tolerance);
  for (size_t i = 0; i + 1 < ids.size(); ++i) {
    const std::vector<double> row = logprobs_of(std::span(*logits).subspan(i * n_vocab, n_vocab));
    ASSERT_NEAR(row[static_cast<size_t>(ids[i + 1])], chosen[i].number(), tolerance) << "position " << i;
    if (i + 1 >= n_prompt) {
      ASSERT_EQ(std::max_element(row.begin(), row.end()) - row.begin(), ids[i + 1]) << "position " << i;
    }
    for (size_t v = 0; i + 2 == ids.size() && v < n_vocab; ++v) {
      ASSERT_NEAR(row[v], last[v].number(), tolerance) << "token " << v;
    }
  }
}

}  // namespace quire
