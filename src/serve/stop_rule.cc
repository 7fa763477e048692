#include "serve/stop_rule.h"

namespace quire {
namespace {

class StopRule final : public EndRule {
 public:
  StopRule(std::shared_ptr<const StopStrings> stops, const Tokenizer& tokenizer, bool show_special)
      : stops_(std::move(stops)), tracker_(*stops_), tokenizer_(tokenizer), show_special_(show_special) {}

  bool accept(Token id) override {
    bytes_.clear();
    if (id < tokenizer_.n_vocab()) tokenizer_.append_bytes(id, show_special_, bytes_);
    return tracker_.accept(bytes_);
  }
  void rollback(int n) override { tracker_.rollback(n); }

 private:
  const std::shared_ptr<const StopStrings> stops_;
  StopTracker tracker_;
  const Tokenizer& tokenizer_;
  const bool show_special_;
  std::string bytes_;
};

}  // namespace

std::unique_ptr<EndRule> make_stop_rule(std::shared_ptr<const StopStrings> stops,
                                        const Tokenizer& tokenizer,
                                        bool show_special) {
  return std::make_unique<StopRule>(std::move(stops), tokenizer, show_special);
}

}  // namespace quire
