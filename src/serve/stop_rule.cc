#include "serve/stop_rule.h"

namespace quire {
namespace {

class StopRule final : public EndRule {
 public:
  StopRule(std::shared_ptr<const StopStrings> stops, const Tokenizer& tokenizer, bool show_special, int min_tokens)
      : stops_(std::move(stops)),
        tracker_(*stops_),
        tokenizer_(tokenizer),
        show_special_(show_special),
        min_tokens_(min_tokens) {}

  bool accept(Token id) override {
    bytes_.clear();
    if (n_tokens_++ >= min_tokens_ && id < tokenizer_.n_vocab()) tokenizer_.append_bytes(id, show_special_, bytes_);
    return tracker_.accept(bytes_);
  }
  void rollback(int n) override {
    n_tokens_ -= n;
    tracker_.rollback(n);
  }

 private:
  const std::shared_ptr<const StopStrings> stops_;
  StopTracker tracker_;
  const Tokenizer& tokenizer_;
  const bool show_special_;
  const int64_t min_tokens_;
  int64_t n_tokens_ = 0;
  std::string bytes_;
};

}  // namespace

std::unique_ptr<EndRule> make_stop_rule(std::shared_ptr<const StopStrings> stops,
                                        const Tokenizer& tokenizer,
                                        bool show_special,
                                        int min_tokens) {
  return std::make_unique<StopRule>(std::move(stops), tokenizer, show_special, min_tokens);
}

}  // namespace quire
