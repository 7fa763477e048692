// What one request came to, bit for bit: its tokens and their logprobs, and how it ended.
#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace quire {

class BitsSink final : public EventSink {
 public:
  void on_token(SeqId, const TokenEvent& event) override {
    bits.push_back(static_cast<uint32_t>(event.id));
    bits.push_back(std::bit_cast<uint32_t>(event.logprob));
  }
  void on_finish(SeqId, Finish how, const Usage& told, const std::string& message) override {
    finish = how;
    usage = told;
    error = message;
    ended = true;
  }
  std::vector<uint32_t> bits;  // of each token: its id, its logprob
  Finish finish = Finish::stop;
  Usage usage;
  std::string error;
  bool ended = false;
};

}  // namespace quire
