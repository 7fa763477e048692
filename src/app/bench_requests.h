// What the measurements of a bench ask for, and who hears the answers.
#pragma once
#include <algorithm>
#include <string>
#include <vector>

#include "base/rng.h"
#include "engine/engine.h"

namespace quire {

// Of one sequence: its tokens, and how it ended.
class BenchAnswer final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent& event) override { tokens.push_back(event.id); }
  void on_finish(SeqId, Finish finish, const Usage&, const std::string& message) override {
    done = true;
    if (finish == Finish::error) error = message;
  }
  std::vector<Token> tokens;
  std::string error;
  bool done = false;
};

inline std::vector<Token> random_prompt(int n, int n_vocab, uint64_t seed) {
  Rng rng(seed);
  std::vector<Token> out(static_cast<size_t>(n));
  for (Token& id : out) id = static_cast<Token>(rng.between(0, n_vocab - 1));
  return out;
}

// The upper one of two in the middle. REQUIRES that there are some.
inline double median_of(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace quire
