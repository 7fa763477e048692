// Everything that is heard of a request, as bits: tokens of prompt and answer, logprobs, those beside them, hidden
// states, and how it ended.
#pragma once
#include <bit>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace quire {

class HeardSink final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent& event) override {
    put(event.id);
    put(std::bit_cast<int32_t>(event.logprob));
    for (const TopLogprob& top : event.top) {
      put(top.id);
      put(std::bit_cast<int32_t>(top.logprob));
    }
  }
  void on_pooled(SeqId, std::span<const float> values) override {
    for (const float value : values) put(std::bit_cast<int32_t>(value));
  }
  void on_finish(SeqId, Finish how, const Usage& told, const std::string& message) override {
    finish = how;
    usage = told;
    error = message;
    ++n_ends;
  }
  bool is_over() const { return n_ends > 0; }
  std::vector<int32_t> heard;
  Finish finish = Finish::stop;
  Usage usage;
  std::string error;
  int n_ends = 0;

 private:
  void put(int32_t value) { heard.push_back(value); }
};

}  // namespace quire
